//! Sources with violations, which the rules must find.

use std::collections::BTreeSet;

use super::sources::Sources;
use super::tables::{Package, WIRE};
use super::{graph, rules};

#[test]
fn forbidden_references_are_found_in_every_spelling() {
    let offences = |file: &str, text: &str| {
        let sources = Sources::of(&[
            (file, text),
            ("src/cluster.rs", "pub struct Client;"),
            ("src/kit.rs", "pub mod clock;"),
            ("src/kit/clock.rs", ""),
        ]);
        sources
            .references()
            .filter_map(|reference| rules::offence(&reference))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join("\n")
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
    assert_eq!(
        plan("use kube as k; fn f() -> k::Client { todo() }"),
        "src/handling/plan.rs:1: kube belongs to cluster"
    );
    assert_eq!(plan("fn f() -> ::kube::Client { todo() }"), "src/handling/plan.rs:1: kube belongs to cluster");
    assert_eq!(plan("extern crate kube as k;"), "src/handling/plan.rs:1: kube belongs to cluster");
    assert_eq!(plan("// use crate::cluster::Client;\nconst TEXT: &str = \"crate::cluster::Client\";"), "");
    assert_eq!(plan("use crate::object::Body;"), "");
    // A module of this crate with the name of a crate.
    assert_eq!(offences("src/cluster/x.rs", "mod rhai {} use self::rhai::Thing;"), "");
}

#[test]
fn rings_are_seen_through_facades() {
    let rings =
        |files: &[(&str, &str)]| graph::rings(&Sources::of(files)).iter().map(ToString::to_string).collect::<Vec<_>>();
    let facade = ("src/kit.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    assert!(
        rings(&[facade, ("src/kit/a.rs", "pub struct A;"), ("src/kit/b.rs", "use super::A; pub struct B(A);")])
            .is_empty()
    );
    let ring = rings(&[
        facade,
        ("src/kit/a.rs", "use super::B; pub struct A(B);"),
        ("src/kit/b.rs", "use crate::kit::A; pub struct B(A);"),
    ]);
    assert_eq!(ring, ["kit has a ring of imports: src/kit/a.rs -> src/kit/b.rs -> src/kit/a.rs"]);
    let tests = ("src/kit/a.rs", "pub struct A; #[cfg(test)] mod tests { use super::super::B; fn f(_: B) {} }");
    assert!(rings(&[facade, tests, ("src/kit/b.rs", "use super::A; pub struct B(A);")]).is_empty());
}

#[test]
fn a_re_export_from_elsewhere_is_an_import() {
    let rings =
        |files: &[(&str, &str)]| graph::rings(&Sources::of(files)).iter().map(ToString::to_string).collect::<Vec<_>>();
    let facade = ("src/kit.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B;");
    let ring = rings(&[
        facade,
        ("src/kit/a.rs", "pub(crate) use super::b::B; pub struct A;"),
        ("src/kit/b.rs", "use super::A;"),
    ]);
    assert_eq!(ring, ["kit has a ring of imports: src/kit/a.rs -> src/kit/b.rs -> src/kit/a.rs"]);
    // What is imported through a file needs that file, wherever the item is.
    let through = [
        facade,
        ("src/kit/a.rs", "pub use super::c::C; use super::B;"),
        ("src/kit/b.rs", "use super::a::C; pub struct B(C);"),
        ("src/kit/c.rs", "pub struct C;"),
    ];
    assert_eq!(rings(&through), ["kit has a ring of imports: src/kit/a.rs -> src/kit/b.rs -> src/kit/a.rs"]);
    let below = [
        ("src/kit.rs", "pub mod a;"),
        ("src/kit/a.rs", "mod b; pub use b::B; pub struct A;"),
        ("src/kit/a/b.rs", "use super::A;"),
    ];
    assert!(rings(&below).is_empty());
}

#[test]
fn code_that_hides_references_is_found() {
    let hiding = |text: &str| rules::hiding(&Sources::of(&[("src/handling/plan.rs", text)])).join("\n");
    let everything = "an import of everything hides what is used: name the items";
    assert_eq!(hiding("use crate::*;\nfn f(_: cluster::Client) {}"), format!("src/handling/plan.rs:1: {everything}"));
    assert_eq!(
        hiding("fn f() {\n    use super::super::{object::Body, *};\n}"),
        format!("src/handling/plan.rs:2: {everything}")
    );
    assert_eq!(hiding("pub use inner::*; mod inner {}"), format!("src/handling/plan.rs:1: {everything}"));
    let file = "`#[path]` hides the file of a module: give the file the name of the module";
    assert_eq!(hiding("#[path = \"../cluster/client.rs\"]\nmod client;"), format!("src/handling/plan.rs:1: {file}"));
    assert_eq!(hiding("#[cfg_attr(unix, path = \"unix.rs\")] mod os;"), format!("src/handling/plan.rs:1: {file}"));
    let included = "`include!` hides the references of a file: make the file a module";
    assert_eq!(hiding("include!(\"../cluster/client.rs\");"), format!("src/handling/plan.rs:1: {included}"));
    assert_eq!(hiding("fn f() { std::include!(\"x.rs\"); }"), format!("src/handling/plan.rs:1: {included}"));
    assert_eq!(hiding("fn f() { vec![include!(\"x.rs\")]; }"), format!("src/handling/plan.rs:1: {included}"));
    let name = "only tests have this name: add `#[cfg(test)]`, or rename the module";
    assert_eq!(hiding("mod cluster_tests;"), format!("src/handling/plan.rs:1: {name}"));
    assert_eq!(
        hiding("#[cfg(test)]\n#[path = \"plan_tests.rs\"]\nmod tests;\n#[cfg(test)] mod more { use super::*; }"),
        ""
    );
    assert_eq!(hiding("const TEXT: &str = include_str!(\"plan.txt\");"), "");
}

#[test]
fn impure_code_is_found_in_every_spelling() {
    let files = |text| {
        Sources::of(&[
            ("src/handling.rs", "pub mod plan; pub use jiff::Timestamp;"),
            ("src/handling/plan.rs", text),
            ("src/kit.rs", ""),
        ])
    };
    let pure = BTreeSet::from(["handling".to_owned()]);
    let impurities = |text| {
        rules::impurities(&files(text), &pure).into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let uses = |what: &str| vec![format!("src/handling/plan.rs:1: handling is pure and must not use {what}")];
    assert_eq!(impurities("use jiff::Timestamp; fn f() { Timestamp::now(); }"), uses("jiff::Timestamp::now"));
    assert_eq!(impurities("use jiff::Timestamp as T; fn f() { <T>::now(); }"), uses("jiff::Timestamp::now"));
    assert_eq!(impurities("fn f() { super::Timestamp::now(); }"), uses("jiff::Timestamp::now"));
    assert_eq!(impurities("fn f() { let now = jiff::Zoned::now; }"), uses("jiff::Zoned::now"));
    assert_eq!(impurities("use std::time::{Duration, Instant};"), uses("std::time::Instant"));
    assert_eq!(impurities("use std::time; fn f() { time::SystemTime::now(); }"), uses("std::time::SystemTime::now"));
    assert_eq!(impurities("fn f() { std::env::var(\"HOME\"); }"), uses("std::env::var"));
    assert_eq!(impurities("fn f() { std::process::id(); }"), uses("std::process::id"));
    assert_eq!(impurities("fn f() { std::fs::read(\"x\"); }"), uses("std::fs::read"));
    assert_eq!(impurities("use core::net::IpAddr;"), uses("core::net::IpAddr"));
    assert_eq!(impurities("fn f() { uuid::Uuid::new_v4(); }"), uses("uuid::Uuid::new_v4"));
    assert_eq!(impurities("fn f() -> u8 { rand::random() }"), uses("rand::random"));
    assert_eq!(impurities("fn f() { tracing::info!(\"x\"); }"), uses("tracing::info"));
    assert_eq!(impurities("use kopfd_base::kit::Clock;"), uses("kopfd_base::kit::Clock"));
    assert_eq!(impurities("use crate::kit;"), uses("kit"));
    assert_eq!(impurities("async fn f() {}"), ["src/handling/plan.rs:1: handling is pure and has nothing to wait for"]);
    assert!(
        impurities("use std::time::Duration; use jiff::Timestamp; fn f(now: Timestamp) { kopfd_base::yaml::parse(); }")
            .is_empty()
    );
    assert!(impurities("#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }").is_empty());
    let kopfd = Sources::of(&[
        ("src/object.rs", "pub use kopfd_base::{quantity, yaml as text};"),
        ("src/engines.rs", "use kopfd_base::http;"),
    ]);
    assert_eq!(
        rules::pure_modules_of(&kopfd, "kopfd_base"),
        BTreeSet::from(["quantity".to_owned(), "yaml".to_owned()])
    );
}

#[test]
fn listeners_are_found_in_every_spelling() {
    let listeners = |file, text| rules::listeners(&Sources::of(&[(file, text)]), &["http"]).len();
    assert_eq!(listeners("src/engines/x.rs", "use tokio::net::{TcpListener, TcpStream};"), 1);
    assert_eq!(listeners("src/engines/x.rs", "use tokio::net; async fn f() { net::TcpListener::bind(\"x\"); }"), 1);
    assert_eq!(listeners("src/engines/x.rs", "use hyper_util::server::conn::auto;"), 1);
    assert_eq!(listeners("src/engines/x.rs", "fn f(_: tokio_rustls::TlsAcceptor) {}"), 1);
    assert_eq!(listeners("src/engines/x.rs", "fn f() { axum::serve(a, b); }"), 1);
    assert_eq!(listeners("src/engines/x.rs", "use tokio::net::TcpStream; use hyper_util::client::legacy::Client;"), 0);
    assert_eq!(listeners("src/http/listener.rs", "use tokio::net::TcpListener;"), 0);
    assert_eq!(listeners("src/engines/x/tests/server.rs", "use tokio::net::TcpListener;"), 0);
}

#[test]
fn needlessly_public_modules_are_found() {
    let sources = [
        ("src/lib.rs", "pub mod engines; mod script;"),
        ("src/engines.rs", "pub mod hooks; pub mod posting; pub mod pause; pub(crate) mod tally;"),
        ("src/engines/posting.rs", "pub mod rules;"),
    ];
    let user = Sources::of(&[
        ("tests/posting.rs", "use kopfd::engines::posting as p; fn f() { p::rules::cut(); }"),
        ("tests/hooks.rs", "use kopfd::{engines::{hooks::Hooks, tally}, object};"),
    ]);
    assert_eq!(
        rules::needlessly_public("kopfd", &Sources::of(&sources), &[&user]),
        ["src/engines.rs:1: only this crate uses engines::pause: make it `pub(crate)`"]
    );
}

#[test]
fn the_tables_of_crates_have_all_dependencies_and_no_others() {
    let sources = Sources::of(&[("src/line.rs", "use serde::Serialize; use rhai::Engine;")]);
    let manifest = |text: &str| toml::from_str(text).expect("TOML");
    let package = Package { owners: &[("rhai", &["line"])], anywhere: &["serde"], ..WIRE };
    let found = |package: &Package, text| rules::differences(package, &manifest(text), &sources);
    assert!(found(&package, "[dependencies]\nserde = '1'\n[target.'cfg(unix)'.dependencies]\nrhai = '1'").is_empty());
    let missing = "[dependencies]\nserde = '1'\nrhai = '1'\nrustls-webpki = '1'\n[dev-dependencies]\ninsta = '1'";
    assert_eq!(
        found(&package, missing),
        ["wire/Cargo.toml: no table of tests/layering says which modules may use webpki"]
    );
    assert_eq!(found(&package, "dependencies.rhai = '1'"), ["wire/Cargo.toml: serde is no dependency"]);
    let unused = Package { owners: &[("rhai", &["line", "page"])], ..package };
    let both = "[dependencies]\nserde = '1'\nrhai = '1'";
    assert_eq!(found(&unused, both), ["wire/Cargo.toml: page does not use rhai"]);
    let unnamed = Package { owners: &[("rhai", &["line"])], anywhere: &["serde", "toml"], ..WIRE };
    assert_eq!(found(&unnamed, &format!("{both}\ntoml = '1'")), ["wire/Cargo.toml: no module uses toml"]);
    let strange = Package { owners: &[("rhai", &["page"])], ..WIRE };
    let strangers = sources.references().filter_map(|reference| strange.strangers(&reference)).collect::<Vec<_>>();
    assert_eq!(strangers, ["wire/src/line.rs:1: rhai belongs to page"]);
}
