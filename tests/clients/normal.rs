//! Removes values from outputs and objects that differ between any two servers: ids, times, revisions, addresses.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Replacements in texts. The order matters: times are matched before the digits in them.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}( [A-Z]+)?|[+-]\d\d:\d\d|Z)?", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d [A-Z]+ \d{4}", "TIME"),
        (r#"("?resourceVersion"?: *)"\d+""#, "${1}N"),
        (r"(Resource Version: +)\d+", "${1}N"),
        (r"/tmp/kubectl-edit-\d+", "/tmp/kubectl-edit"),
        (r"(serve on 127\.0\.0\.1):\d+", "$1"),
        (r"https?://(127\.0\.0\.1|localhost):\d+", "SERVER"),
        (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
        (r"/tmp/(LIVE|MERGED)-\d+/", "/tmp/$1/"),
        (r"\b(\d+[dhms])+ ago\b", "AGE ago"),
        (r"(?m)(^|\s)(\d+[dhms])+($|\s)", "${1}AGE${3}"),
        (r"\b(\d+(\.\d+)?(ns|µs|ms))\b", "AGE"),
        // The width of a table's columns depends on their contents.
        (r"[ \t]+", " "),
        (r"(?m) $", ""),
    ]
    .into_iter()
    .map(|(pattern, by)| (Regex::new(pattern).expect("the patterns are well-formed"), by))
    .collect()
});

/// Returns a text without values that differ between servers.
pub(crate) fn text(text: &str) -> String {
    RULES.iter().fold(text.to_owned(), |text, (pattern, by)| pattern.replace_all(&text, *by).into_owned())
}

/// Returns the output of a command; JSON is normalized as an object.
pub(crate) fn output(printed: &str) -> String {
    let parsed = serde_json::from_str(printed).ok().filter(Value::is_object);
    parsed.map_or_else(
        || printed.to_owned(),
        |value| serde_json::to_string_pretty(&object(&value)).expect("JSON can be written"),
    )
}

/// Returns an object without values that differ between servers.
pub(crate) fn object(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            // Whether a manager's entry has a time depends on how its client has rewritten it.
            let is_dated = members.contains_key("fieldsType");
            let members = members.iter().filter(|(name, _)| !(is_dated && *name == "time")).map(|(name, member)| {
                let member = match name.as_str() {
                    "uid" | "resourceVersion" | "creationTimestamp" | "deletionTimestamp" | "clusterIP"
                    | "clusterIPs" | "continue" => Value::from("any"),
                    _ => object(member),
                };
                (name.clone(), member)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(object).collect();
            // Writes in the same second are ordered by manager, others by time.
            if items.iter().all(|item| item["fieldsType"].is_string()) {
                items.sort_by_key(|item| {
                    ["operation", "manager", "subresource", "apiVersion"].map(|key| item[key].to_string())
                });
            }
            Value::Array(items)
        }
        Value::String(plain) => Value::String(text(plain)),
        other => other.clone(),
    }
}
