//! Reviews: questions about access and tokens that are asked by creating an object that is never stored.

use serde_json::{Value, json};

use super::access::{Attributes, User, is_allowed};
use super::api::Api;
use super::call::Call;
use super::failure::{Cause, Failure};
use super::handlers;
use super::registry::Served;
use super::reply::Reply;
use super::rules;

/// How long an issued token is said to live.
const LIFETIME: i64 = 3600;

/// Answers a review, if the request is one.
///
/// # Errors
/// If the question makes no sense.
pub fn answer(api: &Api, served: &Served, call: &Call) -> Result<Option<Reply>, Failure> {
    let kind = &served.kind;
    let is_token = kind.group.is_empty() && kind.plural == "serviceaccounts" && call.place.subresource.as_deref() == Some("token");
    let is_review = matches!(kind.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
    if !is_review && !is_token {
        return Ok(None);
    }
    if call.method != http::Method::POST {
        return Err(Failure::no_method());
    }
    let mut review = handlers::read_body(served, call)?.value;
    if !review.is_object() {
        return Err(Failure::bad_request("a review is an object"));
    }
    if is_token {
        return issue(api, served, call, review).map(Some);
    }
    let status = match kind.kind.as_str() {
        "SelfSubjectAccessReview" => access(api, &call.user, &review, &kind.kind)?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access(api, &subject(&review["spec"]), &review, &kind.kind)?,
        "SelfSubjectRulesReview" => every_rule(),
        "SelfSubjectReview" => json!({"userInfo": call.user.to_json()}),
        "TokenReview" => token(api, review["spec"]["token"].as_str().unwrap_or_default()),
        _ => return Ok(None),
    };
    review["kind"] = json!(kind.kind);
    review["apiVersion"] = json!(kind.api_version());
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    review["status"] = status;
    Ok(Some(Reply::object(review).with_code(201)))
}

fn subject(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    User { name: text("user"), uid: text("uid"), groups }
}

fn access(api: &Api, user: &User, review: &Value, kind: &str) -> Result<Value, Failure> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() == path.is_object() {
        let text = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let cause = Cause::new("FieldValueInvalid", "spec.resourceAttributes", text);
        return Err(Failure::invalid("authorization.k8s.io", kind, "", vec![cause]));
    }
    let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
    let wanted = if path.is_object() {
        let text = |field: &str| path[field].as_str().unwrap_or_default().to_owned();
        Attributes { verb: text("verb"), path: Some(text("path")), ..Attributes::default() }
    } else {
        let subresource = text("subresource");
        let plural = text("resource");
        Attributes {
            verb: text("verb"),
            group: text("group"),
            resource: if subresource.is_empty() { plural } else { format!("{plural}/{subresource}") },
            namespace: text("namespace"),
            name: text("name"),
            path: None,
        }
    };
    Ok(json!({"allowed": api.with(|state| is_allowed(&state.store, user, &wanted))}))
}

fn every_rule() -> Value {
    json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}

fn token(api: &Api, token: &str) -> Value {
    let Some(user) = api.user_of(token) else { return json!({"user": {}, "error": "[invalid bearer token]"}) };
    json!({"authenticated": true, "user": user.to_json(), "audiences": ["https://kubernetes.default.svc"]})
}

/// Issues a token that the server will know as the service account.
fn issue(api: &Api, served: &Served, call: &Call, mut request: Value) -> Result<Reply, Failure> {
    let stored = handlers::existing(api, served, call)?;
    let (namespace, name) = handlers::key(call);
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: super::store::uid_of(&stored.value).to_owned(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}"), "system:authenticated".to_owned()],
    };
    let token = api.with(|state| {
        let token = format!("kopfd.{}.{}", state.ids.uid().replace('-', ""), state.ids.uid().replace('-', ""));
        state.issued.insert(token.clone(), user);
        token
    });
    api.injection().faults().note_token(&token);
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(LIFETIME).clamp(0, i64::from(u32::MAX));
    let expires_at = rules::time(call.now + jiff::SignedDuration::from_secs(seconds));
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["metadata"] = json!({"name": name, "namespace": namespace});
    request["status"] = json!({"token": token, "expirationTimestamp": expires_at});
    Ok(Reply::object(request).with_code(201))
}
