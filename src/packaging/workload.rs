//! The objects of an operator: its namespace, ConfigMap, Deployment, Services, disruption budget, and service monitor.

use serde_json::{Map, Value, json};

use super::files::FileTree;
use super::package::{DIRECTORY, DRAIN_SECONDS, Files, HTTP_PORT, MountedSecret, Package, label};
use super::webhooks::WebhookService;
use crate::object::namespace;

/// The user and group of the process, which images need not know.
const USER: u32 = 65_532;

/// Slow starts are no failures: startup functions, discovery, and a login that waits for the API server have ten
/// minutes.
const STARTUP: (u32, u32) = (2, 300);

/// The parts of the workload that are values of a chart.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    pub(super) image: Value,
    pub(super) pull_policy: Value,
    pub(super) replicas: Value,
    pub(super) resources: Value,
    pub(super) log_format: Value,
    /// Further fields of the pod.
    pub(super) pod: Vec<(&'static str, Value)>,
}

impl Choices {
    /// Returns the choices of documents without values.
    pub(super) fn fixed(package: &Package) -> Self {
        Self {
            image: json!(package.image),
            pull_policy: json!("IfNotPresent"),
            replicas: json!(package.replicas),
            resources: resources(),
            log_format: json!("json"),
            pod: Vec::new(),
        }
    }
}

/// Returns the resources of a container: an idle operator takes a few MiB, and scripts and watched objects the rest.
pub(super) fn resources() -> Value {
    json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}})
}

/// Returns the security context of pods without privileges.
pub(super) fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Returns the security context of their containers.
pub(super) fn container_security() -> Value {
    json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
}

/// Returns the namespace, whose pods may have no privileges.
pub(super) fn namespace(package: &Package) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": package.namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    })
}

/// Returns the files of the operator; `text` writes each of them.
pub(super) fn config_map(package: &Package, tree: &FileTree, text: impl Fn(&str, &str) -> Value) -> Value {
    let data: Map<String, Value> =
        tree.files.iter().map(|(path, file)| (file.key.clone(), text(path, &file.text))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(package, &files_name(package)), "data": data})
}

/// Returns the name of the ConfigMap.
pub(super) fn files_name(package: &Package) -> String {
    format!("{}-files", package.name)
}

/// Returns the Deployment.
pub(super) fn deployment(package: &Package, choices: &Choices) -> Value {
    // Two processes without an election would handle each object twice.
    let strategy = if package.has_election() { "RollingUpdate" } else { "Recreate" };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(package, &package.name),
        "spec": {
            "replicas": choices.replicas,
            "strategy": {"type": strategy},
            "selector": {"matchLabels": package.labels()},
            "template": {"metadata": {"labels": package.labels()}, "spec": pod(package, choices)},
        },
    })
}

fn pod(package: &Package, choices: &Choices) -> Value {
    let drain = if package.webhooks.is_empty() { 0 } else { DRAIN_SECONDS };
    let mut pod = json!({
        "serviceAccountName": package.name,
        "terminationGracePeriodSeconds": package.grace + drain,
        "securityContext": pod_security(),
        "containers": [container(package, choices)],
    });
    let volumes = volumes(package);
    if !volumes.is_empty() {
        pod["volumes"] = json!(volumes);
    }
    if package.has_election() {
        // A lost node must not take all replicas with it, if there are several.
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": package.labels()},
        }]);
    }
    for (field, value) in &choices.pod {
        pod[*field] = value.clone();
    }
    pod
}

fn container(package: &Package, choices: &Choices) -> Value {
    let probe = |path: &str| json!({"path": path, "port": "http"});
    // Probe functions decide about the life of the container, as with kopf.
    let (alive, patience) = if package.has_probes { ("/healthz", 12) } else { ("/livez", 5) };
    let (period, failures) = STARTUP;
    let mut ports = vec![json!({"name": "http", "containerPort": HTTP_PORT})];
    ports.extend(targets(package).into_iter().map(|(name, port)| json!({"name": name, "containerPort": port})));
    let mut container = json!({
        "name": "operator",
        "image": choices.image,
        "imagePullPolicy": choices.pull_policy,
        "args": ["run"],
        "env": environment(package, choices),
        "ports": ports,
        "startupProbe": {"httpGet": probe("/livez"), "periodSeconds": period, "failureThreshold": failures},
        "livenessProbe": {"httpGet": probe(alive), "periodSeconds": 20, "timeoutSeconds": patience},
        "readinessProbe": {"httpGet": probe("/readyz"), "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": choices.resources,
        "securityContext": container_security(),
    });
    let mounts = mounts(package);
    if !mounts.is_empty() {
        container["volumeMounts"] = json!(mounts);
    }
    if !package.webhooks.is_empty() {
        // Reviews may arrive until all nodes know that the pod is leaving.
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}});
    }
    container
}

/// Returns the ports of the servers of webhooks, by their names.
fn targets(package: &Package) -> Vec<(String, u16)> {
    let mut ports: Vec<u16> = package.webhooks.iter().map(|service| service.target).collect();
    ports.sort_unstable();
    ports.dedup();
    let name = |(index, port)| (if index == 0 { "webhooks".to_owned() } else { format!("webhooks-{index}") }, port);
    ports.into_iter().enumerate().map(name).collect()
}

