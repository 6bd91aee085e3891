//! An operator with the hostile scripts of `tests/limits/`, for tests that run it in a process: each script is a
//! handler of objects with its own label.

use std::fmt::Write as _;
use std::path::Path;

use kopfd::object::yaml;
use serde_json::{Value, json};

/// The time limit of scripts whose time runs out, and of the others.
const TIME: &str = "300ms";
const LONG_TIME: &str = "20s";

/// Every so many of the scripts take part: `tests/limits.rs` runs all of them, one after the other.
const EVERY: usize = 2;

/// The label whose value names the script of an object.
pub(crate) const LABEL: &str = "script";

/// Writes the operator into a folder, with handlers for objects of a kind. Returns the ids of the handlers, which are
/// also the values of the label.
///
/// Scripts that need a prepared object, another file, or several calls, as sub-handlers do, are left out. A further
/// handler `served` logs "served", for the label of the same value.
pub(crate) fn write(folder: &Path, resource: &str) -> Vec<String> {
    let mut blocks = vec![json!({
        "resource": resource, "labels": {LABEL: "served"}, "handlers": [{"on": "create", "id": "served", "run": "logger.info(\"served\");"}],
    })];
    let mut ids = Vec::new();
    for case in cases().into_iter().step_by(EVERY) {
        let id = format!("script-{}", ids.len());
        let mut limits = case["limits"].clone();
        if limits.is_null() {
            limits = json!({});
        }
        let is_endless = case["limit"] == "time";
        if limits["time"].is_null() {
            limits["time"] = json!(if is_endless { TIME } else { LONG_TIME });
        }
        if is_endless && limits["operations"].is_null() {
            limits["operations"] = json!(1_000_000_000_000_u64);
        }
        let handler = json!({"on": "create", "id": id, "run": case["run"], "limits": limits, "retries": 1});
        let mut block = json!({"resource": resource, "labels": {LABEL: id}, "handlers": [handler]});
        if let Some(main) = case["main"].as_str() {
            let name = format!("{id}.rhai");
            std::fs::write(folder.join(&name), main).expect("the folder is writable");
            block["script"] = json!(name);
        }
        blocks.push(block);
        ids.push(id);
    }
    let manifest = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "Operator", "metadata": {"name": "hostile"},
        "spec": {"settings": {"scripts": {"memory": "256Mi"}}, "resources": blocks},
    });
    // JSON is YAML.
    std::fs::write(folder.join("operator.yaml"), manifest.to_string()).expect("the folder is writable");
    ids
}

/// Returns the log lines that are missing: each script must have used up its budget once, and stopped.
pub(crate) fn missing(ids: &[String], log: &str) -> String {
    let is_ended = |id: &&String| {
        let told = format!("'{id}' failed with an exception and will stop now");
        !log.lines().any(|line| line.contains(&told) && line.contains("the call has used up its budget: "))
    };
    ids.iter().filter(is_ended).fold(String::new(), |mut all, id| {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&format!("'{id}'"))).collect();
        let _ = writeln!(all, "{id}: {lines:?}");
        all
    })
}

/// Returns the scripts that end by a limit whatever the object has.
fn cases() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("it is readable").path())
        .collect();
    // Those of programs need a manifest that allows them, and a machine that is not busy.
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "yaml") && !path.ends_with("programs.yaml")
    });
    files.sort();
    let read = |path| yaml::parse(&std::fs::read_to_string(path).expect("the file is text")).expect("the file is YAML");
    let all = files.into_iter().flat_map(|path| read(path).remove(0).as_array().expect("a list of cases").clone());
    let is_simple = |case: &Value| {
        let text = format!("{}{}", case["run"], case["main"]);
        let needs_more =
            ["when", "files", "times"].iter().any(|key| !case[*key].is_null()) || text.contains("subhandler");
        let needs_object = text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "spec");
        case["limit"].is_string() && case["run"].is_string() && !needs_more && !needs_object
    };
    all.filter(is_simple).collect()
}
