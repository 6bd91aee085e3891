//! Bindings: the code to call, and its id.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

use crate::handling::{Filters, Handler, On, Policy};
use crate::object::{FieldPath, Selector};
use crate::script::{Binding, BindingKind, Code, Limits};

use super::builder::{OperatorBuilder, Script};
use super::reader::{Fields, Item};
use super::tree::SourceSpan;

/// Ids become names of annotations, in which slashes are replaced.
static ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z0-9]([A-Za-z0-9_./<>-]*[A-Za-z0-9])?$").expect("the pattern is valid"));
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^_*[A-Za-z][A-Za-z0-9_]*$").expect("the pattern is valid"));

/// The keys of every binding.
pub(super) const BINDING: [&str; 6] = ["id", "fn", "run", "script", "param", "limits"];

/// Keys of certain bindings only, with these bindings.
const OWNED: [(&str, &str); 39] = [
    ("on", "handlers and webhooks"),
    ("field", "bindings with an object"),
    ("value", "bindings with an object"),
    ("labels", "bindings with an object"),
    ("annotations", "bindings with an object"),
    ("when", "bindings with an object"),
    ("old", "handlers with `on: update` or `on: field`"),
    ("new", "handlers with `on: update` or `on: field`"),
    ("optional", "handlers with `on: delete`"),
    ("deleted", "handlers with `on: resume`"),
    ("interval", "timers"),
    ("cron", "timers and schedules"),
    ("timezone", "timers and schedules"),
    ("sharp", "timers"),
    ("idle", "timers"),
    ("initialDelay", "timers and daemons"),
    ("cancellationBackoff", "daemons"),
    ("cancellationTimeout", "daemons"),
    ("cancellationPolling", "daemons"),
    ("operations", "webhooks"),
    ("subresource", "webhooks"),
    ("persistent", "webhooks"),
    ("sideEffects", "webhooks"),
    ("ignoreFailures", "webhooks"),
    ("matchConditions", "webhooks"),
    ("owns", "`reconcile`"),
    ("watches", "`reconcile`"),
    ("resync", "`reconcile`"),
    ("prune", "`reconcile`"),
    ("finalize", "`reconcile`"),
    ("missed", "schedules"),
    ("path", "hooks"),
    ("methods", "hooks"),
    ("auth", "hooks"),
    ("maxBody", "hooks"),
    ("concurrency", "hooks"),
    ("retries", "bindings that are retried"),
    ("backoff", "bindings that are retried"),
    ("errors", "bindings that are retried"),
];

/// Returns the message and the hint for a key of other bindings.
pub(super) fn misplaced(noun: &str, key: &str) -> Option<(String, String)> {
    let (_, owner) = OWNED.iter().find(|(known, _)| *known == key)?;
    Some((format!("`{key}` is no option of {noun}"), format!("it belongs to {owner}")))
}

/// The code of a binding, and its id.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    /// The id, with its suffix.
    pub id: String,
    /// Identifies the function.
    pub function: String,
    /// The number of the binding.
    pub target: usize,
    /// The value of its argument `param`.
    pub param: Value,
    /// The position of the id, or else of the code.
    pub spot: SourceSpan,
    /// Its YAML path.
    pub path: String,
}

/// Which objects a binding concerns.
#[derive(Debug, Clone, Default)]
pub(super) struct Concern {
    /// The kinds.
    pub selectors: Vec<Selector>,
    /// Its field.
    pub field: Option<FieldPath>,
    /// Its filters.
    pub filters: Filters,
}

impl Bound {
    /// Returns the handler that calls the code.
    pub(super) fn handler(self, on: On, concern: Concern, policy: Policy) -> Handler {
        let Concern { selectors, field, filters } = concern;
        let Self { id, function, target, param, .. } = self;
        Handler { id, function, target, on, selectors, field, filters, policy, param }
    }
}

/// The expected properties of a binding.
#[derive(Debug, Clone)]
pub(super) struct Request<'s> {
    /// Its kind.
    pub kind: BindingKind,
    /// The file of its functions.
    pub script: &'s Script,
    /// The field whose path is appended to the id.
    pub suffix: Option<&'s FieldPath>,
    /// The default time limit of its kind of binding.
    pub deadline: Option<Duration>,
}

