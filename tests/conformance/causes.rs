//! The cause of one event, and the facts of its cycle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopfd::handling::filter::View;
use kopfd::handling::finalizer::is_demanded_by_deletion;
use kopfd::handling::{Cause, Handler, cause, select};
use kopfd::object::{Body, EventKind, Transform};
use kopfd::persistence::essence;
use kopfd::reactor::Event;
use serde_json::{Value, json};

use super::compare::{same, sorted};
use super::world::callbacks::{Facts, Oracle};
use super::world::scripted::diff_item;
use super::world::{Scene, declare, in_virtual_time};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    in_virtual_time(run_case(&case["input"], &case["expected"]))
}

async fn run_case(input: &Value, expected: &Value) -> Result<(), String> {
    let mut input = input.clone();
    input["lifecycle"] = json!("all_at_once");
    let scene = Scene::of(&input, input["body"].clone()).map_err(|contradiction| contradiction.to_string())?;
    let body = Body::from(input["body"].clone());
    let event_kind = declare::event_kind(&input["event_type"]);
    let memory = cause::Memory {
        noticed_by_listing: input["memory"]["noticed_by_listing"] == true,
        fully_handled_once: input["memory"]["fully_handled_once"] == true,
    };
    same_facts(expected, &scene, &body, event_kind, memory)?;
    let uid = body.uid().unwrap_or_default();
    scene.memories.notice(uid, memory.noticed_by_listing, Arc::default);
    if memory.fully_handled_once {
        scene.memories.mark_handled(uid);
    }
    scene.mailbox.put(Event::new(event_kind, body.to_string()));
    let _ = tokio::time::timeout(Duration::from_millis(1), scene.worker().run()).await;
    same_cycle(&expected["cycle"], &scene, uid, (event_kind == EventKind::Deleted).then_some(memory))
}

/// Checks the decisions about the event, before they are carried out.
fn same_facts(
    expected: &Value,
    scene: &Scene,
    body: &Body,
    event_kind: EventKind,
    memory: cause::Memory,
) -> Result<(), String> {
    let served = &scene.served;
    let handlers = &served.handlers;
    let storages = &served.storages;
    let change = essence::change(storages, body, &served.extra_fields).map_err(|error| error.to_string())?;
    let cause = cause::detect(event_kind, body, &storages.finalizer, memory, change);
    let ids = |handlers: Vec<&Handler>| handlers.iter().map(|handler| handler.id.clone()).collect::<Vec<_>>();
    let view = View { body, change: None };
    let facts = Facts { body, reason: None, change: None, event_kind: Some(event_kind) };
    let oracle = Oracle { callbacks: &scene.world.callbacks, facts };
    let is_watching = !handlers.watching.is_empty();
    same("watching", &expected["watching"], &json!(is_watching))?;
    if let Some(selected) = expected.get("watching_selected") {
        same(
            "watching_selected",
            selected,
            &json!(ids(select::watching(&handlers.watching, view, &oracle).expect("all is answered"))),
        )?;
    }
    let is_reset = (!handlers.spawning.is_empty()).then(|| json!({"reset": !cause.change.diff.is_empty()}));
    same("spawning", &expected["spawning"], &json!(is_reset))?;
    if let Some(selected) = expected.get("spawning_selected") {
        let spawning = select::spawning(&handlers.spawning, &BTreeSet::new(), view, &oracle).expect("all is answered");
        same("spawning_selected", selected, &json!(ids(spawning)))?;
    }
    let changing = (!handlers.changing.is_empty()).then(|| changing(scene, body, event_kind, &cause));
    let mut expected = expected["changing"].clone();
    if let Some(diff) = expected.get_mut("diff") {
        *diff = sorted(diff);
    }
    same("changing", &expected, &json!(changing))
}

fn changing(scene: &Scene, body: &Body, event_kind: EventKind, cause: &Cause) -> Value {
    let handlers = &scene.served.handlers.changing;
    let change = Some(&*cause.change);
    let facts = Facts { body, reason: Some(cause.reason.as_str()), change, event_kind: Some(event_kind) };
    let oracle = Oracle { callbacks: &scene.world.callbacks, facts };
    let view = View { body, change };
    let selected =
        if cause.reason.is_handled() { select::changing(handlers, cause, view, &oracle) } else { Ok(Vec::new()) };
    let selected: Vec<String> =
        selected.expect("all is answered").into_iter().map(|handler| handler.id.clone()).collect();
    json!({
        "reason": cause.reason.as_str(),
        "initial": cause.initial,
        "deleted": body.is_deleting(),
        "old": cause.change.old,
        "new": cause.change.new,
        "diff": sorted(&cause.change.diff.iter().map(diff_item).collect()),
        "prematch": select::is_concerned(handlers, view, &oracle).expect("all is answered"),
        "requires_finalizer": is_demanded_by_deletion(handlers, view, &oracle).expect("all is answered"),
        "selected": selected,
    })
}

/// Checks the effects of the cycle. A deleted object is forgotten, with its memory.
fn same_cycle(expected: &Value, scene: &Scene, uid: &str, forgotten: Option<cause::Memory>) -> Result<(), String> {
    let world = &scene.world;
    let patches = world.patches.lock();
    let transforms = patches.iter().flat_map(|patch| &patch.transforms);
    let finalizer = transforms.filter_map(|transform| match transform {
        Transform::AddFinalizer(_) => Some("add"),
        Transform::RemoveFinalizer(_) => Some("remove"),
        Transform::SetCondition(_) | Transform::Function(_) => None,
    });
    let is_daemon = |id: &Value| world.handlers.iter().any(|handler| handler.on.is_spawning() && *id == handler.id);
    let called: Vec<Value> = world.timeline.with("call").into_iter().map(|call| call.shown["call"].clone()).collect();
    let essence = "/metadata/annotations/kopf.zalando.org~1last-handled-configuration";
    let is_written = |patch: &kopfd::object::Patch| {
        Value::Object(patch.merge.clone()).pointer(essence).is_some_and(Value::is_string)
    };
    let found = json!({
        "finalizer": finalizer.collect::<Vec<_>>().last(),
        "called": called.into_iter().filter(|id| !is_daemon(id)).collect::<Vec<_>>(),
        "fully_handled_once_after": forgotten.unwrap_or_else(|| scene.memories.notice(uid, false, Arc::default).flags).fully_handled_once,
        "diffbase_written": patches.iter().any(is_written),
        "requests": world.timeline.with("patch").len(),
    });
    same("cycle", expected, &found)
}
