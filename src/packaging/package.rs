//! The contents of a package: an operator, or several of one process, and how it runs in the cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::handling::rights::Rights;

use super::files::FileTree;
use super::webhooks::WebhookService;

/// The directory of an operator's files in its containers.
pub(super) const DIRECTORY: &str = "/operator";

/// The namespace of a Helm release, in templates.
pub(crate) const RELEASE_NAMESPACE: &str = "{{ .Release.Namespace }}";

/// The port of probes and metrics.
pub(super) const HTTP_PORT: u16 = 8080;

/// The time until all nodes know that a pod leaves, in seconds.
pub(super) const DRAIN_SECONDS: u64 = 5;

/// The operators of a package, and the way they run in the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// The name of the service account, of the Deployment, and of what belongs to it.
    pub name: String,
    /// The namespace of the operator; in a chart it may be `RELEASE_NAMESPACE`.
    pub namespace: String,
    /// Whether the namespace belongs to the package.
    pub has_namespace: bool,
    /// The image of kopfd.
    pub image: String,
    /// The number of replicas.
    pub replicas: u16,
    /// The patterns of the served namespaces; empty for the whole cluster.
    pub served: Vec<String>,
    /// The name of the peering object.
    pub peering: Option<String>,
    /// The rights.
    pub rights: Rights,
    /// The definitions of kinds: the name of each file, and its text.
    pub definitions: BTreeMap<String, String>,
    /// The files of the operator.
    pub files: Files,
    /// The Services of webhooks.
    pub webhooks: Vec<WebhookService>,
    /// Secrets that are mounted: for given certificates and the key of digests.
    pub secrets: Vec<MountedSecret>,
    /// The file with the key of digests.
    pub key_file: Option<String>,
    /// The time in which a pod ends, in seconds.
    pub grace: u64,
    /// The finalizers that the operators put on objects.
    pub finalizers: BTreeSet<String>,
    /// Whether there are probe functions, on which the life of a container depends.
    pub has_probes: bool,
    /// Whether scripts run programs, which need a directory for their files.
    pub has_programs: bool,
    /// Whether the operators apply the definitions of their kinds.
    pub applies_definitions: bool,
    /// Whether metrics are collected by the Prometheus operator.
    pub has_service_monitor: bool,
}

/// The source of the operator's files in a container.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// From a ConfigMap.
    Mounted(FileTree),
    /// From its image.
    InImage {
        /// The values of `KOPFD_CONFIG`.
        manifests: Vec<String>,
    },
}

/// A Secret that is mounted as a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountedSecret {
    /// The name of the volume.
    pub volume: &'static str,
    /// The name of the Secret.
    pub secret: String,
    /// The folder.
    pub path: String,
}

impl Package {
    /// The labels that select the pods.
    pub(super) fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name})
    }

    /// Tells whether the replicas elect the one that handles.
    pub(super) fn has_election(&self) -> bool {
        self.replicas > 1
    }
}

/// Returns a name with a suffix as a DNS label, which names of Services and containers are.
pub(super) fn label(name: &str, suffix: &str) -> String {
    const MAX: usize = 63;
    let name = name.replace('.', "-");
    let kept: String = name.chars().take(MAX - suffix.len()).collect();
    format!("{}{suffix}", kept.trim_end_matches('-'))
}
