//! The bodies of requests, in their media types.

use serde_json::Value;

use crate::http::api_error::ApiError;
use crate::http::json::Body;
use crate::http::{json, protobuf, request};
use crate::kinds::definition;
use crate::kinds::registry::ServedKind;
use crate::verbs::request_context::RequestContext;
use kopfd_base::yaml;

/// Tells whether objects of a kind are decoded into Go types, which accept integers only in integer form. Custom
/// objects, and the schemas of definitions, have no such types.
pub(crate) fn has_go_types(served: &ServedKind) -> bool {
    !served.kind.is_custom() && served.kind.group != definition::GROUP
}

/// Reads the body of a request by its media type.
pub(crate) fn read_body(served: &ServedKind, context: &RequestContext) -> Result<Body, ApiError> {
    let media = request::media_type(&context.headers);
    let name = &served.kind.kind;
    let parse = if has_go_types(served) { json::parse_strictly } else { json::parse };
    match media.as_deref().unwrap_or("application/json") {
        "application/json" => parse(&context.body).map_err(|error| {
            let version = &served.kind.version;
            ApiError::bad_request(format!(
                "{name} in version {version:?} cannot be handled as a {name}: couldn't get version/kind; json parse error: {error}"
            ))
        }),
        "application/yaml" => {
            let text = std::str::from_utf8(&context.body).map_err(|error| ApiError::bad_request(error.to_string()))?;
            read_yaml(text).map_err(|error| ApiError::bad_request(error.to_string()))
        }
        "application/vnd.kubernetes.protobuf" if !served.kind.is_custom() => protobuf::decode(&context.body).map(Body::from),
        _ => Err(unsupported_media("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// Reads the first document of a YAML text.
///
/// # Errors
/// If it is not YAML.
pub(crate) fn read_yaml(text: &str) -> Result<Body, yaml::Error> {
    let Some(mut read) = yaml::parse_leniently(text)? else { return Ok(Body::from(Value::Null)) };
    read.repeated.sort();
    let remarks =
        read.repeated.iter().map(|(line, key)| format!("line {line}: key {key:?} already set in map")).collect();
    Ok(Body { value: json::with_whole_numbers(read.value), remarks })
}

/// Returns the failure of a body in an unsupported form.
pub(crate) fn unsupported_media(accepted: &str) -> ApiError {
    let text = format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    ApiError::new(415, "UnsupportedMediaType", text)
}
