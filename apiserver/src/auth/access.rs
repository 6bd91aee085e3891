//! Authentication and authorization.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, header};
use serde_json::{Value, json};

use crate::http::api_error::ApiError;
use crate::http::request::{ParsedRequest, Path, Query, verb};
use crate::kinds::selector::selected_name;
use crate::storage::resource::Resource;
use crate::storage::store::Store;

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The authentication of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Not at all: every request has the rights of the administrator.
    Disabled,
    /// By bearer tokens.
    Tokens(BTreeMap<String, User>),
}

/// The attributes of a request for authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb, such as `get`.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource, with the subresource.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The path of a non-resource request.
    pub path: Option<String>,
}

impl Attributes {
    /// Returns the attributes of a request.
    pub fn of_request(request: &ParsedRequest) -> Self {
        Self::of(&request.method, &request.path, &request.text, &request.query)
    }

    /// Returns the attributes of a method and a path.
    fn of(method: &Method, path: &Path, text: &str, query: &Query) -> Self {
        let Path::Objects(resource_path) = path else {
            return Self { verb: method.as_str().to_lowercase(), path: Some(text.to_owned()), ..Self::default() };
        };
        let resource = resource_path
            .subresource
            .as_ref()
            .map_or_else(|| resource_path.plural.clone(), |sub| format!("{}/{sub}", resource_path.plural));
        let is_namespace = resource_path.group.is_empty() && resource_path.plural == "namespaces";
        let namespace = if is_namespace { resource_path.name.clone() } else { resource_path.namespace.clone() };
        let verb = verb(method, resource_path, query);
        // A user who may read one object may list and watch it by its name.
        let selects = matches!(verb, "list" | "watch") && !resource_path.is_watch;
        let selected = || query.text("fieldSelector").filter(|_| selects).and_then(selected_name);
        Self {
            verb: verb.to_owned(),
            group: resource_path.group.clone(),
            resource,
            namespace: namespace.unwrap_or_default(),
            name: resource_path.name.clone().or_else(selected).unwrap_or_default(),
            path: None,
        }
    }
}

/// The token is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

impl User {
    /// Returns the user of all requests to a server without authentication.
    pub fn administrator() -> Self {
        Self::new("dev-admin", &[MASTERS, "system:authenticated"])
    }

    /// Returns a user.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Returns the user of a service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let all = format!("system:serviceaccounts:{namespace}");
        Self::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &all, "system:authenticated"],
        )
    }

    /// Returns the user in the form of reviews.
    pub fn to_json(&self) -> Value {
        let mut user = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

impl Authentication {
    /// Returns the user of a request.
    ///
    /// # Errors
    /// If the token is unknown.
    pub fn user(&self, headers: &HeaderMap, issued: &BTreeMap<String, User>) -> Result<User, Unknown> {
        let Self::Tokens(tokens) = self else { return Ok(User::administrator()) };
        let Some(token) = bearer(headers) else {
            return Ok(User::new("system:anonymous", &["system:unauthenticated"]));
        };
        let known = tokens.get(token).or_else(|| issued.get(token));
        let mut user = known.cloned().ok_or(Unknown)?;
        if !user.groups.iter().any(|group| group == "system:authenticated") {
            user.groups.push("system:authenticated".to_owned());
        }
        Ok(user)
    }
}

/// Returns the bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (_, token) = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim())
}

/// Decides whether a request is allowed, by the stored roles and bindings.
pub fn is_allowed(store: &Store, user: &User, wanted: &Attributes) -> bool {
    if user.groups.iter().any(|group| group == MASTERS) {
        return true;
    }
    if let Some(path) = &wanted.path {
        const OPEN: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];
        const KNOWN: &[&str] = &["/api", "/apis", "/openapi"];
        let is_below = |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        if OPEN.iter().any(|root| is_below(root)) {
            return true;
        }
        if user.groups.iter().any(|group| group == "system:authenticated") && KNOWN.iter().any(|root| is_below(root)) {
            return true;
        }
    }
    let is_about_oneself = matches!(
        wanted.resource.as_str(),
        "selfsubjectaccessreviews" | "selfsubjectrulesreviews" | "selfsubjectreviews"
    );
    if is_about_oneself && wanted.verb == "create" && user.groups.iter().any(|group| group == "system:authenticated") {
        return true;
    }
    bound_rules(store, user, &wanted.namespace).iter().any(|rule| permits(rule, wanted))
}

