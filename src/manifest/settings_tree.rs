//! The settings as a tree of plain values for scripts, and back: keys as in manifests, durations in seconds.

use std::time::Duration;

use serde_json::{Value, json};

use crate::handling::Lifecycle;
use crate::persistence::{DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage};

use super::admission::{self, AdmissionServer, SecretName, ServiceName};
use super::reader::{Item, Reader};
use super::settings::{Breaker, Settings};
use super::settings_reader;
use super::source::Source;
use super::tree::{Node, SourceSpan};
use super::{canary, hook_server};

/// Returns the tree of settings.
pub fn to_value(settings: &Settings) -> Value {
    let Settings {
        process,
        posting,
        peering,
        watching,
        queueing,
        scanning,
        admission,
        hooks,
        execution,
        background,
        scripts,
        networking,
        persistence,
        reload,
    } = settings;
    json!({
        "process": { "ultimateExitingTimeout": optional(process.ultimate_exiting_timeout) },
        "posting": {
            "enabled": posting.enabled,
            "loggers": posting.loggers,
            "level": posting.level,
            "reportingComponent": posting.reporting_component,
            "reportingInstance": posting.reporting_instance,
            "eventNamePrefix": posting.event_name_prefix,
            "aggregated": posting.aggregated,
        },
        "peering": {
            "name": peering.name,
            "stealth": peering.stealth,
            "priority": peering.priority,
            "lifetime": seconds(peering.lifetime),
            "mandatory": peering.mandatory,
            "standalone": peering.standalone,
            "clusterwide": peering.clusterwide,
        },
        "watching": {
            "serverTimeout": optional(watching.server_timeout),
            "clientTimeout": optional(watching.client_timeout),
            "connectTimeout": optional(watching.connect_timeout),
            "reconnectBackoff": seconds(watching.reconnect_backoff),
            "inactivityTimeout": seconds(watching.inactivity_timeout),
        },
        "queueing": {
            "workerLimit": queueing.worker_limit,
            "idleTimeout": seconds(queueing.idle_timeout),
            "exitTimeout": seconds(queueing.exit_timeout),
            "errorDelays": queueing.error_delays.iter().copied().map(seconds).collect::<Vec<_>>(),
            "breaker": queueing.breaker.as_ref().map(breaker),
        },
        "scanning": { "disabled": scanning.disabled },
        "admission": {
            "server": admission.server.as_ref().map(server),
            "managed": admission.managed,
            "derivedConditions": admission.derived_conditions,
        },
        "hooks": { "server": hooks.server.as_ref().map(hook_server::to_value) },
        "execution": { "defaultBackoff": seconds(execution.default_backoff), "lifecycle": lifecycle(execution.lifecycle) },
        "background": {
            "cancellationPolling": seconds(background.cancellation_polling),
            "instantExitTimeout": optional(background.instant_exit_timeout),
            "instantExitZeroTimeCycles": background.instant_exit_zero_time_cycles,
        },
        "scripts": { "memory": scripts.memory },
        "networking": {
            "requestTimeout": optional(networking.request_timeout),
            "connectTimeout": optional(networking.connect_timeout),
            "errorBackoffs": networking.error_backoffs.iter().copied().map(seconds).collect::<Vec<_>>(),
            "enforceRetryAfter": networking.enforce_retry_after,
            "trustEnv": networking.trust_env,
            "requests": networking.requests.map(|rate| json!({ "perSecond": rate.per_second, "burst": rate.burst })),
        },
        "persistence": {
            "finalizer": persistence.storages.finalizer,
            "progressStorage": progress(&persistence.storages.progress),
            "diffbaseStorage": diffbase(&persistence.storages.diffbase),
            "secrets": persistence.storages.secrets.form.as_str(),
            "consistencyTimeout": seconds(persistence.consistency_timeout),
        },
        "reload": { "canary": reload.canary.as_ref().map(canary::to_value) },
    })
}

