//! The declarations of an operator for the script host: its code, its purposes, and its permissions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::kit::source::SourcePosition;
use crate::script::limits::Limits;
use serde_json::Value;

use super::rights::AllowedRule;
use crate::script::outside::clusters::AllowedClusters;
use crate::script::outside::files::FilePattern;
use crate::script::outside::programs::AllowedProgram;
use crate::script::outside::sql::Database;

/// All the code of one operator.
#[derive(Debug, Clone, Default)]
pub struct Declaration {
    /// The root of scripts, imports, and templates.
    pub root: PathBuf,
    /// The code of handlers and other bindings; the number of a binding is its index.
    pub bindings: Vec<Binding>,
    /// The expressions of filters; the number of a predicate is its index.
    pub expressions: Vec<Expression>,
    /// The allowed access beyond the cluster.
    pub allow: Allow,
    /// The operator's name, which is its field manager.
    pub operator: String,
    /// The ids of all indexes, which are arguments of all functions.
    pub indexes: Vec<String>,
}

/// One binding: code and its purpose.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The id, for messages.
    pub id: String,
    /// The code.
    pub code: Code,
    /// The kind, which decides its arguments.
    pub kind: BindingKind,
    /// The budgets of one call.
    pub limits: Limits,
    /// Its position in the manifest, for messages.
    pub place: SourcePosition,
    /// The value of its argument `param`.
    pub param: Value,
}

/// The source of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A public function of a file, relative to the root.
    Function {
        /// The file.
        file: PathBuf,
        /// The function.
        name: String,
    },
    /// The body of a function, written in the manifest.
    Inline {
        /// The text.
        text: String,
        /// The position of the text.
        place: SourcePosition,
        /// The file whose functions, constants and imports it can use.
        file: Option<PathBuf>,
    },
}

/// The kinds of bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// Changes: create, update, delete, resume, field.
    Change,
    /// Raw events.
    Event,
    /// Timers.
    Timer,
    /// Daemons.
    Daemon,
    /// Indexes.
    Index,
    /// Validating webhooks.
    Validate,
    /// Mutating webhooks.
    Mutate,
    /// Conversion webhooks.
    Convert,
    /// The startup activity, which may change the settings.
    Startup,
    /// The cleanup and probe activities.
    Activity,
    /// The login activity, which has no cluster connection yet.
    Login,
    /// Operator-level schedules.
    Schedule,
    /// HTTP requests from outside.
    Hook,
    /// The function of a level-triggered reconciliation.
    Reconcile,
    /// The function that maps a related object to the objects it concerns.
    Map,
}

impl BindingKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Change,
        Self::Event,
        Self::Timer,
        Self::Daemon,
        Self::Index,
        Self::Validate,
        Self::Mutate,
        Self::Convert,
        Self::Startup,
        Self::Activity,
        Self::Login,
        Self::Schedule,
        Self::Hook,
        Self::Reconcile,
        Self::Map,
    ];
}

/// One expression of a filter.
#[derive(Debug, Clone)]
pub struct Expression {
    /// The text.
    pub text: String,
    /// The position of the text.
    pub place: SourcePosition,
    /// The kind of the filtered binding.
    pub kind: BindingKind,
    /// Whether it is inside of a matcher, so that it sees the `value`.
    pub has_value: bool,
    /// The file whose functions it may call.
    pub file: Option<PathBuf>,
    /// Whether it returns a delay (seconds or a duration), and not a boolean.
    pub is_delay: bool,
}

/// The allowed access of scripts beyond what can be seen in their code; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Hosts, as `host`, `*.suffix`, with or without `:port`.
    pub http: Vec<String>,
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Requests to the cluster that cannot be seen in the code.
    pub k8s: Vec<AllowedRule>,
    /// Programs, by the name that scripts call them.
    pub exec: BTreeMap<String, AllowedProgram>,
    /// Files, which are only read.
    pub files: Vec<FilePattern>,
    /// Servers of databases that connections are made to at run time, as `http`.
    pub sql: Vec<String>,
    /// The databases that the manifest declares, by name.
    pub connections: BTreeMap<String, Arc<Database>>,
    /// Other clusters, by kubeconfigs in Secrets.
    pub clusters: AllowedClusters,
}