/// Returns the rules of the roles that are bound to a user in the cluster and in a namespace.
fn bound_rules(store: &Store, user: &User, namespace: &str) -> Vec<Value> {
    let of_namespace = (!namespace.is_empty()).then(|| bindings(store, "rolebindings", Some(namespace)));
    let all = bindings(store, "clusterrolebindings", None).chain(of_namespace.into_iter().flatten());
    all.filter(|binding| binds(binding, user)).flat_map(|binding| rules(store, &binding)).collect()
}

/// Returns what a user may do in a namespace, in the form of the status of a review: the rules about resources, and
/// those about paths.
pub fn rules_of(store: &Store, user: &User, namespace: &str) -> Value {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    if user.groups.iter().any(|group| group == MASTERS) {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    if user.groups.iter().any(|group| group == "system:authenticated") {
        let reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
        resources.push(json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews}));
        resources.push(
            json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}),
        );
        // As by the role `system:discovery`.
        let discovery = [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ];
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": discovery}));
    }
    // As by the role `system:public-info-viewer`.
    paths
        .push(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}));
    for rule in bound_rules(store, user, namespace) {
        // A rule is about resources or about paths.
        if rule["nonResourceURLs"].as_array().is_some_and(|all| !all.is_empty()) {
            paths.push(rule);
        } else {
            resources.push(rule);
        }
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// Returns the failure of a forbidden request.
pub fn refusal(user: &User, wanted: &Attributes) -> ApiError {
    let Attributes { verb, group, resource, namespace, name, path } = wanted;
    if let Some(path) = path {
        return ApiError::plain(
            403,
            "Forbidden",
            format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name),
        );
    }
    let plural = resource.split('/').next().unwrap_or_default();
    let full = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    let text = format!(
        "{full}{named} is forbidden: User {:?} cannot {verb} resource {resource:?} in API group {group:?} {place}",
        user.name
    );
    let mut failure = ApiError::new(403, "Forbidden", text);
    failure.details.name.clone_from(name);
    failure.details.group.clone_from(group);
    plural.clone_into(&mut failure.details.kind);
    failure
}

fn rbac(plural: &str) -> Resource {
    Resource { group: "rbac.authorization.k8s.io".to_owned(), plural: plural.to_owned() }
}

fn bindings(store: &Store, plural: &str, namespace: Option<&str>) -> impl Iterator<Item = std::sync::Arc<Value>> {
    store.list(&rbac(plural), namespace).into_iter().map(|(_, stored)| std::sync::Arc::clone(&stored.value))
}

