//! The fields of built-in kinds in the OpenAPI documents of both servers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::cases;
use crate::differ::embedded::Embedded;
use crate::differ::run::{RequestUser, Server as _};
use crate::harness::{Case, TestContext};

pub(crate) const CASES: &[Case] = cases![built_in_kinds_have_the_fields_that_they_have_on_a_real_server];

/// Fields with different descriptions: parts of their paths.
const OTHERWISE: [(&str, &str); 2] = [
    ("ObjectMeta.", "the metadata is described shortly, and read by rules of its own"),
    ("ListMeta", "what lists say of themselves is described shortly"),
];

fn built_in_kinds_have_the_fields_that_they_have_on_a_real_server(context: &TestContext<'_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let embedded = Embedded::new();
    let ours = |path: &str| runtime.block_on(get(&embedded, path));
    let index = ours("/openapi/v3");
    let groups: Vec<&String> = index["paths"].as_object().expect("groups are listed").keys().collect();
    assert!(groups.len() > 10, "there are many groups: {groups:?}");
    let (mut known, mut differences) = (0, Vec::new());
    for group in groups {
        let path = format!("/openapi/v3/{group}");
        let described = components(&ours(&path));
        let real =
            components(&context.client().get(&path).unwrap_or_else(|| panic!("the real server describes {group}")));
        for (name, fields) in &described {
            known += fields.len();
            match real.get(name) {
                Some(real) => differences.extend(differ(name, real, fields)),
                None => differences.push(format!("{name} is there only here")),
            }
        }
    }
    let is_allowed = |text: &String| OTHERWISE.iter().any(|(part, _)| text.contains(part));
    differences.retain(|text| !is_allowed(text));
    let differences: BTreeSet<String> = differences.into_iter().collect();
    assert!(differences.is_empty(), "{} of {known} fields: {differences:#?}", differences.len());
    assert!(known > 2_000, "{known} fields are compared");
}

async fn get(embedded: &Embedded, path: &str) -> Value {
    let request = Request::get(path).body(Bytes::new()).expect("a request");
    let body = embedded
        .send(RequestUser::Administrator, request)
        .await
        .into_body()
        .collect()
        .await
        .expect("an answer in this process");
    serde_json::from_slice(&body.to_bytes()).expect("descriptions are JSON")
}

/// Returns the fields of all schemas, with their types.
fn components(document: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let schemas = document["components"]["schemas"].as_object().expect("a description has schemas");
    let fields = |schema: &Value| {
        schema["properties"].as_object().map(|all| all.iter().map(|(name, one)| (name.clone(), of(one))).collect())
    };
    let all = schemas.iter().filter(|(name, _)| !name.ends_with("List") && !name.contains(".apiextensions"));
    all.filter_map(|(name, schema)| Some((name.clone(), fields(schema)?))).collect()
}

fn of(schema: &Value) -> String {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        return reference.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("[]{}", of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", of(&schema["additionalProperties"]))
        }
        Some(name) => schema["format"].as_str().map_or_else(|| name.to_owned(), |format| format!("{name} {format}")),
        None => "anything".to_owned(),
    }
}

fn differ(name: &str, real: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> Vec<String> {
    let name = name.rsplit('.').next().unwrap_or(name);
    let all: BTreeSet<&String> = real.keys().chain(ours.keys()).collect();
    let nothing = "nothing".to_owned();
    let of = |fields: &BTreeMap<String, String>, field: &String| fields.get(field).unwrap_or(&nothing).clone();
    let all = all.into_iter().map(|field| (field, of(real, field), of(ours, field)));
    all.filter(|(_, real, ours)| real != ours)
        .map(|(field, real, ours)| format!("{name}.{field} is {real}, here {ours}"))
        .collect()
}
