//! Arguments by name: which there are for what is called, and what their values are in one call.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;
use rhai::{Array, Dynamic, Map};
use serde_json::Value;

use super::call::Arguments;
use super::convert;
use super::declaration::BindingKind;
use super::logger::Logger;
use super::memo::{Memo, Memos};
use super::patch_handle::PatchHandle;
use super::time::Time;
use super::view::View;
use crate::handling::Candidate;
use crate::handling::progress::seconds_between;
use crate::object::{Diff, Patch, Resource};

/// What every function and expression about an object sees.
const OBJECT: [&str; 10] = ["body", "spec", "meta", "status", "labels", "annotations", "name", "namespace", "uid", "resource"];

/// What functions see besides, and expressions do not.
const CALL: [&str; 4] = ["param", "retry", "started", "runtime"];

/// What the handlers of changes see besides.
const CHANGE: [&str; 4] = ["reason", "old", "new", "diff"];

/// What webhooks that decide about a request see besides.
const ADMISSION: [&str; 10] = ["old", "new", "diff", "dryrun", "operation", "subresource", "userinfo", "sslpeer", "headers", "warnings"];

/// What conversion webhooks see, and nothing else.
const CONVERSION: [&str; 9] = ["body", "version", "name", "namespace", "uid", "resource", "logger", "param", "kwargs"];

/// The value that an expression inside of a matcher is asked about.
pub const VALUE: &str = "value";

/// What the function of a reconciliation sees besides.
const RECONCILIATION: [&str; 3] = ["stopped", "children", "related"];

/// What may be assigned to in no call: the object, and what it was.
pub const VIEWS: [&str; 8] = ["body", "spec", "meta", "status", "labels", "annotations", "old", "new"];

/// The arguments whose values are handles: they refer to something, and copying them costs nothing.
const HANDLES: [&str; 12] = ["body", "spec", "meta", "status", "labels", "annotations", "patch", "memo", "logger", "old", "new", VALUE];

/// Tells whether a name is that of an argument whose value is a handle.
pub fn is_handle(name: &str) -> bool {
    HANDLES.contains(&name)
}

/// The parameter that gets a map of everything.
pub const EVERYTHING: &str = "kwargs";

/// Returns the names that a function of this kind may have as parameters, besides the ids of indexes.
pub fn known(kind: BindingKind) -> Vec<&'static str> {
    let mut names = match kind {
        BindingKind::Convert => return CONVERSION.to_vec(),
        BindingKind::Startup | BindingKind::Activity | BindingKind::Login => vec!["activity", "settings"],
        BindingKind::Schedule => vec!["scheduled_at", "settings"],
        _ => OBJECT.to_vec(),
    };
    if names.len() == OBJECT.len() && !matches!(kind, BindingKind::Index | BindingKind::Map) {
        names.push("patch");
    }
    names.extend(["memo", "logger"]);
    names.extend(CALL);
    names.extend(match kind {
        BindingKind::Change => CHANGE.as_slice(),
        BindingKind::Event => &["event", "type"],
        BindingKind::Timer | BindingKind::Daemon => &["stopped"],
        BindingKind::Validate | BindingKind::Mutate => &ADMISSION,
        BindingKind::Reconcile => &RECONCILIATION,
        _ => &[],
    });
    names.push(EVERYTHING);
    names
}

/// Returns the names that an expression about a binding of this kind sees.
pub fn known_in_expression(kind: BindingKind, has_value: bool) -> Vec<&'static str> {
    let mut names = known(kind);
    names.retain(|name| !CALL.contains(name) && *name != EVERYTHING);
    names.extend(has_value.then_some(VALUE));
    names
}

/// Tells whether some kind of binding has an argument of this name, so that an index cannot have it.
pub fn is_argument(name: &str) -> bool {
    use BindingKind::{Activity, Change, Convert, Daemon, Event, Reconcile, Schedule, Validate};
    let kinds = [Activity, Change, Convert, Daemon, Event, Reconcile, Schedule, Validate];
    name == VALUE || kinds.into_iter().any(|kind| known(kind).contains(&name))
}

/// What one call can give.
pub struct Offer<'a> {
    /// What the cause gives.
    pub arguments: &'a Arguments,
    /// The changes, which the call adds to.
    pub patch: &'a Rc<RefCell<Patch>>,
    /// The memories of objects.
    pub memos: &'a Rc<Memos>,
    /// Whether the patch and the memory may be written to.
    pub is_writable: bool,
    /// What only functions see.
    pub attempt: Option<Attempt<'a>>,
    /// The value that an expression inside of a matcher is asked about.
    pub candidate: &'a Candidate,
}

/// What is known of one attempt of a handler.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// What is passed as is.
    pub param: &'a Value,
    /// The attempts made before.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
    /// The time.
    pub now: Timestamp,
}

impl Offer<'_> {
    /// Returns the value of an argument; what does not exist for this call is `()`.
    pub fn value(&self, name: &str, known: &[&str]) -> Dynamic {
        if name == EVERYTHING {
            let names = known.iter().filter(|name| **name != EVERYTHING);
            return names.map(|name| ((*name).into(), self.value(name, &[]))).collect::<Map>().into();
        }
        let body = &self.arguments.body;
        let stanza = |keys| View::stanza(&body.shared(), keys);
        match name {
            "body" => View::of(body.shared()),
            "spec" => stanza(&["spec"]),
            "meta" => stanza(&["metadata"]),
            "status" => stanza(&["status"]),
            "labels" => stanza(&["metadata", "labels"]),
            "annotations" => stanza(&["metadata", "annotations"]),
            "name" => body.name().into(),
            "namespace" => body.namespace().map_or(Dynamic::UNIT, Into::into),
            "uid" => body.uid().map_or(Dynamic::UNIT, Into::into),
            "resource" => resource(&self.arguments.resource),
            "patch" => Dynamic::from(PatchHandle::new(Rc::clone(self.patch), self.is_writable)),
            "memo" => Dynamic::from(Memo::new(Rc::clone(self.memos), Arc::clone(&self.arguments.memo), self.is_writable)),
            "logger" => Dynamic::from(Logger),
            "reason" => self.arguments.reason.map_or(Dynamic::UNIT, |reason| reason.as_str().into()),
            "old" => View::last_handled(&self.arguments.change),
            "new" => View::essence(&self.arguments.change),
            "diff" => diff(&self.arguments.change.diff),
            "type" => self.arguments.sighting.event_type().map_or(Dynamic::UNIT, Into::into),
            "event" => {
                [("type".into(), self.value("type", &[])), ("object".into(), self.value("body", &[]))].into_iter().collect::<Map>().into()
            }
            VALUE => self.candidate(),
            _ => self.attempt.map_or(Dynamic::UNIT, |attempt| attempt.value(name)),
        }
    }

    fn candidate(&self) -> Dynamic {
        match self.candidate {
            Candidate::Whole | Candidate::Absent => Dynamic::UNIT,
            Candidate::Value(value) => View::of(Arc::new(value.clone())),
        }
    }
}

impl Attempt<'_> {
    fn value(&self, name: &str) -> Dynamic {
        match name {
            "param" => convert::to_dynamic(self.param),
            "retry" => (self.retry as i64).into(),
            "started" => Dynamic::from(Time(self.started)),
            "runtime" => seconds_between(self.started, self.now).into(),
            _ => Dynamic::UNIT,
        }
    }
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