/// Reads a tree of settings, as a script may have changed it.
///
/// # Errors
/// The mistakes, each with the name of its setting.
pub fn from_value(value: &Value) -> Result<Settings, Vec<String>> {
    let reader = Reader::new(Source::new("settings", ""));
    let node = Node::of_value(value);
    let item = Item { node: &node, path: "settings".to_owned(), key: SourceSpan::default() };
    let settings = settings_reader::read(&reader, &item);
    let mistakes = reader.finish().into_iter().filter(super::Diagnostic::is_error);
    let told = |one: super::Diagnostic| match one.path {
        Some(path) => format!("{path}: {}", one.message),
        None => one.message,
    };
    let mistakes: Vec<String> = mistakes.map(told).collect();
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn optional(duration: Option<Duration>) -> Option<f64> {
    duration.map(seconds)
}

fn breaker(Breaker { threshold, condition }: &Breaker) -> Value {
    let (period, max_delay) = (seconds(threshold.period), seconds(threshold.max_delay));
    json!({ "cycles": threshold.cycles, "period": period, "maxDelay": max_delay, "condition": condition })
}

fn lifecycle(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Asap => "asap",
        Lifecycle::AllAtOnce => "allAtOnce",
        Lifecycle::OneByOne => "oneByOne",
        Lifecycle::Randomized => "randomized",
        Lifecycle::Shuffled => "shuffled",
    }
}

fn progress(storage: &ProgressStorage) -> Value {
    let annotations = |kind: &str, ProgressAnnotations { prefix, v1, verbose, touch_key }: &ProgressAnnotations| json!({ "kind": kind, "prefix": prefix, "v1": v1, "verbose": verbose, "touchKey": touch_key });
    let add_status = |mut tree: Value, ProgressStatus { field, touch_field }: &ProgressStatus| {
        tree["field"] = json!(field);
        tree["touchField"] = json!(touch_field);
        tree
    };
    match storage {
        ProgressStorage::Annotations(storage) => annotations("annotations", storage),
        ProgressStorage::Status(storage) => add_status(json!({ "kind": "status" }), storage),
        ProgressStorage::Smart { annotations: current, status } => add_status(annotations("smart", current), status),
        ProgressStorage::Multi(all) => {
            json!({ "kind": "multi", "storages": all.iter().map(progress).collect::<Vec<_>>() })
        }
    }
}

fn diffbase(storage: &DiffbaseStorage) -> Value {
    match storage {
        DiffbaseStorage::Annotations(one) => json!({
            "kind": "annotations", "prefix": one.prefix, "key": one.key, "v1": one.v1, "ignoredFields": one.ignored_fields,
        }),
        DiffbaseStorage::Status(one) => {
            json!({ "kind": "status", "field": one.field, "ignoredFields": one.ignored_fields })
        }
        DiffbaseStorage::Multi(all) => {
            json!({ "kind": "multi", "storages": all.iter().map(diffbase).collect::<Vec<_>>() })
        }
    }
}

