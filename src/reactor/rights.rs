//! The check of an operator's rights at its start: missing rights are logged in one list, with the rules to add.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use tracing::{debug, warn};

use crate::cluster::discovery;
use crate::cluster::object_client::ObjectClient;
use crate::cluster::selection::Selection;
use crate::cluster::{self, Client};
use crate::engines::rights::{Comparison, compare};
use crate::handling::rights::{GrantScope, Layout, Need, Purpose, Rights, rights, rules};
use crate::manifest::rights::roles::rules_text;
use crate::manifest::rights::{self as needed, Circumstances, Needs};
use crate::manifest::{Operator, known_kinds};
use crate::object::namespace;

use super::observed::backbone;
use super::observer::Scope;

/// Time limit of the check: nothing depends on it.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Limit of served namespaces that are checked.
const MAX_NAMESPACES: usize = 20;

/// Checks the rights of an operator, and logs the missing ones. If that cannot be known, that is logged. `lease` is the
/// name of the Lease in the namespace of the credentials by which the replicas elect their leader.
pub(super) async fn check(operator: Operator, client: Client, scope: Scope, lease: Option<String>) {
    let name = operator.name.clone();
    match tokio::time::timeout(TIMEOUT, missing(&operator, &client, &scope, lease)).await {
        Ok(Ok(Comparison { missing, unchecked })) if missing.is_empty() => {
            debug!(target: "kopfd::rights", unchecked, "Operator '{name}' has the rights that it needs.");
        }
        Ok(Ok(Comparison { missing, .. })) => warn!(target: "kopfd::rights", "{}", report(&name, &missing)),
        Ok(Err(error)) => {
            warn!(target: "kopfd::rights", error = error.chain(), "The rights of operator '{name}' cannot be checked. It goes on.");
        }
        Err(_) => {
            warn!(target: "kopfd::rights", "The rights of operator '{name}' could not be checked in time. It goes on.");
        }
    }
}

/// Returns the rights that an operator lacks.
///
/// # Errors
/// If a request fails.
pub async fn missing(
    operator: &Operator,
    client: &Client,
    scope: &Scope,
    lease: Option<String>,
) -> Result<Comparison, cluster::Error> {
    let circumstances =
        Circumstances { is_namespaced: matches!(scope, Scope::Namespaces(_)), lease, ..Circumstances::default() };
    let mut known = known_kinds::of(std::slice::from_ref(operator));
    let mut needs = needed::needs(operator, &known, &circumstances);
    if !needs.unresolved.is_empty() {
        // The cluster may have kinds without definitions among the files.
        known.extend(discovery::scan(client, None).await?.resources);
        needs = needed::needs(operator, &known, &circumstances);
    }
    let Needs { needs, .. } = needs;
    let served = match scope {
        Scope::Cluster => None,
        Scope::Namespaces(_) => Some(served(client, scope).await),
    };
    let layout = Layout { served, home: client.default_namespace() };
    let mut found = compare(client, &rights(&needs, &layout)).await?;
    if !operator.settings.peering.mandatory {
        leave_out_absent_peerings(client, &mut found.missing).await;
    }
    Ok(found)
}

/// Returns which rights to apply their definitions operators lack.
///
/// # Errors
/// If a request fails.
pub async fn missing_for_definitions(operators: &[Operator], client: &Client) -> Result<Rights, cluster::Error> {
    let circumstances = Circumstances { applies_definitions: true, ..Circumstances::default() };
    let known = known_kinds::of(operators);
    let all = operators.iter().flat_map(|operator| needed::needs(operator, &known, &circumstances).needs);
    let needs: Vec<Need> = all.filter(|need| need.purpose == Purpose::Definitions).collect();
    let layout = Layout { served: None, home: client.default_namespace() };
    Ok(compare(client, &rights(&needs, &layout)).await?.missing)
}

/// Removes the rights for peerings whose kinds the cluster does not have: without them the operator works alone.
async fn leave_out_absent_peerings(client: &Client, missing: &mut Rights) {
    let is_peering = |purpose: &Purpose| *purpose == Purpose::Peering;
    let groups: BTreeSet<String> =
        missing.iter().filter(|(_, purpose)| is_peering(purpose)).map(|(right, _)| right.group.clone()).collect();
    for group in groups {
        if discovery::rescan(client, &group).await.is_ok_and(|scan| scan.resources.is_empty()) {
            missing.retain(|right, purpose| !is_peering(purpose) || right.group != group);
        }
    }
}

/// Returns the served namespaces; if they cannot be listed, those that are named exactly.
async fn served(client: &Client, scope: &Scope) -> BTreeSet<String> {
    let Scope::Namespaces(patterns) = scope else { return BTreeSet::new() };
    let mut served = namespace::exact(patterns);
    if served.len() < patterns.len() {
        let objects = ObjectClient::new(client.clone(), "");
        let listed = objects
            .list(&backbone("", "namespaces", "Namespace"), None, &Selection::default())
            .await
            .unwrap_or_default();
        let names = listed.iter().filter_map(|object| object.pointer("/metadata/name")?.as_str().map(str::to_owned));
        served.extend(names.filter(|name| namespace::any_matches(patterns, name)));
    }
    served.into_iter().take(MAX_NAMESPACES).collect()
}

/// Returns the missing rights as rules of roles.
pub fn report(operator: &str, missing: &Rights) -> String {
    let roles = roles(missing);
    format!(
        "Operator '{operator}' lacks rights. It goes on with what it may do. Add these rules, or apply what `kopfd rbac` prints:{roles}"
    )
}

/// Returns rights as rules, under the roles to which they belong. Each role begins with a new line.
pub fn roles(rights: &Rights) -> String {
    let mut text = String::new();
    for (scope, rules) in rules(rights) {
        let _ = match scope {
            GrantScope::Cluster => write!(text, "\nin a ClusterRole:\n"),
            GrantScope::Namespace(namespace) => write!(text, "\nin a Role of the namespace {namespace}:\n"),
        };
        text.push_str(rules_text(&rules).trim_end());
    }
    text
}
