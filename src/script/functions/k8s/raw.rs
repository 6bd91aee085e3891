//! `k8s::raw`: requests that have no function of their own.

use rhai::Dynamic;
use serde_json::Value;
use tracing::Instrument as _;

use super::caller::{Caller, Registry, Thrown, refused};
use crate::object::selector::Criterion;
use crate::object::{Resource, Selector};
use crate::script::functions::options::{Options, json, text};
use crate::script::functions::support::may_have_bytes;
use crate::script::interface::rights::Target;
use crate::script::language::convert;
use crate::script::outside::api::{ApiError, RawRequest};
use crate::script::runtime::context::wait_in;
use crate::script::values::script_error::Failure;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Paths that every account may read.
const PUBLIC: [&str; 7] = ["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"];

const JSON: &str = "application/json";

/// The forms of patches, by their names in kubectl.
const PATCHES: [(&str, &str); 4] = [
    ("apply", "application/apply-patch+yaml"),
    ("json", "application/json-patch+json"),
    ("merge", "application/merge-patch+json"),
    ("strategic", "application/strategic-merge-patch+json"),
];

/// Registers the function.
pub(super) fn register(to: &mut impl Registry) {
    to.two("raw", |call, given| raw(call, &given[..]));
    to.three("raw", |call, given| raw(call, &given[..]));
    to.four("raw", |call, given| raw(call, &given[..]));
}

/// `k8s::raw(method, path, [body], [#{patch}])`: the answer, as a value if it is JSON, else as a text.
fn raw(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let [method, path, rest @ ..] = given else { return Err(call.wrong("it takes a method and a path")) };
    let method = text(&call.name, "the method", method)?;
    let method = METHODS.into_iter().find(|known| known.eq_ignore_ascii_case(&method));
    let method = method.ok_or_else(|| call.wrong(&format!("the method must be one of {}", METHODS.join(", "))))?;
    let path = text(&call.name, "the path", path)?;
    let body = rest.first().filter(|body| !body.is_unit()).map(|body| json(&call.name, body)).transpose()?;
    let options = Options::read("k8s::raw", &["patch"], rest.get(1))?;
    let content_type = if method == "PATCH" { patch_type(&options, body.as_ref())? } else { JSON };
    let asked = Asked::read(method, &path).map_err(|error| call.wrong(&error))?;
    require(call, &asked, &path)?;
    let request = RawRequest { method, path: path.clone(), content_type, body };
    let api = call.api()?;
    let sent = async move { api.raw(request).await }.instrument(call.context.span().clone());
    let answer = wait_in(&call.context, sent)?.map_err(|error| failed(call, method, &path, error))?;
    may_have_bytes(call.native, answer.len())?;
    Ok(match serde_json::from_slice::<Value>(&answer) {
        Ok(value) => convert::to_dynamic(&value),
        Err(_) if answer.is_empty() => Dynamic::UNIT,
        Err(_) => String::from_utf8_lossy(&answer).into_owned().into(),
    })
}

fn patch_type(options: &Options, body: Option<&Value>) -> Result<&'static str, Thrown> {
    let named = match (options.text("patch")?, body) {
        (Some(name), _) => name,
        (None, Some(Value::Array(_))) => "json",
        (None, _) => "merge",
    };
    let found = PATCHES.into_iter().find(|(name, _)| *name == named);
    found
        .map(|(_, content_type)| content_type)
        .ok_or_else(|| options.wrong("patch", "apply, json, merge, or strategic"))
}

fn failed(call: &Caller<'_>, method: &str, path: &str, error: ApiError) -> Thrown {
    let message = format!("{} {method} {path}: {}", call.name, error.message);
    Failure::from(ApiError { message, ..error }).into()
}

/// Refuses a request that `allow.k8s` does not declare. Nothing is derived from the code: a path is no kind.
fn require(call: &Caller<'_>, asked: &Asked, path: &str) -> Result<(), Thrown> {
    let (verb, object) = match asked {
        Asked::Public => return Ok(()),
        Asked::Object { verb, object } => (*verb, object),
    };
    let selector = Selector {
        group: Some(object.group.clone()),
        version: Some(object.version.clone()),
        name: Criterion::Plural(object.plural.clone()),
    };
    let api = call.context.cluster(&call.name)?;
    let resolved = wait_in(&call.context, async move { api.resolve(selector).await })?;
    let assumed = Resource {
        group: object.group.clone(),
        version: object.version.clone(),
        plural: object.plural.clone(),
        ..Resource::default()
    };
    let resource = resolved.map_or(assumed, |resource| (*resource).clone());
    let (subresource, name, namespace) =
        (object.subresource.as_deref(), object.name.as_deref(), object.namespace.as_deref());
    let target = Target { resource: &resource, subresource, name, namespace };
    if call.context.permissions().declares(&target, verb) {
        return Ok(());
    }
    let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
    let rule =
        format!("{{verbs: [{verb}], groups: [{:?}], resources: [{}{subresource}]}}", object.group, object.plural);
    let message = format!(
        "{} {path}: kopfd refuses the request before it is sent: declare it under `allow.k8s`, as in `{rule}`",
        call.name
    );
    Err(refused(message, &target))
}