/// The ids of one block, each with its function, its kind and its line.
#[derive(Debug, Default)]
pub(super) struct Ids(HashMap<String, (String, &'static str, usize)>);

impl OperatorBuilder<'_> {
    /// Reads the code and the id of a binding.
    pub(super) fn bind(&mut self, fields: &Fields<'_>, request: &Request<'_>) -> Option<Bound> {
        let found = self.code(fields, request.script);
        let id = self.id(fields, found.as_ref().map(|(code, _)| code), request.suffix);
        let param = fields.raw("param").map_or(Value::Null, |item| item.node.to_value());
        let limits = self.limits(fields, request.kind, request.deadline);
        let ((code, place), (id, spot, path)) = (found?, id?);
        let function = match &code {
            Code::Function { file, name } => format!("{}:{name}", file.display()),
            Code::Inline { place, .. } => place.to_string(),
        };
        let is_lost = *request.script == Script::Lost;
        let target = self.add_binding(Binding {
            id: id.clone(),
            code,
            kind: request.kind,
            limits,
            place: self.place(place),
            param: param.clone(),
        });
        if is_lost {
            self.lost.insert(target);
        }
        Some(Bound { id, function, target, param, spot, path })
    }

    /// Adds a further function of a binding, such as `finalize`.
    pub(super) fn bind_other(
        &mut self,
        item: &Item<'_>,
        id: &str,
        script: &Script,
        kind: BindingKind,
        limits: Limits,
    ) -> Option<usize> {
        let code = self.function(item, script)?;
        let binding =
            Binding { id: id.to_owned(), code, kind, limits, place: self.place(item.spot()), param: Value::Null };
        let target = self.add_binding(binding);
        if *script == Script::Lost {
            self.lost.insert(target);
        }
        Some(target)
    }

    fn add_binding(&mut self, binding: Binding) -> usize {
        let bindings = &mut self.operator.declaration.bindings;
        bindings.push(binding);
        bindings.len() - 1
    }

    fn code(&mut self, fields: &Fields<'_>, script: &Script) -> Option<(Code, SourceSpan)> {
        let hint = "name a function with `fn: name`, or write the code with `run: |`";
        match (fields.get("fn"), fields.get("run")) {
            (Some(_), Some(run)) => {
                self.reader.key_error(&run, "`fn` and `run` exclude each other", "leave one of them out");
                None
            }
            (Some(item), None) => self.function(&item, script).map(|code| (code, item.spot())),
            (None, Some(item)) => {
                let text = self.reader.text(&item)?;
                let place = self.place(text.start);
                Some((Code::Inline { text: text.value.clone(), place, file: script.file() }, item.spot()))
            }
            (None, None) => {
                if !fields.mentions("fn") && !fields.mentions("run") {
                    let spot = SourceSpan { length: 1, ..fields.item.spot() };
                    let message = format!("{} needs `fn` or `run`", fields.noun);
                    self.reader.report(super::Severity::Error, spot, &fields.item.path, message, Some(hint.to_owned()));
                }
                None
            }
        }
    }

    fn function(&mut self, item: &Item<'_>, script: &Script) -> Option<Code> {
        let name = self.reader.text(item)?.value.clone();
        if !IDENTIFIER.is_match(&name) {
            let hint = "write the bare name of a function of the script; code is written with `run: |`";
            self.reader.error_with(item, format!("`{name}` is no name of a function"), hint);
            return None;
        }
        match script {
            Script::File(file) => Some(Code::Function { file: file.clone(), name }),
            Script::Lost => Some(Code::Function { file: std::path::PathBuf::new(), name }),
            Script::None => {
                let hint = "add `script: file.rhai` to the binding or its block, or write the code with `run: |`";
                self.reader.error_with(item, format!("no script is named for the function `{name}`"), hint);
                None
            }
        }
    }

    fn id(
        &mut self,
        fields: &Fields<'_>,
        code: Option<&Code>,
        suffix: Option<&FieldPath>,
    ) -> Option<(String, SourceSpan, String)> {
        let (base, item) = match (fields.get("id"), code) {
            (Some(item), _) => (self.reader.text(&item)?.value.clone(), item),
            (None, Some(Code::Function { name, .. })) => {
                (name.clone(), fields.get("fn").unwrap_or_else(|| fields.item.clone()))
            }
            (None, Some(Code::Inline { .. })) => {
                if !fields.mentions("id") {
                    let item = fields.get("run").unwrap_or_else(|| fields.item.clone());
                    self.reader.key_error(
                        &item,
                        "code in `run` needs an `id`",
                        "add `id: name`: progress and results are stored under it",
                    );
                }
                return None;
            }
            (None, None) => return None,
        };
        let id = suffix.map_or_else(|| base.clone(), |field| format!("{base}/{}", field.suffix()));
        if !ID.is_match(&id) {
            let mut hint =
                "it must begin and end with a letter or a digit; letters, digits and `_ . / < > -` may stand between"
                    .to_owned();
            if item.name() == "fn" {
                hint = format!("add an `id` of its own: {hint}");
            }
            self.reader.error_with(&item, format!("`{id}` cannot be an id"), hint);
            return None;
        }
        Some((id, item.spot(), item.path))
    }

    /// Registers an id of a block. Reports an error if another function has it, and returns whether it is new.
    pub(super) fn register(&self, ids: &mut Ids, bound: &Bound, noun: &'static str) -> bool {
        let Some((function, other, line)) = ids.0.get(&bound.id) else {
            ids.0.insert(bound.id.clone(), (bound.function.clone(), noun, bound.spot.line));
            return true;
        };
        let message = if *other != noun {
            format!("the id `{}` is taken by {other} in line {line}", bound.id)
        } else if *function != bound.function {
            format!("the id `{}` is taken by another function in line {line}", bound.id)
        } else {
            return false;
        };
        let hint = "give one of them an `id` of its own: progress is stored under it";
        self.reader.report(super::Severity::Error, bound.spot, &bound.path, message, Some(hint.to_owned()));
        false
    }
}

/// Tells whether a name can be a variable of a script.
pub(super) fn is_identifier(name: &str) -> bool {
    IDENTIFIER.is_match(name)
}
