//! Arguments by name: one table of all arguments with the kinds of bindings that get them, and their values.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use rhai::{Array, Dynamic, Map};
use serde_json::Value;

use super::index::IndexHandle;
use super::logger::Logger;
use super::memo::Memo;
use super::patch_handle::PatchHandle;
use super::settings_handle::SettingsHandle;
use super::shared::SharedHandle;
use super::view::View;
use super::warnings::Warnings;
use super::{answer, convert};
use crate::handling::Candidate;
use crate::object::{Body, Diff, Patch, Resource, diff as differences};
use crate::script::interface::declaration::BindingKind;
use crate::script::interface::subject::{Activity, Subject};
use crate::script::values::index::Indexes;
use crate::script::values::memo::Memos;
use crate::script::values::script_error::Failure;
use crate::script::values::shared::SharedData;
use crate::script::values::time::Time;

/// One argument. The names and the values come from one table, so that no name is offered without a value.
struct Argument {
    name: &'static str,
    /// Whether expressions see it, too: they have no attempt.
    is_in_expressions: bool,
    given_to: fn(BindingKind) -> bool,
    /// Returns the value; `None` if the subject does not have the argument.
    value: fn(&Offer<'_>) -> Option<Dynamic>,
}

const fn seen(
    name: &'static str,
    given_to: fn(BindingKind) -> bool,
    value: fn(&Offer<'_>) -> Option<Dynamic>,
) -> Argument {
    Argument { name, is_in_expressions: true, given_to, value }
}

const fn of_attempt(
    name: &'static str,
    given_to: fn(BindingKind) -> bool,
    value: fn(&Offer<'_>) -> Option<Dynamic>,
) -> Argument {
    Argument { name, is_in_expressions: false, given_to, value }
}

fn is_about_object(kind: BindingKind) -> bool {
    use BindingKind::{Activity, Convert, Hook, Login, Schedule, Startup};
    !matches!(kind, Convert | Startup | Activity | Login | Schedule | Hook)
}

fn has_body(kind: BindingKind) -> bool {
    is_about_object(kind) || kind == BindingKind::Convert
}

fn has_patch(kind: BindingKind) -> bool {
    is_about_object(kind) && !matches!(kind, BindingKind::Index | BindingKind::Map)
}

fn has_memo(kind: BindingKind) -> bool {
    kind != BindingKind::Convert
}

/// Conversions and requests to hooks are answered at once: they have no attempts.
fn is_attempted(kind: BindingKind) -> bool {
    !matches!(kind, BindingKind::Convert | BindingKind::Hook)
}

fn is_change(kind: BindingKind) -> bool {
    kind == BindingKind::Change
}

fn has_change(kind: BindingKind) -> bool {
    is_change(kind) || is_review(kind)
}

fn is_event(kind: BindingKind) -> bool {
    kind == BindingKind::Event
}

fn is_review(kind: BindingKind) -> bool {
    matches!(kind, BindingKind::Validate | BindingKind::Mutate)
}

fn is_stoppable(kind: BindingKind) -> bool {
    matches!(kind, BindingKind::Timer | BindingKind::Daemon | BindingKind::Reconcile)
}

fn is_reconcile(kind: BindingKind) -> bool {
    kind == BindingKind::Reconcile
}

fn is_activity(kind: BindingKind) -> bool {
    matches!(kind, BindingKind::Startup | BindingKind::Activity | BindingKind::Login)
}

fn is_schedule(kind: BindingKind) -> bool {
    kind == BindingKind::Schedule
}

fn is_hook(kind: BindingKind) -> bool {
    kind == BindingKind::Hook
}

fn has_settings(kind: BindingKind) -> bool {
    is_activity(kind) || is_schedule(kind)
}

fn is_any(_: BindingKind) -> bool {
    true
}

/// All arguments, in the order of messages.
const TABLE: [Argument; 40] = [
    seen("body", has_body, |offer| offer.stanza(&[])),
    seen(
        "version",
        |kind| kind == BindingKind::Convert,
        |offer| match offer.subject {
            Subject::Conversion { version, .. } => Some((&**version).into()),
            _ => None,
        },
    ),
    seen("spec", is_about_object, |offer| offer.stanza(&["spec"])),
    seen("meta", is_about_object, |offer| offer.stanza(&["metadata"])),
    seen("status", is_about_object, |offer| offer.stanza(&["status"])),
    seen("labels", is_about_object, |offer| offer.stanza(&["metadata", "labels"])),
    seen("annotations", is_about_object, |offer| offer.stanza(&["metadata", "annotations"])),
    seen("name", has_body, |offer| Some(offer.subject.body()?.name().into())),
    seen("namespace", has_body, |offer| Some(offer.subject.body()?.namespace().map_or(Dynamic::UNIT, Into::into))),
    seen("uid", has_body, |offer| Some(offer.subject.body()?.uid().map_or(Dynamic::UNIT, Into::into))),
    seen("resource", has_body, |offer| Some(resource(offer.subject.resource()?))),
    seen("activity", is_activity, |offer| match offer.subject {
        Subject::Activity { activity, .. } => Some(activity.as_str().into()),
        _ => None,
    }),
    seen("scheduled_at", is_schedule, |offer| match offer.subject {
        Subject::Schedule { scheduled_at, .. } => Some(Dynamic::from(Time(*scheduled_at))),
        _ => None,
    }),
    seen("request", is_hook, |offer| match offer.subject {
        Subject::Hook { request } => Some(answer::request(request)),
        _ => None,
    }),
    seen("settings", has_settings, |offer| {
        let is_startup = matches!(offer.subject, Subject::Activity { activity: Activity::Startup, .. });
        offer.subject.settings()?;
        Some(Dynamic::from(SettingsHandle::new(Rc::clone(&offer.outputs.settings), is_startup)))
    }),
    seen("patch", has_patch, |offer| {
        Some(Dynamic::from(PatchHandle::new(Rc::clone(&offer.outputs.patch), offer.is_writable)))
    }),
    seen("memo", has_memo, |offer| {
        Some(Dynamic::from(Memo::new(Rc::clone(offer.memos), offer.subject.memo()?, offer.is_writable)))
    }),
    of_attempt("shared", is_any, |offer| Some(Dynamic::from(SharedHandle::new(offer.shared)))),
    seen("logger", is_any, |_| Some(Dynamic::from(Logger))),
    of_attempt("param", is_any, |offer| Some(convert::to_dynamic(offer.attempt?.param))),
    of_attempt("retry", is_attempted, |offer| Some((offer.attempt?.retry as i64).into())),
    of_attempt("started", is_attempted, |offer| Some(Dynamic::from(Time(offer.attempt?.started)))),
    of_attempt("runtime", is_attempted, |offer| {
        offer.attempt.map(|attempt| attempt.now.duration_since(attempt.started).as_secs_f64().into())
    }),
    seen("reason", is_change, |offer| Some(offer.subject.reason()?.as_str().into())),
    seen("old", has_change, |offer| match offer.subject {
        Subject::Review { old: Some(old), .. } => Some(whole(Some(old.get()?))),
        Subject::Review { old: None, .. } => Some(whole(None)),
        subject => Some(View::last_handled(subject.change()?)),
    }),
    seen("new", has_change, |offer| match offer.subject {
        Subject::Review { new, .. } => Some(whole(new.as_ref())),
        subject => Some(View::essence(subject.change()?)),
    }),
    // Differences of whole objects are costly, and most webhooks do not need them.
    seen("diff", has_change, |offer| match offer.subject {
        Subject::Review { old: Some(old), new, .. } => Some(diff(&difference(Some(old.get()?), new.as_ref()))),
        Subject::Review { old: None, new, .. } => Some(diff(&difference(None, new.as_ref()))),
        subject => Some(diff(&subject.change()?.diff)),
    }),
    seen("event", is_event, |offer| {
        let entries = [("type".into(), event_type(offer)?), ("object".into(), offer.stanza(&[])?)];
        Some(entries.into_iter().collect::<Map>().into())
    }),
    seen("type", is_event, event_type),
    seen("stopped", is_stoppable, |offer| match offer.subject {
        Subject::Background { stopped, .. } | Subject::Reconcile { stopped, .. } => {
            Some(Dynamic::from(stopped.clone()))
        }
        _ => None,
    }),
    seen("children", is_reconcile, |offer| match offer.subject {
        Subject::Reconcile { children, .. } => Some(views(children)),
        _ => None,
    }),
    seen("related", is_reconcile, |offer| match offer.subject {
        Subject::Reconcile { related, .. } => Some(views(related)),
        _ => None,
    }),
    seen("dryrun", is_review, |offer| Some(offer.request()?.dryrun.into())),
    seen("operation", is_review, |offer| Some(offer.request()?.operation.as_str().into())),
    seen("subresource", is_review, |offer| {
        Some(offer.request()?.subresource.as_deref().map_or(Dynamic::UNIT, Into::into))
    }),
    seen("userinfo", is_review, |offer| Some(convert::to_dynamic(&offer.request()?.userinfo))),
    seen("sslpeer", is_review, |offer| Some(convert::to_dynamic(&offer.request()?.sslpeer))),
    seen("headers", is_review, |offer| Some(convert::to_dynamic(&offer.request()?.headers))),
    seen("warnings", is_review, |offer| {
        offer.request()?;
        Some(Dynamic::from(Warnings::new(Rc::clone(&offer.outputs.warnings))))
    }),
    of_attempt(EVERYTHING, is_any, |offer| Some(offer.everything())),
];

/// The value that an expression in a matcher is evaluated for.
pub const VALUE: &str = "value";

/// Arguments that are never assignable: the object, and its earlier state.
pub const VIEWS: [&str; 8] = ["body", "spec", "meta", "status", "labels", "annotations", "old", "new"];

/// The arguments whose values are handles: they are references, and copying them is cheap.
const HANDLES: [&str; 16] = [
    "body",
    "spec",
    "meta",
    "status",
    "labels",
    "annotations",
    "patch",
    "memo",
    "shared",
    "logger",
    "old",
    "new",
    "stopped",
    "warnings",
    "settings",
    VALUE,
];

/// Tells whether an argument is a handle.
pub fn is_handle(name: &str) -> bool {
    HANDLES.contains(&name)
}

/// The parameter that gets a map of all arguments.
pub const EVERYTHING: &str = "kwargs";

fn given_to(kind: BindingKind) -> impl Iterator<Item = &'static Argument> {
    static ALL: [Argument; TABLE.len()] = TABLE;
    ALL.iter().filter(move |argument| (argument.given_to)(kind))
}

/// Returns the names that a function of this kind may have as parameters, besides the ids of indexes.
pub fn known(kind: BindingKind) -> Vec<&'static str> {
    given_to(kind).map(|argument| argument.name).collect()
}

/// Returns the names that an expression about a binding of this kind sees.
pub fn known_in_expression(kind: BindingKind, has_value: bool) -> Vec<&'static str> {
    let seen = given_to(kind).filter(|argument| argument.is_in_expressions).map(|argument| argument.name);
    seen.chain(has_value.then_some(VALUE)).collect()
}

