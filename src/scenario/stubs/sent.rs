//! The headers and the body that a stub requires of a request. Stubs without them answer any request to their address.

use std::cell::RefCell;

use serde_json::Value;

use super::super::pattern::{Mismatch, Pattern};
use crate::manifest::reader::{Item, Reader};
use crate::script::outside::HttpRequest;

/// The demanded parts of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct SentRequest {
    /// Patterns of headers, by lower-case names.
    headers: Vec<(String, Pattern)>,
    /// Pattern of the body as JSON.
    json: Option<Pattern>,
    /// Pattern of the body as text.
    body: Option<Pattern>,
}

impl SentRequest {
    /// Reads the key `sends` of a stub.
    pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<Self> {
        let fields = reader.fields(item, "what a request sends", &["headers", "json", "body"])?;
        let expressions = RefCell::default();
        let pattern = |item: &Item<'_>| Pattern::read(reader, &expressions, item);
        let headers = fields.get("headers").and_then(|item| item.entries()).unwrap_or_default();
        let headers = headers
            .iter()
            .map(|(name, item)| Some((name.to_ascii_lowercase(), pattern(item)?)))
            .collect::<Option<_>>()?;
        let json = fields.get("json").map(|item| pattern(&item));
        let body = fields.get("body").map(|item| pattern(&item));
        let sent = Self { headers, json: json.unwrap_or_default(), body: body.unwrap_or_default() };
        // Stubs answer in the middle of a call, where nothing can be evaluated.
        if !expressions.borrow().is_empty() {
            reader.error_with(
                item,
                "`when` cannot be used for what a request sends",
                "use another matcher, such as `matches` or `in`",
            );
            return None;
        }
        Some(sent)
    }

    /// Returns the differences of a request from the required headers and body.
    pub(super) fn mismatches(&self, request: &HttpRequest) -> Vec<Mismatch> {
        let mut found = Vec::new();
        let mut compare = |pattern: &Pattern, value: Option<&Value>, path: &str| {
            // There are no expressions.
            pattern.compare(value, path, &mut found, &mut |_, _| false);
        };
        for (name, pattern) in &self.headers {
            let values: Vec<&str> = request
                .headers
                .iter()
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.as_str())
                .collect();
            let value = (!values.is_empty()).then(|| Value::from(values.join(", ")));
            compare(pattern, value.as_ref(), &format!("headers.{name}"));
        }
        if let Some(pattern) = &self.json {
            compare(pattern, serde_json::from_slice(&request.body).ok().as_ref(), "json");
        }
        if let Some(pattern) = &self.body {
            compare(pattern, Some(&Value::from(String::from_utf8_lossy(&request.body))), "body");
        }
        found
    }
}

/// Describes the first difference.
pub(super) fn described(mismatches: &[Mismatch]) -> Option<String> {
    let Mismatch { path, wanted, found, .. } = mismatches.first()?;
    let found = found.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    Some(format!("{path}: expected {wanted}, sent {found}"))
}
