//! Reads the step `expect`.

use crate::kit::duration;
use crate::manifest::Severity;
use crate::manifest::reader::{Fields, Item};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::Kind;

use super::count::{self, Count};
use super::metrics;
use super::model::{
    BackgroundExpectation, Call, Calls, Events, Expectation, ExpectedExit, ExpectedProbes, IndexExpectation,
    LogPattern, Logs, ObjectExpectation, Requests,
};
use super::pattern::{MATCHERS, Pattern};
use super::read_context::ReadContext;
use super::target;

/// The verbs by which requests are counted.
const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// Reads an expectation.
pub(super) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Expectation> {
    let reader = context.reader;
    let known = [
        "object",
        "namespace",
        "matches",
        "absent",
        "calls",
        "background",
        "events",
        "logs",
        "requests",
        "indexes",
        "metrics",
        "exit",
        "probes",
        "paused",
    ];
    let fields = reader.fields(item, "an expectation", &known)?;
    let subjects = [
        "object",
        "calls",
        "background",
        "events",
        "logs",
        "requests",
        "indexes",
        "metrics",
        "exit",
        "probes",
        "paused",
    ];
    if !subjects.iter().chain(&["matches", "absent"]).any(|key| fields.mentions(key)) {
        let hint = "add `object`, `calls`, `background`, `events`, `logs`, `requests`, `indexes`, `metrics`, `exit`, `probes`, or `paused`";
        reader.error_with(item, "nothing is expected", hint);
        return None;
    }
    Some(Expectation {
        object: object_expectation(context, &fields),
        calls: fields.get("calls").and_then(|item| calls(context, &item)),
        background: fields.get("background").map(|item| background(context, &item)).unwrap_or_default(),
        events: reader.list_of(&fields, "events").iter().filter_map(|item| events(context, item)).collect(),
        logs: fields.get("logs").and_then(|item| logs(context, &item)),
        requests: fields.get("requests").map(|item| requests(context, &item)).unwrap_or_default(),
        indexes: fields.get("indexes").map(|item| indexes(context, &item)).unwrap_or_default(),
        metrics: fields.get("metrics").map(|item| metrics::read(context, &item)).unwrap_or_default(),
        exit: fields.get("exit").and_then(|item| exit(context, &item)),
        probes: fields.get("probes").and_then(|item| probes(context, &item)),
        paused: fields.get("paused").and_then(|item| Some((item.spot(), reader.boolean(&item)?))),
    })
}

