//! Reviews: questions about access and tokens, asked by creating an object that is never stored.

use serde_json::{Value, json};

use crate::api::Api;
use crate::auth::access::{Attributes, User, is_allowed, rules_of};
use crate::http::api_error::{ApiError, FieldError};
use crate::http::reply::Reply;
use crate::kinds::builtin::{self, Field};
use crate::kinds::kind::Kind;
use crate::kinds::registry::ServedKind;
use crate::rules;
use crate::verbs::body::read_body;
use crate::verbs::request_context::RequestContext;
use crate::verbs::target;

/// The default lifetime of an issued token, in seconds.
const LIFETIME: i64 = 3600;
/// The minimum of a requested lifetime.
const MIN_LIFETIME: i64 = 600;
/// The maximum.
const MAX_LIFETIME: i64 = 1 << 32;

/// Answers a review, if the request is one.
///
/// # Errors
/// If the review is invalid.
pub(crate) fn answer(api: &Api, served: &ServedKind, context: &RequestContext) -> Result<Option<Reply>, ApiError> {
    let kind = &served.kind;
    let is_token = kind.group.is_empty()
        && kind.plural == "serviceaccounts"
        && context.resource_path.subresource.as_deref() == Some("token");
    let is_review = matches!(kind.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
    if !is_review && !is_token {
        return Ok(None);
    }
    if context.method != http::Method::POST {
        return Err(ApiError::no_method());
    }
    let mut review = read_body(served, context)?.value;
    if !review.is_object() {
        return Err(ApiError::bad_request("a review is an object"));
    }
    if is_token {
        return issue(api, served, context, review).map(Some);
    }
    builtin::read(kind, &mut review)?;
    let spec = &review["spec"];
    let status = match kind.kind.as_str() {
        "SelfSubjectAccessReview" => {
            check(&review, &[])?;
            access(api, &context.user, spec)
        }
        "SubjectAccessReview" => {
            check(&review, &without_subject(spec))?;
            access(api, &subject(spec), spec)
        }
        "LocalSubjectAccessReview" => {
            check_local(&review, context.resource_path.namespace.as_deref().unwrap_or_default())?;
            access(api, &subject(spec), spec)
        }
        "SelfSubjectRulesReview" if spec["namespace"].as_str().is_none_or(str::is_empty) => {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        "SelfSubjectRulesReview" => {
            let namespace = spec["namespace"].as_str().unwrap_or_default();
            api.with(|state| rules_of(&state.store, &context.user, namespace))
        }
        "SelfSubjectReview" => json!({"userInfo": context.user.to_json()}),
        "TokenReview" => match spec["token"].as_str().filter(|token| !token.is_empty()) {
            Some(given) => token(api, given, &spec["audiences"]),
            None => return Err(ApiError::bad_request("token is required for TokenReview in authentication")),
        },
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
    User { name: text("user"), uid: text("uid"), groups, ..User::default() }
}

/// Validates an access review, in addition to the errors found already.
fn check(review: &Value, found: &[FieldError]) -> Result<(), ApiError> {
    let spec = &review["spec"];
    let mut causes = found.to_vec();
    match (spec["resourceAttributes"].is_object(), spec["nonResourceAttributes"].is_object()) {
        (true, true) => causes
            .push(invalid("spec.nonResourceAttributes", "cannot be specified in combination with resourceAttributes")),
        (false, false) => {
            causes.push(invalid(
                "spec.resourceAttributes",
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
        _ => {}
    }
    for name in ["fieldSelector", "labelSelector"] {
        check_selector(&Field::named(&spec["resourceAttributes"], "spec.resourceAttributes").at(name), &mut causes);
    }
    if review["metadata"].as_object().is_some_and(|metadata| !metadata.is_empty()) {
        causes.push(invalid("metadata", "must be empty"));
    }
    refuse(causes)
}

/// Checks a selector in an access review: either a text or a list of requirements.
fn check_selector(selector: &Field<'_, '_>, causes: &mut Vec<FieldError>) {
    let (text, requirements) = (selector.at("rawSelector"), selector.at("requirements"));
    match (text.is_empty(), requirements.is_empty()) {
        _ if !selector.is_set() => {}
        (false, false) => causes.push(text.invalid("may not specified at the same time as requirements")),
        (true, true) => causes.push(requirements.required("requirements or rawSelector is required")),
        _ => {}
    }
    for requirement in requirements.items() {
        requirement.at("key").must_be_filled(causes);
        let values = requirement.at("values");
        match requirement.at("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                causes.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                causes.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            _ => {}
        }
    }
}

/// Checks an access review for one namespace.
fn check_local(review: &Value, namespace: &str) -> Result<(), ApiError> {
    let spec = &review["spec"];
    let mut review = review.clone();
    review["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    let mut causes = without_subject(spec);
    if spec["resourceAttributes"].is_object() && spec["resourceAttributes"]["namespace"] != namespace {
        causes.push(invalid("spec.resourceAttributes.namespace", "must match metadata.namespace"));
    }
    if spec["nonResourceAttributes"].is_object() {
        causes.push(invalid("spec.nonResourceAttributes", "disallowed on this kind of request"));
    }
    check(&review, &causes)
}

fn without_subject(spec: &Value) -> Vec<FieldError> {
    let is_given = subject(spec) != User::default();
    if is_given { Vec::new() } else { vec![invalid("spec.user", "at least one of user or group must be specified")] }
}

fn invalid(field: &str, why: &str) -> FieldError {
    FieldError::new("FieldValueInvalid", field, format!("Invalid value: {why}"))
}

fn refuse(causes: Vec<FieldError>) -> Result<(), ApiError> {
    // The failure has no kind.
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("authorization.k8s.io", "", "", causes)) }
}

fn access(api: &Api, user: &User, spec: &Value) -> Value {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
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
    json!({"allowed": api.with(|state| is_allowed(&state.store, user, &wanted))})
}

/// The default audience of tokens.
const AUDIENCE: &str = "https://kubernetes.default.svc";

fn token(api: &Api, token: &str, audiences: &Value) -> Value {
    let is_meant = audiences.as_array().is_none_or(|all| all.is_empty() || all.iter().any(|one| one == AUDIENCE));
    if !is_meant {
        return json!({"user": {}, "error": "[token audiences is invalid for the target audiences]"});
    }
    let Some(user) = api.user_of(token) else { return json!({"user": {}, "error": "[invalid bearer token]"}) };
    json!({"authenticated": true, "user": user.to_json(), "audiences": [AUDIENCE]})
}

/// Issues a token that authenticates the service account.
fn issue(api: &Api, served: &ServedKind, context: &RequestContext, mut request: Value) -> Result<Reply, ApiError> {
    let stored = target::existing(api, served, context)?;
    let (namespace, name) = target::key(context);
    let seconds = lifetime(&mut request, &namespace, &name)?;
    check_bound(api, &namespace, &request["spec"]["boundObjectRef"])?;
    if request["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
        request["spec"]["audiences"] = json!([AUDIENCE]);
    }
    let user = User {
        uid: crate::storage::resource::uid_of(&stored.value).to_owned(),
        ..User::service_account(&namespace, &name)
    };
    let token = api.with(|state| {
        let token = format!("kopfd.{}.{}", state.ids.uid().replace('-', ""), state.ids.uid().replace('-', ""));
        state.issued.insert(token.clone(), user);
        token
    });
    api.injection().faults().note_token(&token);
    let expires_at = rules::time(context.now + jiff::SignedDuration::from_secs(seconds));
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["metadata"] = json!({"name": name, "namespace": namespace});
    request["status"] = json!({"token": token, "expirationTimestamp": expires_at});
    Ok(Reply::object(request).with_code(201))
}

/// Checks that the bound object of a token exists.
fn check_bound(api: &Api, namespace: &str, bound: &Value) -> Result<(), ApiError> {
    if bound.is_null() {
        return Ok(());
    }
    let (kind, name) = (bound["kind"].as_str().unwrap_or_default(), bound["name"].as_str().unwrap_or_default());
    let (plural, namespace) = match (bound["apiVersion"].as_str(), kind) {
        (Some("v1"), "Pod") => ("pods", namespace),
        (Some("v1"), "Secret") => ("secrets", namespace),
        (Some("v1"), "Node") => ("nodes", ""),
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount to an object of kind {kind:?}"
            )));
        }
    };
    let resource = crate::storage::resource::Resource { group: String::new(), plural: plural.to_owned() };
    let Some(found) = api.read(&resource, &(namespace.to_owned(), name.to_owned())) else {
        return Err(ApiError::not_found("", plural, name));
    };
    let uid = bound["uid"].as_str().unwrap_or_default();
    if uid.is_empty() || found.value["metadata"]["uid"] == uid {
        return Ok(());
    }
    Err(ApiError::conflict("", plural, name, "the UID in the bound object reference does not match the UID in record"))
}

/// Reads a token request of a service account. Returns the lifetime in seconds, which the answer contains, too.
fn lifetime(request: &mut Value, namespace: &str, name: &str) -> Result<i64, ApiError> {
    let kind = Kind {
        group: "authentication.k8s.io".into(),
        version: "v1".into(),
        kind: "TokenRequest".into(),
        ..Kind::default()
    };
    builtin::read(&kind, request)?;
    let sent = |field: &str| request["metadata"][field].as_str().unwrap_or_default();
    if !matches!(sent("namespace"), "") && sent("namespace") != namespace {
        return Err(ApiError::other_namespace());
    }
    if !matches!(sent("name"), "") && sent("name") != name {
        let cause = invalid("metadata.name", "must match the service account name if specified");
        return Err(ApiError::invalid(&kind.group, &kind.kind, name, vec![cause]));
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(LIFETIME);
    if !(MIN_LIFETIME..=MAX_LIFETIME).contains(&seconds) {
        let cause = invalid(
            "spec.expirationSeconds",
            &format!("{seconds}: may not be less than 10 minutes, nor larger than 1 << 32 seconds"),
        );
        return Err(ApiError::invalid(&kind.group, &kind.kind, "", vec![cause]));
    }
    request["spec"]["expirationSeconds"] = json!(seconds);
    Ok(seconds)
}
