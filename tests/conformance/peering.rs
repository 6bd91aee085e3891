//! Peers: their records, the decisions about them, keep-alives, and identities.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kopfd::cluster::address;
use kopfd::engines::peering;
use kopfd::handling::Message;
use kopfd::handling::peering::{
    HEAD_START, Own, Peer, descriptive_host, keep_alive_message, keep_alive_period, operator_identity,
    personal_identity, react,
};
use kopfd::manifest::settings;
use kopfd::object::Resource;
use kopfd::persistence::{peering as stored, text};
use serde_json::{Map, Value, json};

use super::compare::same;

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let found = match input["op"].as_str().unwrap_or_default() {
        "parse" => parsed(input),
        "process" => processed(input),
        "touch" => touched(input),
        "keepalive_period" => period(input),
        "identity" => json!({"identity": identity(input)}),
        "hostname" => json!({"host": host(input)}),
        "resources" => {
            let selectors = peering::selectors(&settings(input));
            json!({"selectors": selectors.iter().map(ToString::to_string).collect::<Vec<_>>()})
        }
        other => panic!("the operation {other:?} is unknown"),
    };
    same("outcome", &case["expected"], &found)
}

fn now(input: &Value) -> Timestamp {
    input["now"].as_str().unwrap_or("2024-01-31T12:00:00.500000+00:00").parse().expect("the vectors have times")
}

fn settings(input: &Value) -> settings::Peering {
    let given = &input["settings"];
    let default = settings::Peering::default();
    settings::Peering {
        name: given["name"].as_str().map_or(default.name, str::to_owned),
        priority: given["priority"].as_i64().unwrap_or(default.priority),
        lifetime: given["lifetime"].as_u64().map_or(default.lifetime, Duration::from_secs),
        stealth: given["stealth"].as_bool().unwrap_or(default.stealth),
        clusterwide: given["clusterwide"].as_bool(),
        ..settings::Peering::default()
    }
}

fn parsed(input: &Value) -> Value {
    let now = now(input);
    let identity = input["identity"].as_str().unwrap_or_default();
    match stored::read_one(identity, &input["record"], now) {
        // The class of the error does not matter.
        Err(_) => json!({"error": "ParseError"}),
        Ok(peer) => {
            let deadline = kopfd::handling::Moment { at: peer.deadline(), ..peer.last_seen };
            json!({
                "priority": peer.priority,
                "lifetime_seconds": peer.lifetime,
                "lastseen": stored::record_of(&peer)["lastseen"],
                "deadline": text::moment(deadline).replace(".000000", ""),
                "is_dead": peer.is_dead(now),
                "serialised": stored::record_of(&peer),
            })
        }
    }
}

/// A keep-alive as the engine writes and reports it.
struct Written {
    request: Value,
    log: Option<Value>,
}

fn write(input: &Value, lifetime: i64) -> Written {
    let settings = settings(input);
    let merge =
        stored::keep_alive(input["identity"].as_str().unwrap_or_default(), settings.priority, lifetime, now(input));
    let is_found = input["object_exists"].as_bool().unwrap_or(true);
    let message = keep_alive_message(&settings.name, input["namespace"].as_str(), is_found);
    Written { request: request(input, merge), log: (!(is_found && settings.stealth)).then(|| line(&message)) }
}

fn request(input: &Value, merge: Map<String, Value>) -> Value {
    let namespace = input["namespace"].as_str();
    let plural = if namespace.is_some() { "kopfpeerings" } else { "clusterkopfpeerings" };
    let resource = Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: plural.into(),
        namespaced: namespace.is_some(),
        ..Resource::default()
    };
    let url = address::object(&resource, namespace, &settings(input).name).expect("the vectors have sound names");
    json!({"method": "PATCH", "url": url, "content_type": kopfd::cluster::apply::MERGE_PATCH, "body": merge})
}

/// The vectors have the beginnings of messages, up to the lists of peers.
fn line(message: &Message) -> Value {
    let text = message.to_string();
    let beginning = text.split(" [").next().unwrap_or_default();
    json!([message.level.as_str(), beginning])
}

fn touched(input: &Value) -> Value {
    let lifetime = settings(input).lifetime.as_secs().try_into().expect("it is short");
    let Written { request, log } = write(input, input["lifetime"].as_i64().unwrap_or(lifetime));
    json!({"requests": [request], "logs": log.into_iter().collect::<Vec<_>>()})
}

fn processed(input: &Value) -> Value {
    let (settings, now) = (settings(input), now(input));
    let is_paused = input["paused_before"].as_bool().unwrap_or_default();
    if input["object_name"].as_str().is_some_and(|name| name != settings.name) {
        return json!({"paused_after": is_paused, "reevaluate_after_seconds": null, "requests": [], "logs": []});
    }
    let records = stored::read(input.get("status"), now);
    let own = Own { identity: input["identity"].as_str().unwrap_or_default(), priority: settings.priority };
    let peers: Vec<Peer> = records.peers;
    let reaction = react(own, &peers, is_paused, now);
    let mut requests = Vec::new();
    if !reaction.dead.is_empty() && input["autoclean"].as_bool().unwrap_or(true) {
        requests.push(request(input, stored::removal(&reaction.dead)));
    }
    let mut logs: Vec<Value> = reaction.messages.iter().map(line).collect();
    if reaction.wait.is_some() && input["quiet"].as_bool().unwrap_or(true) {
        let written = write(input, settings.lifetime.as_secs().try_into().expect("it is short"));
        requests.push(written.request);
        logs.extend(written.log);
    }
    json!({
        "paused_after": !reaction.pausing.is_empty(),
        "reevaluate_after_seconds": reaction.wait.map(|wait| wait.as_secs_f64()),
        "requests": requests,
        "logs": logs,
    })
}

fn period(input: &Value) -> Value {
    let lifetime = settings(input).lifetime;
    let periods: Vec<u64> = HEAD_START.map(|early| keep_alive_period(lifetime, early).as_secs()).collect();
    let first = stored::keep_alive("me", 0, lifetime.as_secs().try_into().expect("it is short"), now(input));
    json!({
        "shortest": periods.iter().min(),
        "longest": periods.iter().max(),
        "first_request_keys": first["status"].as_object().expect("it is a mapping").keys().collect::<Vec<_>>(),
        "exit_request_body": stored::keep_alive("me", 0, 0, now(input)),
    })
}

fn identity(input: &Value) -> String {
    let text = |key: &str| input[key].as_str().unwrap_or_default();
    let environment: BTreeMap<String, String> = serde_json::from_value(input["env"].clone()).unwrap_or_default();
    match (environment.get("POD_ID"), input["manual"] == true) {
        (Some(pod), _) => pod.clone(),
        (None, true) => personal_identity(text("user"), text("host")),
        (None, false) => operator_identity(text("user"), text("host"), now(input), text("random")),
    }
}

fn host(input: &Value) -> String {
    let lookup = input["lookup"].as_array().cloned().unwrap_or_default();
    let names = lookup.iter().flat_map(|part| part.as_array().cloned().unwrap_or_else(|| vec![part.clone()]));
    let names: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    descriptive_host(input["hostname"].as_str().unwrap_or_default(), &names)
}