/// Reads the contents of indexes by their names.
fn indexes(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<IndexExpectation> {
    let reader = context.reader;
    let Some(entries) = item.entries() else {
        let message = format!("`indexes` must be a mapping, not {}", item.node.noun());
        reader.error_with(item, message, "write the contents by names: `indexes: {by_team: {web: [a, b]}}`");
        return Vec::new();
    };
    let read = |(name, item): (&str, Item<'_>)| {
        // No handlers are known if the manifests have errors.
        if !context.handlers.is_empty() && !context.indexes.iter().any(|known| known == name) {
            let names: Vec<&str> = context.indexes.iter().map(String::as_str).collect();
            let hint =
                if names.is_empty() { "the operator has no indexes".to_owned() } else { suggestion(name, &names) };
            reader.key_error(&item, format!("the operator has no index `{name}`"), hint);
            return None;
        }
        let matches = Pattern::read(reader, &context.expressions, &item)?;
        Some(IndexExpectation { name: name.to_owned(), spot: item.key, matches })
    };
    entries.into_iter().filter_map(read).collect()
}

fn object_expectation(context: &ReadContext<'_>, fields: &Fields<'_>) -> Option<ObjectExpectation> {
    let reader = context.reader;
    let is_meant = ["object", "matches", "absent"].iter().any(|key| fields.get(key).is_some());
    if !is_meant {
        return None;
    }
    let target = target::read(context, fields)?;
    let absent = fields.get("absent");
    let is_absent = absent.as_ref().and_then(|item| reader.boolean(item)).unwrap_or(false);
    let matches = fields.get("matches");
    if is_absent && let Some(item) = &matches {
        reader.key_error(item, "an absent object cannot match anything", "leave out `matches`, or `absent`");
    }
    if matches.is_none() && absent.is_none() && !fields.mentions("matches") {
        let hint = "add `matches: {…}` or `absent: true`";
        reader.error_with(&fields.get("object")?, "nothing is expected of the object", hint);
    }
    let matches = match matches {
        Some(item) if matches!(item.node.kind, Kind::Map(_)) => {
            Some(Pattern::read(reader, &context.expressions, &item)?)
        }
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
    Some(ObjectExpectation { target, spot: fields.get("object")?.node.spot, is_absent, matches })
}

fn calls(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Calls> {
    let reader = context.reader;
    if matches!(item.node.kind, Kind::List(_)) {
        let wanted = list_of_calls(context, item);
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
    let target = fields.get("object").and_then(|item| Some((target::read(context, &fields)?, item.spot())));
    let handlers = reader
        .list_of(&fields, "handlers")
        .iter()
        .filter_map(|item| handler(context, item, &reader.text(item)?.value))
        .collect();
    Some(Calls {
        node: list.node.clone(),
        is_exact: exactly.is_some(),
        wanted: list_of_calls(context, list),
        target,
        handlers,
    })
}

/// Reads the expected timers and daemons, of one object or a list.
fn background(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<BackgroundExpectation> {
    let items = item.items().unwrap_or_else(|| vec![item.clone()]);
    let read = |item: &Item<'_>| {
        let reader = context.reader;
        let fields = reader.fields(item, "the timers and daemons", &["object", "namespace", "running"])?;
        let target = target::read(context, &fields);
        let running = reader.required(
            &fields,
            "running",
            "list the ids of the timers and daemons that run: `running: [repair]`, or `[]`",
        )?;
        let running =
            reader.list(&running).iter().filter_map(|item| handler(context, item, &reader.text(item)?.value)).collect();
        Some(BackgroundExpectation { target: target?, spot: fields.get("object")?.spot(), running })
    };
    items.iter().filter_map(read).collect()
}

fn list_of_calls(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<Call> {
    let reader = context.reader;
    let read = |item: &Item<'_>| {
        let whole = &reader.text(item)?.value;
        let (text, at) = whole.rsplit_once('@').map_or((whole.as_str(), None), |(text, at)| (text, Some(at)));
        let Ok(at) = at.map(duration::parse).transpose() else {
            let hint = "write the time since the start of the scenario: `repair@1m`, or `repair#0@90s`";
            reader.error_with(item, format!("`{whole}` has no valid time"), hint);
            return None;
        };
        let Some((id, retry)) = text.rsplit_once('#') else {
            return Some(Call { handler: handler(context, item, text)?, retry: None, at });
        };
        match retry.parse() {
            Ok(retry) if !id.is_empty() => Some(Call { handler: handler(context, item, id)?, retry: Some(retry), at }),
            _ => {
                reader.error_with(
                    item,
                    format!("`{text}` is not a call"),
                    "write `HANDLER#RETRY`, such as `on_create#0`, or the handler alone",
                );
                None
            }
        }
    };
    reader.list(item).iter().filter_map(read).collect()
}

/// Returns the id of a handler if the operators have it, or have a parent of it: sub-handlers are registered by their
/// parents at run time.
fn handler(context: &ReadContext<'_>, item: &Item<'_>, id: &str) -> Option<String> {
    let known = &context.handlers;
    let is_below = |parent: &String| id.strip_prefix(parent.as_str()).is_some_and(|rest| rest.starts_with('/'));
    // No handlers are known if the manifests have errors.
    if known.is_empty() || known.iter().any(|one| one == id || is_below(one)) {
        return Some(id.to_owned());
    }
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = suggestion(id, &names);
    context.reader.error_with(item, format!("the operator has no handler, timer, daemon or schedule `{id}`"), hint);
    None
}

fn suggestion(word: &str, known: &[&str]) -> String {
    nearest(word, known.iter().copied()).map_or_else(
        || format!("known are {}", one_of(known).replace(" or ", " and ")),
        |meant| format!("did you mean `{meant}`?"),
    )
}

/// Reads the pattern of a text.
pub(super) fn pattern_of_text(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Pattern> {
    let reader = context.reader;
    match &item.node.kind {
        Kind::Text(_) => {}
        Kind::Map(entries) => {
            if let Some(entry) = entries.iter().find(|entry| !MATCHERS.contains(&entry.key.as_str())) {
                let hint = suggestion(&entry.key, &MATCHERS);
                reader.report(
                    Severity::Error,
                    entry.spot,
                    &item.path,
                    format!("unknown matcher `{}` of a text", entry.key),
                    Some(hint),
                );
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
    Pattern::read(reader, &context.expressions, item)
}

fn events(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Events> {
    let reader = context.reader;
    let fields = reader.fields(item, "an event", &["reason", "type", "message", "object", "count"])?;
    let member = |key: &'static str| Some((key.to_owned(), pattern_of_text(context, &fields.get(key)?)?));
    let like = ["reason", "type", "message"].into_iter().filter_map(member).collect();
    let target = fields.get("object").and_then(|item| target::read_text(context, &item, None));
    let count = fields.get("count").and_then(|item| count::read(reader, &item)).unwrap_or_else(Count::some);
    Some(Events { spot: item.node.spot, like, target, count })
}

fn logs(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Logs> {
    let reader = context.reader;
    let read = |item: &Item<'_>| Some(LogPattern { spot: item.node.spot, like: pattern_of_text(context, item)? });
    if matches!(item.node.kind, Kind::List(_)) {
        return Some(Logs { includes: reader.list(item).iter().filter_map(read).collect(), excludes: Vec::new() });
    }
    let fields = reader.fields(item, "the logs", &["includes", "excludes"])?;
    let lines = |key: &str| reader.list_of(&fields, key).iter().filter_map(read).collect();
    Some(Logs { includes: lines("includes"), excludes: lines("excludes") })
}

/// Reads an expected exit: its code, or a mapping with the message.
fn exit(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ExpectedExit> {
    let reader = context.reader;
    let spot = item.node.spot;
    if !matches!(item.node.kind, Kind::Map(_)) {
        return Some(ExpectedExit { spot, code: reader.whole(item, 0)?, message: None });
    }
    let fields = reader.fields(item, "an exit", &["code", "message"])?;
    let code = reader.required(&fields, "code", "write `code: 1` for a failure")?;
    let message = fields.get("message").and_then(|item| pattern_of_text(context, &item));
    Some(ExpectedExit { spot, code: reader.whole(&code, 0)?, message })
}

/// Reads the expected answer of the probes.
fn probes(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ExpectedProbes> {
    let reader = context.reader;
    let fields = reader.fields(item, "the probes", &["status", "results", "message"])?;
    let status = match fields.get("status") {
        Some(item) => reader.whole_in(&item, &(100..=599), "write a status of HTTP")?,
        None => 200,
    };
    let results = fields.get("results").and_then(|item| Pattern::read(reader, &context.expressions, &item));
    let message = fields.get("message").and_then(|item| pattern_of_text(context, &item));
    Some(ExpectedProbes { spot: item.node.spot, status, results, message })
}

/// Reads expected requests, of one object or a list.
fn requests(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<Requests> {
    let items = item.items().unwrap_or_else(|| vec![item.clone()]);
    items.iter().filter_map(|item| requests_of(context, item)).collect()
}

fn requests_of(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Requests> {
    let reader = context.reader;
    let known: Vec<&'static str> = [&["object", "namespace"][..], &VERBS].concat();
    let fields = reader.fields(item, "the requests", &known)?;
    let target = target::read(context, &fields);
    let read = |verb: &'static str| Some((verb, count::read(reader, &fields.get(verb)?)?));
    let counts: Vec<_> = VERBS.into_iter().filter_map(read).collect();
    if !VERBS.iter().any(|verb| fields.mentions(verb)) {
        reader.error_with(item, "nothing is expected of the requests", "add a verb: `patch: {atMost: 2}`");
    }
    Some(Requests { target: target?, spot: fields.get("object")?.spot(), counts })
}
