//! The `ConversionReview` of an API server, and its answer.

use std::sync::Arc;

use serde_json::{Value, json};

/// The kind of reviews.
const KIND: &str = "ConversionReview";

/// Objects of one kind that are to be converted to one version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConversionRequest {
    /// The `apiVersion` of the review, which the answer repeats.
    pub api_version: Value,
    /// The id of the review, which the answer repeats.
    pub uid: Value,
    /// The wanted `apiVersion` of the objects.
    pub wanted: Arc<str>,
    /// The objects, each in its version.
    pub objects: Vec<Value>,
}

/// The reason why a review has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadConversion {
    /// It does not have the form of a review.
    #[error("the conversion review has no {0}")]
    Malformed(&'static str),
}

/// Tells whether a review is about conversions, and not about a request.
pub(crate) fn is_conversion(review: &Value) -> bool {
    review["kind"] == KIND
}

/// Tells whether an answer has the converted objects.
pub(crate) fn is_converted(answer: &Value) -> bool {
    answer.pointer("/response/result/status").is_some_and(|status| status == "Success")
}

impl ConversionRequest {
    /// Reads a review.
    ///
    /// # Errors
    /// If it is incomplete.
    pub(crate) fn read(mut review: Value) -> Result<Self, BadConversion> {
        let mut request = taken(&mut review, "request");
        let wanted = request["desiredAPIVersion"].as_str().filter(|version| !version.is_empty()).map(Arc::from);
        let Value::Array(objects) = taken(&mut request, "objects") else {
            return Err(BadConversion::Malformed("`request.objects`"));
        };
        Ok(Self {
            api_version: taken(&mut review, "apiVersion"),
            uid: taken(&mut request, "uid"),
            wanted: wanted.ok_or(BadConversion::Malformed("`request.desiredAPIVersion`"))?,
            objects,
        })
    }

    /// Returns the answer: the converted objects in the order of the review, or why one of them cannot be converted.
    pub(crate) fn answer(&self, converted: Result<Vec<Value>, String>) -> Value {
        let (objects, result) = match converted {
            Ok(objects) => (objects, json!({"status": "Success"})),
            Err(message) => (Vec::new(), json!({"status": "Failure", "message": message})),
        };
        let response = json!({"uid": self.uid, "convertedObjects": objects, "result": result});
        json!({"apiVersion": self.api_version, "kind": KIND, "response": response})
    }
}

fn taken(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(request: Value) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": KIND, "request": request})
    }

    #[test]
    fn a_review_is_answered_with_its_id_and_all_objects_or_the_reason() {
        let read = review(json!({"uid": "u", "desiredAPIVersion": "a.io/v2", "objects": [{"a": 1}]}));
        assert!(is_conversion(&read));
        let request = ConversionRequest::read(read).unwrap();
        assert_eq!((&*request.wanted, request.objects.as_slice()), ("a.io/v2", &[json!({"a": 1})][..]));
        let answer = request.answer(Ok(vec![json!({"b": 1})]));
        let response = json!({"uid": "u", "convertedObjects": [{"b": 1}], "result": {"status": "Success"}});
        assert_eq!(answer, json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": KIND, "response": response}));
        let failed = request.answer(Err("why".to_owned()));
        assert!(is_converted(&answer) && !is_converted(&failed));
        assert_eq!(failed["response"]["result"], json!({"status": "Failure", "message": "why"}));
    }

    #[test]
    fn an_incomplete_review_is_refused() {
        for (request, missing) in [
            (json!({}), "`request.objects`"),
            (json!("text"), "`request.objects`"),
            (json!({"objects": {}}), "`request.objects`"),
            (json!({"objects": []}), "`request.desiredAPIVersion`"),
            (json!({"objects": [], "desiredAPIVersion": ""}), "`request.desiredAPIVersion`"),
        ] {
            assert_eq!(ConversionRequest::read(review(request)), Err(BadConversion::Malformed(missing)));
        }
        assert!(!is_conversion(&json!({"kind": "AdmissionReview"})) && !is_conversion(&json!([])));
    }
}
