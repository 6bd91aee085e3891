# The image of kopfd, without an operator: manifests and scripts are mounted (see docs/deployment.md), or copied by an image that begins
# with `FROM` this one.
#
#   docker build -t registry.example.com/kopfd:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --push -t registry.example.com/kopfd:0.1.0 .
#
# The paths, the compiler and the lock file are fixed, and nothing of the time or of the machine gets into the binary: the same sources on
# the same base images make the same file: `release/check-image` compares two builds.
FROM rust:1.95-trixie AS build
# The bindings of aws-lc and mimalloc are built from C.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /kopfd
COPY . .
ENV CARGO_INCREMENTAL=0 \
    SOURCE_DATE_EPOCH=0
# Each platform has its own cache of builds. Another name stands for empty caches.
ARG TARGETARCH
ARG CACHE=kopfd
# A static binary needs no libraries of its image. Only the binary itself gets the option: with it, the compiler could not load macros.
RUN --mount=type=cache,target=/usr/local/cargo/registry,id=${CACHE}-registry \
    --mount=type=cache,target=/kopfd/target,id=${CACHE}-target-${TARGETARCH} \
    release/build -- -C target-feature=+crt-static \
    && install -D -m 0755 target/release/kopfd /out/usr/local/bin/kopfd

# Certificates of public authorities; neither libraries, nor a shell, nor a package manager.
FROM gcr.io/distroless/static-debian13:nonroot
COPY --from=build /out/ /
# The user `nonroot` of the base image, by number, so that `runAsNonRoot` can be checked.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/kopfd"]
CMD ["run"]
