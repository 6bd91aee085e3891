//! The layering of the rooms, as data: who may use whom, and which third-party crates live behind whose door.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("kit", &[]),
    ("object", &[]),
    ("handling", &["object"]),
    ("persistence", &["object", "handling"]),
    ("script", &["kit", "object", "handling"]),
    ("manifest", &["object", "handling", "persistence", "script"]),
    ("telemetry", &["kit", "object"]),
    ("http", &["kit", "telemetry"]),
    ("cluster", &["kit", "object", "telemetry", "http"]),
    ("reactor", &["kit", "object", "handling", "persistence", "script", "manifest", "telemetry", "cluster"]),
    ("devserver", &["kit", "object", "telemetry", "http"]),
    ("scenario", &["devserver", "kit", "object", "handling", "persistence", "script", "manifest", "telemetry", "cluster", "reactor"]),
    (
        "cli",
        &["scenario", "devserver", "kit", "object", "handling", "persistence", "script", "manifest", "telemetry", "cluster", "reactor"],
    ),
];

/// Third-party crates with a door, and the rooms that are the door.
const DOORS: &[(&str, &[&str])] = &[
    ("rhai", &["script"]),
    ("corosensei", &["script"]),
    ("minijinja", &["script"]),
    ("kube", &["cluster"]),
    ("k8s_openapi", &["cluster"]),
    ("hyper", &["cluster", "devserver"]),
    ("hyper_util", &["cluster", "devserver"]),
    ("hyper_rustls", &["cluster", "devserver"]),
    // Scenarios stand between the engine's client and the embedded server.
    ("http", &["cluster", "devserver", "http", "scenario"]),
    ("tower", &["cluster", "devserver"]),
    ("rustls", &["cluster", "devserver", "http"]),
    ("x509_cert", &["http"]),
    ("axum", &["devserver"]),
    ("rcgen", &["devserver"]),
    ("redb", &["devserver"]),
    ("cel", &["devserver"]),
    // The embedded server has a module of this name: real servers do not patch as the crate does.
    ("json_patch", &["cluster", "devserver"]),
    // Manifests are read with places, plain values without: both by the same parser, from two small modules.
    ("serde_saphyr", &["manifest", "object"]),
    ("jsonpath_rust", &["object"]),
    ("blake2", &["persistence"]),
    ("clap", &["cli"]),
    ("annotate_snippets", &["cli"]),
    ("anstream", &["cli"]),
    ("tracing_subscriber", &["telemetry"]),
    ("mimalloc", &["main"]),
    ("notify", &["cli"]),
];

/// Where `unsafe` may stand.
const UNSAFE: &str = "script/fiber.rs";

#[test]
fn every_room_uses_only_what_it_may() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut offences = String::new();
    for file in sources(&root) {
        let relative = file.strip_prefix(&root).expect("a file below src").to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&file).expect("a readable source file");
        for (number, line) in text.lines().enumerate() {
            for offence in offences_of(&relative, line) {
                let _ = writeln!(offences, "src/{relative}:{}: {offence}\n    {}", number + 1, line.trim());
            }
        }
    }
    assert!(offences.is_empty(), "\n{offences}");
}

#[test]
fn every_room_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in std::fs::read_dir(&root).expect("the sources") {
        let name = file.expect("an entry").file_name().to_string_lossy().replace(".rs", "");
        assert!(matches!(name.as_str(), "lib" | "main") || ROOMS.iter().any(|(room, _)| *room == name), "{name} is no room");
    }
}

#[test]
fn offences_are_noticed() {
    assert_eq!(offences_of("handling/plan.rs", "use crate::cluster::Client;"), ["handling must not use cluster"]);
    assert_eq!(offences_of("object.rs", "    let now = crate::kit::Clock::system();"), ["object must not use kit"]);
    assert_eq!(offences_of("handling/plan.rs", "use crate::{kit::Clock, object::Body};"), ["handling must not use kit"]);
    assert_eq!(offences_of("reactor/kind.rs", "use kube::Client;"), ["kube belongs behind the door of cluster"]);
    assert_eq!(offences_of("cluster/client.rs", "    let x = rhai::Engine::new();"), ["rhai belongs behind the door of script"]);
    assert_eq!(offences_of("script/view.rs", "    unsafe { go() }"), ["unsafe belongs into script/fiber.rs"]);
    assert!(offences_of("script/fiber.rs", "    unsafe { go() }").is_empty());
    assert!(offences_of("script/fiber.rs", "use crate::kit::Stop;").is_empty());
    assert!(offences_of("object/body.rs", "// use crate::kit::Clock;").is_empty());
    assert!(offences_of("script/check.rs", r#"    run("http::get(\"x\")", 1);"#).is_empty());
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn offences_of(file: &str, line: &str) -> Vec<String> {
    let code = &without_texts(line.split("//").next().unwrap_or_default());
    let room = file.split(['/', '.']).next().unwrap_or_default();
    let mut offences = Vec::new();
    let allowed = ROOMS.iter().find(|(name, _)| *name == room).map(|(_, allowed)| *allowed);
    for used in used_rooms(code) {
        if used != room && allowed.is_some_and(|allowed| !allowed.contains(&used.as_str())) {
            offences.push(format!("{room} must not use {used}"));
        }
    }
    for (name, doors) in DOORS {
        if !doors.contains(&room) && mentions_crate(code, name) {
            offences.push(format!("{name} belongs behind the door of {}", doors.join(" or ")));
        }
    }
    if file != UNSAFE && words(code).any(|word| word == "unsafe") {
        offences.push(format!("unsafe belongs into {UNSAFE}"));
    }
    offences
}

/// Scripts in the texts of tests may name what they like.
fn without_texts(code: &str) -> String {
    code.replace("\\\"", "").split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// The rooms in `crate::room` and in `crate::{room::…, other::…}`.
fn used_rooms(code: &str) -> Vec<String> {
    let mut used = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if at > 0 && code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => used.extend(top_level(group)),
            None => used.extend(words(rest).next().map(str::to_owned)),
        }
    }
    used.retain(|name| ROOMS.iter().any(|(room, _)| room == name));
    used
}

/// The first words of the items of a group, without those of groups inside.
fn top_level(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            _ if depth == 0 => items.last_mut().expect("there is one").push(c),
            _ => {}
        }
    }
    items.iter().filter_map(|item| words(item).next().map(str::to_owned)).collect()
}

fn mentions_crate(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        || code.trim_start().starts_with(&format!("use {name};"))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}