/// Tells whether any kind of binding has an argument of this name, so that an index cannot have it.
pub fn is_argument(name: &str) -> bool {
    name == VALUE || TABLE.iter().any(|argument| argument.name == name)
}

/// The outputs of a call besides its requests to the cluster.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// The changes of the object.
    pub patch: Rc<RefCell<Patch>>,
    /// The warnings of a review for the user.
    pub warnings: Rc<RefCell<Vec<String>>>,
    /// The settings, which startup activities may change.
    pub settings: Rc<RefCell<Value>>,
}

impl Outputs {
    /// Returns the outputs of a call that extends a patch.
    pub fn of(subject: &Subject, patch: Patch) -> Self {
        let settings = subject.settings().map_or(Value::Null, |settings| (**settings).clone());
        Self { patch: Rc::new(RefCell::new(patch)), warnings: Rc::default(), settings: Rc::new(RefCell::new(settings)) }
    }
}

/// The arguments of one call.
pub struct Offer<'a> {
    /// The subject of the call.
    pub subject: &'a Subject,
    /// The outputs of the call.
    pub outputs: &'a Outputs,
    /// The memories of objects.
    pub memos: &'a Rc<Memos>,
    /// The indexes of the operator.
    pub indexes: &'a Indexes,
    /// The shared data of the operator.
    pub shared: &'a Arc<SharedData>,
    /// Whether the patch and the memory may be written to.
    pub is_writable: bool,
    /// The attempt, which only functions see.
    pub attempt: Option<Attempt<'a>>,
    /// The value that an expression in a matcher is evaluated for.
    pub candidate: &'a Candidate,
}

