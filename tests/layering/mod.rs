//! The layering of the modules, as data, and its tests: which module may use which others, which module owns each third-party crate, which
//! modules are pure, and that no module has an import cycle.
//!
//! The sources are parsed, so that `super`, groups over several lines, renamed imports and macros are resolved like in the compiler.

mod graph;
mod references;
mod sources;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use sources::{Reference, Sources, Target};

/// Each module, and its allowed dependencies.
const LAYERS: &[(&str, &[&str])] = &[
    ("kit", &[]),
    ("object", &[]),
    ("wire", &[]),
    ("handling", &["object"]),
    ("persistence", &["object", "handling"]),
    ("cryptography", &["kit", "http"]),
    ("script", &["kit", "object", "handling", "cryptography"]),
    ("manifest", &["kit", "object", "handling", "persistence", "script"]),
    ("packaging", &["object", "handling", "manifest"]),
    ("telemetry", &["kit", "object"]),
    ("http", &["kit", "telemetry"]),
    ("cluster", &["kit", "object", "wire", "telemetry", "http"]),
    ("outside", &["kit", "object", "script", "http"]),
    ("engines", &["kit", "object", "wire", "handling", "persistence", "script", "manifest", "telemetry", "http", "cluster"]),
    (
        "reactor",
        &["kit", "object", "wire", "handling", "persistence", "script", "manifest", "telemetry", "http", "cluster", "outside", "engines"],
    ),
    ("apiserver", &["kit", "object", "telemetry", "http"]),
    (
        "scenario",
        &[
            "apiserver",
            "kit",
            "object",
            "handling",
            "persistence",
            "script",
            "manifest",
            "telemetry",
            "cluster",
            "outside",
            "engines",
            "reactor",
        ],
    ),
    (
        "cli",
        &[
            "scenario",
            "apiserver",
            "kit",
            "object",
            "handling",
            "persistence",
            "script",
            "outside",
            "manifest",
            "packaging",
            "telemetry",
            "cluster",
            "engines",
            "reactor",
        ],
    ),
];

/// Third-party crates, and the only modules that may name them.
const OWNERS: &[(&str, &[&str])] = &[
    // The packages of this workspace are used as modules: `kit`, `http`, `wire`, `apiserver`, and parts of `object`.
    ("kopfd_base", &["lib", "object"]),
    ("kopfd_wire", &["lib"]),
    ("kopfd_apiserver", &["lib"]),
    ("rhai", &["script"]),
    ("corosensei", &["script"]),
    ("libc", &["script"]),
    ("minijinja", &["script"]),
    ("kube", &["cluster"]),
    ("k8s_openapi", &["cluster"]),
    // The engines listen for probes.
    ("hyper", &["cluster", "outside", "engines"]),
    ("hyper_util", &["cluster", "outside"]),
    ("hyper_rustls", &["cluster", "outside"]),
    ("tokio_tungstenite", &["cluster"]),
    // Scenarios connect the engine's client with the embedded server.
    ("http", &["cluster", "outside", "scenario", "engines"]),
    ("tower", &["cluster", "outside", "engines"]),
    ("rustls", &["cluster", "outside", "cryptography"]),
    ("rustls_native_certs", &["outside"]),
    ("tokio_rustls", &["outside"]),
    ("tokio_postgres", &["outside"]),
    ("mysql_async", &["outside"]),
    ("rusqlite", &["outside"]),
    // The embedded server has its own JSON patches: real servers differ from the crate.
    ("json_patch", &["cluster"]),
    // Keys and certificates of scripts
    // Tests of HTTP make the certificate of their server.
    ("rcgen", &["cryptography", "outside"]),
    ("webpki", &["cryptography"]),
    ("x509_parser", &["cryptography"]),
    ("jsonwebtoken", &["cryptography"]),
    ("p12_keystore", &["cryptography"]),
    ("ssh_key", &["cryptography"]),
    ("pkcs8", &["cryptography"]),
    ("bcrypt", &["cryptography"]),
    ("argon2", &["cryptography"]),
    ("serde_saphyr", &["manifest"]),
    ("jsonpath_rust", &["object"]),
    ("imbl", &["handling"]),
    ("blake2", &["persistence", "script"]),
    ("clap", &["cli"]),
    ("annotate_snippets", &["cli"]),
    ("anstream", &["cli"]),
    ("quick_junit", &["cli"]),
    ("tracing_subscriber", &["telemetry"]),
    ("terminal_size", &["telemetry"]),
    ("prometheus_client", &["telemetry"]),
    ("strsim", &["kit"]),
    ("libmimalloc_sys", &["cli"]),
    ("notify", &["cli"]),
];

/// Pure modules: no tasks, no clock, no log.
const PURE: &[&str] = &["object", "handling"];

