//! The lines about reviewed requests and converted objects.

use serde_json::Value;

use crate::handling::Handler;
use crate::handling::admission::Judged;
use crate::object::{Body, secret};
use crate::script::interface::subject::ReviewRequest;

/// Describes the outcome of a reviewed request, without the values of a Secret.
pub(super) fn line(body: &Body, request: &ReviewRequest, judged: &Judged) -> String {
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or("object");
    let of = request.subresource.as_ref().map(|subresource| format!("the {subresource} of ")).unwrap_or_default();
    let dry_run = if request.dryrun { ", as a dry run," } else { "" };
    let operation = if request.operation.is_empty() { "a request" } else { &request.operation };
    let judgement = match &judged.denial {
        Some(denial) => format!("is denied with {}: {}", denial.code, secret::hidden(body, &denial.message)),
        None => "is allowed".to_owned(),
    };
    let paths: Vec<&str> = judged.operations.iter().filter_map(|operation| operation["path"].as_str()).collect();
    let changed = if paths.is_empty() { String::new() } else { format!(", with changes of {}", paths.join(", ")) };
    let warnings = if judged.warnings.is_empty() {
        String::new()
    } else {
        format!(", with the warnings: {}", secret::hidden(body, &judged.warnings.join("; ")))
    };
    format!("┌ {operation} of {of}the {kind}{dry_run} {judgement}{changed}{warnings}")
}

/// Returns the result of a conversion review.
pub(super) fn conversion(handler: &Handler, wanted: &str, objects: usize, failure: Option<&str>) -> String {
    let noun = if objects == 1 { "object" } else { "objects" };
    let title = handler.title();
    match failure {
        None => format!("┌ {title} converts {objects} {noun} to {wanted}"),
        Some(failure) => format!("┌ {title} does not convert {objects} {noun}: {failure}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use crate::handling::admission::answer::Denial;
    use serde_json::json;

    #[test]
    fn a_conversion_is_told_with_its_version_or_its_failure() {
        let handler = Handler::simple("convert", On::Conversion);
        assert_eq!(conversion(&handler, "a.io/v2", 1, None), "┌ Webhook 'convert' converts 1 object to a.io/v2");
        let failed = conversion(&handler, "a.io/v2", 2, Some("\"a\" cannot be converted to a.io/v2: no way"));
        assert_eq!(
            failed,
            "┌ Webhook 'convert' does not convert 2 objects: \"a\" cannot be converted to a.io/v2: no way"
        );
    }

    #[test]
    fn a_review_is_told_with_its_changes_and_warnings_but_no_values_of_secrets() {
        let request = ReviewRequest { operation: "CREATE".to_owned(), ..ReviewRequest::default() };
        let judged =
            Judged { operations: vec![json!({"op": "add", "path": "/spec/x", "value": 1})], ..Judged::default() };
        let body = Body::from(json!({"kind": "Thing"}));
        assert_eq!(line(&body, &request, &judged), "┌ CREATE of the Thing is allowed, with changes of /spec/x");
        let secret =
            Body::from(json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "tomato-soup"}}));
        let denial = Denial { message: "tomato-soup is known".to_owned(), code: 422 };
        let denied = Judged { denial: Some(denial), warnings: vec!["w".to_owned()], ..Judged::default() };
        let dry = ReviewRequest { dryrun: true, subresource: Some("status".to_owned()), ..request };
        let expected = "┌ CREATE of the status of the Secret, as a dry run, is denied with 422: *** is known, with the warnings: w";
        assert_eq!(line(&secret, &dry, &denied), expected);
    }
}