/// The attempt of a handler.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The handler's `param`.
    pub param: &'a Value,
    /// The attempts made before.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

impl Offer<'_> {
    /// Returns the values of parameters.
    ///
    /// # Errors
    /// If one of them is not an argument of this subject.
    pub fn values<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Vec<Dynamic>, Failure> {
        names.into_iter().map(|name| self.value(name)).collect()
    }

    fn value(&self, name: &str) -> Result<Dynamic, Failure> {
        if name == VALUE {
            return Ok(self.candidate());
        }
        // Names are checked when scripts are compiled. No index has the name of an argument.
        let value = match TABLE.iter().find(|argument| argument.name == name) {
            Some(argument) => (argument.value)(self),
            None => self.indexes.get(name).map(|index| Dynamic::from(IndexHandle::new(index))),
        };
        value.ok_or_else(|| Failure::host("unavailable", format!("`{name}` is not available here")))
    }

    /// Returns a map of all arguments that the subject has.
    fn everything(&self) -> Dynamic {
        let all = TABLE.iter().filter(|argument| argument.name != EVERYTHING && self.has(argument));
        let arguments = all.filter_map(|argument| Some((argument.name.into(), (argument.value)(self)?)));
        let indexes = self.indexes.shared().map(|index| (index.name().into(), Dynamic::from(IndexHandle::new(index))));
        arguments.chain(indexes).collect::<Map>().into()
    }

    fn has(&self, argument: &Argument) -> bool {
        BindingKind::ALL.into_iter().any(|kind| self.subject.fits(kind) && (argument.given_to)(kind))
    }

    fn stanza(&self, keys: &'static [&'static str]) -> Option<Dynamic> {
        Some(match self.subject.live() {
            Some(live) => View::live(live, keys),
            None => View::stanza(&self.subject.body()?.shared(), keys),
        })
    }

    fn request(&self) -> Option<&crate::script::interface::subject::ReviewRequest> {
        if let Subject::Review { request, .. } = self.subject { Some(request) } else { None }
    }

    fn candidate(&self) -> Dynamic {
        match self.candidate {
            Candidate::Whole | Candidate::Absent => Dynamic::UNIT,
            Candidate::Value(value) => View::of(Arc::new(value.clone())),
        }
    }
}