fn environment(package: &Package, choices: &Choices) -> Vec<Value> {
    let variable = |name: &str, value: Value| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut variables = vec![
        variable("KOPFD_CONFIG", json!(manifests(package).join(","))),
        variable("KOPFD_LIVENESS", json!(format!("http://0.0.0.0:{HTTP_PORT}/healthz"))),
        variable("KOPFD_LOG_FORMAT", choices.log_format.clone()),
        field("KOPFD_POD", "metadata.name"),
    ];
    if package.served.is_empty() {
        variables.push(variable("KOPFD_ALL_NAMESPACES", json!("true")));
    } else {
        variables.push(variable("KOPFD_NAMESPACES", json!(package.served.join(" "))));
    }
    match &package.peering {
        Some(name) => {
            variables.push(variable("KOPFD_PEERING", json!(name)));
            variables.push(field("POD_ID", "metadata.name"));
        }
        // Without rights for peerings, none is looked for.
        None => variables.push(variable("KOPFD_STANDALONE", json!("true"))),
    }
    if package.has_election() {
        variables.push(variable("KOPFD_LEADER_ELECT", json!("true")));
    }
    if package.applies_definitions {
        variables.push(variable("KOPFD_APPLY_CRDS", json!("true")));
    }
    if let Some(file) = &package.key_file {
        variables.push(variable("KOPFD_SECRETS_KEY_FILE", json!(file)));
    }
    variables
}

/// Returns the manifests, as the containers have them.
fn manifests(package: &Package) -> Vec<String> {
    match &package.files {
        Files::InImage { manifests } => manifests.clone(),
        Files::Mounted(tree) => {
            let path = |name: &String| if name == "." { DIRECTORY.to_owned() } else { format!("{DIRECTORY}/{name}") };
            tree.manifests.iter().map(path).collect()
        }
    }
}

fn volumes(package: &Package) -> Vec<Value> {
    let mut volumes = Vec::new();
    if let Files::Mounted(tree) = &package.files {
        let mut source = json!({"name": files_name(package)});
        if !tree.is_flat() {
            let items: Vec<Value> =
                tree.files.iter().map(|(path, file)| json!({"key": file.key, "path": path})).collect();
            source["items"] = json!(items);
        }
        volumes.push(json!({"name": "files", "configMap": source}));
    }
    volumes.extend(
        package
            .secrets
            .iter()
            .map(|MountedSecret { volume, secret, .. }| json!({"name": volume, "secret": {"secretName": secret}})),
    );
    if package.has_programs {
        volumes.push(json!({"name": "tmp", "emptyDir": {}}));
    }
    volumes
}

fn mounts(package: &Package) -> Vec<Value> {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let files = matches!(package.files, Files::Mounted(_)).then(|| mount("files", DIRECTORY));
    // All of the image is read-only.
    let temporary = package.has_programs.then(|| json!({"name": "tmp", "mountPath": "/tmp"}));
    files
        .into_iter()
        .chain(package.secrets.iter().map(|secret| mount(secret.volume, &secret.path)))
        .chain(temporary)
        .collect()
}

/// Returns the disruption budget: at most one replica is away while nodes are drained.
pub(super) fn disruption_budget(package: &Package) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(package, &package.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": package.labels()}},
    })
}

/// Returns the Services of webhooks.
pub(super) fn webhook_services(package: &Package) -> Vec<Value> {
    let targets = targets(package);
    let service = |WebhookService { name, port, target }: &WebhookService| {
        let target = targets.iter().find(|(_, port)| port == target).map_or("webhooks", |(name, _)| name);
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(package, name),
            "spec": {"selector": package.labels(), "ports": [{"name": "https", "port": port, "targetPort": target}]},
        })
    };
    package.webhooks.iter().map(service).collect()
}

/// Returns the Service of metrics, and the service monitor that selects it.
pub(super) fn metrics(package: &Package) -> [Value; 2] {
    let name = label(&package.name, "-metrics");
    let labels = json!({"app.kubernetes.io/name": package.name, "app.kubernetes.io/component": "metrics"});
    let mut metadata = metadata(package, &name);
    metadata["labels"] = labels.clone();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        // No address for all replicas: each one is asked.
        "spec": {"clusterIP": "None", "selector": package.labels(), "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http"}]},
    });
    let monitor = json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": labels}, "endpoints": [{"port": "http", "path": "/metrics", "interval": "30s"}]},
    });
    [service, monitor]
}

/// Returns the peering objects, which must exist.
pub(super) fn peerings(package: &Package) -> Vec<Value> {
    let Some(name) = &package.peering else { return Vec::new() };
    if package.served.is_empty() {
        return vec![json!({"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": name}})];
    }
    let patterns: Vec<namespace::Pattern> =
        package.served.iter().filter_map(|text| namespace::Pattern::of_sound_globs(text).ok()).collect();
    let object = |namespace: String| json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": name, "namespace": namespace}});
    namespace::exact(&patterns).into_iter().map(object).collect()
}

fn metadata(package: &Package, name: &str) -> Value {
    json!({"name": name, "namespace": package.namespace, "labels": package.labels()})
}
