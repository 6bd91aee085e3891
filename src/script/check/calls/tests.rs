//! Which requests are seen in scripts.

use std::path::Path;

use serde_json::json;

use crate::kit::source::SourcePosition;
use crate::script::interface::access::{Access, Calls, Kind, Namespace};
use crate::script::interface::declaration::{Allow, Binding, BindingKind, Code, Declaration};
use crate::script::limits::Limits;

fn declaration(root: &Path, code: Code, kind: BindingKind) -> Declaration {
    let place = SourcePosition { file: root.join("operator.yaml"), line: 1, column: 1 };
    let param = json!({"kind": "v1/Secret"});
    let binding = Binding { id: "f".into(), code, kind, limits: Limits::default(), place, param };
    Declaration { root: root.to_owned(), bindings: vec![binding], allow: Allow::default(), ..Declaration::default() }
}

/// Returns the findings in files, of which `main.rhai` has the function `f`.
fn calls(files: &[(&str, &str)], kind: BindingKind) -> Calls {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let code = Code::Function { file: "main.rhai".into(), name: "f".into() };
    super::super::read(&declaration(folder.path(), code, kind)).calls
}

fn line(access: &Access) -> String {
    let kind = match &access.kind {
        Kind::Text(text) => text.as_str(),
        Kind::Handled(_) => "handled",
        Kind::Unknown => "?",
    };
    let names = access
        .names
        .as_ref()
        .map_or_else(String::new, |names| format!(" {}", names.iter().cloned().collect::<Vec<_>>().join("|")));
    let namespace = match &access.namespace {
        Namespace::Own => String::new(),
        Namespace::Named(name) => format!(" in {name}"),
        Namespace::All => " in all".to_owned(),
        Namespace::Computed => " in ?".to_owned(),
    };
    format!("{} {kind}{names}{namespace}", access.function.name())
}

