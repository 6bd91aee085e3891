//! The step `expect` as it is written.

use crate::manifest::Severity;
use crate::manifest::reader::{Fields, Item};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::Kind;

use super::count::{self, Count};
use super::document::Draft;
use super::pattern::{MATCHERS, Pattern};
use super::steps::{target, target_text};
use super::story::{Call, Calls, Events, Expectation, Line, Logs, Requests, Sight};

/// The verbs that requests are counted by.
const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// Reads what is expected.
pub fn read(draft: &Draft<'_>, item: &Item<'_>) -> Option<Expectation> {
    let reader = draft.reader;
    let known = ["object", "namespace", "matches", "absent", "calls", "events", "logs", "requests"];
    let fields = reader.fields(item, "an expectation", &known)?;
    let subjects = ["object", "calls", "events", "logs", "requests"];
    if !subjects.iter().chain(&["matches", "absent"]).any(|key| fields.mentions(key)) {
        reader.error_with(item, "nothing is expected", "add `object`, `calls`, `events`, `logs`, or `requests`");
        return None;
    }
    Some(Expectation {
        object: sight(draft, &fields),
        calls: fields.get("calls").and_then(|item| calls(draft, &item)),
        events: reader.list_of(&fields, "events").iter().filter_map(|item| events(draft, item)).collect(),
        logs: fields.get("logs").and_then(|item| logs(draft, &item)),
        requests: fields.get("requests").map(|item| requests(draft, &item)).unwrap_or_default(),
    })
}

fn sight(draft: &Draft<'_>, fields: &Fields<'_>) -> Option<Sight> {
    let reader = draft.reader;
    let is_meant = ["object", "matches", "absent"].iter().any(|key| fields.get(key).is_some());
    if !is_meant {
        return None;
    }
    let target = target(draft, fields)?;
    let absent = fields.get("absent");
    let is_absent = absent.as_ref().and_then(|item| reader.boolean(item)).unwrap_or(false);
    let matches = fields.get("matches");
    if is_absent && let Some(item) = &matches {
        reader.key_error(item, "an object that is absent is like nothing", "leave out `matches`, or `absent`");
    }
    if matches.is_none() && absent.is_none() && !fields.mentions("matches") {
        let hint = "add `matches: {…}` or `absent: true`";
        reader.error_with(&fields.get("object")?, "nothing is expected of the object", hint);
    }
    let matches = match matches {
        Some(item) if matches!(item.node.kind, Kind::Map(_)) => Some(Pattern::read(reader, &draft.expressions, &item)?),
        Some(item) => {
            reader.error_with(
                &item,
                format!("`matches` must be a mapping, not {}", item.node.noun()),
                "write a part of the object: `{status: {…}}`",
            );
            None
        }
        None => None,
    };
    Some(Sight { target, spot: fields.get("object")?.node.spot, is_absent, matches })
}

fn calls(draft: &Draft<'_>, item: &Item<'_>) -> Option<Calls> {
    let reader = draft.reader;
    if matches!(item.node.kind, Kind::List(_)) {
        let wanted = list_of_calls(draft, item);
        return Some(Calls { node: item.node.clone(), is_exact: true, wanted, target: None, handlers: Vec::new() });
    }
    let fields = reader.fields(item, "the calls", &["exactly", "includes", "object", "namespace", "handlers"])?;
    let (exactly, includes) = (fields.get("exactly"), fields.get("includes"));
    let list = match (&exactly, &includes) {
        (Some(_), Some(item)) => {
            reader.key_error(item, "calls are either `exactly` or `includes`", "make it two steps");
            return None;
        }
        (Some(list), None) | (None, Some(list)) => list,
        (None, None) => {
            if !fields.mentions("exactly") && !fields.mentions("includes") {
                reader.error_with(item, "no calls are expected", "add `exactly: […]` or `includes: […]`");
            }
            return None;
        }
    };
    let target = fields.get("object").and_then(|item| Some((target(draft, &fields)?, item.spot())));
    let handlers = reader.list_of(&fields, "handlers").iter().filter_map(|item| handler(draft, item, &reader.text(item)?.value)).collect();
    Some(Calls { node: list.node.clone(), is_exact: exactly.is_some(), wanted: list_of_calls(draft, list), target, handlers })
}

fn list_of_calls(draft: &Draft<'_>, item: &Item<'_>) -> Vec<Call> {
    let reader = draft.reader;
    let read = |item: &Item<'_>| {
        let text = &reader.text(item)?.value;
        let Some((id, retry)) = text.rsplit_once('#') else { return Some(Call { handler: handler(draft, item, text)?, retry: None }) };
        match retry.parse() {
            Ok(retry) if !id.is_empty() => Some(Call { handler: handler(draft, item, id)?, retry: Some(retry) }),
            _ => {
                reader.error_with(
                    item,
                    format!("`{text}` is no call"),
                    "write `HANDLER#RETRY`, such as `on_create#0`, or the handler alone",
                );
                None
            }
        }
    };
    reader.list(item).iter().filter_map(read).collect()
}

