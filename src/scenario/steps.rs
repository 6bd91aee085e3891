//! Steps as they are written.

use std::time::Duration;

use serde_json::Value;

use crate::manifest::reader::{Fields, Item, Reader};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::Kind;

use super::document::Draft;
use super::story::{Absence, Act, Change, Step, Target};
use super::{expectations, faults};

/// The words of steps.
pub const WORDS: [&str; 9] = ["apply", "patch", "delete", "fault", "advance", "restart", "kill", "settle", "expect"];

/// What can be done while the operators are away.
const MEANWHILE: [&str; 5] = ["apply", "patch", "delete", "fault", "advance"];

/// How long a settlement may take that does not say so.
const SETTLING: Duration = Duration::from_mins(5);

/// The kinds of patches, and their media types.
const PATCHES: [(&str, &str); 3] = [
    ("merge", "application/merge-patch+json"),
    ("json", "application/json-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
];

/// Reads a list of steps.
pub fn read(draft: &Draft<'_>, item: &Item<'_>) -> Vec<Step> {
    draft.reader.list(item).iter().filter_map(|item| step(draft, item, &WORDS)).collect()
}

fn step(draft: &Draft<'_>, item: &Item<'_>, known: &[&'static str]) -> Option<Step> {
    let reader = draft.reader;
    let spot = item.node.spot;
    if let Kind::Text(text) = &item.node.kind {
        let word = known.iter().copied().find(|word| *word == text.value);
        let act = match word {
            Some("kill") => Act::Kill(Absence::default()),
            Some("restart") => Act::Restart(Absence::default()),
            Some("settle") => Act::Settle { within: SETTLING, despite_errors: false },
            Some(word) => {
                reader.error_with(item, format!("the step `{word}` says nothing"), format!("write `- {word}: …`"));
                return None;
            }
            None => return refuse(draft, item, &text.value, known),
        };
        return Some(Step { spot, title: title(&act), act });
    }
    let Some(entries) = item.entries() else {
        reader.error_with(item, format!("a step must be a mapping, not {}", item.node.noun()), "write such as `- advance: 60s`");
        return None;
    };
    let [(word, value)] = entries.as_slice() else {
        let hint = "begin each step with `- ` and one word";
        reader.error_with(item, format!("a step has one word, and this has {}", entries.len()), hint);
        return None;
    };
    let Some(word) = known.iter().copied().find(|known| known == word) else { return refuse(draft, value, word, known) };
    let act = act(draft, word, value)?;
    Some(Step { spot: value.key, title: title(&act), act })
}

fn refuse(draft: &Draft<'_>, item: &Item<'_>, word: &str, known: &[&'static str]) -> Option<Step> {
    let hint = match nearest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known are {}", one_of(known).replace(" or ", " and ")),
    };
    let message = if WORDS.contains(&word) {
        format!("`{word}` is no step for the time when the operators are away")
    } else {
        format!("unknown step `{word}`")
    };
    draft.reader.key_error(item, message, hint);
    None
}

fn act(draft: &Draft<'_>, word: &str, item: &Item<'_>) -> Option<Act> {
    let reader = draft.reader;
    Some(match word {
        "apply" => {
            let objects = draft.brought(item);
            if objects.is_empty() {
                return None;
            }
            Act::Apply(objects)
        }
        "patch" => Act::Patch(change(draft, item)?),
        "delete" => {
            if item.node.text().is_some() {
                return Some(Act::Delete(target_text(draft, item, None)?, None));
            }
            let fields = reader.fields(item, "a deletion", &["object", "namespace", "propagation"])?;
            let target = target(draft, &fields)?;
            let propagation = fields.get("propagation").and_then(|item| reader.word(&item, &["Background", "Foreground", "Orphan"]));
            Act::Delete(target, propagation.map(str::to_owned))
        }
        "fault" => faults::read(reader, item)?,
        "advance" => Act::Advance(duration(draft, item)?),
        "restart" => Act::Restart(absence(draft, item)?),
        "kill" => Act::Kill(absence(draft, item)?),
        "settle" => {
            let (mut within, mut despite_errors) = (SETTLING, false);
            if !item.node.is_null() {
                let text = plain(item);
                refuse_plain(draft, item, format!("write `settle: {{within: {text}}}`"))?;
                let fields = reader.fields(item, "a settlement", &["within", "despiteErrors"])?;
                reader.set(&fields, "within", &mut within, |_, item| duration(draft, item));
                reader.set(&fields, "despiteErrors", &mut despite_errors, Reader::boolean);
            }
            Act::Settle { within, despite_errors }
        }
        _ => Act::Expect(Box::new(expectations::read(draft, item)?)),
    })
}

fn duration(draft: &Draft<'_>, item: &Item<'_>) -> Option<Duration> {
    let duration = draft.reader.duration(item)?;
    if duration <= Duration::from_hours(24 * 365) {
        return Some(duration);
    }
    draft.reader.error_with(item, format!("`{}` is longer than a year", item.name()), "write a shorter time");
    None
}

fn absence(draft: &Draft<'_>, item: &Item<'_>) -> Option<Absence> {
    let reader = draft.reader;
    if item.node.is_null() {
        return Some(Absence::default());
    }
    let text = plain(item);
    let is_time = crate::kit::duration::parse(&text).is_ok();
    let downtime = if is_time { text } else { "30s".to_owned() };
    refuse_plain(draft, item, format!("write `- {0}` alone, or `{0}: {{downtime: {downtime}}}`", item.name()))?;
    let fields = reader.fields(item, "an absence", &["downtime", "meanwhile"])?;
    let mut absence = Absence::default();
    reader.set(&fields, "downtime", &mut absence.downtime, |_, item| duration(draft, item));
    absence.meanwhile = reader.list_of(&fields, "meanwhile").iter().filter_map(|item| step(draft, item, &MEANWHILE)).collect();
    Some(absence)
}

/// Returns a plain value as it is written.
fn plain(item: &Item<'_>) -> String {
    item.node.text().map_or_else(|| item.node.to_value().to_string(), str::to_owned)
}

/// Refuses a plain value where there are keys, with the way to write them.
fn refuse_plain(draft: &Draft<'_>, item: &Item<'_>, hint: String) -> Option<()> {
    if matches!(item.node.kind, Kind::Map(_) | Kind::List(_)) {
        return Some(());
    }
    draft.reader.error_with(item, format!("`{}` must be a mapping, not {}", item.name(), item.node.noun()), hint);
    None
}

fn change(draft: &Draft<'_>, item: &Item<'_>) -> Option<Change> {
    let reader = draft.reader;
    let fields = reader.fields(item, "a patch", &["object", "namespace", "merge", "json", "strategic", "subresource"])?;
    let target = target(draft, &fields);
    let given: Vec<_> = PATCHES.iter().filter_map(|(key, media)| Some((*media, fields.get(key)?))).collect();
    let [(media, patch)] = given.as_slice() else {
        if given.is_empty() && !PATCHES.iter().any(|(key, _)| fields.mentions(key)) {
            reader.error_with(item, "the patch changes nothing", "add `merge`, `json`, or `strategic`");
        } else if given.len() > 1 {
            reader.error_with(item, "a patch is of one kind", "make it several steps");
        }
        return None;
    };
    let is_list = matches!(patch.node.kind, Kind::List(_));
    if is_list != (*media == PATCHES[1].1) {
        let wanted = if is_list { "a mapping" } else { "a list of operations" };
        let hint = "`json` is a list of operations, `merge` and `strategic` are mappings of what changes";
        reader.mistyped(patch, wanted, hint);
        return None;
    }
    Some(Change { target: target?, media, patch: patch.node.to_value(), subresource: reader.string(&fields, "subresource") })
}

/// Reads `object`, and `namespace` if it is there.
pub fn target(draft: &Draft<'_>, fields: &Fields<'_>) -> Option<Target> {
    let item = draft.reader.required(fields, "object", "name it as `PLURAL/NAME`, such as `databases/orders-db`")?;
    target_text(draft, &item, draft.reader.string(fields, "namespace"))
}

/// Reads the name of an object.
pub fn target_text(draft: &Draft<'_>, item: &Item<'_>, namespace: Option<String>) -> Option<Target> {
    let text = &draft.reader.text(item)?.value;
    let parts: Vec<&str> = text.split('/').collect();
    let own = |part: &str| part.to_owned();
    match parts.as_slice() {
        _ if parts.iter().any(|part| part.is_empty()) => {}
        [resource, name] => return Some(Target { resource: own(resource), name: own(name), namespace }),
        [namespace, resource, name] => {
            return Some(Target { resource: own(resource), name: own(name), namespace: Some(own(namespace)) });
        }
        _ => {}
    }
    draft.reader.error_with(
        item,
        format!("`{text}` is no name of an object"),
        "write `PLURAL/NAME`, such as `databases/orders-db`, or `NAMESPACE/PLURAL/NAME`",
    );
    None
}

/// Returns the step in a few words.
fn title(act: &Act) -> String {
    let shown = |object: &Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    let away =
        |absence: &Absence| if absence.downtime.is_zero() { String::new() } else { format!(", away for {}", words(absence.downtime)) };
    match act {
        Act::Apply(objects) => format!("apply {}", objects.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Act::Patch(Change { target, subresource: None, patch, .. }) => format!("patch {target}: {patch}"),
        Act::Patch(Change { target, subresource: Some(sub), patch, .. }) => format!("patch the {sub} of {target}: {patch}"),
        Act::Delete(target, _) => format!("delete {target}"),
        Act::Fault(fault) => format!("fault {}", fault.title),
        Act::EndFaults => "no faults any more".to_owned(),
        Act::Advance(duration) => format!("advance {}", words(*duration)),
        Act::Restart(absence) => format!("restart{}", away(absence)),
        Act::Kill(absence) => format!("kill{}", away(absence)),
        Act::Settle { within, .. } => format!("settle within {}", words(*within)),
        Act::Expect(_) => "expect".to_owned(),
    }
}

/// Returns a time as people write it.
pub fn words(duration: Duration) -> String {
    match duration.as_secs() {
        whole if duration.subsec_nanos() == 0 && whole >= 3600 && whole % 3600 == 0 => format!("{}h", whole / 3600),
        whole if duration.subsec_nanos() == 0 && whole >= 60 && whole % 60 == 0 => format!("{}m", whole / 60),
        _ => format!("{}s", duration.as_secs_f64()),
    }
}
