//! The layering of the modules, as data, and its tests: which module may use which others, which module owns each
//! third-party crate, which modules are pure, which may listen for connections, and that no module has an import cycle.
//!
//! The sources are parsed, so that `super`, groups over several lines, renamed imports and macros are resolved like in
//! the compiler. What cannot be resolved so is refused outside of tests: imports of everything, `#[path]`, and
//! `include!`.

mod cheats;
mod graph;
mod references;
mod rules;
mod sources;
mod tables;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use sources::{Reference, Sources, Target};
use tables::{APISERVER, BASE, KOPFD, LAYERS, PACKAGES, PURE, SCRIPT_PARTS, UNSAFE, WIRE};

fn kopfd() -> &'static Sources {
    static SOURCES: LazyLock<Sources> = LazyLock::new(|| KOPFD.sources());
    &SOURCES
}

#[test]
fn every_module_uses_only_allowed_modules() {
    tell(kopfd().references().filter_map(|reference| rules::offence(&reference)));
}

#[test]
fn every_module_is_in_the_table() {
    let known: BTreeSet<&str> = LAYERS.iter().map(|(module, _)| *module).chain(["lib", "main"]).collect();
    tell(
        kopfd()
            .layers()
            .filter(|module| !known.contains(module.as_str()))
            .map(|module| format!("src/{module} is in no layer")),
    );
}

#[test]
fn third_party_crates_are_used_only_by_their_owners() {
    for package in PACKAGES {
        tell(package.sources().references().filter_map(|reference| package.strangers(&reference)));
    }
}

#[test]
fn every_dependency_is_in_a_table() {
    for package in PACKAGES {
        tell(rules::differences(&package, &package.manifest(), &package.sources()).into_iter());
    }
}

#[test]
fn no_layer_has_a_ring_of_imports() {
    tell(graph::rings(kopfd()).into_iter().map(|ring| ring.to_string()));
}

#[test]
fn the_other_packages_have_no_ring_of_imports() {
    for package in [BASE, WIRE, APISERVER] {
        tell(
            graph::rings_across_layers(&package.sources())
                .into_iter()
                .map(|ring| format!("{}src: {ring}", package.folder)),
        );
    }
}

#[test]
fn nothing_hides_references() {
    for package in PACKAGES {
        tell(rules::hiding(&package.sources()).into_iter().map(|found| format!("{}{found}", package.folder)));
    }
}

#[test]
fn no_part_of_scripts_uses_a_later_one() {
    let sources = kopfd();
    let part =
        |file: &str| file.strip_prefix("src/script/").and_then(|name| name.split(['/', '.']).next()).map(str::to_owned);
    let rank = |part: &str| SCRIPT_PARTS.iter().position(|known| *known == part);
    let written = sources.references().filter(|reference| !reference.is_test && !reference.is_facade);
    tell(written.filter_map(|Reference { position, target, .. }| {
        let user = part(&position.file)?;
        let Some(own) = rank(&user) else {
            return Some(format!("{position}: `{user}` is not among the parts of `script`"));
        };
        let Target::Internal(path) = target else { return None };
        let used = part(sources.definition(&path)?)?;
        rank(&used)
            .is_some_and(|other| other > own)
            .then(|| format!("{position}: {user} must not use {used}, which comes later"))
    }));
}

#[test]
fn pure_modules_do_nothing_but_compute() {
    tell(rules::impurities(kopfd(), &PURE.iter().map(|module| (*module).to_owned()).collect()).into_iter());
    let shared = rules::pure_modules_of(kopfd(), "kopfd_base");
    assert!(shared.contains("yaml"), "{shared:?}");
    tell(rules::impurities(&BASE.sources(), &shared).into_iter().map(|found| format!("{}{found}", BASE.folder)));
}

#[test]
fn only_the_http_module_listens() {
    tell(rules::listeners(kopfd(), &[]).into_iter());
    tell(rules::listeners(&APISERVER.sources(), &[]).into_iter().map(|found| format!("{}{found}", APISERVER.folder)));
    tell(rules::listeners(&BASE.sources(), &["http"]).into_iter().map(|found| format!("{}{found}", BASE.folder)));
}

#[test]
fn unsafe_code_is_in_few_files() {
    let outside = kopfd().unsafes().filter(|position| !UNSAFE.iter().any(|file| position.file == *file));
    tell(outside.map(|position| format!("{position}: `unsafe` outside of {}", UNSAFE.join(", "))));
}

/// The compiler finds unused items only in modules that other crates cannot use.
#[test]
fn modules_are_public_only_where_tests_and_benchmarks_use_them() {
    let users = ["tests", "benches"].map(|folder| Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)));
    tell(rules::needlessly_public("kopfd", kopfd(), &[kopfd(), &users[0], &users[1]]).into_iter());
}

/// A renamed dependency would hide from the tables of owners.
#[test]
fn no_dependency_has_another_name() {
    for package in PACKAGES {
        let text = package.manifest().to_string();
        tell(
            text.lines()
                .filter(|line| line.contains("package ="))
                .map(|line| format!("{}Cargo.toml: {line}", package.folder)),
        );
    }
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
    let files =
        std::fs::read_dir(&tests).expect("the folder of tests").map(|entry| entry.expect("an entry of it").path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (programs, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|path| manifest.contains(&format!("[[test]]\nname = \"{}\"\n", stem(path))));
    assert!(programs.len() >= 3, "{programs:?}");
    let programs: Vec<String> = programs.into_iter().map(|path| text(path)).collect();
    let is_module = |name: &str| programs.iter().any(|program| program.contains(&format!("\nmod {name};\n")));
    tell(
        others
            .into_iter()
            .map(|path| stem(path))
            .filter(|name| !is_module(name))
            .map(|name| format!("tests/{name}.rs is not compiled")),
    );
}
