//! The permissions of scripts that cannot be derived from their code: `spec.allow`.

mod outside;

use crate::object::Selector;
use crate::object::selector::Criterion;
use crate::script::Allow;
use crate::script::interface::rights::{AllowedKind, AllowedResource, AllowedRule};
use crate::script::outside::clusters::AllowedClusters;

use super::reader::{Fields, Item, Reader};
use super::selectors;
use super::suggest::{nearest, one_of};
use super::tree::Kind;

/// The verbs of requests for objects.
const VERBS: [&str; 9] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];

/// The subresources that may follow a selector; with `groups`, there may be any.
const SUBRESOURCES: [&str; 8] = ["status", "scale", "finalizers", "log", "exec", "eviction", "token", "*"];

const FORM: &str = "write such as `{verbs: [get], resources: [secrets, deployments.apps]}`";

/// Reads `allow`.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Allow {
    let known = &["http", "env", "k8s", "exec", "files", "sql", "clusters"];
    let Some(fields) = reader.fields(item, "what is allowed", known) else { return Allow::default() };
    let texts = |key: &str, check: fn(&str) -> Result<(), &'static str>| -> Vec<String> {
        reader.list_of(&fields, key).iter().filter_map(|item| checked(reader, item, check)).collect()
    };
    let k8s = reader.list_of(&fields, "k8s").iter().filter_map(|item| rule(reader, item)).collect();
    let (exec, files) = (outside::programs(reader, &fields), outside::files(reader, &fields));
    Allow {
        http: texts("http", check_host),
        env: texts("env", check_variable),
        k8s,
        exec,
        files,
        sql: texts("sql", check_host),
        clusters: clusters(reader, &fields),
        ..Allow::default()
    }
}

/// Reads a switch, or a list of hosts.
fn clusters(reader: &Reader, fields: &Fields<'_>) -> AllowedClusters {
    const HINT: &str = "write `true`, or a list of hosts such as `[\"*.example.com\", \"10.0.0.1:6443\"]`";
    let Some(item) = fields.get("clusters") else { return AllowedClusters::Nothing };
    if let Kind::Bool(is_allowed) = item.node.kind {
        return if is_allowed { AllowedClusters::Ordinary } else { AllowedClusters::Nothing };
    }
    let Some(items) = item.items() else {
        reader.mistyped(&item, "a boolean, or a list of hosts", HINT);
        return AllowedClusters::Nothing;
    };
    AllowedClusters::Listed(items.iter().filter_map(|item| checked(reader, item, check_host)).collect())
}

/// Reads a text that a check accepts.
fn checked(reader: &Reader, item: &Item<'_>, check: fn(&str) -> Result<(), &'static str>) -> Option<String> {
    let text = reader.owned(item)?;
    match check(&text) {
        Ok(()) => Some(text),
        Err(hint) => {
            reader.error_with(item, format!("`{text}` cannot be allowed"), hint);
            None
        }
    }
}

fn rule(reader: &Reader, item: &Item<'_>) -> Option<AllowedRule> {
    let fields =
        reader.fields(item, "a rule of `allow.k8s`", &["verbs", "resources", "groups", "names", "namespaces"])?;
    let verbs = filled(reader, &fields, "verbs")?;
    let verbs = verbs.iter().filter_map(|item| verb(reader, item)).collect();
    let groups = fields.get("groups").map(|item| reader.list(&item));
    let resources = filled(reader, &fields, "resources")?;
    let resources = resources.iter().flat_map(|item| resources_of(reader, item, groups.as_deref())).collect();
    let texts = |key: &str| reader.list_of(&fields, key).iter().filter_map(|item| reader.owned(item)).collect();
    let place = item.spot().in_file(&reader.source.name);
    Some(AllowedRule { verbs, resources, names: texts("names"), namespaces: texts("namespaces"), place })
}

/// Returns the items of a list that must not be empty.
fn filled<'a>(reader: &Reader, fields: &Fields<'a>, key: &'static str) -> Option<Vec<Item<'a>>> {
    let item = reader.required(fields, key, FORM)?;
    let items = reader.list(&item);
    if items.is_empty() && item.items().is_some() {
        reader.error_with(&item, format!("`{key}` is empty"), FORM);
    }
    Some(items)
}

fn verb(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if VERBS.contains(&text.as_str()) {
        return Some(text);
    }
    let hint = nearest(&text, VERBS)
        .map_or_else(|| format!("write {}", one_of(&VERBS)), |meant| format!("did you mean `{meant}`?"));
    reader.error_with(item, format!("`{text}` is no verb of requests"), hint);
    None
}

/// Reads a kind: with groups as in roles, and without them as a selector, maybe followed by a subresource.
fn resources_of(reader: &Reader, item: &Item<'_>, groups: Option<&[Item<'_>]>) -> Vec<AllowedResource> {
    let Some(text) = item.node.text() else {
        // A mapping is a selector, and anything else is reported.
        let selector = selectors::read(reader, item);
        return selector
            .map(|selector| AllowedResource { kind: AllowedKind::Selected(selector), subresource: None })
            .into_iter()
            .collect();
    };
    let (name, subresource) = match text.rsplit_once('/') {
        Some((name, subresource)) if groups.is_some() || SUBRESOURCES.contains(&subresource) => {
            (name, Some(subresource.to_owned()))
        }
        _ => (text, None),
    };
    if let Some(groups) = groups {
        let of_group = |item: &Item<'_>| {
            // The name of the core group is empty.
            let group = if item.node.text() == Some("") { String::new() } else { reader.owned(item)? };
            let kind = AllowedKind::Plural { group, plural: name.to_owned() };
            Some(AllowedResource { kind, subresource: subresource.clone() })
        };
        return groups.iter().filter_map(of_group).collect();
    }
    let selector = match name {
        "*" => Some(Selector { group: None, version: None, name: Criterion::Everything }),
        name if subresource.is_some() => match Selector::parse(name) {
            Ok(selector) => Some(selector),
            Err(error) => {
                reader.error_with(item, format!("bad resource `{text}`: {error}"), FORM);
                None
            }
        },
        _ => selectors::read(reader, item),
    };
    selector
        .map(|selector| AllowedResource { kind: AllowedKind::Selected(selector), subresource })
        .into_iter()
        .collect()
}

fn check_host(text: &str) -> Result<(), &'static str> {
    const HINT: &str =
        "write a host, such as `api.example.com`, `*.example.com`, or `api.example.com:8443`, without scheme and path";
    if text.contains("://") || text.contains(['/', '@', ' ', '?']) {
        return Err(HINT);
    }
    let bracketed = text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !bracketed || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) && text.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(HINT);
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.is_empty() || name.contains('*') { Err(HINT) } else { Ok(()) }
}

fn check_variable(text: &str) -> Result<(), &'static str> {
    let is_name =
        text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.starts_with(|c: char| c.is_ascii_digit());
    if is_name { Ok(()) } else { Err("write the exact name of one environment variable; patterns are not supported") }
}