/// Returns the id of a handler, if the operators have such a one or it is of a sub-handler: those become known when their parents are called.
fn handler(draft: &Draft<'_>, item: &Item<'_>, id: &str) -> Option<String> {
    let known = &draft.handlers;
    let is_below = |parent: &String| id.strip_prefix(parent.as_str()).is_some_and(|rest| rest.starts_with('/'));
    // Where the manifests have mistakes, nothing is known.
    if known.is_empty() || known.iter().any(|one| one == id || is_below(one)) {
        return Some(id.to_owned());
    }
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = suggestion(id, &names);
    draft.reader.error_with(item, format!("the operator has no handler `{id}` of changes or events"), hint);
    None
}

fn suggestion(word: &str, known: &[&str]) -> String {
    nearest(word, known.iter().copied())
        .map_or_else(|| format!("known are {}", one_of(known).replace(" or ", " and ")), |meant| format!("did you mean `{meant}`?"))
}

/// Reads what a text must be like.
fn pattern_of_text(draft: &Draft<'_>, item: &Item<'_>) -> Option<Pattern> {
    let reader = draft.reader;
    match &item.node.kind {
        Kind::Text(_) => {}
        Kind::Map(entries) => {
            if let Some(entry) = entries.iter().find(|entry| !MATCHERS.contains(&entry.key.as_str())) {
                let hint = suggestion(&entry.key, &MATCHERS);
                reader.tell(Severity::Error, entry.spot, &item.path, format!("unknown matcher `{}` of a text", entry.key), Some(hint));
                return None;
            }
        }
        _ => {
            reader.error_with(
                item,
                format!("a text is expected here, not {}", item.node.noun()),
                "put it in quotes, or write a matcher such as `{matches: '^Created'}`",
            );
            return None;
        }
    }
    Pattern::read(reader, &draft.expressions, item)
}

fn events(draft: &Draft<'_>, item: &Item<'_>) -> Option<Events> {
    let reader = draft.reader;
    let fields = reader.fields(item, "an event", &["reason", "type", "message", "object", "count"])?;
    let member = |key: &'static str| Some((key.to_owned(), pattern_of_text(draft, &fields.get(key)?)?));
    let like = ["reason", "type", "message"].into_iter().filter_map(member).collect();
    let target = fields.get("object").and_then(|item| target_text(draft, &item, None));
    let count = fields.get("count").and_then(|item| count::read(reader, &item)).unwrap_or_else(Count::some);
    Some(Events { spot: item.node.spot, like, target, count })
}

fn logs(draft: &Draft<'_>, item: &Item<'_>) -> Option<Logs> {
    let reader = draft.reader;
    let read = |item: &Item<'_>| Some(Line { spot: item.node.spot, like: pattern_of_text(draft, item)? });
    if matches!(item.node.kind, Kind::List(_)) {
        return Some(Logs { includes: reader.list(item).iter().filter_map(read).collect(), excludes: Vec::new() });
    }
    let fields = reader.fields(item, "the logs", &["includes", "excludes"])?;
    let lines = |key: &str| reader.list_of(&fields, key).iter().filter_map(read).collect();
    Some(Logs { includes: lines("includes"), excludes: lines("excludes") })
}

/// Reads the requests about an object, or a list of such.
fn requests(draft: &Draft<'_>, item: &Item<'_>) -> Vec<Requests> {
    let items = item.items().unwrap_or_else(|| vec![item.clone()]);
    items.iter().filter_map(|item| requests_of(draft, item)).collect()
}

fn requests_of(draft: &Draft<'_>, item: &Item<'_>) -> Option<Requests> {
    let reader = draft.reader;
    let known: Vec<&'static str> = [&["object", "namespace"][..], &VERBS].concat();
    let fields = reader.fields(item, "the requests", &known)?;
    let target = target(draft, &fields);
    let read = |verb: &'static str| Some((verb, count::read(reader, &fields.get(verb)?)?));
    let counts: Vec<_> = VERBS.into_iter().filter_map(read).collect();
    if !VERBS.iter().any(|verb| fields.mentions(verb)) {
        reader.error_with(item, "nothing is expected of the requests", "add a verb: `patch: {atMost: 2}`");
    }
    Some(Requests { target: target?, spot: fields.get("object")?.spot(), counts })
}
