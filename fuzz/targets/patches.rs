//! Patches of all four kinds on objects of custom and built-in kinds. The parts of an input are an object, which is
//! created, and patches, each with the name of its kind in the first line.
//!
//! A patched object stays valid for the server, and a repeatable patch changes nothing the second time.

#![no_main]

use kopfd_fuzz::{Answer, SEPARATOR, World};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|input: &str| {
    let mut parts = input.split(SEPARATOR);
    let Some(mut object) = parts.next().and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let (collection, api_version, kind) = match object["kind"].as_str() {
        Some("ConfigMap") => ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
        Some("Deployment") => ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
        Some("Pod") => ("/api/v1/namespaces/default/pods", "v1", "Pod"),
        _ if object.is_object() => ("/apis/ex.dev/v1/namespaces/default/things", "ex.dev/v1", "Thing"),
        _ => return,
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["name"] = json!("a");
    let world = World::default();
    if world.ask("POST", collection, "application/json", &object.to_string()).status != 201 {
        return;
    }
    let path = format!("{collection}/a");
    for part in parts.take(8) {
        let Some((word, patch)) = part.split_once('\n') else { continue };
        let (word, subresource) = word.split_once('/').map_or((word, ""), |(word, _)| (word, "/status"));
        let (media, can_be_repeated) = match word {
            "merge" => ("application/merge-patch+json", true),
            "json" => ("application/json-patch+json", false),
            "strategic" => ("application/strategic-merge-patch+json", false),
            "apply" => ("application/apply-patch+yaml", true),
            "force" => ("application/apply-patch+yaml", true),
            _ => continue,
        };
        let query = match word {
            "apply" => "?fieldManager=m",
            "force" => "?fieldManager=n&force=true",
            _ => "",
        };
        let place = format!("{path}{subresource}{query}");
        let patched = world.ask("PATCH", &place, media, patch);
        let found = world.ask("GET", &path, "application/json", "");
        if found.status == 404 {
            return;
        }
        if patched.status >= 300 {
            continue;
        }
        assert_eq!(patched.body, found.body, "the answer is what is stored");
        if can_be_repeated && !patch.contains("resourceVersion") {
            let again = world.ask("PATCH", &place, media, patch);
            // Applied nulls clear fields that only the applier owns, and are stored as values for others once the
            // fields are absent.
            if again.status != 409 || word != "apply" {
                assert_eq!(again.status, 200, "a patch that went well goes well again: {again:?}");
                assert_eq!(revision(&again), revision(&patched), "and changes nothing: {again:?} after {patched:?}");
            }
        }
        let whole = world.ask("PUT", &path, "application/json", &found.body.to_string());
        assert_eq!(whole.status, 200, "what is stored is in order: {whole:?}");
        assert_eq!(
            revision(&whole),
            revision(&found),
            "and nothing else than what is stored: {whole:?} after {found:?}"
        );
    }
});

fn revision(answer: &Answer) -> &Value {
    &answer.body["metadata"]["resourceVersion"]
}