/// The target of a request, by its path.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// A path that every account may read.
    Public,
    /// An object, or several.
    Object {
        /// The verb that the API server checks.
        verb: &'static str,
        /// The object.
        object: PathParts,
    },
}

/// The parts of a path.
#[derive(Debug, Default, PartialEq, Eq)]
struct PathParts {
    group: String,
    version: String,
    namespace: Option<String>,
    plural: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Asked {
    /// Reads a path as the API server does.
    fn read(method: &'static str, path: &str) -> Result<Self, String> {
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
        if !bare.starts_with('/') || !bare.chars().all(is_plain) || bare.contains("//") {
            return Err(format!("{path:?} is no path: it begins with `/`, and has neither `%` nor empty segments"));
        }
        if query.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') {
            return Err(format!("the query of {path:?} must be encoded"));
        }
        let segments: Vec<&str> = bare.trim_matches('/').split('/').collect();
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return Err(format!("{path:?} must not have the segments `.` and `..`"));
        }
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self::elsewhere(method, bare),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inside @ ..]
                if !inside.is_empty() && !matches!(inside, ["status" | "finalize"]) =>
            {
                (Some(*namespace), inside)
            }
            rest => (None, rest),
        };
        // Everything after the name of a subresource is its own business.
        let (plural, name, subresource) = (rest[0], rest.get(1), rest.get(2));
        let is_watch =
            query.split('&').any(|parameter| matches!(parameter.split_once('='), Some(("watch", "true" | "1"))));
        if is_watch || plural == "watch" {
            return Err("it cannot watch: use `k8s::wait` or `k8s::watch_until`".to_owned());
        }
        let verb = match (method, name) {
            ("GET" | "HEAD", Some(_)) => "get",
            ("GET" | "HEAD", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            (_, Some(_)) => "delete",
            (_, None) => "deletecollection",
        };
        let owned = |text: &&str| (*text).to_owned();
        let object = PathParts {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.as_ref().map(owned),
            plural: plural.to_owned(),
            name: name.map(owned),
            subresource: subresource.map(owned),
        };
        Ok(Self::Object { verb, object })
    }

    fn elsewhere(method: &str, path: &str) -> Result<Self, String> {
        let is_below =
            |root: &&str| path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if matches!(method, "GET" | "HEAD") && PUBLIC.iter().any(is_below) {
            return Ok(Self::Public);
        }
        Err(format!("{method} {path} is neither a path of objects nor one of {}", PUBLIC.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &'static str, path: &str) -> String {
        match Asked::read(method, path) {
            Ok(Asked::Public) => "public".to_owned(),
            Ok(Asked::Object { verb, object: PathParts { group, version, namespace, plural, name, subresource } }) => {
                let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
                format!("{verb} {group:?} {version} {} {plural} {} {}", or(namespace), or(name), or(subresource))
            }
            Err(error) => error,
        }
    }

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        for (method, path, expected) in [
            ("GET", "/api/v1/nodes", "list \"\" v1 - nodes - -"),
            ("GET", "/api/v1/nodes/n", "get \"\" v1 - nodes n -"),
            ("GET", "/api/v1/namespaces", "list \"\" v1 - namespaces - -"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update \"\" v1 - namespaces a finalize"),
            ("POST", "/api/v1/namespaces/a/pods/b/binding", "create \"\" v1 a pods b binding"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale?fieldManager=x",
                "patch \"apps\" v1 a deployments b scale",
            ),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection \"apps\" v1 a deployments - -"),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments/b", "delete \"apps\" v1 a deployments b -"),
            ("GET", "/api/v1/namespaces/a/services/b/proxy/c/d", "get \"\" v1 a services b proxy"),
            ("GET", "/version", "public"),
            ("GET", "/apis/apps/v1", "public"),
            ("GET", "/openapi/v3/api/v1", "public"),
        ] {
            assert_eq!(shown(method, path), expected, "{method} {path}");
        }
        for (method, path, expected) in [
            ("GET", "/metrics", "neither a path of objects"),
            ("POST", "/version", "neither a path of objects"),
            ("GET", "/versions", "neither a path of objects"),
            ("GET", "api/v1/nodes", "is no path"),
            ("GET", "/api/v1/namespaces/a/../secrets", "must not have the segments"),
            ("GET", "/api/v1/%6eodes", "is no path"),
            ("GET", "//api/v1/nodes", "is no path"),
            ("GET", "/api/v1/nodes?watch=true", "it cannot watch"),
            ("GET", "/api/v1/watch/nodes", "it cannot watch"),
            ("GET", "/api/v1/nodes?a=b c", "must be encoded"),
        ] {
            assert!(shown(method, path).contains(expected), "{method} {path}: {}", shown(method, path));
        }
    }
}
