//! The requests of scripts to the cluster, as they can be seen in the code: which function, which kinds, names and
//! namespaces.

use std::collections::BTreeSet;

use crate::kit::source::SourcePosition;

/// A function of `k8s::` that sends requests about objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// `k8s::get`.
    Get,
    /// `k8s::exists`.
    Exists,
    /// `k8s::list`.
    List,
    /// `k8s::create`.
    Create,
    /// `k8s::update`.
    Update,
    /// `k8s::apply`.
    Apply,
    /// `k8s::patch`.
    Patch,
    /// `k8s::patch_status`.
    PatchStatus,
    /// `k8s::scale`.
    Scale,
    /// `k8s::delete`.
    Delete,
    /// `k8s::wait`.
    Wait,
    /// `k8s::watch_until`.
    WatchUntil,
    /// `k8s::logs`.
    Logs,
    /// `k8s::exec`.
    Exec,
    /// `k8s::evict`.
    Evict,
    /// `k8s::token`.
    Token,
    /// `k8s::cluster`, which reads a Secret.
    Cluster,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 17] = [
        Self::Get,
        Self::Exists,
        Self::List,
        Self::Create,
        Self::Update,
        Self::Apply,
        Self::Patch,
        Self::PatchStatus,
        Self::Scale,
        Self::Delete,
        Self::Wait,
        Self::WatchUntil,
        Self::Logs,
        Self::Exec,
        Self::Evict,
        Self::Token,
        Self::Cluster,
    ];

    /// Returns the function of a name in the module.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Returns its name in the module.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Exists => "exists",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Apply => "apply",
            Self::Patch => "patch",
            Self::PatchStatus => "patch_status",
            Self::Scale => "scale",
            Self::Delete => "delete",
            Self::Wait => "wait",
            Self::WatchUntil => "watch_until",
            Self::Logs => "logs",
            Self::Exec => "exec",
            Self::Evict => "evict",
            Self::Token => "token",
            Self::Cluster => "cluster",
        }
    }

    /// Returns the verbs that the API server checks. A server-side apply is a patch, and also a creation if the object
    /// is new.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Get | Self::Exists | Self::Logs | Self::Cluster => &["get"],
            Self::List => &["list"],
            Self::Create | Self::Evict | Self::Token => &["create"],
            Self::Wait | Self::WatchUntil => &["list", "watch"],
            Self::Update => &["update"],
            Self::Apply => &["create", "patch"],
            // A WebSocket begins with a GET, for which servers check `get`, and since Kubernetes 1.35 `create`, too.
            Self::Exec => &["create", "get"],
            Self::Patch | Self::PatchStatus | Self::Scale => &["patch"],
            Self::Delete => &["delete"],
        }
    }

    /// Returns the kind of its objects, if that is not an argument.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Self::Logs | Self::Exec | Self::Evict => Some("v1/pods"),
            Self::Token => Some("v1/serviceaccounts"),
            Self::Cluster => Some("v1/secrets"),
            _ => None,
        }
    }

    /// Returns the subresource of its requests. A kind without the subresource `status` has its status in the object
    /// itself.
    pub fn subresource(self) -> Option<&'static str> {
        match self {
            Self::PatchStatus => Some("status"),
            Self::Scale => Some("scale"),
            Self::Logs => Some("log"),
            Self::Exec => Some("exec"),
            Self::Evict => Some("eviction"),
            Self::Token => Some("token"),
            _ => None,
        }
    }
}

/// One call, with one kind and one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The position of the call.
    pub place: SourcePosition,
    /// The number of characters of its name.
    pub length: usize,
    /// The function.
    pub function: Function,
    /// The kind of its object.
    pub kind: Kind,
    /// The names of its objects; `None` if they are computed.
    pub names: Option<BTreeSet<String>>,
    /// The namespaces of its objects.
    pub namespace: Namespace,
}

/// The kind of an object, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The kind of a selector, such as `apps/v1/StatefulSet`.
    Text(String),
    /// The kind of the handled object of this binding.
    Handled(usize),
    /// It is computed.
    Unknown,
}

/// The namespace of an object, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    /// That of the handled object.
    Own,
    /// A literal one.
    Named(String),
    /// All namespaces at once: lists.
    All,
    /// It is computed.
    Computed,
}

/// The requests and other effects of an operator's code that the check can find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// The requests.
    pub accesses: Vec<Access>,
    /// Whether Events are posted.
    pub posts_events: bool,
    /// Whether the settings of Events are changed.
    pub sets_posting: bool,
    /// The bindings whose handled objects become owners.
    pub owning: BTreeSet<usize>,
    /// The bindings that change their handled object by `patch`, or by a result.
    pub patching: BTreeSet<usize>,
}