/// Paths that pure modules may not use, outside of their tests.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio_util",
    "futures",
    "tracing",
    "rand",
    "std::time::SystemTime",
    "std::time::Instant",
    "std::fs",
    "std::net",
    "std::thread",
];

/// The parts of `script`, from the bottom: none may use a later one.
const SCRIPT_PARTS: [&str; 11] =
    ["limits", "outside", "values", "interface", "sources", "runtime", "language", "functions", "interpreter", "check", "host"];

/// The only files with `unsafe`.
const UNSAFE: [&str; 6] = [
    "src/cli/memory.rs",
    "src/outside/programs/parent_death.rs",
    "src/script/limits/allocator.rs",
    "src/script/runtime/fiber.rs",
    "src/script/runtime/overflow.rs",
    "src/script/runtime/stack_pages.rs",
];

fn kopfd() -> &'static Sources {
    static SOURCES: LazyLock<Sources> = LazyLock::new(|| Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    &SOURCES
}

#[test]
fn every_module_uses_only_allowed_modules() {
    tell(kopfd().references().filter_map(|reference| offence(&reference)));
}

#[test]
fn every_module_is_in_the_table() {
    let known: BTreeSet<&str> = LAYERS.iter().map(|(module, _)| *module).chain(["lib", "main"]).collect();
    tell(kopfd().layers().filter(|module| !known.contains(module.as_str())).map(|module| format!("src/{module} is in no layer")));
}

#[test]
fn no_layer_has_a_ring_of_imports() {
    tell(graph::rings(kopfd()).into_iter().map(|ring| ring.to_string()));
}

#[test]
fn the_shared_packages_have_no_ring_of_imports() {
    for (package, module) in [("base", "http"), ("wire", "line")] {
        let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src"));
        assert!(sources.layers().any(|layer| layer == module), "the sources are somewhere else");
        tell(graph::rings_across_layers(&sources).into_iter().map(|ring| ring.to_string()));
    }
}

#[test]
fn the_api_server_has_no_ring_of_imports() {
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("apiserver/src"));
    assert!(sources.layers().any(|layer| layer == "verbs"), "the sources are somewhere else");
    tell(graph::rings_across_layers(&sources).into_iter().map(|ring| ring.to_string()));
}

#[test]
fn no_part_of_scripts_uses_a_later_one() {
    let sources = kopfd();
    let part = |file: &str| file.strip_prefix("src/script/").and_then(|name| name.split(['/', '.']).next()).map(str::to_owned);
    let rank = |part: &str| SCRIPT_PARTS.iter().position(|known| *known == part);
    let written = sources.references().filter(|reference| !reference.is_test && !reference.is_reexport);
    tell(written.filter_map(|Reference { position, target, .. }| {
        let user = part(&position.file)?;
        let Some(own) = rank(&user) else { return Some(format!("{position}: `{user}` is not among the parts of `script`")) };
        let Target::Internal(path) = target else { return None };
        let used = part(sources.definition(&path)?)?;
        rank(&used).is_some_and(|other| other > own).then(|| format!("{position}: {user} must not use {used}, which comes later"))
    }));
}

#[test]
fn pure_modules_do_nothing_but_compute() {
    let sources = kopfd();
    let impure = sources.references().filter(|reference| PURE.contains(&reference.layer()) && !reference.is_test).filter_map(|reference| {
        let Target::External(path) = &reference.target else { return None };
        let text = path.join("::");
        let is_impure = IMPURE.iter().any(|name| text == *name || text.starts_with(&format!("{name}::")));
        is_impure.then(|| format!("{}: {} is pure and must not use {text}", reference.position, reference.layer()))
    });
    let waiting = sources
        .waits()
        .filter(|position| PURE.contains(&position.layer()))
        .map(|position| format!("{position}: {} is pure and has nothing to wait for", position.layer()));
    tell(impure.chain(waiting));
}

#[test]
fn unsafe_code_is_in_few_files() {
    let outside = kopfd().unsafes().filter(|position| !UNSAFE.iter().any(|file| position.file == *file));
    tell(outside.map(|position| format!("{position}: `unsafe` outside of {}", UNSAFE.join(", "))));
}

/// A renamed dependency would hide from the table of owners.
#[test]
fn no_dependency_has_another_name() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("the manifest of the package");
    tell(manifest.lines().filter(|line| line.contains("package =")).map(|line| format!("Cargo.toml renames a dependency: {line}")));
}

