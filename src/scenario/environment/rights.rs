//! The rights of operators that have exactly those that are derived from their manifests and scripts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::apiserver::{ApiServer, bootstrap};
use crate::handling::rights::{Layout, Need, rights};
use crate::manifest::rights::roles::{self, Account};
use crate::manifest::rights::{self, Circumstances};
use crate::manifest::{Operator, known_kinds};
use crate::scenario::model::{OPERATOR_USER, Scenario};

/// The namespace of the credentials.
const HOME: &str = "default";

/// Stores the roles of the operators, and binds them to their user.
///
/// # Errors
/// If the rights cannot be derived.
pub(super) async fn grant(api: &ApiServer, operators: &[Operator], scenario: &Scenario) -> Result<(), String> {
    let known = known_kinds::of(operators);
    let is_namespaced = !scenario.namespaces.is_empty();
    let mut needs: Vec<Need> = Vec::new();
    for operator in operators {
        let found = rights::needs(operator, &known, &Circumstances { is_namespaced, ..Circumstances::default() });
        if let Some(unresolved) = found.unresolved.first() {
            return Err(format!("the rights of operator {} cannot be derived: {}", operator.name, unresolved.message));
        }
        needs.extend(found.needs);
    }
    let exact: Option<BTreeSet<String>> =
        scenario.namespaces.iter().map(|pattern| pattern.exact().map(str::to_owned)).collect();
    let layout = Layout { served: exact.filter(|_| is_namespaced), home: HOME.to_owned() };
    let account = Account { name: OPERATOR_USER.to_owned(), namespace: HOME.to_owned() };
    let mut objects = roles::objects(&account, &rights(&needs, &layout));
    for binding in objects.iter_mut().filter(|object| object["subjects"].is_array()) {
        binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR_USER}]);
    }
    let named: BTreeSet<String> =
        objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str().map(str::to_owned)).collect();
    let namespace =
        |name: String| -> Value { json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}) };
    objects.extend(named.into_iter().map(namespace));
    bootstrap::apply(api, objects).await.map(drop).map_err(|refused| refused.to_string())
}
