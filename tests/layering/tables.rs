//! The layering as data.

/// The sources of one package, and its third-party crates.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    /// Its folder below that of the workspace; empty, or with a slash at its end.
    pub(crate) folder: &'static str,
    /// A module that it has.
    pub(crate) known_module: &'static str,
    /// Crates, and the only modules that may name them.
    pub(crate) owners: &'static [(&'static str, &'static [&'static str])],
    /// Crates that all modules may name.
    pub(crate) anywhere: &'static [&'static str],
}

/// The engine. The other packages of the workspace are modules of it: `kit`, `http`, `wire`, `apiserver`, and parts of
/// `object`.
pub(crate) const KOPFD: Package = Package {
    folder: "",
    known_module: "handling",
    owners: OWNERS,
    anywhere: &[
        "base64",
        "bytes",
        "futures",
        "jiff",
        "memchr",
        "parking_lot",
        "percent_encoding",
        "regex",
        "serde",
        "serde_json",
        "tempfile",
        "thiserror",
        "tokio",
        "tracing",
        "url",
    ],
};

/// What the engine and the API server share.
pub(crate) const BASE: Package = Package {
    folder: "base/",
    known_module: "http",
    owners: &[
        ("arc_swap", &["http"]),
        ("bytes", &["http"]),
        ("futures", &["http", "kit"]),
        ("http", &["http"]),
        ("http_body_util", &["http"]),
        ("hyper", &["http"]),
        ("hyper_util", &["http"]),
        ("jiff", &["http", "kit"]),
        ("parking_lot", &["http", "kit"]),
        ("pkcs8", &["http"]),
        ("rcgen", &["http"]),
        ("rustix", &["http", "kit"]),
        ("rustls", &["http"]),
        ("serde", &["builtin_kinds", "yaml"]),
        ("serde_saphyr", &["yaml"]),
        ("strsim", &["kit"]),
        ("tokio", &["http", "kit"]),
        ("tokio_rustls", &["http"]),
        ("tokio_util", &["kit"]),
        ("tower", &["http"]),
        ("tracing", &["http", "kit"]),
        ("x509_cert", &["http"]),
    ],
    anywhere: &["serde_json", "thiserror"],
};

/// The JSON of API servers.
pub(crate) const WIRE: Package =
    Package { folder: "wire/", known_module: "line", owners: &[], anywhere: &["serde", "serde_json"] };

/// The embedded API server.
pub(crate) const APISERVER: Package = Package {
    folder: "apiserver/",
    known_module: "verbs",
    owners: &[
        ("axum", &["http", "server", "test_server"]),
        ("cel", &["cel"]),
        ("http_body_util", &["admin_client", "admission", "server", "test_server"]),
        ("hyper", &["server", "test_server"]),
        ("hyper_rustls", &["admission"]),
        ("hyper_util", &["admission"]),
        ("redb", &["storage"]),
        ("regex", &["cel", "go", "kinds", "schema"]),
        ("rustls", &["admission"]),
        ("semver", &["cel"]),
        ("sha2", &["discovery"]),
        (
            "tokio",
            &[
                "admission",
                "api",
                "bootstrap",
                "controllers",
                "faults",
                "http",
                "server",
                "storage",
                "test_server",
                "verbs",
            ],
        ),
        ("tower", &["server", "test_server"]),
        ("tracing", &["api", "rules", "storage"]),
        ("uuid", &["storage"]),
    ],
    anywhere: &[
        "base64",
        "bytes",
        "futures",
        "http",
        "jiff",
        "kopfd_base",
        "parking_lot",
        "serde",
        "serde_json",
        "thiserror",
    ],
};

/// All packages.
pub(crate) const PACKAGES: [Package; 4] = [KOPFD, BASE, WIRE, APISERVER];

