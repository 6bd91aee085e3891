//! Reads steps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::manifest::reader::{Item, Reader};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::Kind;
use crate::object::secret;

use super::model::{Downtime, ManualPatch, Step, StepAction, UserRequest};
use super::read_context::ReadContext;
use super::{conversion, expectations, faults, hook, peers, request, target};

/// The keys of steps.
pub const WORDS: [&str; 14] = [
    "apply", "patch", "delete", "request", "hook", "convert", "peer", "fault", "advance", "restart", "kill", "reload",
    "settle", "expect",
];

/// The steps that are allowed while the operators are stopped.
const MEANWHILE: [&str; 7] = ["apply", "patch", "delete", "request", "peer", "fault", "advance"];

/// Default time limit of `settle`.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The keys of patches and their media types.
const PATCHES: [(&str, &str); 3] = [
    ("merge", "application/merge-patch+json"),
    ("json", "application/json-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
];

/// Reads a list of steps.
pub(super) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<Step> {
    context.reader.list(item).iter().filter_map(|item| step(context, item, &WORDS)).collect()
}

fn step(context: &ReadContext<'_>, item: &Item<'_>, known: &[&'static str]) -> Option<Step> {
    let reader = context.reader;
    let spot = item.node.spot;
    if let Kind::Text(text) = &item.node.kind {
        let word = known.iter().copied().find(|word| *word == text.value);
        let action = match word {
            Some("kill") => StepAction::Kill(Downtime::default()),
            Some("restart") => StepAction::Restart(Downtime::default()),
            Some("settle") => StepAction::Settle { within: SETTLE_TIMEOUT, despite_errors: false },
            Some(word) => {
                reader.error_with(item, format!("the step `{word}` needs a value"), format!("write `- {word}: …`"));
                return None;
            }
            None => return refuse(context, item, &text.value, known),
        };
        return Some(Step { spot, title: title(&action), action });
    }
    let Some(entries) = item.entries() else {
        reader.error_with(
            item,
            format!("a step must be a mapping, not {}", item.node.noun()),
            "write such as `- advance: 60s`",
        );
        return None;
    };
    let [(word, value)] = entries.as_slice() else {
        let hint = "begin each step with `- ` and one key";
        reader.error_with(item, format!("a step has one key, but this has {}", entries.len()), hint);
        return None;
    };
    let Some(word) = known.iter().copied().find(|known| known == word) else {
        return refuse(context, value, word, known);
    };
    let action = action(context, word, value)?;
    Some(Step { spot: value.key, title: title(&action), action })
}

fn refuse(context: &ReadContext<'_>, item: &Item<'_>, word: &str, known: &[&'static str]) -> Option<Step> {
    let hint = match nearest(word, known.iter().copied()) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None => format!("known are {}", one_of(known).replace(" or ", " and ")),
    };
    let message = if WORDS.contains(&word) {
        format!("`{word}` is not allowed while the operators are stopped")
    } else {
        format!("unknown step `{word}`")
    };
    context.reader.key_error(item, message, hint);
    None
}

fn action(context: &ReadContext<'_>, word: &str, item: &Item<'_>) -> Option<StepAction> {
    let reader = context.reader;
    Some(match word {
        "apply" => {
            let objects = context.objects_of_step(item);
            if objects.is_empty() {
                return None;
            }
            StepAction::Apply(objects)
        }
        "patch" => StepAction::Patch(manual_patch(context, item)?),
        "delete" => {
            if item.node.text().is_some() {
                return Some(StepAction::Delete(target::read_text(context, item, None)?, None));
            }
            let fields = reader.fields(item, "a deletion", &["object", "namespace", "propagation"])?;
            let target = target::read(context, &fields)?;
            let propagation =
                fields.get("propagation").and_then(|item| reader.word(&item, &["Background", "Foreground", "Orphan"]));
            StepAction::Delete(target, propagation.map(str::to_owned))
        }
        "request" => {
            StepAction::Request(Box::new(request::read(context, item, |word, item| action(context, word, item))?))
        }
        "hook" => StepAction::Hook(Box::new(hook::read(context, item)?)),
        "convert" => StepAction::Convert(Box::new(conversion::step::read(context, item)?)),
        "peer" => StepAction::Peer(peers::read(context, item)?),
        "fault" => faults::read(reader, item)?,
        "advance" => StepAction::Advance(duration(context, item)?),
        "restart" => StepAction::Restart(downtime(context, item)?),
        "kill" => StepAction::Kill(downtime(context, item)?),
        "reload" => reload(context, item)?,
        "settle" => {
            let (mut within, mut despite_errors) = (SETTLE_TIMEOUT, false);
            if !item.node.is_null() {
                let text = scalar_text(item);
                refuse_scalar(context, item, format!("write `settle: {{within: {text}}}`"))?;
                let fields = reader.fields(item, "the settle step", &["within", "despiteErrors"])?;
                reader.set(&fields, "within", &mut within, |_, item| duration(context, item));
                reader.set(&fields, "despiteErrors", &mut despite_errors, Reader::boolean);
            }
            StepAction::Settle { within, despite_errors }
        }
        _ => StepAction::Expect(Box::new(expectations::read(context, item)?)),
    })
}

/// Reads the changes of files: their contents by path, or null for a removed file.
fn reload(context: &ReadContext<'_>, item: &Item<'_>) -> Option<StepAction> {
    let reader = context.reader;
    let fields = reader.fields(item, "the reload step", &["files", "refused"])?;
    let changed = reader.required(
        &fields,
        "files",
        "name the changed files with their contents: `files: {code.rhai: 'fn f() {}'}`",
    )?;
    let mut is_refused = false;
    reader.set(&fields, "refused", &mut is_refused, Reader::boolean);
    let Some(entries) = changed.entries() else {
        reader.mistyped(
            &changed,
            "a mapping",
            "write the path of each file beside the manifest, with its new content, or null to remove it",
        );
        return None;
    };
    let mut files = BTreeMap::new();
    for (name, content) in entries {
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            reader.error_with(
                &content,
                format!("`{name}` is not beside the manifest"),
                "write a path relative to the manifest, without `..`",
            );
            return None;
        }
        let text = if content.node.is_null() { None } else { Some(reader.owned(&content)?) };
        files.insert(name.to_owned(), text);
    }
    Some(StepAction::Reload { files, is_refused })
}

fn duration(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Duration> {
    let duration = context.reader.duration(item)?;
    if duration <= Duration::from_hours(24 * 365) {
        return Some(duration);
    }
    context.reader.error_with(item, format!("`{}` is longer than a year", item.name()), "write a shorter time");
    None
}

fn downtime(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Downtime> {
    let reader = context.reader;
    if item.node.is_null() {
        return Some(Downtime::default());
    }
    let text = scalar_text(item);
    let is_time = crate::kit::duration::parse(&text).is_ok();
    let downtime = if is_time { text } else { "30s".to_owned() };
    refuse_scalar(context, item, format!("write `- {0}` alone, or `{0}: {{downtime: {downtime}}}`", item.name()))?;
    let fields = reader.fields(item, "a downtime", &["downtime", "meanwhile"])?;
    let mut downtime = Downtime::default();
    reader.set(&fields, "downtime", &mut downtime.duration, |_, item| duration(context, item));
    downtime.meanwhile =
        reader.list_of(&fields, "meanwhile").iter().filter_map(|item| step(context, item, &MEANWHILE)).collect();
    Some(downtime)
}

/// Returns the text of a scalar.
fn scalar_text(item: &Item<'_>) -> String {
    item.node.text().map_or_else(|| item.node.to_value().to_string(), str::to_owned)
}

/// Refuses a scalar where a mapping is expected, with a hint how to write it.
fn refuse_scalar(context: &ReadContext<'_>, item: &Item<'_>, hint: String) -> Option<()> {
    if matches!(item.node.kind, Kind::Map(_) | Kind::List(_)) {
        return Some(());
    }
    context.reader.error_with(item, format!("`{}` must be a mapping, not {}", item.name(), item.node.noun()), hint);
    None
}

fn manual_patch(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ManualPatch> {
    let reader = context.reader;
    let fields =
        reader.fields(item, "a patch", &["object", "namespace", "merge", "json", "strategic", "subresource"])?;
    let target = target::read(context, &fields);
    let given: Vec<_> = PATCHES.iter().filter_map(|(key, media)| Some((*media, fields.get(key)?))).collect();
    let [(media, patch)] = given.as_slice() else {
        if given.is_empty() && !PATCHES.iter().any(|(key, _)| fields.mentions(key)) {
            reader.error_with(item, "the patch changes nothing", "add `merge`, `json`, or `strategic`");
        } else if given.len() > 1 {
            reader.error_with(item, "a patch has only one type", "make it several steps");
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
    Some(ManualPatch {
        target: target?,
        media,
        patch: patch.node.to_value(),
        subresource: reader.string(&fields, "subresource"),
    })
}

/// Returns the summary of a step.
fn title(action: &StepAction) -> String {
    let shown = |object: &Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    let away = |downtime: &Downtime| {
        if downtime.duration.is_zero() {
            String::new()
        } else {
            format!(", stopped for {}", format_duration(downtime.duration))
        }
    };
    match action {
        StepAction::Apply(objects) => format!("apply {}", objects.iter().map(shown).collect::<Vec<_>>().join(", ")),
        StepAction::Patch(ManualPatch { target, subresource, patch, .. }) => {
            let is_of_secret = matches!(target.resource.as_str(), "secrets" | "secret" | "Secret");
            let patch = if is_of_secret { Cow::Owned(secret::shown_request(patch)) } else { Cow::Borrowed(patch) };
            let of = subresource.as_ref().map(|subresource| format!("the {subresource} of ")).unwrap_or_default();
            format!("patch {of}{target}: {patch}")
        }
        StepAction::Delete(target, _) => format!("delete {target}"),
        StepAction::Request(checked) => {
            let dry_run = if checked.is_dry_run { ", as a dry run" } else { "" };
            let of = match &checked.request {
                UserRequest::Apply(object) => title(&StepAction::Apply(vec![object.clone()])),
                UserRequest::Patch(patch) => title(&StepAction::Patch(patch.clone())),
                UserRequest::Delete(target, propagation) => {
                    title(&StepAction::Delete(target.clone(), propagation.clone()))
                }
            };
            format!("request to {of}{dry_run}")
        }
        StepAction::Hook(step) => hook::title(step),
        StepAction::Convert(step) => conversion::step::title(step),
        StepAction::Peer(change) => peers::title(change),
        StepAction::Fault(fault) => format!("fault {}", fault.title),
        StepAction::ClearFaults => "remove all faults".to_owned(),
        StepAction::Advance(duration) => format!("advance {}", format_duration(*duration)),
        StepAction::Restart(downtime) => format!("restart{}", away(downtime)),
        StepAction::Kill(downtime) => format!("kill{}", away(downtime)),
        StepAction::Reload { files, .. } => format!("reload {}", files.keys().cloned().collect::<Vec<_>>().join(", ")),
        StepAction::Settle { within, .. } => format!("settle within {}", format_duration(*within)),
        StepAction::Expect(_) => "expect".to_owned(),
    }
}

/// Formats a duration in the syntax of manifests.
pub(super) fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        whole if duration.subsec_nanos() == 0 && whole >= 3600 && whole % 3600 == 0 => format!("{}h", whole / 3600),
        whole if duration.subsec_nanos() == 0 && whole >= 60 && whole % 60 == 0 => format!("{}m", whole / 60),
        _ => format!("{}s", duration.as_secs_f64()),
    }
}
