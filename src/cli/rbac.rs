//! `kopfd rbac`: prints the service account, the roles and the bindings that operators need.

use std::collections::BTreeSet;
use std::io::Write as _;

use clap::{ArgAction, Args, ValueEnum};
use serde_json::json;

use crate::handling::rights::{Layout, Need, rights};
use crate::manifest::rights::roles::{self, Account};
use crate::manifest::rights::{self, Circumstances, PeeringUse};
use crate::manifest::{Operator, known_kinds};
use crate::object::namespace;
use crate::reactor::Scope;

use super::exit_code::{FAILURE, SUCCESS, USAGE_ERROR};
use super::manifests::Manifests;
use super::output::print_error;
use super::{diagnostics, run};

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// The operators serve all namespaces: the rights are in a ClusterRole. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// The operators serve this namespace: the rights are in a Role of it. May be repeated. The rights for a pattern,
    /// such as `prod-*`, are in a ClusterRole. [env: KOPFD_NAMESPACES, separated by spaces]
    #[arg(long = "namespace", short = 'n', value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// The namespace in which the operators run, which has the service account.
    #[arg(long, alias = "namespace-of-operator", value_name = "NAMESPACE", default_value = "default")]
    operator_namespace: String,
    /// The name of the service account, of the roles and of the bindings. Defaults to the name of the operator.
    #[arg(long, alias = "serviceaccount", value_name = "NAME")]
    service_account: Option<String>,
    /// The name of the peering objects, if it is not that of the settings.
    #[arg(long, short = 'P', value_name = "NAME")]
    peering: Option<String>,
    /// The operators ignore their peers: no rights for peering objects.
    #[arg(long, conflicts_with = "peering")]
    standalone: bool,
    /// Also the rights for the Lease by which one of several replicas is chosen.
    #[arg(long, action = ArgAction::SetTrue)]
    leader_elect: bool,
    /// The name of that Lease. Defaults to the name of the operator.
    #[arg(long, value_name = "NAME", requires = "leader_elect")]
    lease: Option<String>,
    /// Also the rights for `run --apply-crds`.
    #[arg(long, action = ArgAction::SetTrue)]
    apply_crds: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// Documents with remarks, for `kubectl apply -f -`.
    Yaml,
    /// One list.
    Json,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let Some(paths) = options.manifests.required("rbac") else { return USAGE_ERROR };
    let scope = match run::scope_of(options.all_namespaces, &options.namespaces) {
        Ok(scope) => scope,
        Err(problem) => {
            print_error(&problem);
            return USAGE_ERROR;
        }
    };
    let loaded = crate::manifest::load(&paths);
    if loaded.has_errors() {
        diagnostics::print(&loaded.diagnostics);
        return FAILURE;
    }
    let Some(account) = account(options, &loaded.operators) else { return USAGE_ERROR };
    let Options { peering, standalone, leader_elect, lease, apply_crds, .. } = options;
    let peering = match peering {
        Some(name) => PeeringUse::Named(name.clone()),
        None if *standalone => PeeringUse::Never,
        None => PeeringUse::IfThere,
    };
    let asked = Asked { peering, leader_elect: *leader_elect, lease: lease.clone(), apply_crds: *apply_crds };
    let Some(needs) = needs(&asked, &loaded.operators, &scope) else { return FAILURE };
    let rights = rights(&needs, &layout(&scope, &options.operator_namespace));
    let text = match options.output {
        Output::Yaml => roles::yaml(&account, &rights),
        Output::Json => {
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": roles::objects(&account, &rights)}))
        }
    };
    let mut stdout = anstream::stdout().lock();
    // A closed standard output, as with `head`, is not an error.
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    SUCCESS
}

/// Returns the account. Several operators of one process share one, which needs a name.
fn account(options: &Options, operators: &[Operator]) -> Option<Account> {
    let name = match (&options.service_account, operators) {
        (Some(name), _) => name.clone(),
        (None, [operator]) => operator.name.clone(),
        (None, _) => {
            print_error("several operators share one service account: name it by `--service-account NAME`");
            return None;
        }
    };
    Some(Account { name, namespace: options.operator_namespace.clone() })
}

/// The options at an operator's start that its rights depend on.
pub(super) struct Asked {
    /// The peering objects.
    pub peering: PeeringUse,
    /// Whether replicas elect one of them.
    pub leader_elect: bool,
    /// The name of their Lease, if it is not that of the operator.
    pub lease: Option<String>,
    /// Whether the definitions of the manifests are applied.
    pub apply_crds: bool,
}

/// Returns the needs of all operators, or reports what cannot be known.
pub(super) fn needs(asked: &Asked, operators: &[Operator], scope: &Scope) -> Option<Vec<Need>> {
    let known = known_kinds::of(operators);
    let (mut needs, mut unresolved) = (Vec::new(), Vec::new());
    for operator in operators {
        let lease = asked.leader_elect.then(|| asked.lease.clone().unwrap_or_else(|| operator.name.clone()));
        let is_namespaced = matches!(scope, Scope::Namespaces(_));
        let circumstances = Circumstances {
            is_namespaced,
            peering: asked.peering.clone(),
            lease,
            applies_definitions: asked.apply_crds,
        };
        let found = rights::needs(operator, &known, &circumstances);
        needs.extend(found.needs);
        unresolved.extend(found.unresolved);
    }
    if unresolved.is_empty() {
        return Some(needs);
    }
    diagnostics::print(&unresolved);
    None
}

/// Returns where rights are needed. Namespaces of patterns are unknown.
pub(super) fn layout(scope: &Scope, home: &str) -> Layout {
    let served = match scope {
        Scope::Namespaces(patterns) if patterns.iter().all(|pattern| pattern.exact().is_some()) => {
            Some(namespace::exact(patterns))
        }
        Scope::Namespaces(_) | Scope::Cluster => None::<BTreeSet<String>>,
    };
    Layout { served, home: home.to_owned() }
}