/// Returns the requests of a change handler `f` in the order of their text.
fn found(script: &str) -> Vec<String> {
    let calls = calls(&[("main.rhai", script)], BindingKind::Change);
    let mut lines: Vec<String> = calls.accesses.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn requests_that_wait_or_have_a_kind_of_their_own_are_seen() {
    let script = r#"fn f(name, namespace, spec) {
        k8s::wait("pods", "a", "Ready"); k8s::wait("pods", "b", "Ready", 5); k8s::wait("pods", "c", "Ready", "5s"); k8s::wait("pods", "there", "d", "Ready");
        k8s::wait("pods", "there", "e", "Ready", spec.timeout); k8s::wait("pods", "f", "Ready", spec.timeout);
        k8s::watch_until("pods", "a", |pod| pod != ()); k8s::watch_until("pods", "there", #{ labels: "a=b" }, |pods| { k8s::delete("v1/pods", "inner"); true }, 5);
        k8s::logs("a"); k8s::logs("there", "a", #{ tail: 1 }); k8s::evict("a", #{ grace: 1 }); k8s::token("there", "robot"); k8s::cluster("access");
        k8s::exec("a", ["ls"]); k8s::exec("b", ["ls", x], #{ stdin: x }); k8s::exec("there", "c", ["ls"]); k8s::exec("there", "d", [], #{});
        k8s::exec(x, ["ls"]); k8s::exec("e", x, #{ check: true }); k8s::exec("there", "f", x);
        k8s::cluster("there", "access", "config"); k8s::can("get", "pods"); k8s::raw("GET", "/version");
    }"#;
    let expected = [
        "cluster v1/secrets access",
        "cluster v1/secrets access in there",
        "delete v1/pods inner",
        "evict v1/pods a",
        "exec v1/pods",
        "exec v1/pods a",
        "exec v1/pods b",
        "exec v1/pods c in there",
        "exec v1/pods d in there",
        "exec v1/pods e",
        "exec v1/pods f in there",
        "logs v1/pods a",
        "logs v1/pods a in there",
        "token v1/serviceaccounts robot in there",
        "wait pods Ready in f",
        "wait pods a",
        "wait pods b",
        "wait pods c",
        "wait pods d in there",
        "wait pods e in there",
        "wait pods f",
        "watch_until pods a",
        "watch_until pods in there",
    ];
    assert_eq!(found(script), expected);
}

#[test]
fn each_function_is_seen_with_its_kind_name_and_namespace() {
    let script = r#"fn f(name, namespace, body, meta) {
        k8s::get("v1/Secret", "a"); k8s::exists("v1/Secret", "there", name); k8s::list("pods"); k8s::list("pods", namespace);
        k8s::list("pods", #{ labels: "a=b" }); k8s::list("pods", "there", #{}); k8s::list("pods", ());
        k8s::patch("deployments.apps", "b", #{}); k8s::patch_status("deployments.apps", meta.namespace, "b", #{});
        k8s::scale("deployments.apps", `${name}-x`, 1); k8s::delete("v1/pods", name); k8s::delete("v1/pods", "there", "a", #{});
        k8s::delete("v1/pods", "a", #{ grace: 1 }); k8s::delete(body); k8s::update(body.copy());
    }"#;
    assert_eq!(
        found(script),
        [
            "delete handled",
            "delete v1/pods",
            "delete v1/pods a",
            "delete v1/pods a in there",
            "exists v1/Secret in there",
            "get v1/Secret a",
            "list pods",
            "list pods in all",
            "list pods in there",
            "patch deployments.apps b",
            "patch_status deployments.apps b",
            "scale deployments.apps",
            "update handled",
        ]
    );
}

#[test]
fn constants_variables_branches_and_loops_are_followed() {
    let script = r#"
        const KIND = "v1/Secret";
        const PORTS = #{ "v1/Pod": 1, "v1/Node": 2 };
        fn f(spec, param) {
            k8s::get(KIND, "a");
            let kind = "v1/Service";
            if spec.x { kind = "v1/Endpoints"; } else if spec.y { kind = "v1/ConfigMap"; }
            k8s::get(kind, "b");
            for kind in ["apps/v1/Deployment", "apps/v1/" + "StatefulSet"] { k8s::list(kind); }
            for kind in PORTS.keys() { k8s::exists(kind, "c"); }
            k8s::delete(switch spec.z { 1 => "v1/A", _ => "v1/B" }, "d");
            k8s::delete(param.kind, "e");
            let all = [];
            all.push("v1/C");
            all += "v1/D";
            let i = 0;
            while i < all.len() { k8s::get(all[i], "f"); i += 1; }
        }"#;
    assert_eq!(
        found(script),
        [
            "delete v1/A d",
            "delete v1/B d",
            "delete v1/Secret e",
            "exists v1/Node c",
            "exists v1/Pod c",
            "get v1/C f",
            "get v1/ConfigMap b",
            "get v1/D f",
            "get v1/Endpoints b",
            "get v1/Secret a",
            "get v1/Service b",
            "list apps/v1/Deployment in all",
            "list apps/v1/StatefulSet in all",
        ]
    );
}

#[test]
fn functions_closures_pointers_and_sub_handlers_are_followed() {
    let script = r#"
        fn f(spec, name) {
            read("v1/A", name);
            read("v1/B", "fixed");
            let again = Fn("read");
            again.call("v1/C", "x");
            ["v1/D"].for_each(|kind| k8s::list(kind));
            let kind = "v1/E";
            let inner = || k8s::list(kind);
            inner.call();
            subhandler("one", |body| k8s::delete(body));
            subhandler("two", #{ param: "v1/F" }, |param| k8s::list(param));
            subhandler("three", Fn("three"));
            spec.items.for_each(|item| k8s::get("v1/G", item));
            deep("v1/H", 100);
        }
        fn read(kind, name) { k8s::get(kind, name) }
        fn three(body) { k8s::update(body); }
        fn deep(kind, n) { if n > 0 { deep(kind, n - 1) } else { k8s::list(kind) } }
        fn never() { k8s::list("v1/Never"); }"#;
    assert_eq!(
        found(script),
        [
            "delete handled",
            "get v1/A",
            "get v1/B fixed",
            "get v1/C x",
            "get v1/G",
            "list v1/D in all",
            "list v1/E in all",
            "list v1/F in all",
            "list v1/H in all",
            "update handled",
        ]
    );
}

#[test]
fn objects_are_seen_in_maps_templates_and_answers() {
    let main = r#"import "lib" as lib;
        fn f(name, body) {
            let made = #{ apiVersion: "v1", kind: "Service", metadata: #{ name: "s" } };
            made.metadata.namespace = "there";
            k8s::create(made);
            k8s::apply([adopt(lib::child(name)), [#{ apiVersion: body.apiVersion, kind: body.kind }]]);
            k8s::apply(adopt(template("a.yaml", #{ name: name, kind: "Job" }), #{ strict: true, forced: true }));
            for file in ["b", "c"] { k8s::apply(template(`${file}.yaml`, #{})); }
            let old = k8s::get("v1/Secret", "x");
            old.data = #{};
            k8s::update(old);
            k8s::list("v1/Pod").for_each(|pod| k8s::delete(pod));
            k8s::create(label(yaml::parse(`
                apiVersion: v1
                kind: ConfigMap
                metadata:
                  name: ${name}-map
            `), #{ labels: #{ a: "b" } }));
        }"#;
    let files = [
        ("main.rhai", main),
        (
            "lib.rhai",
            "fn child(name) { #{ apiVersion: API, kind: \"Role\", metadata: #{ name: name } } }\nexport const API = \"rbac.authorization.k8s.io/v1\";",
        ),
        ("a.yaml", "apiVersion: batch/v1\nkind: {{ kind }}\nmetadata:\n  name: fixed\n"),
        ("b.yaml", "apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: {{ name }}\n  namespace: n\n"),
        ("c.yaml", "{% include 'b.yaml' %}\n---\napiVersion: v1\nkind: Event\n"),
    ];
    let calls = calls(&files, BindingKind::Change);
    let mut lines: Vec<String> = calls.accesses.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    assert_eq!(
        lines,
        [
            "apply batch/v1/Job in ?",
            "apply handled",
            "apply rbac.authorization.k8s.io/v1/Role",
            "apply v1/Endpoints in n",
            "apply v1/Event",
            "create v1/ConfigMap",
            "create v1/Service s in there",
            "delete v1/Pod in ?",
            "get v1/Secret x",
            "list v1/Pod in all",
            "update v1/Secret in ?",
        ]
    );
    assert!(calls.owning.contains(&0) && !calls.posts_events);
}

#[test]
fn what_is_computed_is_unknown() {
    let script = r#"fn f(spec, namespace) {
        k8s::get(spec.kind, "a"); k8s::apply(spec.object); k8s::get("v1/Secret", spec.namespace, "a");
        let kind = "v1/Secret"; kind.replace("Secret", "Pod"); k8s::list(kind);
        let later = "v1/A"; let read = || k8s::exists(later, "b"); later = "v1/B"; read.call();
        k8s::create(template(spec.file, #{}));
    }"#;
    assert_eq!(
        found(script),
        ["apply ? in ?", "create ? in ?", "exists ? b", "get ? a", "get v1/Secret a in ?", "list ? in all"]
    );
}

#[test]
fn inline_code_sees_its_arguments_and_its_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("main.rhai"),
        "const KIND = \"v1/Secret\"; fn read(kind) { k8s::get(kind, \"a\") }",
    )
    .unwrap();
    let text = "read(KIND); k8s::delete(body); k8s::list(KIND, namespace); patch.status.x = 1;".to_owned();
    let place = SourcePosition { file: folder.path().join("operator.yaml"), line: 3, column: 7 };
    let code = Code::Inline { text, place, file: Some("main.rhai".into()) };
    let calls = super::super::read(&declaration(folder.path(), code, BindingKind::Change)).calls;
    let mut lines: Vec<String> = calls.accesses.iter().map(line).collect();
    lines.sort();
    assert_eq!(lines, ["delete handled", "get v1/Secret a", "list v1/Secret"]);
    assert!(calls.patching.contains(&0));
    let delete = calls.accesses.iter().find(|access| access.kind == Kind::Handled(0)).unwrap();
    assert_eq!((delete.place.line, delete.length), (3, 6));
}

#[test]
fn handlers_that_change_their_object_are_told_apart() {
    let patching = |script: &str| !calls(&[("main.rhai", script)], BindingKind::Event).patching.is_empty();
    assert!(patching("fn f(patch) {}") && patching("fn f(kwargs) {}") && patching("fn f() { return 1; }"));
    assert!(!patching("fn f(body) { k8s::info(\"R\", \"m\"); return; }"));
}

#[test]
fn an_endless_variety_of_calls_ends() {
    let script = r#"fn f(spec) { grow("a", spec); }
        fn grow(text, spec) { if spec.x { grow(text + "b", spec); grow(text + "c", spec); } k8s::list(text); }"#;
    assert!(found(script).contains(&"list ? in all".to_owned()));
}
