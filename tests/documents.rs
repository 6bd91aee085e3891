//! Tests of the documents: manifests in them load with their scripts, and the tables of the reference equal the code.
//!
//! A fenced `yaml` block that begins with `apiVersion: kopfd.dev/v1` is a manifest. The following blocks with the tag
//! `file=NAME` are the files in its directory, up to the next manifest; several blocks with one name are one file. A
//! tag `file=examples/…` means that the block is a copy of that file: it must be equal to it, and a manifest is loaded
//! from there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory as _;
use kopfd::manifest;
use kopfd::scenario;
use kopfd::script::BindingKind;
use kopfd::script::interpreter::reference;
use kopfd::script::language::arguments;
use regex::Regex;

use super::child::output;

#[path = "clients/differences.rs"]
mod differences;
#[path = "clients/excuse.rs"]
mod excuse;
#[path = "clients/excuse_tests.rs"]
mod excuse_tests;

/// A fenced block.
struct Block {
    line: usize,
    language: String,
    file: Option<String>,
    text: String,
}

/// A manifest, with the files beside it.
struct Example {
    line: usize,
    copied_from: Option<String>,
    manifest: String,
    files: BTreeMap<String, String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the README and all documents, by their path from the root.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of documents") {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| (path.strip_prefix(root()).expect("a path below the root").display().to_string(), text_of(path)))
        .collect()
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let mut words = info.split_whitespace();
                let language = words.next().unwrap_or_default().to_owned();
                let file = words.find_map(|word| word.strip_prefix("file=")).map(str::to_owned);
                open = Some(Block { line: index + 1, language, file, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block is not closed");
    blocks
}

fn examples(document: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in blocks(document) {
        if is_scenario(&block) {
            continue;
        }
        if block.language == "yaml" && block.text.starts_with("apiVersion: kopfd.dev/v1") {
            examples.push(Example {
                line: block.line,
                copied_from: block.file,
                manifest: block.text,
                files: BTreeMap::new(),
            });
        } else if let Some(file) = block.file {
            let example =
                examples.last_mut().unwrap_or_else(|| panic!("line {}: {file} belongs to no manifest", block.line));
            *example.files.entry(file).or_default() += &block.text;
        }
    }
    examples
}

/// Tells whether a block is a scenario: a copy of a file that another test runs.
fn is_scenario(block: &Block) -> bool {
    block.language == "yaml" && block.text.starts_with("apiVersion: kopfd.dev/v1\nkind: Scenario\n")
}

#[test]
fn every_scenario_in_the_documents_is_a_copy_of_one_that_is_run() {
    let mut count = 0;
    for (name, document) in documents() {
        for block in blocks(&document).into_iter().filter(is_scenario) {
            count += 1;
            let from = block.file.unwrap_or_else(|| panic!("{name}:{}: the scenario is no copy of a file", block.line));
            assert_eq!(
                text_of(&root().join(&from)),
                block.text,
                "{name}:{}: the block is no copy of {from}",
                block.line
            );
        }
    }
    assert!(count >= 2, "there are scenarios in the documents: {count}");
}

#[test]
fn the_tables_of_steps_and_faults_are_those_of_the_code() {
    let document = text_of(&root().join("docs/testing.md"));
    let documented = |section: &str| -> BTreeSet<String> {
        let start =
            document.find(&format!("\n### {section}\n")).unwrap_or_else(|| panic!("there is no section {section:?}"));
        let rest = &document[start + 1..];
        let text = rest.find("\n##").map_or(rest, |end| &rest[..end]);
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        rows.filter_map(|line| words(line).first().map(|word| (*word).to_owned())).collect()
    };
    let known = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(documented("Steps"), known(&scenario::STEPS));
    assert_eq!(documented("Faults"), known(&scenario::FAULTS));
}

/// Loads an example, from its original folder or from a new one. Returns its errors.
fn mistakes(example: &Example) -> Vec<String> {
    let copies = example.copied_from.iter().map(|from| (from, &example.manifest));
    let copies = copies.chain(example.files.iter().filter(|(name, _)| name.starts_with("examples/")));
    let mut found: Vec<String> = copies
        .filter(|(from, text)| text_of(&root().join(from)) != **text)
        .map(|(from, _)| format!("the block is no copy of {from}"))
        .collect();
    let folder = tempfile::tempdir().expect("a folder for the example");
    let path =
        example.copied_from.as_ref().map_or_else(|| folder.path().join("operator.yaml"), |from| root().join(from));
    if example.copied_from.is_none() {
        std::fs::write(&path, &example.manifest).expect("the manifest is written");
        for (name, text) in &example.files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder is made");
            std::fs::write(file, text).expect("the file is written");
        }
    }
    let loaded = manifest::load(&[path]);
    found.extend(
        loaded
            .diagnostics
            .iter()
            .map(|one| format!("{}:{}: {}", one.place.file.display(), one.place.line, one.message)),
    );
    found
}

#[test]
fn every_manifest_in_the_documents_loads_with_its_scripts_and_without_a_warning() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, document) in documents() {
        for example in examples(&document) {
            count += 1;
            wrong.extend(mistakes(&example).into_iter().map(|mistake| format!("{name}:{}: {mistake}", example.line)));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= 4, "there are manifests in the documents: {count}");
}

