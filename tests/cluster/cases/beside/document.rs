//! The form of `cases.yaml`: the operators of a group, and the steps and expectations of its cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::harness::Engine;

/// A group of cases, which share the processes of their operators.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// The name of the directory.
    #[serde(skip)]
    pub(super) name: String,
    /// The group with the files of the operator; by default this one.
    pub(super) operator: Option<String>,
    /// The sides to compare; each is a list of engines that run one after another. The first side is the reference.
    #[serde(default = "one_of_each")]
    pub(super) sides: Vec<Vec<EngineName>>,
    /// How an operator ends before the next one of its side starts.
    #[serde(default)]
    pub(super) handover: Handover,
    /// Further options of both commands; `PORT` is replaced by a free port.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// The exit code of each operator.
    #[serde(default)]
    pub(super) exit: i32,
    /// Whether the operator serves objects. Otherwise it is expected to end by itself.
    #[serde(default = "yes")]
    pub(super) serves: bool,
    /// The cases.
    pub(super) cases: Vec<BesideCase>,
}

/// One of the engines, as written in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EngineName {
    /// Python kopf.
    Kopf,
    /// The engine under test.
    Kopfd,
}

/// How an operator ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Handover {
    /// By SIGTERM.
    #[default]
    Stop,
    /// By SIGKILL.
    Crash,
}

/// A case: objects and activities that no other case of the group uses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BesideCase {
    /// The name of the case and of its object. Further objects are named `<name>.<suffix>`.
    pub(super) name: String,
    /// The tested property, as a sentence.
    pub(super) that: String,
    /// Steps before the first operator starts.
    #[serde(default)]
    pub(super) before: Vec<Step>,
    /// Steps with the first operator.
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    /// Steps between the two operators.
    #[serde(default)]
    pub(super) between: Vec<Step>,
    /// Steps with the second operator.
    #[serde(default)]
    pub(super) again: Vec<Step>,
    /// Names of calls without an object that belong to the case.
    #[serde(default)]
    pub(super) activities: BTreeSet<String>,
    /// The calls on every side, in their order.
    pub(super) calls: Vec<ExpectedCall>,
    /// Whether concurrent calls have no defined order: only the order of calls with the same name is compared.
    #[serde(default)]
    pub(super) unordered: bool,
    /// Whether requests that only touch the object are not compared: an object is not touched if its retry is due at
    /// the start of an operator.
    #[serde(default)]
    pub(super) ignores_touches: bool,
    /// The typical pause between the calls of a name.
    #[serde(default)]
    pub(super) pace: BTreeMap<String, Pace>,
    /// Times between marks and calls.
    #[serde(default)]
    pub(super) spans: Vec<Span>,
}

/// A call: its name and its arguments.
#[derive(Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub(super) struct ExpectedCall {
    /// The name given by the handler.
    pub(super) name: String,
    /// What the handler has told.
    pub(super) arguments: Value,
}

/// The median pause between calls, in seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pace {
    /// The shortest median.
    pub(super) least: f64,
    /// The longest median.
    pub(super) most: f64,
}

/// The time between two moments, in seconds. A moment is the mark of a step, or a call with its number, such as `tick
/// 2`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    /// The earlier moment.
    pub(super) from: String,
    /// The later moment.
    pub(super) to: String,
    /// The shortest time.
    pub(super) least: f64,
    /// The longest time.
    pub(super) most: f64,
}

/// One step.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct Step {
    /// The suffix of the object; none is the object of the case.
    pub(super) object: Option<String>,
    /// Whether the object is of the second kind.
    pub(super) is_other: bool,
    /// The name of the moment when a request begins, or a wait has ended.
    pub(super) mark: Option<String>,
    /// What is done.
    pub(super) action: Action,
}

/// What a step does.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Action {
    /// Creates the object from its labels, annotations, and fields.
    Create(Value),
    /// Changes the object by a merge patch.
    Patch(Value),
    /// Requests the deletion of the object.
    Delete,
    /// Waits until the object is gone.
    Gone,
    /// Waits until calls of these names were made so many times.
    Call(BTreeMap<String, usize>),
    /// Waits until the object contains these fields; null is an absent field.
    State(Value),
    /// Waits for some seconds.
    Pause(f64),
    /// Waits until so many Kubernetes Events about objects of the case are posted.
    Events(usize),
    /// Records the answer of the operator's endpoint to a path.
    Get(String),
}

impl Group {
    /// Reads a group, and panics if it is not well-formed.
    pub(super) fn read(directory: &Path, name: &str) -> Self {
        let file = directory.join(name).join("cases.yaml");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut group: Self =
            serde_json::from_value(value).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        name.clone_into(&mut group.name);
        let names: BTreeSet<&str> = group.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), group.cases.len(), "{}: two cases have one name", file.display());
        let continued = group.cases.iter().filter(|case| !case.again.is_empty()).count();
        // The calls of the second operator would count for the other cases, too.
        assert!(
            continued == 0 || continued == group.cases.len(),
            "{}: only some cases continue with a second operator",
            file.display()
        );
        group
    }

    /// Returns the names of the cases with that of the group.
    pub(super) fn titles(&self) -> Vec<String> {
        self.cases.iter().map(|case| self.title(case)).collect()
    }

    /// Returns the name of a case with that of the group.
    pub(super) fn title(&self, case: &BesideCase) -> String {
        format!("{}/{}", self.name, case.name)
    }
}

impl Action {
    /// Tells whether it is a request.
    pub(super) fn is_change(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Patch(_) | Self::Delete)
    }
}

impl BesideCase {
    /// Returns the name of an object of the case.
    pub(super) fn object(&self, suffix: Option<&str>) -> String {
        suffix.map_or_else(|| self.name.clone(), |suffix| format!("{}.{suffix}", self.name))
    }

    /// Tells whether an object belongs to the case.
    pub(super) fn has_object(&self, name: &str) -> bool {
        name.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns the names of the objects that the case creates.
    pub(super) fn object_names(&self) -> BTreeSet<String> {
        let created = [&self.before, &self.steps, &self.between, &self.again].into_iter().flatten();
        created
            .filter(|step| matches!(step.action, Action::Create(_)))
            .map(|step| self.object(step.object.as_deref()))
            .collect()
    }
}

impl EngineName {
    /// Returns the engine.
    pub(super) fn engine(self) -> Engine {
        match self {
            Self::Kopf => Engine::Kopf,
            Self::Kopfd => Engine::under_test(),
        }
    }
}

impl TryFrom<BTreeMap<String, Value>> for ExpectedCall {
    type Error = String;

    fn try_from(call: BTreeMap<String, Value>) -> Result<Self, String> {
        let mut parts = call.into_iter();
        match (parts.next(), parts.next()) {
            (Some((name, arguments)), None) => Ok(Self { name, arguments }),
            _ => Err("a call is one name with its arguments".to_owned()),
        }
    }
}

impl TryFrom<Map<String, Value>> for Step {
    type Error = serde_json::Error;

    fn try_from(mut step: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let mut text = |key: &str| step.remove(key).map(serde_json::from_value::<String>).transpose();
        let (object, kind, mark) = (text("object")?, text("kind")?, text("mark")?);
        let is_other = kind.is_some_and(|kind| kind == "other");
        Ok(Self { object, is_other, mark, action: serde_json::from_value(Value::Object(step))? })
    }
}

fn one_of_each() -> Vec<Vec<EngineName>> {
    vec![vec![EngineName::Kopf, EngineName::Kopf], vec![EngineName::Kopfd, EngineName::Kopfd]]
}

fn yes() -> bool {
    true
}
