//! Selectors, served kinds, addresses, and discovery.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use kopfd::cluster::{Error, address, discovery};
use kopfd::object::{Resource, Selector};
use kopfd::reactor::observation::{Insights, Purposes};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::compare::same;
use super::selecting::{identity, parts, resource, selector};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let found = match input["op"].as_str().unwrap_or_default() {
        "match" => matched(input),
        "select" => selected(input),
        "revise" => revised(input),
        "url" => url(input),
        "scan" => scanned(input),
        "scan_groups" => purposes(input).map(|purposes| json!({"groups": purposes.groups()})),
        other => panic!("the operation {other:?} is unknown"),
    };
    match (found, expected.get("error")) {
        (Err(_), Some(_)) => Ok(()),
        (Err(error), None) => Err(format!("refused: {error}")),
        (Ok(found), _) => same("outcome", &with_sorted_query(expected), &with_sorted_query(&found)),
    }
}

fn matched(input: &Value) -> Result<Value, String> {
    let selector = selector(input).map_err(|error| error.to_string())?;
    let mut parts = parts(&selector);
    parts.insert("is_specific".to_owned(), json!(selector.is_specific()));
    Ok(json!({"selector": parts, "match": selector.matches(&resource(&input["resource"]))}))
}

fn selected(input: &Value) -> Result<Value, String> {
    let selector = selector(input).map_err(|error| error.to_string())?;
    let resources = resources(&input["resources"]);
    let mut selected: Vec<String> =
        selector.select(resources.iter().map(AsRef::as_ref)).into_iter().map(identity).collect();
    selected.sort();
    Ok(json!({"selected": selected}))
}

fn resources(specs: &Value) -> Vec<Arc<Resource>> {
    specs.as_array().into_iter().flatten().map(resource).collect()
}

fn purposes(input: &Value) -> Result<Purposes, String> {
    let mut purposes = Purposes::default();
    for spec in input["handlers"].as_array().into_iter().flatten() {
        let selector: Selector = selector(spec).map_err(|error| error.to_string())?;
        let targets: Vec<&mut Vec<Selector>> = match spec["on"].as_str().unwrap_or_default() {
            "validate" | "mutate" => vec![&mut purposes.webhook],
            "index" => vec![&mut purposes.watched, &mut purposes.indexed],
            "event" => vec![&mut purposes.watched],
            _ => vec![&mut purposes.watched, &mut purposes.patched],
        };
        for selectors in targets {
            selectors.push(selector.clone());
        }
    }
    Ok(purposes)
}

fn revised(input: &Value) -> Result<Value, String> {
    let purposes = purposes(input)?;
    let mut insights = Insights::default();
    let mut steps = Vec::new();
    for step in input["steps"].as_array().into_iter().flatten() {
        let warnings = insights.revise(&purposes, step["group"].as_str(), &resources(&step["resources"]));
        let kinds: BTreeSet<&str> =
            warnings.iter().filter_map(|unserved| unserved.warning.split([':', '(']).next()).map(str::trim).collect();
        let identities =
            |set: &BTreeSet<Arc<Resource>>| set.iter().map(|resource| identity(resource)).collect::<BTreeSet<_>>();
        steps.push(json!({
            "watched": identities(&insights.watched),
            "indexed": identities(&insights.indexed),
            "webhook": identities(&insights.webhook),
            "warnings": kinds,
        }));
    }
    Ok(json!({"steps": steps}))
}

fn url(input: &Value) -> Result<Value, String> {
    let (resource, parts) = (resource(&input["resource"]), &input["kwargs"]);
    let namespace = parts["namespace"].as_str();
    let path = match parts["name"].as_str() {
        Some(name) => address::object(&resource, namespace, name),
        None => address::collection(&resource, namespace),
    };
    let mut path = path.map_err(|error| error.to_string())?;
    if let Some(subresource) = parts["subresource"].as_str() {
        path = address::subresource(path, subresource);
    }
    let parameters = parts["params"].as_object().into_iter().flatten();
    let parameters: Vec<(&str, &str)> =
        parameters.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
    Ok(json!({"url": format!("{path}{}", address::query(&parameters))}))
}

/// Sorts query parameters: their order does not matter, and may have changed when the case was read.
fn with_sorted_query(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    let sorted = outcome["url"].as_str().and_then(|url| {
        let (path, query) = url.split_once('?')?;
        let parameters: BTreeSet<&str> = query.split('&').collect();
        Some(json!([path, parameters]))
    });
    if let Some(sorted) = sorted {
        outcome["url"] = sorted;
    }
    outcome
}

fn scanned(input: &Value) -> Result<Value, String> {
    let groups = input["groups"].as_array();
    let groups: Option<BTreeSet<String>> =
        groups.map(|groups| groups.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let requested = Mutex::new(BTreeSet::new());
    let fetch = |path: String, _| {
        let answer = input["api"].get(&path).cloned();
        requested.lock().insert(path);
        std::future::ready(match answer {
            None => Err(Error::of_answer(404, None, b"")),
            Some(Value::Number(status)) => Err(Error::of_answer(status.as_u64().unwrap_or(500) as u16, None, b"")),
            Some(answer) => Ok(answer),
        })
    };
    let scan =
        discovery::scan_with(groups.as_ref(), fetch).now_or_never().ok_or("the answers are ready, and yet it waits")?;
    let scan = scan.map_err(|error| error.to_string())?;
    let resources: Vec<Value> = scan.resources.iter().map(described).collect();
    Ok(json!({"requested_urls": *requested.lock(), "resources": resources}))
}

fn described(resource: &Resource) -> Value {
    json!({
        "group": resource.group,
        "version": resource.version,
        "plural": resource.plural,
        "kind": resource.kind,
        "singular": resource.singular,
        "shortcuts": resource.shortcuts,
        "categories": resource.categories,
        "subresources": resource.subresources,
        "namespaced": resource.namespaced,
        "preferred": resource.preferred,
        "verbs": resource.verbs,
    })
}