/// Returns the rows of the tables in a section, without their heads, cell by cell.
fn rows(document: &str, section: &str) -> Vec<Vec<String>> {
    let start =
        document.find(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("there is no section {section:?}"));
    let text = &document[start + 1..];
    let text = text.find("\n## ").map_or(text, |end| &text[..end]);
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |line: &str| line.starts_with('|') && !line.starts_with("|---");
    let cells = |line: &str| {
        line.trim_matches('|')
            .replace("\\|", "\u{1}")
            .split('|')
            .map(|cell| cell.trim().replace('\u{1}', "|"))
            .collect()
    };
    let is_head = |index: usize| lines.get(index + 1).is_some_and(|next| next.starts_with("|---"));
    (0..lines.len())
        .filter(|index| is_row(lines[*index]) && !is_head(*index))
        .map(|index| cells(lines[index]))
        .collect()
}

/// Returns the texts between back-ticks.
fn words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.into_iter().collect()
}

#[test]
fn the_table_of_arguments_is_that_of_the_code() {
    use BindingKind::{
        Activity, Change, Convert, Daemon, Event, Index, Login, Map, Mutate, Reconcile, Schedule, Startup, Timer,
        Validate,
    };
    let kinds: [(&str, &[BindingKind]); 13] = [
        ("`create`, `update`, `delete`, `resume`, `field`", &[Change]),
        ("`event`", &[Event]),
        ("timers, daemons", &[Timer, Daemon]),
        ("indexes", &[Index]),
        ("`validate`, `mutate`", &[Validate, Mutate]),
        ("`convert`", &[Convert]),
        ("reconcile", &[Reconcile]),
        ("`map` of reconcile", &[Map]),
        ("activities", &[Startup, Activity, Login]),
        ("schedules", &[Schedule]),
        ("expressions of change handlers", &[]),
        ("expressions of `event`", &[]),
        ("expressions inside of a matcher", &[]),
    ];
    let document = text_of(&root().join("docs/scripts.md"));
    let rows = rows(&document, "Arguments by name");
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("there is no row {name}"));
    let common = row("everything about an object");
    for (name, kinds) in kinds {
        let own = row(name);
        let is_common = own[1] == "yes";
        let documented =
            sorted(words(&own[2]).into_iter().chain(if is_common { words(&common[2]) } else { Vec::new() }));
        for kind in kinds {
            assert_eq!(documented, sorted(arguments::known(*kind)), "{name}: {kind:?}");
        }
        let expression = match name {
            "expressions of change handlers" => arguments::known_in_expression(Change, false),
            "expressions of `event`" => arguments::known_in_expression(Event, false),
            "expressions inside of a matcher" => {
                let added: Vec<&str> = arguments::known_in_expression(Change, true);
                added.into_iter().filter(|name| !arguments::known_in_expression(Change, false).contains(name)).collect()
            }
            _ => continue,
        };
        assert_eq!(documented, sorted(expression), "{name}");
    }
}

