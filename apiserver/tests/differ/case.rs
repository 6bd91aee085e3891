//! Cases of `cases/*.yaml`: steps in a separate namespace for each case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kopfd_base::yaml;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Its title, a sentence.
    #[serde(rename = "case")]
    pub(crate) name: String,
    /// Its file.
    #[serde(skip)]
    pub(crate) topic: String,
    /// Its namespace, which is also the prefix of the group of its kinds.
    #[serde(skip)]
    pub(crate) id: String,
    /// Names of kinds in `kinds.yaml` that are defined before the first step.
    #[serde(default)]
    pub(crate) kinds: Vec<String>,
    /// Whether `managedFields` are compared.
    #[serde(default)]
    pub(crate) managers: bool,
    /// The request of steps without `ask`.
    #[serde(default)]
    pub(crate) ask: Option<String>,
    /// The body that steps with `with` or `without` send, changed.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// The compared parts of answers in steps without `only`.
    #[serde(default)]
    pub(crate) only: Option<Vec<String>>,
    /// The steps, in order.
    pub(crate) steps: Vec<Step>,
}

/// One request, or one read from an open watch.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// The method and the path: whole, or beginning with the plural of a kind. `<name.path>` is a part of an earlier
    /// answer.
    #[serde(default)]
    pub(crate) ask: Option<String>,
    /// Sends this as JSON.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// Sends the body of the case with these values, by JSON pointers without the first slash. Missing parents are
    /// created.
    #[serde(default)]
    pub(crate) with: Option<Map<String, Value>>,
    /// Sends the body of the case without these members.
    #[serde(default)]
    pub(crate) without: Option<Vec<String>>,
    /// Sends this text unchanged.
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// The content type, or the name of a kind of patch.
    #[serde(default)]
    pub(crate) media: Option<String>,
    /// The accepted media type, or the name of a form.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// The user, if it is not the administrator: `guest`, `anonymous`, `unknown-token`.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub(crate) headers: Vec<(String, String)>,
    /// Stores the body of the answer under a name.
    #[serde(default, rename = "as")]
    pub(crate) keep: Option<String>,
    /// Repeats the request until the answer contains this.
    #[serde(default)]
    pub(crate) until: Option<Value>,
    /// Keeps the answer's stream open under a name, for later reads.
    #[serde(default)]
    pub(crate) open: Option<String>,
    /// Reads from an open stream: the number of expected lines.
    #[serde(default)]
    pub(crate) read: Option<StreamRead>,
    /// Compares only these parts of the answer's body.
    #[serde(default)]
    pub(crate) only: Option<Vec<String>>,
    /// Waits this many milliseconds first: a real server notices some changes later, without a visible sign.
    #[serde(default)]
    pub(crate) pause: u64,
}

/// A read from an open stream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRead {
    /// The name of the stream.
    pub(crate) at: String,
    /// The number of expected lines; `None` means all until the end.
    #[serde(default)]
    pub(crate) lines: Option<usize>,
}

impl Case {
    /// Completes the steps with the defaults of the case.
    fn resolve(&mut self) {
        for step in &mut self.steps {
            if step.with.is_some() || step.without.is_some() {
                let mut body = self
                    .body
                    .clone()
                    .unwrap_or_else(|| panic!("{}: a step changes a body that is not there", self.name));
                step.without.iter().flatten().for_each(|pointer| remove(&mut body, pointer));
                step.with.iter().flatten().for_each(|(pointer, value)| *part(&mut body, pointer) = value.clone());
                step.body = Some(body);
            }
            if step.read.is_none() {
                step.ask = step.ask.take().or_else(|| self.ask.clone());
                step.only = step.only.take().or_else(|| self.only.clone());
            }
        }
    }
}

/// Returns the part of a value at a pointer, which is created if missing.
fn part<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Value {
    pointer.split('/').filter(|name| !name.is_empty()).map(|name| name.replace("~1", "/").replace("~0", "~")).fold(
        value,
        |value, name| match value {
            Value::Array(items) => {
                let index: usize = name.parse().unwrap_or_else(|_| panic!("{pointer}: {name} is no index"));
                if index == items.len() {
                    items.push(Value::Null);
                }
                &mut items[index]
            }
            value => {
                if !value.is_object() {
                    *value = json!({});
                }
                value.as_object_mut().expect("the value was just made an object").entry(name).or_insert(Value::Null)
            }
        },
    )
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    match part(value, parent) {
        Value::Array(items) => {
            items.remove(name.parse().unwrap_or_else(|_| panic!("{pointer}: {name} is no index")));
        }
        Value::Object(members) => drop(members.remove(name).unwrap_or_else(|| panic!("{pointer}: there is no {name}"))),
        _ => panic!("{pointer}: there is nothing below {parent}"),
    }
}

/// Returns the directory of the cases.
pub(crate) fn directory() -> PathBuf {
    // The suite on a real API server is part of the engine's package, and uses these cases, too.
    let below = if env!("CARGO_PKG_NAME") == "kopfd-apiserver" { "tests/differ" } else { "apiserver/tests/differ" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// Returns all cases, by topic.
pub(crate) fn all() -> BTreeMap<String, Vec<Case>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory().join("cases")).expect("the directory of the cases") {
        let path = entry.expect("an entry").path();
        let topic = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let documents = yaml::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let cases = documents.into_iter().flat_map(|document| match document {
            Value::Array(cases) => cases,
            other => vec![other],
        });
        let cases = cases.enumerate().map(|(index, value)| {
            let mut case: Case =
                serde_json::from_value(value).unwrap_or_else(|error| panic!("{topic}, case {}: {error}", index + 1));
            case.resolve();
            case.topic.clone_from(&topic);
            case.id = format!("x{index:02}-{topic}");
            case
        });
        found.insert(topic.clone(), cases.collect());
    }
    found
}

/// Returns the condition of `KOPFD_DIFFER`: texts separated by `|`, one of which must be part of "topic: name". Without
/// the variable, all cases are chosen.
pub(crate) fn chosen() -> impl Fn(&Case) -> bool {
    let chosen = std::env::var("KOPFD_DIFFER").unwrap_or_default();
    move |case| chosen.split('|').any(|text| format!("{}: {}", case.topic, case.name).contains(text))
}

/// Returns the definitions of `kinds.yaml`, by name, with a given group.
pub(crate) fn definitions(group: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(directory().join("kinds.yaml")).expect("the kinds of the cases");
    let mut documents =
        yaml::parse(&text.replace("<group>", group)).unwrap_or_else(|error| panic!("kinds.yaml: {error}"));
    let Value::Object(kinds) = documents.remove(0) else { panic!("kinds.yaml is a mapping") };
    kinds.into_iter().collect()
}