/// Each module, and its allowed dependencies.
pub(crate) const LAYERS: &[(&str, &[&str])] = &[
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
    (
        "engines",
        &["kit", "object", "wire", "handling", "persistence", "script", "manifest", "telemetry", "http", "cluster"],
    ),
    (
        "reactor",
        &[
            "kit",
            "object",
            "wire",
            "handling",
            "persistence",
            "script",
            "manifest",
            "telemetry",
            "http",
            "cluster",
            "outside",
            "engines",
        ],
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

/// The third-party crates of the engine, and the only modules that may name them.
pub(crate) const OWNERS: &[(&str, &[&str])] = &[
    // The packages of this workspace are used as modules: `kit`, `http`, `wire`, `apiserver`, and parts of `object`.
    ("kopfd_base", &["lib", "object"]),
    ("kopfd_wire", &["lib"]),
    ("kopfd_apiserver", &["lib"]),
    ("rhai", &["script"]),
    ("corosensei", &["script"]),
    ("libc", &["script"]),
    ("ipnet", &["script"]),
    ("md5", &["script"]),
    ("semver", &["script"]),
    ("toml", &["script"]),
    // Replacements in texts of scripts
    ("regex_automata", &["script"]),
    ("minijinja", &["script"]),
    ("kube", &["cluster"]),
    // Named by tests only: kube needs one of its features.
    ("k8s_openapi", &[]),
    // The engines listen for probes.
    ("hyper", &["cluster", "outside", "engines"]),
    ("http_body_util", &["cluster", "outside", "engines"]),
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
    ("pkcs1", &["cryptography"]),
    ("sec1", &["cryptography"]),
    ("num_bigint", &["cryptography"]),
    ("aes", &["cryptography"]),
    ("aes_gcm", &["cryptography"]),
    ("cbc", &["cryptography"]),
    ("bcrypt", &["cryptography"]),
    ("argon2", &["cryptography"]),
    ("serde_saphyr", &["manifest"]),
    ("jsonpath_rust", &["object"]),
    ("imbl", &["handling"]),
    ("croner", &["handling", "manifest", "persistence", "scenario"]),
    // Digests: of secrets that hooks verify, of names, and for scripts
    ("blake2", &["persistence", "script"]),
    ("hmac", &["handling", "persistence", "cryptography", "script"]),
    ("sha1", &["cluster", "script"]),
    ("sha2", &["handling", "persistence", "cryptography", "script"]),
    ("subtle", &["handling", "script"]),
    ("rand", &["script", "cluster", "engines", "reactor", "cli"]),
    ("uuid", &["script", "outside", "cli"]),
    ("rustix", &["telemetry", "outside", "cli"]),
    ("clap", &["cli"]),
    ("annotate_snippets", &["cli"]),
    ("anstream", &["cli"]),
    ("quick_junit", &["cli"]),
    ("tracing_subscriber", &["telemetry"]),
    ("terminal_size", &["telemetry"]),
    ("prometheus_client", &["telemetry"]),
    ("libmimalloc_sys", &["cli"]),
    ("notify", &["cli"]),
    ("inotify", &["cli"]),
];

/// Pure modules: no tasks, no clock, no log, no environment. So are the modules of other packages that they re-export.
pub(crate) const PURE: &[&str] = &["object", "handling"];

/// Paths that pure modules may not use, outside of their tests.
pub(crate) const IMPURE: &[&str] = &[
    "futures",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    // The files and the environment of the machine
    "jiff::tz::TimeZone::get",
    "jiff::tz::TimeZone::system",
    "jiff::tz::TimeZone::try_system",
    "jiff::tz::db",
    "kopfd_base::http",
    "kopfd_base::kit",
    "rand",
    "rustix",
    "std::collections::hash_map::RandomState",
    "std::env",
    "std::fs",
    "std::hash::RandomState",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tempfile",
    "tokio",
    "tokio_util",
    "tracing",
    "uuid",
];

/// What listens for connections, outside of tests: only `http` of `kopfd-base`, so that limits and TLS are the same for
/// all listeners.
pub(crate) const LISTENING: &[&str] = &[
    "axum::serve",
    "hyper::server",
    "hyper_util::server",
    "std::net::TcpListener",
    "std::os::unix::net::UnixListener",
    "tokio::net::TcpListener",
    "tokio::net::TcpSocket",
    "tokio::net::UnixListener",
    "tokio_rustls::LazyConfigAcceptor",
    "tokio_rustls::TlsAcceptor",
    "tokio_rustls::server",
];

/// The parts of `script`, from the bottom: none may use a later one.
pub(crate) const SCRIPT_PARTS: [&str; 11] = [
    "limits",
    "outside",
    "values",
    "interface",
    "sources",
    "runtime",
    "language",
    "functions",
    "interpreter",
    "check",
    "host",
];

/// The only files with `unsafe`.
pub(crate) const UNSAFE: [&str; 6] = [
    "src/cli/memory.rs",
    "src/outside/programs/parent_death.rs",
    "src/script/limits/allocator.rs",
    "src/script/runtime/fiber.rs",
    "src/script/runtime/overflow.rs",
    "src/script/runtime/stack_pages.rs",
];
