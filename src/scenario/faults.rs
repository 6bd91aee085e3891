//! Reads the step `fault`: rules of the server's fault injection, with short forms.

pub(super) mod words;

use serde_json::{Map, Value, json};

use crate::apiserver::faults::pattern::matches;
use crate::apiserver::faults::{Action, Rule};
use crate::manifest::reader::{Item, Reader};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::Kind;

use super::model::{Fault, OPERATOR_USER, StepAction};

/// The verbs of requests.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The faults that can be written as a single word.
const WORDS: [(&str, &[&str]); 4] = [
    ("reset", &["before", "after", "mid-body"]),
    ("watchDrop", &["clean", "rst", "mid-line"]),
    ("watchExpire", &["event", "http"]),
    ("webhookFail", &["timeout", "refused"]),
];

/// The keys that select requests.
const MATCH: [&str; 8] = ["verb", "group", "resource", "subresource", "namespace", "name", "userAgent", "user"];

/// The keys that limit how often a fault fires.
const TIMES: [&str; 4] = ["skip", "times", "probability", "seed"];

/// The keys that belong to a status written as a number.
const OF_STATUS: [&str; 3] = ["reason", "message", "retryAfter"];

/// The faults.
pub const ACTIONS: [&str; 19] = [
    "status",
    "statusAfter",
    "delay",
    "reset",
    "watchDrop",
    "watchExpire",
    "watchError",
    "watchStall",
    "watchDuplicate",
    "watchDelay",
    "watchNoBookmarks",
    "slowBody",
    "staleRead",
    "conflict",
    "throttle",
    "unauthorized",
    "webhookFail",
    "notReady",
    "discoveryFail",
];

/// Reads a fault, or `none`, which removes all faults.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<StepAction> {
    if item.node.text() == Some("none") {
        return Some(StepAction::ClearFaults);
    }
    let known: Vec<&'static str> = [&MATCH[..], &TIMES, &OF_STATUS, &ACTIONS].concat();
    let fields = reader.fields(item, "a fault", &known)?;
    let given: Vec<&str> = ACTIONS.into_iter().filter(|word| fields.raw(word).is_some()).collect();
    let [word] = given.as_slice() else {
        if given.len() > 1 {
            reader.error_with(item, format!("`{}` and `{}` are two faults", given[0], given[1]), "make it two steps");
        } else if !ACTIONS.iter().any(|word| fields.mentions(word)) {
            let hint = format!("add one of {}, such as `status: 500`", ACTIONS.join(", "));
            reader.error_with(item, "the fault has no action", hint);
        }
        return None;
    };
    let action_item = fields.raw(word)?;
    if let Some((_, words)) = WORDS.iter().find(|(with_words, _)| with_words == word)
        && action_item.node.text().is_some()
    {
        reader.word(&action_item, words)?;
    }
    let action = action(word, &action_item, &|key| fields.get(key).map(|item| item.node.to_value()));
    if !action.is_object() {
        reader.error_with(&action_item, format!("`{word}` cannot be {}", action_item.node.noun()), forms(word));
        return None;
    }
    let mut matching = Map::new();
    let mut are_known = true;
    for key in MATCH {
        let Some(item) = fields.get(key) else { continue };
        let texts = if key == "verb" { item.items().unwrap_or_else(|| vec![item.clone()]) } else { vec![item.clone()] };
        for item in &texts {
            let text = &reader.text(item)?.value;
            if key == "verb" {
                are_known &= verb(reader, item, text).is_some();
            }
        }
        matching.insert(key.to_owned(), item.node.to_value());
    }
    for key in ["skip", "times", "seed"] {
        if let Some(item) = fields.get(key) {
            reader.whole(&item, 0)?;
        }
    }
    if let Some(item) = fields.get("probability")
        && item.node.to_value().as_f64().is_none_or(|share| !(0.0..=1.0).contains(&share))
    {
        reader.error_with(&item, "`probability` must be a number from 0 to 1", "write such as `0.1` for one in ten");
        return None;
    }
    // By default only requests of the operators fail, not those of the scenario itself. Webhooks review those of users.
    if *word != "webhookFail" && !matching.contains_key("user") && !matching.contains_key("userAgent") {
        matching.insert("user".to_owned(), json!(OPERATOR_USER));
    }
    let mut rule = json!({"match": matching, "action": {*word: action}});
    for key in TIMES {
        if let Some(item) = fields.get(key) {
            rule[key] = item.node.to_value();
        }
    }
    match serde_json::from_value::<Rule>(rule) {
        Ok(rule) => {
            if let Some(code) = code(&rule.action).filter(|code| !(100..600).contains(code)) {
                reader.error_with(
                    &action_item,
                    format!("`{code}` is not an HTTP status"),
                    "statuses are numbers from 100 to 599",
                );
                return None;
            }
            are_known.then(|| StepAction::Fault(Box::new(Fault { rule, title: title(item) })))
        }
        Err(error) => {
            reader.error_with(&action_item, format!("the fault `{word}` cannot be read: {error}"), forms(word));
            None
        }
    }
}

