//! The three forms of a package: files for kubectl, a kustomize base, and a Helm chart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::files::FileTree;
use super::janitor;
use super::package::{Files, Package, RELEASE_NAMESPACE};
use super::workload::{self, Choices};
use super::yaml::{Reader, document, template};
use crate::manifest::rights::roles::{self, Account};

/// The file that lists the files of a package, so that the next one can replace them.
pub(crate) const MARK: &str = ".kopfd-package";

/// The definitions of peerings.
const PEERINGS: &str = include_str!("../../manifests/peering/kopf.dev.yaml");

/// The form of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Documents for `kubectl apply`.
    Plain,
    /// A base for kustomize.
    Kustomize,
    /// A chart for Helm.
    Helm,
}

/// One file of documents.
struct Part {
    /// Orders the files for kubectl, which goes by their names.
    order: u8,
    name: &'static str,
    text: String,
    /// The condition of Helm under which it exists.
    condition: Option<&'static str>,
}

/// Returns the files of a form, by their paths.
pub(crate) fn arrange(package: &Package, form: Form) -> BTreeMap<String, String> {
    let mut files = match form {
        Form::Plain => plain(package),
        Form::Kustomize => kustomize(package),
        Form::Helm => helm(package),
    };
    let janitor = janitor::documents(package);
    if !janitor.is_empty() {
        // In a folder of its own: it is applied only when the operator is gone.
        files.insert(
            "janitor/janitor.yaml".to_owned(),
            joined(janitor.iter().map(|value| document(value, Reader::Parser))),
        );
    }
    files
}

/// Returns all objects in one stream, in the order in which they are needed.
pub(crate) fn stream(package: &Package) -> String {
    let definitions = definitions(package).into_values();
    let parts = parts(package, &Choices::fixed(package), Reader::Parser).into_iter().map(|part| part.text);
    joined(definitions.chain(parts))
}

fn plain(package: &Package) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for (name, text) in definitions(package) {
        files.insert(format!("crds/{name}"), text);
    }
    for part in parts(package, &Choices::fixed(package), Reader::Parser) {
        files.insert(format!("{:02}-{}.yaml", part.order, part.name), part.text);
    }
    files
}

fn kustomize(package: &Package) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut resources = Vec::new();
    let definitions = definitions(package);
    if !definitions.is_empty() {
        let names: Vec<&String> = definitions.keys().collect();
        files.insert("crds/kustomization.yaml".to_owned(), kustomization(json!({"resources": names})));
        resources.push("crds".to_owned());
    }
    for (name, text) in definitions {
        files.insert(format!("crds/{name}"), text);
    }
    let mut generators = Vec::new();
    for part in parts(package, &Choices::fixed(package), Reader::Parser) {
        match &package.files {
            Files::Mounted(tree) if part.name == FILES => generators.push(generator(package, tree, &mut files)),
            _ => {
                let name = format!("{}.yaml", part.name);
                files.insert(name.clone(), part.text);
                resources.push(name);
            }
        }
    }
    let mut content = json!({"resources": resources});
    if !generators.is_empty() {
        content["configMapGenerator"] = json!(generators);
    }
    files.insert("kustomization.yaml".to_owned(), kustomization(content));
    files
}

fn kustomization(mut content: Value) -> String {
    content["apiVersion"] = "kustomize.config.k8s.io/v1beta1".into();
    content["kind"] = "Kustomization".into();
    document(&content, Reader::Parser)
}

/// Adds the files of the operator to those of the base, and returns the generator of their ConfigMap.
fn generator(package: &Package, tree: &FileTree, files: &mut BTreeMap<String, String>) -> Value {
    let mut sources = Vec::new();
    for (path, file) in &tree.files {
        // An equals sign ends the key.
        let place = format!("files/{}", if path.contains('=') { &file.key } else { path });
        sources.push(format!("{}={place}", file.key));
        files.insert(place, file.text.clone());
    }
    // A name that changes with the contents would replace the pods, which follow their files.
    let options = json!({"disableNameSuffixHash": true, "labels": package.labels()});
    json!({"name": workload::files_name(package), "namespace": package.namespace, "files": sources, "options": options})
}

/// The part with the ConfigMap.
const FILES: &str = "files";

fn helm(package: &Package) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for (name, text) in definitions(package) {
        files.insert(format!("crds/{name}"), text);
    }
    let choices = Choices {
        image: template("{{ .Values.image | quote }}"),
        pull_policy: template("{{ .Values.imagePullPolicy }}"),
        replicas: template("{{ .Values.replicas }}"),
        resources: template("{{- toYaml .Values.resources | nindent 12 }}"),
        log_format: template("{{ .Values.logFormat | quote }}"),
        pod: ["imagePullSecrets", "nodeSelector", "tolerations", "affinity"]
            .map(|field| (field, template(&format!("{{{{- toYaml .Values.{field} | nindent 8 }}}}"))))
            .into(),
    };
    let all = Package { has_service_monitor: true, ..package.clone() };
    for part in parts(&all, &choices, Reader::Helm).into_iter().filter(|part| part.name != NAMESPACE) {
        let text = match part.condition {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{}{{{{- end }}}}\n", part.text),
            None => part.text,
        };
        let text = if part.name == DEPLOYMENT { guards(package) + &text } else { text };
        files.insert(format!("templates/{}.yaml", part.name), text);
    }
    if let Files::Mounted(tree) = &package.files {
        files.extend(tree.files.iter().map(|(path, file)| (format!("files/{path}"), file.text.clone())));
    }
    files.insert("Chart.yaml".to_owned(), chart(package));
    files.insert("values.yaml".to_owned(), values(package));
    files.insert(".helmignore".to_owned(), format!("{MARK}\n/janitor/\n"));
    files
}