fn binds(binding: &Value, user: &User) -> bool {
    binding["subjects"].as_array().into_iter().flatten().any(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str().unwrap_or_default() {
            "User" => name == user.name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let own = binding["metadata"]["namespace"].as_str().unwrap_or_default();
                let namespace = subject["namespace"].as_str().unwrap_or(own);
                user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn rules(store: &Store, binding: &Value) -> Vec<Value> {
    let name = binding["roleRef"]["name"].as_str().unwrap_or_default().to_owned();
    let (plural, namespace) = if binding["roleRef"]["kind"] == "Role" {
        ("roles", binding["metadata"]["namespace"].as_str().unwrap_or_default().to_owned())
    } else {
        ("clusterroles", String::new())
    };
    let role = store.get(&rbac(plural), &(namespace, name));
    role.and_then(|role| role.value["rules"].as_array().cloned()).unwrap_or_default()
}

fn permits(rule: &Value, wanted: &Attributes) -> bool {
    let has = |field: &str, text: &str| {
        rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == "*" || one == text))
    };
    if !has("verbs", &wanted.verb) {
        return false;
    }
    if let Some(path) = &wanted.path {
        let fits = |pattern: &str| pattern.strip_suffix('*').map_or(pattern == path, |prefix| path.starts_with(prefix));
        return rule["nonResourceURLs"].as_array().is_some_and(|all| all.iter().filter_map(Value::as_str).any(fits));
    }
    let named = rule["resourceNames"].as_array();
    let is_named = named.is_none_or(|names| names.is_empty() || names.iter().any(|name| name == wanted.name.as_str()));
    let subresource = wanted.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    has("apiGroups", &wanted.group)
        && (has("resources", &wanted.resource) || subresource.is_some_and(|pattern| has("resources", &pattern)))
        && is_named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::store::{Expected, Limits};
    use jiff::Timestamp;

    #[test]
    fn roles_and_bindings_allow_what_they_name() {
        let mut store = Store::new(Limits::default());
        let role = json!({"metadata": {"name": "reader"}, "rules": [{"verbs": ["get"], "apiGroups": ["ex.dev"], "resources": ["things", "*/status"]}]});
        store.put(&rbac("clusterroles"), role, Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap();
        let binding = json!({"metadata": {"name": "b", "namespace": "one"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot"}]});
        store.put(&rbac("rolebindings"), binding, Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap();
        let robot = User::new("system:serviceaccount:one:robot", &[]);
        let wanted = |verb: &str, namespace: &str, resource: &str| Attributes {
            verb: verb.into(),
            group: "ex.dev".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            ..Attributes::default()
        };
        assert!(is_allowed(&store, &robot, &wanted("get", "one", "things")));
        assert!(is_allowed(&store, &robot, &wanted("get", "one", "others/status")));
        assert!(!is_allowed(&store, &robot, &wanted("get", "two", "things")));
        assert!(!is_allowed(&store, &robot, &wanted("delete", "one", "things")));
    }

    #[test]
    fn the_rules_of_a_user_are_those_of_the_cluster_and_of_the_namespace() {
        let mut store = Store::new(Limits::default());
        let mut put = |plural: &str, object: Value| {
            store.put(&rbac(plural), object, Expected::Nothing, Timestamp::UNIX_EPOCH).unwrap();
        };
        let subjects = json!([{"kind": "User", "name": "robot"}]);
        for (kind, plural, verb) in [("ClusterRole", "clusterroles", "list"), ("Role", "roles", "get")] {
            let metadata = if kind == "Role" { json!({"name": "a", "namespace": "one"}) } else { json!({"name": "a"}) };
            put(
                plural,
                json!({"metadata": metadata, "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]}),
            );
            let bindings = format!("{}bindings", &plural[..plural.len() - 1]);
            put(&bindings, json!({"metadata": metadata, "roleRef": {"kind": kind, "name": "a"}, "subjects": subjects}));
        }
        let verbs = |user: &User, namespace: &str| {
            let rules = rules_of(&store, user, namespace);
            let rules = rules["resourceRules"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|rule| rule["verbs"].as_array().unwrap().clone());
            rules.map(|verb| verb.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let robot = User::new("robot", &[]);
        assert_eq!(verbs(&robot, "one"), ["list", "get"]);
        assert_eq!(verbs(&robot, "two"), ["list"]);
        assert_eq!(verbs(&User::administrator(), "two"), ["*", "create", "create"]);
    }

    #[test]
    fn a_list_of_one_name_is_about_that_name() {
        let name = |method: Method, uri: &str| {
            let (path, query) = uri.split_once('?').unwrap();
            Attributes::of(&method, &Path::parse(path), path, &Query::parse(query)).name
        };
        assert_eq!(name(Method::GET, "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Da"), "a");
        assert_eq!(name(Method::GET, "/api/v1/namespaces/x/pods?watch=1&fieldSelector=metadata.name%3Da"), "a");
        assert_eq!(name(Method::GET, "/api/v1/watch/namespaces/x/pods?fieldSelector=metadata.name%3Da"), "");
        assert_eq!(name(Method::DELETE, "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Da"), "");
    }
}
