//! The checks of labels, annotations and label selectors in objects.

use serde_json::{Map, Value};

use super::field::{Field, FieldErrors};
use crate::kinds::selector::LabelSelector;
use crate::schema::metadata::{label_value_mistake, qualified_mistakes};

/// Checks labels. All errors are reported for the map, as by the real server.
pub(super) fn labels(field: &Field<'_, '_>, causes: &mut FieldErrors) {
    for (key, value) in field.value.as_object().into_iter().flatten() {
        let named = Value::from(key.as_str());
        causes.extend(qualified_mistakes(key).into_iter().map(|why| field.with(&named).invalid(why)));
        causes.extend(value.as_str().and_then(label_value_mistake).map(|why| field.with(value).invalid(why)));
    }
}

/// Checks a `LabelSelector`, if there is one.
pub(super) fn selector(field: &Field<'_, '_>, causes: &mut FieldErrors) {
    labels(&field.at("matchLabels"), causes);
    for expression in field.at("matchExpressions").items() {
        let values = expression.at("values");
        match expression.at("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                causes.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                causes.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => causes.push(expression.at("operator").invalid("not a valid selector operator")),
        }
        expression.at("key").must_be_qualified(causes);
        for value in values.items() {
            causes.extend(label_value_mistake(value.text()).map(|why| value.invalid(why)));
        }
    }
}

/// Returns the selector of a `LabelSelector`, if it is valid.
pub(super) fn meaning(field: &Field<'_, '_>) -> Option<LabelSelector> {
    let is_sound = |expression: &Value| {
        let count = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str() {
            Some("In" | "NotIn") => count > 0,
            _ => count == 0,
        }
    };
    let expressions = field.value["matchExpressions"].as_array();
    expressions.into_iter().flatten().all(is_sound).then(|| LabelSelector::of_object(field.value)).flatten().filter(
        |_| {
            let mut mistakes = Vec::new();
            selector(field, &mut mistakes);
            mistakes.is_empty()
        },
    )
}

/// Returns the labels of a template.
pub(super) fn of_template<'a>(template: &Field<'_, 'a>) -> Option<&'a Map<String, Value>> {
    template.value["metadata"]["labels"].as_object()
}

/// Checks annotations. All errors are reported for the map, as by the real server.
pub(super) fn annotations(field: &Field<'_, '_>, causes: &mut FieldErrors) {
    for key in field.value.as_object().into_iter().flat_map(Map::keys) {
        let named = Value::from(key.as_str());
        causes.extend(qualified_mistakes(&key.to_lowercase()).into_iter().map(|why| field.with(&named).invalid(why)));
    }
}