fn chart(package: &Package) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let chart = json!({
        "apiVersion": "v2",
        "name": package.name,
        "description": format!("The operator {}, run by kopfd", package.name),
        "type": "application",
        "version": "0.1.0",
        "appVersion": version,
        // The pause before the end of a container.
        "kubeVersion": ">=1.30.0-0",
    });
    document(&chart, Reader::Parser)
}

fn values(package: &Package) -> String {
    let resources = document(&json!({"resources": workload::resources()}), Reader::Parser);
    let image = document(&json!({"image": package.image}), Reader::Parser);
    let Package { replicas, has_service_monitor, .. } = package;
    format!(
        "# The image of kopfd, whose entry point is the program.\n\
         {image}imagePullPolicy: IfNotPresent\n\
         imagePullSecrets: []\n\
         # One replica handles objects, the others stand by.\n\
         replicas: {replicas}\n\
         {resources}\
         # json, full or plain\n\
         logFormat: json\n\
         nodeSelector: {{}}\n\
         tolerations: []\n\
         affinity: {{}}\n\
         # Metrics for the Prometheus operator.\n\
         serviceMonitor:\n  enabled: {has_service_monitor}\n"
    )
}

/// Returns templates that refuse uses that the package does not support.
fn guards(package: &Package) -> String {
    let mut text = String::new();
    let mut refuse = |condition: &str, problem: &str| {
        let _ = writeln!(text, "{{{{- if {condition} }}}}{{{{ fail {problem:?} }}}}{{{{ end }}}}");
    };
    if !package.has_election() {
        refuse("gt (int .Values.replicas) 1", "this chart is for one replica: package it again with --replicas 2");
    }
    if package.namespace == RELEASE_NAMESPACE {
        let served: Vec<String> = package.served.iter().map(|name| format!("{name:?}")).collect();
        if !served.is_empty() {
            // The roles of this namespace would have the names of those for the served one.
            let condition = format!("has .Release.Namespace (list {})", served.join(" "));
            refuse(&condition, "the operator serves this namespace: package it again with --operator-namespace");
        }
    } else {
        let condition = format!("ne .Release.Namespace {:?}", package.namespace);
        refuse(&condition, &format!("this chart is for the namespace {}", package.namespace));
    }
    text
}

const NAMESPACE: &str = "namespace";

const DEPLOYMENT: &str = "deployment";

/// Returns the definitions by the names of their files.
fn definitions(package: &Package) -> BTreeMap<String, String> {
    let mut definitions = package.definitions.clone();
    if package.peering.is_some() {
        definitions.insert("peerings.kopf.dev.yaml".to_owned(), PEERINGS.to_owned());
    }
    definitions
}

fn parts(package: &Package, choices: &Choices, reader: Reader) -> Vec<Part> {
    let of = |order: u8, name: &'static str, documents: &[Value]| Part {
        order,
        name,
        text: joined(documents.iter().map(|value| document(value, reader))),
        condition: None,
    };
    let account = Account { name: package.name.clone(), namespace: package.namespace.clone() };
    let mut parts = Vec::new();
    if package.has_namespace {
        parts.push(of(0, NAMESPACE, &[workload::namespace(package)]));
    }
    parts.push(Part { order: 10, name: "rights", text: roles::yaml(&account, &package.rights), condition: None });
    if let Files::Mounted(tree) = &package.files {
        let text = |path: &str, text: &str| match reader {
            Reader::Parser => json!(text),
            Reader::Helm => template(&format!("{{{{ .Files.Get {:?} | toJson }}}}", format!("files/{path}"))),
        };
        parts.push(of(20, FILES, &[workload::config_map(package, tree, text)]));
    }
    let peerings = workload::peerings(package);
    if !peerings.is_empty() {
        parts.push(of(25, "peering", &peerings));
    }
    parts.push(of(30, DEPLOYMENT, &[workload::deployment(package, choices)]));
    if package.has_election() {
        let budget = of(40, "disruption-budget", &[workload::disruption_budget(package)]);
        parts.push(Part { condition: Some("gt (int .Values.replicas) 1"), ..budget });
    }
    if !package.webhooks.is_empty() {
        parts.push(of(50, "webhooks", &workload::webhook_services(package)));
    }
    if package.has_service_monitor {
        parts.push(Part {
            condition: Some(".Values.serviceMonitor.enabled"),
            ..of(60, "metrics", &workload::metrics(package))
        });
    }
    parts
}

/// Returns documents in one text.
fn joined(documents: impl Iterator<Item = String>) -> String {
    documents
        .map(|text| text.strip_prefix("---\n").map_or(text.clone(), str::to_owned))
        .collect::<Vec<_>>()
        .join("---\n")
}