#[test]
fn forbidden_references_are_found_in_every_spelling() {
    let offences = |file: &str, text: &str| {
        let sources = Sources::of(&[
            (file, text),
            ("src/cluster.rs", "pub struct Client;"),
            ("src/kit.rs", "pub mod clock;"),
            ("src/kit/clock.rs", ""),
        ]);
        sources.references().filter_map(|reference| offence(&reference)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("\n")
    };
    let plan = |text| offences("src/handling/plan.rs", text);
    assert_eq!(plan("use crate::cluster::Client;"), "src/handling/plan.rs:1: handling must not use cluster");
    assert_eq!(plan("use super::super::cluster::Client;"), "src/handling/plan.rs:1: handling must not use cluster");
    assert_eq!(
        plan("use crate::{\n    object::Body,\n    cluster::{\n        Client,\n    },\n};"),
        "src/handling/plan.rs:4: handling must not use cluster"
    );
    assert_eq!(
        plan("mod inner { fn f() { super::super::super::cluster::go(); } }"),
        "src/handling/plan.rs:1: handling must not use cluster"
    );
    assert_eq!(
        plan("fn f() { tokio::select! { () = crate::kit::clock::sleep() => {} } }"),
        "src/handling/plan.rs:1: handling must not use kit"
    );
    assert_eq!(plan("use kube as k; fn f() -> k::Client { todo() }"), "src/handling/plan.rs:1: kube belongs to cluster");
    assert_eq!(plan("fn f() -> ::kube::Client { todo() }"), "src/handling/plan.rs:1: kube belongs to cluster");
    assert_eq!(plan("extern crate kube as k;"), "src/handling/plan.rs:1: kube belongs to cluster");
    assert_eq!(plan("// use crate::cluster::Client;\nconst TEXT: &str = \"crate::cluster::Client\";"), "");
    assert_eq!(plan("use crate::object::Body;"), "");
    // A module of this crate with the name of a crate.
    assert_eq!(offences("src/cluster/x.rs", "mod rhai {} use self::rhai::Thing;"), "");
}

#[test]
fn rings_are_seen_through_facades() {
    let rings = |files: &[(&str, &str)]| graph::rings(&Sources::of(files)).iter().map(ToString::to_string).collect::<Vec<_>>();
    let facade = ("src/kit.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    assert!(rings(&[facade, ("src/kit/a.rs", "pub struct A;"), ("src/kit/b.rs", "use super::A; pub struct B(A);")]).is_empty());
    let ring =
        rings(&[facade, ("src/kit/a.rs", "use super::B; pub struct A(B);"), ("src/kit/b.rs", "use crate::kit::A; pub struct B(A);")]);
    assert_eq!(ring, ["kit has a ring of imports: src/kit/a.rs -> src/kit/b.rs -> src/kit/a.rs"]);
    let tests = ("src/kit/a.rs", "pub struct A; #[cfg(test)] mod tests { use super::super::B; fn f(_: B) {} }");
    assert!(rings(&[facade, tests, ("src/kit/b.rs", "use super::A; pub struct B(A);")]).is_empty());
}

/// Returns the violation of a reference, if there is one.
fn offence(reference: &Reference) -> Option<String> {
    let layer = reference.layer();
    let what = match &reference.target {
        Target::Internal(path) => {
            let used = path.first()?;
            let (_, allowed) = LAYERS.iter().find(|(name, _)| *name == layer)?;
            let is_layer = LAYERS.iter().any(|(name, _)| name == used);
            (is_layer && used != layer && !allowed.contains(&used.as_str())).then(|| format!("{layer} must not use {used}"))
        }
        Target::External(path) => {
            let (name, owners) = OWNERS.iter().find(|(name, _)| path.first().is_some_and(|first| first == name))?;
            (!owners.contains(&layer)).then(|| format!("{name} belongs to {}", owners.join(" or ")))
        }
    };
    what.map(|what| format!("{}: {what}", reference.position))
}

/// Fails with all violations, if there are any.
fn tell(offences: impl Iterator<Item = String>) {
    let offences: BTreeSet<String> = offences.collect();
    assert!(offences.is_empty(), "\n{}\n", offences.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_file_of_tests_is_a_program_or_a_module_of_one() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let text = |path: &Path| std::fs::read_to_string(path).expect("a file of this package");
    let manifest = text(&tests.with_file_name("Cargo.toml"));
    let files = std::fs::read_dir(&tests).expect("the folder of tests").map(|entry| entry.expect("an entry of it").path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (programs, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|path| manifest.contains(&format!("[[test]]\nname = \"{}\"\n", stem(path))));
    assert!(programs.len() >= 3, "{programs:?}");
    let programs: Vec<String> = programs.into_iter().map(|path| text(path)).collect();
    let is_module = |name: &str| programs.iter().any(|program| program.contains(&format!("\nmod {name};\n")));
    tell(others.into_iter().map(|path| stem(path)).filter(|name| !is_module(name)).map(|name| format!("tests/{name}.rs is not compiled")));
}