fn event_type(offer: &Offer<'_>) -> Option<Dynamic> {
    match offer.subject {
        Subject::Event { event_kind, .. } => Some(event_kind.event_type().map_or(Dynamic::UNIT, Into::into)),
        _ => None,
    }
}

fn views(bodies: &[Body]) -> Dynamic {
    bodies.iter().map(|body| View::of(body.shared())).collect::<Array>().into()
}

fn resource(resource: &Resource) -> Dynamic {
    let names = |names: &[String]| Dynamic::from(names.iter().map(|name| name.as_str().into()).collect::<Array>());
    let entries: [(&str, Dynamic); 12] = [
        ("group", resource.group.as_str().into()),
        ("version", resource.version.as_str().into()),
        ("api_version", resource.api_version().into()),
        ("plural", resource.plural.as_str().into()),
        ("kind", resource.kind.as_str().into()),
        ("singular", resource.singular.as_str().into()),
        ("shortcuts", names(&resource.shortcuts)),
        ("categories", names(&resource.categories)),
        ("subresources", names(&resource.subresources)),
        ("namespaced", resource.namespaced.into()),
        ("preferred", resource.preferred.into()),
        ("verbs", names(&resource.verbs)),
    ];
    entries.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map>().into()
}

fn whole(body: Option<&Body>) -> Dynamic {
    body.map_or(Dynamic::UNIT, |body| View::of(body.shared()))
}

fn difference(old: Option<&Body>, new: Option<&Body>) -> Diff {
    let side = |body: Option<&Body>| body.map_or_else(Arc::default, Body::shared);
    differences::diff(&side(old), &side(new), differences::Scope::Full)
}

fn diff(diff: &Diff) -> Dynamic {
    let items = diff.iter().map(|item| {
        let entries: [(&str, Dynamic); 5] = [
            ("op", item.op.as_str().into()),
            ("field", item.path.iter().map(|key| key.as_str().into()).collect::<Array>().into()),
            ("path", item.path.join(".").into()),
            ("old", convert::to_dynamic(&item.old)),
            ("new", convert::to_dynamic(&item.new)),
        ];
        entries.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map>().into()
    });
    items.collect::<Array>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_binding_has_its_own_arguments() {
        assert!(known(BindingKind::Change).contains(&"diff"));
        assert!(!known(BindingKind::Event).contains(&"reason"));
        assert!(!known(BindingKind::Index).contains(&"patch"));
        assert!(!known(BindingKind::Schedule).contains(&"body"));
        assert!(known(BindingKind::Reconcile).contains(&"children"));
        assert!(is_argument("scheduled_at") && is_argument("value") && !is_argument("by_team"));
        assert!(known_in_expression(BindingKind::Change, true).contains(&"value"));
        assert!(!known_in_expression(BindingKind::Change, false).contains(&"retry"));
    }
}