/// Returns the keys of a server that are set: each kind has its own.
fn server(server: &AdmissionServer) -> Value {
    let AdmissionServer {
        kind,
        addr,
        port,
        path,
        host,
        service,
        insecure,
        certificate,
        secret,
        verification,
        extra_sans,
        file_check_interval,
        tunnel,
    } = server;
    let mut tree = json!({ "kind": admission::word_of(*kind) });
    let texts = [
        ("addr", addr),
        ("path", path),
        ("host", host),
        ("cadata", &certificate.cadata),
        ("cafile", &certificate.cafile),
        ("cadump", &certificate.cadump),
        ("certfile", &certificate.certfile),
        ("pkeyfile", &certificate.pkeyfile),
        ("password", &certificate.password),
        ("verifyMode", &verification.mode),
        ("verifyCafile", &verification.cafile),
        ("verifyCapath", &verification.capath),
        ("verifyCadata", &verification.cadata),
        ("token", &tunnel.token),
        ("region", &tunnel.region),
        ("binary", &tunnel.binary),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            tree[key] = json!(text);
        }
    }
    if let Some(SecretName { name, namespace }) = secret {
        tree["secret"] = json!({ "name": name });
        if let Some(namespace) = namespace {
            tree["secret"]["namespace"] = json!(namespace);
        }
    }
    if let Some(ServiceName { name, namespace, port }) = service {
        tree["service"] = json!({ "name": name });
        if let Some(namespace) = namespace {
            tree["service"]["namespace"] = json!(namespace);
        }
        if let Some(port) = port {
            tree["service"]["port"] = json!(port);
        }
    }
    if let Some(port) = port {
        tree["port"] = json!(port);
    }
    if !admission::is_tunnel(*kind) {
        tree["insecure"] = json!(insecure);
        tree["extraSans"] = json!(extra_sans);
        tree["fileCheckInterval"] = json!(seconds(*file_check_interval));
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read;

    /// Returns the settings of a manifest.
    fn settings(text: &str) -> Settings {
        let manifest =
            format!("{{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {{name: x}}, spec: {{settings: {text}}}}}");
        let loaded = read("operator.yaml", &manifest);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        loaded.operators.into_iter().next().unwrap().settings
    }

    #[test]
    fn settings_survive_the_way_to_scripts_and_back() {
        let others = "{process: {ultimateExitingTimeout: null}, posting: {level: warning, reportingComponent: me}, \
            peering: {clusterwide: true, lifetime: 90s}, watching: {serverTimeout: 10m, reconnectBackoff: 250ms}, \
            queueing: {workerLimit: 3, errorDelays: [100ms, 2s], breaker: {cycles: 9, period: 1m, maxDelay: 2s, condition: Looping}}, scanning: {disabled: true}, execution: {lifecycle: oneByOne}, \
            admission: {server: {kind: server, port: 8443, extraSans: [a.b], secret: {name: s, namespace: n}, service: {name: w, port: 8443}}, managed: a.b.c, derivedConditions: false}, hooks: {server: {addr: localhost, port: 9443, path: /h, certfile: c, pkeyfile: k, verifyCafile: a}}, \
            background: {instantExitTimeout: 50ms, instantExitZeroTimeCycles: null}, scripts: {memory: 1Gi}, \
            networking: {requestTimeout: null, errorBackoffs: [], trustEnv: true, requests: {perSecond: 5}}, \
            persistence: {finalizer: a.b/c, progressStorage: {kind: multi, storages: [{kind: status, name: x}, {kind: annotations}]}, \
            diffbaseStorage: {kind: status, ignoredFields: [spec.a]}, secrets: digests}, \
            reload: {canary: {percent: 20, for: 90s, rollback: {errors: 1.5, writes: null}}}}";
        let tunnel = "{admission: {server: {kind: ngrok, token: t}}, queueing: {breaker: null}, persistence: {diffbaseStorage: {kind: multi, storages: [{kind: annotations}]}}}";
        for settings in [Settings::default(), settings(others), settings(tunnel)] {
            assert_eq!(from_value(&to_value(&settings)), Ok(settings));
        }
    }

    #[test]
    fn every_setting_of_manifests_is_in_the_tree_and_no_other() {
        let tree = to_value(&Settings::default());
        for (section, keys) in settings_reader::KNOWN {
            let mut found: Vec<&str> = tree[section].as_object().unwrap().keys().map(String::as_str).collect();
            let mut known = keys.to_vec();
            found.sort_unstable();
            known.sort_unstable();
            assert_eq!(found, known, "{section}");
        }
        assert_eq!(tree.as_object().unwrap().len(), settings_reader::KNOWN.len());
    }

    #[test]
    fn mistakes_of_scripts_are_named_by_setting() {
        let mut tree = to_value(&Settings::default());
        tree["posting"]["level"] = json!("loud");
        tree["queueing"]["workerLimit"] = json!(0);
        tree["watching"]["inactivityTimeout"] = json!("1ms");
        let mistakes = from_value(&tree).unwrap_err();
        assert_eq!(mistakes.len(), 3, "{mistakes:?}");
        for name in
            ["settings.posting.level: ", "settings.queueing.workerLimit: ", "settings.watching.inactivityTimeout: "]
        {
            assert!(mistakes.iter().any(|one| one.starts_with(name)), "{mistakes:?}");
        }
    }
}
