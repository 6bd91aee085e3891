//! Answers with the `Scale` of an object.

use serde_json::Value;

use crate::http::api_error::{ApiError, FieldError};
use crate::http::reply::Reply;
use crate::kinds::registry::ServedKind;
use crate::kinds::versioning;

/// Returns the `Scale` of an object as an answer.
pub(crate) fn scale_answer(served: &ServedKind, value: &Value) -> Result<Reply, ApiError> {
    scale_of(served, value).map(Reply::object)
}

/// Returns the `Scale` of an object.
///
/// # Errors
/// If the object has no number of replicas.
pub(crate) fn scale_of(served: &ServedKind, value: &Value) -> Result<Value, ApiError> {
    let path = served.kind.scale.as_ref().map(|scale| scale.spec_replicas.clone()).unwrap_or_default();
    versioning::scale_of(served, value).ok_or_else(|| {
        let text = format!("Internal error occurred: the spec replicas field {path:?} does not exist");
        let mut failure = ApiError::new(500, "InternalError", text.clone());
        failure.details.causes.push(FieldError::new("", "", text));
        failure
    })
}
