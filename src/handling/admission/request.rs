//! The request in an `AdmissionReview`, as a webhook needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::object::{Body, LateBody, Resource};

/// The group version of answers to reviews that name none.
const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of reviews.
const KIND: &str = "AdmissionReview";

/// The operation that creates an object.
pub(crate) const CREATE: &str = "CREATE";
/// The operation that deletes an object.
pub(crate) const DELETE: &str = "DELETE";

/// A request of a user that is reviewed.
#[derive(Debug, Clone)]
pub struct ReviewedRequest {
    /// The form of the answer.
    pub envelope: Envelope,
    /// The kind of the object.
    pub resource: Arc<Resource>,
    /// The subresource; `None` for the object itself.
    pub subresource: Option<String>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`; empty if the review has none.
    pub operation: String,
    /// Whether nothing will be stored.
    pub is_dry_run: bool,
    /// The user, as it is.
    pub user: Value,
    /// The object before the request.
    pub old: Option<LateBody>,
    /// The object after the request.
    pub new: Option<Body>,
    /// The object that webhooks are about: the new one, or the old one if there is no new one.
    pub body: Body,
}

/// A review as it has come.
#[derive(Debug, Clone)]
pub struct Review {
    /// The review, without its old object if that is a field of its own here.
    pub value: Value,
    /// The old object.
    pub old: Option<LateBody>,
}

impl From<Value> for Review {
    fn from(value: Value) -> Self {
        Self { value, old: None }
    }
}

/// The parts of a review that its answer repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The `apiVersion`.
    pub api_version: Value,
    /// The `kind`.
    pub kind: Value,
    /// The id of the request.
    pub uid: Value,
}

/// The reason why a review has no answer. The API server then does as the `failurePolicy` of the webhook says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadReview {
    /// It does not have the form of a review.
    #[error("the review has no {0}")]
    Malformed(&'static str),
    /// The user is missing.
    #[error("the review has no user info")]
    NoUser,
    /// There is no object.
    #[error("the review has neither an object nor an old object")]
    NoObject,
    /// No webhook is declared for the kind.
    #[error("the kind of the object has no webhooks")]
    UnknownResource,
}

impl BadReview {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::NoUser | Self::NoObject => 400,
            Self::UnknownResource => 404,
            Self::Malformed(_) => 500,
        }
    }
}

impl ReviewedRequest {
    /// Reads a review of an object of one of these kinds.
    ///
    /// # Errors
    /// If the review is incomplete, or about another kind.
    pub fn read(review: Review, kinds: &BTreeSet<Arc<Resource>>) -> Result<Self, BadReview> {
        let Review { mut value, old } = review;
        let Some(fields) = value.as_object_mut() else { return Err(BadReview::Malformed("form of an object")) };
        let Some(Value::Object(mut request)) = fields.remove("request") else {
            return Err(BadReview::Malformed("`request`"));
        };
        let resource = resource_of(&request, kinds)?;
        let user = request.remove("userInfo").filter(|user| !user.is_null()).ok_or(BadReview::NoUser)?;
        let mut object = |key| request.remove(key).filter(|object| !object.is_null()).map(Body::from);
        let new = object("object");
        let old = old.or_else(|| object("oldObject").map(LateBody::from));
        let body = new.clone().or_else(|| old.as_ref()?.get().cloned()).ok_or(BadReview::NoObject)?;
        let text =
            |key: &str| request.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            subresource: text("subResource"),
            operation: text("operation").unwrap_or_default(),
            is_dry_run: request.get("dryRun") == Some(&Value::Bool(true)),
            envelope: Envelope {
                api_version: fields.remove("apiVersion").unwrap_or_else(|| API_VERSION.into()),
                kind: fields.remove("kind").unwrap_or_else(|| KIND.into()),
                uid: request.remove("uid").unwrap_or_else(|| "".into()),
            },
            resource,
            user,
            old,
            new,
            body,
        })
    }
}

/// Returns the kind of the object. Kinds of webhooks are served in exactly the version of the review.
fn resource_of(request: &Map<String, Value>, kinds: &BTreeSet<Arc<Resource>>) -> Result<Arc<Resource>, BadReview> {
    let Some(Value::Object(named)) = request.get("resource") else {
        return Err(BadReview::Malformed("`request.resource`"));
    };
    let part = |key: &'static str, missing| named.get(key).and_then(Value::as_str).ok_or(BadReview::Malformed(missing));
    let group = part("group", "`request.resource.group`")?;
    let version = part("version", "`request.resource.version`")?;
    let plural = part("resource", "`request.resource.resource`")?;
    // These three parts are the identity of a kind, so that it cannot be ambiguous.
    let found = kinds.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural);
    found.cloned().ok_or(BadReview::UnknownResource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds() -> BTreeSet<Arc<Resource>> {
        let kind =
            Resource { group: "a.io".into(), version: "v1".into(), plural: "things".into(), ..Resource::default() };
        BTreeSet::from([Arc::new(kind)])
    }

    fn review(request: &Value) -> Value {
        let mut whole = json!({
            "uid": "u", "resource": {"group": "a.io", "version": "v1", "resource": "things"}, "operation": "UPDATE",
            "userInfo": {"username": "ann"}, "object": {"spec": {"x": 2}}, "oldObject": {"spec": {"x": 1}},
        });
        whole.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": whole})
    }

    fn refusal(review: Value) -> BadReview {
        ReviewedRequest::read(review.into(), &kinds()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn the_old_object_is_the_body_of_a_deletion() {
        let read = |request: Value| ReviewedRequest::read(review(&request).into(), &kinds()).unwrap();
        let update = read(json!({}));
        assert_eq!((&update.body["spec"]["x"], update.subresource.as_deref()), (&json!(2), None));
        assert_eq!(update.envelope.api_version, "admission.k8s.io/v1beta1");
        let deletion = read(json!({"object": null, "operation": "DELETE", "subResource": "status", "dryRun": true}));
        assert_eq!(deletion.body["spec"]["x"], 1);
        assert!(deletion.new.is_none() && deletion.is_dry_run && deletion.subresource.as_deref() == Some("status"));
    }

    #[test]
    fn an_incomplete_review_is_refused_with_the_status_of_kopf() {
        let other = json!({"resource": {"group": "a.io", "version": "v2", "resource": "things"}});
        for (review, status) in [
            (json!([]), 500),
            (json!({"request": 1}), 500),
            (json!({"request": {}}), 500),
            (review(&json!({"resource": {"group": "a.io"}})), 500),
            (review(&json!({"userInfo": null})), 400),
            (review(&json!({"object": null, "oldObject": null})), 400),
            (review(&other), 404),
        ] {
            assert_eq!(refusal(review.clone()).status(), status, "{review}");
        }
    }
}
