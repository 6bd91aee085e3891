//! Discovery: which groups, versions and resources there are; and the few paths that are about the server itself.

use serde_json::{Value, json};

use super::api;
use super::failure::Failure;
use super::openapi;
use super::registry::{Registry, Served};
use super::reply::Reply;
use super::request::{Path, Query};

/// The checks that the verbose form of health names.
const CHECKS: &[&str] = &["ping", "log", "store", "controllers"];

/// Answers a question for what there is.
pub fn answer(registry: &Registry, path: &Path, query: &Query, text: &str, revision: u64) -> Reply {
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
        Path::Other(_) => other(registry, query, text.trim_end_matches('/'), revision),
        Path::Objects(_) => Reply::from(Failure::new(404, "NotFound", "the server could not find the requested resource")),
    }
}

fn other(registry: &Registry, query: &Query, path: &str, revision: u64) -> Reply {
    match path {
        "" => Reply::object(json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})),
        "/version" => Reply::object(api::version()),
        "/healthz" | "/livez" | "/readyz" if query.is_on("verbose") => {
            let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            Reply::text(200, &format!("{lines}{} check passed\n", path.trim_start_matches('/')))
        }
        "/healthz" | "/livez" | "/readyz" => Reply::text(200, "ok"),
        "/openapi/v3" => Reply::object(openapi_index(registry, revision)),
        path => path.strip_prefix("/openapi/v3/").map_or_else(Reply::no_page, |below| openapi_of(registry, below)),
    }
}

/// The versions that have resources, as paths below `/openapi/v3/`.
fn versions(registry: &Registry) -> impl Iterator<Item = (String, String, String)> {
    let core = ("api/v1".to_owned(), String::new(), "v1".to_owned());
    let groups = registry.groups().into_iter().flat_map(|(group, versions)| {
        versions.into_iter().map(move |version| (format!("apis/{group}/{version}"), group.clone(), version))
    });
    std::iter::once(core).chain(groups)
}

fn openapi_index(registry: &Registry, _revision: u64) -> Value {
    let paths = versions(registry).map(|(path, group, version)| {
        // The schemas of a version change with its definitions only.
        let since = registry.version(&group, &version).map(|served| served.since).max().unwrap_or_default();
        let url = format!("/openapi/v3/{path}?hash={since:X}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<serde_json::Map<_, _>>()})
}

fn openapi_of(registry: &Registry, below: &str) -> Reply {
    let Some((_, group, version)) = versions(registry).find(|(path, _, _)| path == below) else { return Reply::no_page() };
    let kinds: Vec<&super::kind::Kind> = registry.version(&group, &version).map(|served| &served.kind).collect();
    Reply::object(openapi::document(&group, &version, &kinds))
}

fn group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

fn resources(registry: &Registry, group: &str, version: &str) -> Reply {
    let mut all: Vec<Value> = registry.version(group, version).flat_map(|served| resource(served)).collect();
    if all.is_empty() && !group.is_empty() {
        return Reply::no_page();
    }
    all.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Reply::object(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": all}))
}

fn resource(served: &Served) -> Vec<Value> {
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
    let verbs = ["get", "patch", "update"];
    let below = |name: &str, kind_name: &str, verbs: &[&str]| {
        json!({"name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced, "kind": kind_name, "verbs": verbs})
    };
    let mut all = vec![main];
    if kind.has_status {
        all.push(below("status", &kind.kind, &verbs));
    }
    if kind.scale.is_some() {
        let mut scale = below("scale", "Scale", &verbs);
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        all.push(scale);
    }
    if kind.group.is_empty() {
        match kind.plural.as_str() {
            "namespaces" => all.push(below("finalize", "Namespace", &["update"])),
            "serviceaccounts" => {
                let mut token = below("token", "TokenRequest", &["create"]);
                token["group"] = json!("authentication.k8s.io");
                token["version"] = json!("v1");
                all.push(token);
            }
            "pods" => all.push(below("log", "Pod", &["get"])),
            _ => {}
        }
    }
    all
}
