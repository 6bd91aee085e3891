//! Reads the step `convert`.

use serde_json::Value;

use crate::manifest::reader::Item;
use crate::manifest::tree::Kind;

use super::super::expectations::pattern_of_text;
use super::super::model::{ConversionStep, ExpectedConversion, RoundTrip};
use super::super::pattern::Pattern;
use super::super::read_context::ReadContext;

/// The keys of the step.
const KEYS: [&str; 5] = ["object", "to", "expect", "failed", "roundTrip"];

/// The objects that are generated for each pair of versions.
const OBJECTS: usize = 50;

/// The most objects: each is converted twice.
const MAX_OBJECTS: usize = 10_000;

/// Reads the step.
pub(in crate::scenario) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ConversionStep> {
    let reader = context.reader;
    let fields = reader.fields(item, "a conversion", &KEYS)?;
    if let Some(item) = fields.get("roundTrip") {
        for key in ["object", "to", "expect", "failed"] {
            if let Some(item) = fields.get(key) {
                reader.key_error(&item, format!("`{key}` does not go with `roundTrip`"), "make it a step of its own");
            }
        }
        return Some(ConversionStep::RoundTrip(round_trip(context, &item)?));
    }
    let hint = "write an object with its `apiVersion`, or `{file: obj.yaml}`; or `roundTrip` with the resource";
    let wanted = reader.required(&fields, "object", hint).map(|item| (context.objects_of_step(&item), item));
    let to = reader.required(&fields, "to", "name the version, such as `to: v2`").and_then(|item| reader.owned(&item));
    let failed = fields.get("failed").and_then(|item| failure(context, &item));
    let expected = match (failed, fields.get("expect")) {
        (Some(_), Some(item)) => {
            reader.key_error(&item, "a failed conversion has no object", "leave out `expect`, or `failed`");
            return None;
        }
        (Some(failed), None) => failed,
        (None, item) => {
            ExpectedConversion::Object(item.and_then(|item| Pattern::read(reader, &context.expressions, &item)))
        }
    };
    let (objects, item) = wanted?;
    match <[Value; 1]>::try_from(objects) {
        Ok([object]) => Some(ConversionStep::One { object, to: to?, expected }),
        // Without objects, the mistake is reported.
        Err(objects) => {
            if !objects.is_empty() {
                reader.error_with(
                    &item,
                    format!("one object is converted, not {}", objects.len()),
                    "make it several steps",
                );
            }
            None
        }
    }
}

/// Reads an expected failure: `true`, or a pattern of its message.
fn failure(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ExpectedConversion> {
    let spot = item.node.spot;
    if matches!(item.node.kind, Kind::Bool(_)) {
        let is_failed = context.reader.boolean(item)?;
        return is_failed.then_some(ExpectedConversion::Failure(spot, None));
    }
    Some(ExpectedConversion::Failure(spot, Some(pattern_of_text(context, item)?)))
}

fn round_trip(context: &ReadContext<'_>, item: &Item<'_>) -> Option<RoundTrip> {
    let reader = context.reader;
    if item.node.text().is_some() {
        let resource = reader.owned(item)?;
        return Some(RoundTrip { resource, versions: Vec::new(), objects: OBJECTS, ignore: Vec::new() });
    }
    let fields = reader.fields(item, "a round trip", &["resource", "versions", "objects", "ignore"])?;
    let resource = reader.required(&fields, "resource", "name the kind, such as `resource: databases.example.com`");
    let texts =
        |key| reader.list_of(&fields, key).iter().filter_map(|item| reader.owned(item)).collect::<Vec<String>>();
    let versions = texts("versions");
    if let Some(item) = fields.get("versions").filter(|_| versions.len() == 1) {
        reader.error_with(
            &item,
            "a round trip needs two versions",
            "add another one, or leave `versions` out for all of them",
        );
    }
    let objects = match fields.get("objects") {
        None => OBJECTS,
        Some(item) => usize::try_from(reader.whole(&item, 1)?).unwrap_or(usize::MAX),
    };
    if let Some(item) = fields.get("objects").filter(|_| objects > MAX_OBJECTS) {
        reader.error_with(&item, format!("at most {MAX_OBJECTS} objects are generated"), "write a smaller number");
    }
    Some(RoundTrip {
        resource: resource.and_then(|item| reader.owned(&item))?,
        versions,
        objects,
        ignore: texts("ignore"),
    })
}

/// Returns the summary of the step.
pub(in crate::scenario) fn title(step: &ConversionStep) -> String {
    match step {
        ConversionStep::One { object, to, .. } => {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
            format!("convert {} {} from {} to {to}", text("/kind"), text("/metadata/name"), text("/apiVersion"))
        }
        ConversionStep::RoundTrip(trip) => format!("convert generated {} there and back", trip.resource),
    }
}
