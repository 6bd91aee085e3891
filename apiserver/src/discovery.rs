//! Discovery of groups, versions and resources, and the few paths about the server itself.

pub(crate) mod openapi;
use serde_json::{Value, json};

use crate::http::api_error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::{Path, Query};
use crate::kinds::builtin;
use crate::kinds::kind::Kind;
use crate::kinds::registry::{Registry, ServedKind};

/// The checks in the verbose form of health.
const CHECKS: &[&str] = &["ping", "log", "store", "controllers"];

/// Answers a discovery request.
pub(crate) fn answer(registry: &Registry, path: &Path, query: &Query, text: &str) -> Reply {
    match path {
        Path::CoreVersions => Reply::object(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "localhost"}],
        })),
        Path::Groups => {
            let groups: Vec<Value> = registry.groups().iter().map(|(name, versions)| group(name, versions)).collect();
            Reply::object(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Path::Group(name) => registry.groups().get(name).map_or_else(Reply::no_page, |versions| {
            let mut group = group(name, versions);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            Reply::object(group)
        }),
        Path::Resources(group, version) => resources(registry, group, version),
        Path::Other(_) => other(registry, query, text.trim_end_matches('/')),
        Path::Objects(_) => Reply::from(ApiError::no_resource()),
    }
}

fn other(registry: &Registry, query: &Query, path: &str) -> Reply {
    match path {
        "" => Reply::object(
            json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}),
        ),
        "/version" => Reply::object(version()),
        "/healthz" | "/livez" | "/readyz" if query.is_on("verbose") => {
            let lines: Vec<String> = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            Reply::text(200, &format!("{}{} check passed\n", lines.concat(), path.trim_start_matches('/')))
        }
        "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping" | "/readyz/ping" => Reply::text(200, "ok"),
        "/openapi/v3" => Reply::object(openapi_index(registry)),
        path if path.starts_with("/api/") => Reply::from(ApiError::no_resource()),
        path => path.strip_prefix("/openapi/v3/").map_or_else(Reply::no_page, |below| openapi_of(registry, below)),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": format!("v1.36.0+kopfd-{}", env!("CARGO_PKG_VERSION")), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn openapi_index(registry: &Registry) -> Value {
    let kinds: Vec<Kind> = registry.all().map(|served| served.kind.clone()).collect();
    openapi::index(&kinds)
}

fn openapi_of(registry: &Registry, below: &str) -> Reply {
    let kinds: Vec<Kind> = registry.all().map(|served| served.kind.clone()).collect();
    let found = kinds.iter().find(|kind| openapi::path_of(&kind.group, &kind.version) == below);
    found.map_or_else(
        || Reply::text(404, ""),
        |kind| Reply::object(openapi::document(&kind.group, &kind.version, &kinds)),
    )
}

fn group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

fn resources(registry: &Registry, group: &str, version: &str) -> Reply {
    let mut all: Vec<Value> = registry.version(group, version).flat_map(|served| resource(served)).collect();
    if all.is_empty() && !group.is_empty() {
        let is_built_in = registry.all().any(|served| served.kind.group == group && !served.kind.is_custom());
        if is_built_in {
            return Reply::from(ApiError::no_resource());
        }
        return Reply::no_page();
    }
    let is_custom = registry.version(group, version).any(|served| served.kind.is_custom());
    if !is_custom {
        all.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    }
    let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Reply::object(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": all}))
}

fn resource(served: &ServedKind) -> Vec<Value> {
    let kind = &served.kind;
    let mut main = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind, "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        main["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        main["categories"] = json!(kind.categories);
    }
    let mut all = vec![main];
    let mut below = |name: &str, sub_kind: Option<&str>, verbs: &[&str]| {
        let full = format!("{}/{name}", kind.plural);
        let shown = sub_kind.unwrap_or(&kind.kind);
        let mut entry =
            json!({"name": full, "singularName": "", "namespaced": kind.namespaced, "kind": shown, "verbs": verbs});
        // The kind of a subresource may be of another group.
        let foreign = match shown {
            "Scale" => Some(("autoscaling", "v1")),
            "TokenRequest" => Some(("authentication.k8s.io", "v1")),
            "Eviction" => Some(("policy", "v1")),
            _ => None,
        };
        if let Some((group, version)) = foreign {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        all.push(entry);
    };
    for subresource in builtin::subresources(kind) {
        let verbs: Vec<&str> = subresource.verbs.iter().map(String::as_str).collect();
        below(&subresource.name, subresource.kind.as_deref(), &verbs);
    }
    if kind.is_custom() {
        let verbs = ["get", "patch", "update"];
        if kind.has_status {
            below("status", None, &verbs);
        }
        if kind.scale.is_some() {
            below("scale", Some("Scale"), &verbs);
        }
    }
    all
}