#[test]
fn the_tables_of_faults_and_options_are_those_of_the_code() {
    let document = text_of(&root().join("docs/apiserver.md"));
    let first_words = |section: &str| -> BTreeSet<String> {
        rows(&document, section)
            .iter()
            .map(|row| words(&row[0])[0].split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let wrong = serde_json::json!({"action": {"explode": {}}});
    let problem = serde_json::from_value::<kopfd::apiserver::faults::Rule>(wrong)
        .expect_err("there is no such action")
        .to_string();
    let known: BTreeSet<String> = words(&problem)[1..].iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(first_words("Faults"), known);
    let commands = kopfd::cli::Cli::command();
    let options = commands
        .find_subcommand("apiserver")
        .expect("there is such a command")
        .get_arguments()
        .filter_map(|option| option.get_long().map(|name| format!("--{name}")));
    assert_eq!(first_words("Options"), options.collect());
}

#[test]
fn the_table_of_settings_is_that_of_the_code() {
    let document = text_of(&root().join("docs/settings.md"));
    let known = manifest::settings_table::TABLE.map(|one| {
        let name = format!("`{}.{}`", one.section, one.key);
        vec![name, one.kind.to_owned(), format!("`{}`", one.default_text()), one.meaning.to_owned()]
    });
    assert_eq!(rows(&document, "All settings"), known);
}

#[test]
fn the_table_of_metrics_is_that_of_the_code() {
    let document = text_of(&root().join("docs/metrics.md"));
    let known = kopfd::telemetry::metrics::TABLE.map(|one| {
        let labels: Vec<String> = one.labels.iter().map(|label| format!("`{label}`")).collect();
        vec![format!("`{}`", one.name), one.kind.as_str().to_owned(), labels.join(", "), one.help.to_owned()]
    });
    assert_eq!(rows(&document, "All metrics"), known);
}

#[test]
fn alert_rules_and_the_dashboard_use_metrics_and_labels_that_exist() {
    let table = kopfd::telemetry::metrics::TABLE;
    let metric = Regex::new(r"\bkopfd_[a-z_]+").expect("the pattern is valid");
    let grouped = Regex::new(r"by \(([a-z, ]+)\)").expect("the pattern is valid");
    let mut used = BTreeSet::new();
    let dashboard: serde_json::Value =
        serde_json::from_str(&text_of(&root().join("manifests/monitoring/dashboard.json"))).expect("JSON");
    let alerts =
        kopfd::object::yaml::parse(&text_of(&root().join("manifests/monitoring/alerts.yaml"))).expect("YAML").remove(0);
    let of_panels = dashboard["panels"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let of_rules = alerts["spec"]["groups"][0]["rules"].as_array().into_iter().flatten();
    for expression in of_panels.chain(of_rules).filter_map(|one| one["expr"].as_str()) {
        for found in metric.find_iter(expression).map(|found| found.as_str()) {
            let base = found.trim_end_matches("_bucket");
            let known = table
                .iter()
                .find(|one| one.name == base)
                .unwrap_or_else(|| panic!("{expression}: there is no metric {found}"));
            for labels in grouped.captures_iter(expression) {
                let mut labels = labels[1].split(", ").filter(|label| *label != "le");
                assert!(
                    labels.all(|label| known.labels.contains(&label)),
                    "{expression}: {found} has {:?}",
                    known.labels
                );
            }
            used.insert(base.to_owned());
        }
    }
    let unused: Vec<&str> = table.iter().map(|one| one.name).filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "neither an alert nor a panel shows {unused:?}");
}

/// Runs the command of a README block after `$ cargo run -- `, and returns the expected block.
fn as_it_comes(command: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder for the kubeconfig");
    let examples = root().join("examples").display().to_string();
    let arguments =
        command.split(' ').map(|word| word.replacen("examples", &examples, usize::from(word.starts_with("examples/"))));
    let run = output(Command::new(env!("CARGO_BIN_EXE_kopfd")).args(arguments).current_dir(&folder));
    let output = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let here = folder.path().canonicalize().expect("the folder is there").display().to_string();
    let times = Regex::new(r"(?m)^\d\d:\d\d:\d\d ").expect("the pattern is valid");
    let output = times.replace_all(&output, "12:00:00 ").replace(&here, "/home/you/kopfd");
    format!("$ cargo run -- {command}\n{output}")
}

#[test]
fn the_readme_shows_the_output_of_a_trial() {
    let trials: Vec<Block> = blocks(&text_of(&root().join("README.md")))
        .into_iter()
        .filter(|block| block.text.starts_with("$ cargo run -- dev "))
        .collect();
    assert_eq!(trials.len(), 1);
    for trial in trials {
        let command =
            trial.text.lines().next().and_then(|line| line.strip_prefix("$ cargo run -- ")).expect("a command");
        assert_eq!(trial.text, as_it_comes(command));
    }
}

/// Returns the name of a function with its arguments, and its numbers of arguments: those in brackets are optional.
fn signature(text: &str) -> Option<(String, BTreeSet<usize>)> {
    let (name, rest) = text.split_once('(')?;
    let list = rest.strip_suffix(')')?;
    let (mut needed, mut optional) = (0, 0);
    for argument in list.split_whitespace() {
        if argument.starts_with('[') { optional += 1 } else { needed += 1 }
    }
    Some((name.to_owned(), (needed..=needed + optional).collect()))
}

fn functions(rows: &[Vec<String>]) -> BTreeMap<String, BTreeSet<usize>> {
    let mut functions: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (name, arities) in rows.iter().flat_map(|row| words(&row[0])).filter_map(signature) {
        functions.entry(name).or_default().extend(arities);
    }
    functions
}

#[test]
fn the_table_of_the_library_is_that_of_its_scripts() {
    let public = Regex::new(r"(?m)^fn ([a-z_]+)\(([^)]*)\)").expect("the pattern is valid");
    let mut known: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("scripts")).expect("the folder of the library") {
        let path = entry.expect("an entry of the folder").path();
        let module = path.file_stem().and_then(|name| name.to_str()).expect("the name of a module").to_owned();
        for found in public.captures_iter(&text_of(&path)) {
            let arity = found[2].split_terminator(',').count();
            known.entry(format!("{module}::{}", &found[1])).or_default().insert(arity);
        }
    }
    assert_eq!(functions(&rows(&text_of(&root().join("docs/library.md")), "Functions")), known);
}

#[test]
fn the_tables_of_functions_are_those_of_the_code() {
    let document = text_of(&root().join("docs/scripts.md"));
    let mut known = reference::reference();
    // It is registered only to report that it does not exist.
    known.functions.remove("exit");
    // These replace functions of the language, which do not know the limits of a call, or ignore errors.
    known.functions.remove("parse_json").expect("it is replaced");
    for replaced in ["replace", "split", "split_rev"] {
        known.methods.get_mut("text").and_then(|methods| methods.remove(replaced)).expect("it is replaced");
    }
    assert_eq!(functions(&rows(&document, "Functions")), known.functions);
    for replaced in ["order", "order_by", "sort", "sort_by"] {
        known.methods.get_mut("list").and_then(|methods| methods.remove(replaced)).expect("it is replaced");
    }
    let rows = rows(&document, "Methods");
    for (receiver, methods) in known.methods {
        let own: Vec<Vec<String>> =
            rows.iter().filter(|row| row[0] == format!("`{receiver}`")).map(|row| row[1..].to_vec()).collect();
        assert_eq!(functions(&own), methods, "{receiver}");
    }
}
