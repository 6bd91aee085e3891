//! The subject of a call: each kind of call carries exactly the data of its arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::declaration::BindingKind;
use crate::handling::{Change, Reason};
use crate::object::{Body, EventKind, FieldPath, LateBody, ObjectKey, Resource};
use crate::script::values::live_body::LiveBody;
use crate::script::values::memo::{MemoOwner, ObjectMemo};
use crate::script::values::stopped::Stopped;

/// The operation of an admission request whose object does not exist yet.
const CREATE: &str = "CREATE";

/// The key of the turns of the operator's calls. Keys of objects are not empty.
const OPERATOR_TURN: &str = "";

/// The subject of a call. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A change of an object: create, update, delete, resume, field, and their sub-handlers.
    Change {
        /// The object.
        object: Object,
        /// The reason why it is handled.
        reason: Reason,
        /// The change, reduced to the handler's field.
        change: Arc<Change>,
    },
    /// A raw watch event.
    Event {
        /// The object.
        object: Object,
        /// The type of the event.
        event_kind: EventKind,
    },
    /// An object to be indexed.
    Index {
        /// The object.
        object: Object,
    },
    /// A related object, to be mapped to the objects of a reconciliation.
    Related {
        /// The object.
        object: Object,
    },
    /// A timer or a daemon. It holds no state of the object but the newest one: thousands of daemons wait for days.
    Background {
        /// The kind.
        resource: Arc<Resource>,
        /// The newest state of the object.
        live: Arc<LiveBody>,
        /// The object's memo, which all calls of the object share.
        memo: ObjectMemo,
        /// Asks the function to stop.
        stopped: Stopped,
    },
    /// An admission request: validate, mutate.
    Review {
        /// The object of the request; on deletions, the deleted one.
        object: Object,
        /// The whole object before the request; creations have none.
        old: Option<LateBody>,
        /// The whole object after the request; deletions have none.
        new: Option<Body>,
        /// The request.
        request: Arc<ReviewRequest>,
    },
    /// One object to be converted to another version.
    Conversion {
        /// The kind.
        resource: Arc<Resource>,
        /// The object in its original version.
        body: Body,
        /// The requested `apiVersion`.
        version: Arc<str>,
    },
    /// An activity of the operator.
    Activity {
        /// The activity.
        activity: Activity,
        /// The operator's settings.
        settings: Arc<Value>,
    },
    /// A tick of an operator-level schedule.
    Schedule {
        /// The tick.
        scheduled_at: Timestamp,
        /// The operator's settings.
        settings: Arc<Value>,
    },
    /// An HTTP request from outside.
    Hook {
        /// The request.
        request: Arc<HookRequest>,
    },
    /// A level-triggered reconciliation of an object.
    Reconcile {
        /// The object at the start of the call.
        object: Object,
        /// The newest state of the object.
        live: Arc<LiveBody>,
        /// Asks the function to stop.
        stopped: Stopped,
        /// The existing owned objects.
        children: Arc<[Body]>,
        /// The existing related objects.
        related: Arc<[Body]>,
    },
}

/// The object of a call.
#[derive(Debug, Clone)]
pub struct Object {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The object.
    pub body: Body,
    /// The object's memo, which all calls of the object share. An object that is being created has no identity yet: the
    /// key is that of the admission request, and the memo ends with the call.
    pub memo: ObjectMemo,
}

/// The data of an admission request besides its object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReviewRequest {
    /// Whether it is a dry run.
    pub dryrun: bool,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The subresource; `None` for the object itself.
    pub subresource: Option<String>,
    /// The user who sent the request to the API server.
    pub userinfo: Value,
    /// The client certificate of the API server, if it has one.
    pub sslpeer: Value,
    /// The headers of the HTTP request, by lower-case names.
    pub headers: Value,
}