/// Checks a verb, a pattern with `*`.
fn verb(reader: &Reader, item: &Item<'_>, text: &str) -> Option<()> {
    if VERBS.iter().any(|verb| matches(text, verb)) {
        return Some(());
    }
    let hint = nearest(text, VERBS).map_or_else(
        || format!("known are {}", one_of(&VERBS).replace(" or ", " and ")),
        |meant| format!("did you mean `{meant}`?"),
    );
    reader.error_with(item, format!("no request has the verb `{text}`"), hint);
    None
}

/// Returns the status code of an action.
fn code(action: &Action) -> Option<u16> {
    match action {
        Action::Status { code, .. }
        | Action::StatusAfter { code }
        | Action::WatchError { code, .. }
        | Action::DiscoveryFail { code, .. } => Some(*code),
        _ => None,
    }
}

/// Returns the fault as written.
fn title(item: &Item<'_>) -> String {
    let word = |(key, item): (&str, Item<'_>)| {
        let value = item.node.text().map_or_else(|| item.node.to_value().to_string(), str::to_owned);
        format!("{key}: {value}")
    };
    format!("{{{}}}", item.entries().unwrap_or_default().into_iter().map(word).collect::<Vec<_>>().join(", "))
}

/// Returns the hint how a fault is written.
fn forms(word: &str) -> &'static str {
    match word {
        "status" => {
            "write a status, `status: 500`, or a mapping with `code`, `reason`, `message`, `retryAfter` and `body`"
        }
        "statusAfter" | "watchError" => "write a status, such as `500`, or a mapping with `code`",
        "delay" | "watchStall" | "watchDelay" | "notReady" | "staleRead" => {
            "write a time, such as `500ms`, or a mapping with `ms`"
        }
        "reset" => "write `before`, `after` or `mid-body`",
        "watchDrop" => "write `clean`, `rst` or `mid-line`, or a mapping with `how`, `afterEvents`, `afterMs`",
        "watchExpire" => "write `event` or `http`",
        "webhookFail" => "write `timeout`, `refused` or `500`, or a mapping with `kind` and the `name` of one webhook",
        "unauthorized" => "write a time, such as `5m`, or a mapping with `afterMs`",
        _ => "write a mapping with what belongs to it, `{}` if there is nothing",
    }
}

/// Expands the short forms of an action: a status or a time alone.
fn action(word: &str, item: &Item<'_>, beside: &dyn Fn(&str) -> Option<Value>) -> Value {
    let value = item.node.to_value();
    match (&item.node.kind, word) {
        (Kind::Number(_), "status") => {
            let mut action = json!({"code": value});
            for key in OF_STATUS {
                if let Some(value) = beside(key) {
                    action[key] = value;
                }
            }
            action
        }
        (Kind::Number(_), "statusAfter" | "watchError") => json!({"code": value}),
        (Kind::Number(_), "slowBody") => json!({"bytesPerSec": value}),
        (Kind::Number(_), "staleRead") => json!({"revisions": value}),
        (Kind::Number(_), "conflict") => json!({"times": value}),
        (Kind::Text(text), "delay" | "watchStall" | "watchDelay" | "notReady" | "staleRead") => {
            milliseconds(&text.value).map_or(value, |ms| json!({"ms": ms}))
        }
        (Kind::Text(text), "unauthorized") => milliseconds(&text.value).map_or(value, |ms| json!({"afterMs": ms})),
        (Kind::Text(text), "reset") => json!({"phase": text.value}),
        (Kind::Text(text), "watchDrop" | "watchExpire") => json!({"how": text.value}),
        (Kind::Text(text), "webhookFail") => json!({"kind": text.value}),
        (Kind::Number(_), "webhookFail") => json!({"kind": value.to_string()}),
        (Kind::Null | Kind::Bool(true), _) => json!({}),
        _ => value,
    }
}

/// Returns the milliseconds of a duration, as fault rules have them.
fn milliseconds(text: &str) -> Option<u64> {
    u64::try_from(crate::kit::duration::parse(text).ok()?.as_millis()).ok()
}