/// An HTTP request to a hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookRequest {
    /// The method in capitals.
    pub method: String,
    /// The path, as it was sent.
    pub path: String,
    /// The parameters of the query, decoded. Of repeated ones the last one counts.
    pub query: BTreeMap<String, String>,
    /// The headers, by lower-case names. Of repeated ones the last one counts.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Bytes,
    /// The body, if the request says that it is JSON.
    pub json: Option<Value>,
    /// The names in the client's certificate; `None` without one.
    pub certificate: Option<Vec<String>>,
}

/// An activity of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Before anything else; it may change the settings.
    Startup,
    /// After everything else.
    Cleanup,
    /// When credentials are needed.
    Login,
    /// When the liveness is probed.
    Probe,
}

impl Activity {
    /// Returns the name in scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
            Self::Login => "login",
            Self::Probe => "probe",
        }
    }
}

impl Subject {
    /// Tells whether only the leader of several replicas makes the call. Every replica runs its own activities and
    /// answers reviews, and fills its own indexes.
    pub fn is_of_leader(&self) -> bool {
        !matches!(self, Self::Activity { .. } | Self::Review { .. } | Self::Conversion { .. })
    }

    /// Returns the object at the start of the call. Activities, schedules and hooks concern the operator, conversions
    /// have no object with a memo, and timers and daemons follow their object.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Change { object, .. }
            | Self::Event { object, .. }
            | Self::Index { object }
            | Self::Related { object }
            | Self::Review { object, .. }
            | Self::Reconcile { object, .. } => Some(object),
            Self::Background { .. }
            | Self::Conversion { .. }
            | Self::Activity { .. }
            | Self::Schedule { .. }
            | Self::Hook { .. } => None,
        }
    }

    /// Returns the body of the object at the start of the call; for timers and daemons, the newest one.
    pub fn body(&self) -> Option<Body> {
        match self {
            Self::Conversion { body, .. } => Some(body.clone()),
            Self::Background { live, .. } => Some(live.get()),
            other => other.object().map(|object| object.body.clone()),
        }
    }

    /// Returns the kind of the object.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Conversion { resource, .. } | Self::Background { resource, .. } => Some(resource),
            other => other.object().map(|object| &object.resource),
        }
    }

    /// Returns the newest state of the object, for calls that outlive the event they began with.
    pub fn live(&self) -> Option<&Arc<LiveBody>> {
        match self {
            Self::Background { live, .. } | Self::Reconcile { live, .. } => Some(live),
            _ => None,
        }
    }

    /// Returns the change since the last handled state.
    pub fn change(&self) -> Option<&Arc<Change>> {
        if let Self::Change { change, .. } = self { Some(change) } else { None }
    }

    /// Tells whether log messages about the object may be posted as Events: not those of raw events, indexes, and
    /// admission requests.
    pub fn posts_logs(&self) -> bool {
        matches!(self, Self::Change { .. } | Self::Background { .. } | Self::Reconcile { .. })
    }

    /// Returns the reason of a change.
    pub fn reason(&self) -> Option<Reason> {
        if let Self::Change { reason, .. } = self { Some(*reason) } else { None }
    }

    /// Returns the operator's settings.
    pub fn settings(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Activity { settings, .. } | Self::Schedule { settings, .. } => Some(settings),
            _ => None,
        }
    }

    /// Returns the subject with its change reduced to a field. Bodies of admission requests are never reduced.
    #[must_use]
    pub fn reduced_to(&self, field: &FieldPath) -> Self {
        match self {
            Self::Change { object, reason, change } => {
                Self::Change { object: object.clone(), reason: *reason, change: Arc::new(change.reduced_to(field)) }
            }
            other => other.clone(),
        }
    }

    /// Returns whose memo the call has; conversions have none.
    pub(crate) fn memo(&self) -> Option<MemoOwner> {
        match self {
            Self::Conversion { .. } => None,
            Self::Activity { .. } | Self::Schedule { .. } | Self::Hook { .. } => Some(MemoOwner::Operator),
            Self::Background { memo, .. } => Some(MemoOwner::Object(memo.clone())),
            other => other.object().map(|object| MemoOwner::Object(object.memo.clone())),
        }
    }

    /// Returns the key of a memo that ends with the call: for an object that is being created.
    pub fn temporary_memo(&self) -> Option<&str> {
        match self {
            Self::Review { object, request, .. } if request.operation == CREATE => Some(&object.memo.key),
            _ => None,
        }
    }

    /// Returns the key of the calls that run in turns with this one. It also decides the script thread.
    ///
    /// For calls of an object it is the key of the object's memo, for calls of the operator that of the operator's
    /// memo. A conversion has no memo and depends only on its object, so conversions of one object share a thread, and
    /// never wait for the object's handlers.
    pub fn turn(&self) -> Arc<str> {
        match self {
            Self::Conversion { body, .. } => Arc::from(format!("conversion/{}", ObjectKey::of(body).uid)),
            other => match other.memo() {
                Some(MemoOwner::Object(memo)) => memo.key,
                Some(MemoOwner::Operator) | None => OPERATOR_TURN.into(),
            },
        }
    }

    /// Tells whether bindings of a kind are called for such a subject.
    pub fn fits(&self, kind: BindingKind) -> bool {
        match self {
            Self::Change { .. } => kind == BindingKind::Change,
            Self::Event { .. } => kind == BindingKind::Event,
            Self::Index { .. } => kind == BindingKind::Index,
            Self::Related { .. } => kind == BindingKind::Map,
            Self::Background { .. } => matches!(kind, BindingKind::Timer | BindingKind::Daemon),
            Self::Review { .. } => matches!(kind, BindingKind::Validate | BindingKind::Mutate),
            Self::Conversion { .. } => kind == BindingKind::Convert,
            Self::Activity { activity: Activity::Startup, .. } => kind == BindingKind::Startup,
            Self::Activity { activity: Activity::Login, .. } => kind == BindingKind::Login,
            Self::Activity { activity: Activity::Cleanup | Activity::Probe, .. } => kind == BindingKind::Activity,
            Self::Schedule { .. } => kind == BindingKind::Schedule,
            Self::Hook { .. } => kind == BindingKind::Hook,
            Self::Reconcile { .. } => kind == BindingKind::Reconcile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(uid: &str) -> Object {
        let body = Body::from(json!({"metadata": {"name": "a", "uid": uid}, "spec": {"x": 1}}));
        Object { resource: Arc::default(), body, memo: ObjectMemo::empty(format!("op/{uid}")) }
    }

    #[test]
    fn calls_of_one_object_take_turns_whatever_they_are_for() {
        let change = Subject::Change { object: object("1"), reason: Reason::Create, change: Arc::default() };
        let Object { resource, body, memo } = object("1");
        let background = Subject::Background { resource, live: LiveBody::new(body), memo, stopped: Stopped::default() };
        assert_eq!(change.turn(), background.turn());
        assert_ne!(change.turn(), Subject::Index { object: object("2") }.turn());
    }

    #[test]
    fn calls_of_the_operator_share_its_memo_and_conversions_have_none() {
        let startup = Subject::Activity { activity: Activity::Startup, settings: Arc::default() };
        let schedule = Subject::Schedule { scheduled_at: Timestamp::UNIX_EPOCH, settings: Arc::default() };
        assert_eq!(startup.turn(), schedule.turn());
        let conversion = Subject::Conversion { resource: Arc::default(), body: object("1").body, version: "v2".into() };
        assert!(conversion.memo().is_none());
        assert_eq!(&*conversion.turn(), "conversion/1");
    }

    #[test]
    fn only_a_creation_under_review_has_a_temporary_memo() {
        let review = |operation: &str| {
            let request = Arc::new(ReviewRequest { operation: operation.to_owned(), ..ReviewRequest::default() });
            Subject::Review { object: object("1"), old: None, new: None, request }
        };
        assert_eq!(review("CREATE").temporary_memo(), Some("op/1"));
        assert_eq!(review("UPDATE").temporary_memo(), None);
        assert_eq!(Subject::Index { object: object("1") }.temporary_memo(), None);
    }
}
