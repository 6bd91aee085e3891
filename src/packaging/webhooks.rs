//! The Services of webhooks, which the settings of the operators demand.

use crate::manifest::Operator;
use crate::manifest::admission::{AdmissionServer, ServerKind};

/// A Service through which the API server reaches webhooks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WebhookService {
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// The port of the server.
    pub target: u16,
}

/// The reason why the webhooks of an operator would not be reached in a cluster.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum WebhookError {
    /// The server is one for a developer's machine.
    #[error("the webhooks of operator '{0}' are served for a developer's machine")]
    Kind(String),
    /// Without a fixed port, a Service cannot name it.
    #[error("the server of the webhooks of operator '{0}' has no fixed port")]
    Port(String),
    /// The address is that of no Service.
    #[error("the API server would not reach the webhooks of operator '{0}' through a Service")]
    Service(String),
    /// The Service is in another namespace than the pods.
    #[error(
        "the Service of the webhooks of operator '{operator}' is in namespace '{wanted}', and the pods are in '{home}'"
    )]
    Namespace {
        /// The operator.
        operator: String,
        /// The namespace in the manifest.
        wanted: String,
        /// The namespace of the pods.
        home: String,
    },
    /// Each replica would make a certificate of its own, and the API server knows one of them.
    #[error("the replicas of operator '{0}' would make certificates of their own")]
    Certificate(String),
    /// The files of a given certificate are not in the pod.
    #[error("the certificate of operator '{0}' is given in files, which a pod does not have")]
    Files(String),
}

impl WebhookError {
    /// Returns what to write into the manifest, or on the command line.
    pub(crate) fn hint(&self) -> String {
        let server = |name: &str| {
            format!(
                "write under `settings.admission`: `server: {{kind: server, port: 9443, service: {{name: {name}}}, secret: {{name: {name}-webhooks}}}}`"
            )
        };
        match self {
            Self::Kind(name) | Self::Port(name) | Self::Service(name) | Self::Certificate(name) => server(name),
            Self::Namespace { wanted, .. } => {
                format!("package it with `--operator-namespace {wanted}`, or leave the namespace out of the manifest")
            }
            Self::Files(_) => {
                "name a Secret with the files by `--certificate-secret NAME`: it is mounted at their folder, which must be the same for all of them".to_owned()
            }
        }
    }
}

/// Returns the Services of operators whose pods run in a namespace, with at least that many replicas.
///
/// # Errors
/// If an operator with webhooks would not be reached, or its replicas would not be trusted.
pub(crate) fn services(operators: &[Operator], home: &str, replicas: u16) -> Result<Vec<WebhookService>, WebhookError> {
    let mut services: Vec<WebhookService> = operators.iter().filter_map(hook_service).collect();
    for operator in operators {
        if operator.webhooks.is_empty() && operator.conversions.is_empty() {
            continue;
        }
        let Some(server) = &operator.settings.admission.server else { continue };
        services.push(service(&operator.name, server, home)?);
        let is_made = server.certificate.certfile.is_none() && !server.insecure;
        if is_made && server.secret.is_none() && replicas > 1 {
            return Err(WebhookError::Certificate(operator.name.clone()));
        }
    }
    services.sort();
    services.dedup();
    Ok(services)
}

/// Returns the Service of the listener of an operator's hooks.
fn hook_service(operator: &Operator) -> Option<WebhookService> {
    let server = operator.settings.hooks.server.as_ref().filter(|_| !operator.hooks.is_empty())?;
    let name = format!("{}-hooks", operator.name.replace('.', "-"));
    Some(WebhookService { name, port: if server.insecure { 80 } else { 443 }, target: server.port })
}

fn service(operator: &str, server: &AdmissionServer, home: &str) -> Result<WebhookService, WebhookError> {
    if !matches!(server.kind, ServerKind::Server | ServerKind::AutoServer) {
        return Err(WebhookError::Kind(operator.to_owned()));
    }
    let target = server.port.ok_or_else(|| WebhookError::Port(operator.to_owned()))?;
    let (name, namespace, port) =
        match (&server.service, server.host.as_deref().map(|host| host.split('.').collect::<Vec<_>>())) {
            (Some(service), _) => (service.name.clone(), service.namespace.as_deref(), service.port.unwrap_or(443)),
            // The host is in a URL, whose port is that of the server.
            (None, Some(host)) if host.len() > 2 && host[2] == "svc" => (host[0].to_owned(), Some(host[1]), target),
            (None, _) => return Err(WebhookError::Service(operator.to_owned())),
        };
    match namespace {
        Some(wanted) if wanted != home => Err(WebhookError::Namespace {
            operator: operator.to_owned(),
            wanted: wanted.to_owned(),
            home: home.to_owned(),
        }),
        _ => Ok(WebhookService { name, port, target }),
    }
}

/// Returns the folder of the files of a given certificate; `None` if there are none.
///
/// # Errors
/// If operators have files in several folders, which one Secret cannot be mounted at.
pub(crate) fn certificate_folder(operators: &[Operator]) -> Result<Option<String>, WebhookError> {
    let mut folder: Option<String> = None;
    for operator in operators {
        let of_webhooks = operator.settings.admission.server.iter().flat_map(|server| {
            [
                &server.certificate.certfile,
                &server.certificate.pkeyfile,
                &server.certificate.cafile,
                &server.verification.cafile,
            ]
        });
        let of_hooks = operator
            .settings
            .hooks
            .server
            .iter()
            .flat_map(|server| [&server.certfile, &server.pkeyfile, &server.verify_cafile]);
        for file in of_webhooks.chain(of_hooks).flatten() {
            let parent = file.rsplit_once('/').map_or("", |(parent, _)| parent);
            if !file.starts_with('/') || folder.as_deref().is_some_and(|folder| folder != parent) || parent.is_empty() {
                return Err(WebhookError::Files(operator.name.clone()));
            }
            folder = Some(parent.to_owned());
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read;

    fn operators(server: &str) -> Vec<Operator> {
        let webhooks = "resources: [{resource: v1/pods, webhooks: [{on: validate, id: a, run: 'let x = 1;'}]}]";
        let manifest = format!(
            "{{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {{name: guard}}, spec: {{settings: {{admission: {{server: {server}}}}}, {webhooks}}}}}"
        );
        let loaded = read("operator.yaml", &manifest);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        loaded.operators
    }

    #[test]
    fn the_listener_of_hooks_has_a_service() {
        let manifest = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: my.op}, spec: {\
            settings: {hooks: {server: {port: 8443, certfile: /tls/tls.crt, pkeyfile: /tls/tls.key}}}, \
            hooks: [{id: a, path: /a, auth: none, run: 'return 1;'}]}}";
        let operators = read("operator.yaml", manifest).operators;
        let service = WebhookService { name: "my-op-hooks".to_owned(), port: 443, target: 8443 };
        assert_eq!(services(&operators, "ops", 2), Ok(vec![service]));
        assert_eq!(certificate_folder(&operators), Ok(Some("/tls".to_owned())));
    }

    fn of(server: &str) -> Result<Vec<WebhookService>, WebhookError> {
        services(&operators(server), "ops", 2)
    }

    #[test]
    fn a_server_behind_a_service_has_a_port_and_a_shared_certificate() {
        let expected = vec![WebhookService { name: "guard".to_owned(), port: 443, target: 9443 }];
        assert_eq!(of("{kind: server, port: 9443, service: {name: guard}, secret: {name: s}}"), Ok(expected));
        let by_host = vec![WebhookService { name: "guard".to_owned(), port: 9443, target: 9443 }];
        assert_eq!(
            of("{kind: server, port: 9443, host: guard.ops.svc, certfile: /tls/a, pkeyfile: /tls/b}"),
            Ok(by_host)
        );
    }

    #[test]
    fn what_would_not_work_in_a_cluster_is_refused_with_the_way_out() {
        let name = || "guard".to_owned();
        assert_eq!(of("{kind: k3d, port: 1}"), Err(WebhookError::Kind(name())));
        assert_eq!(of("{kind: server, service: {name: guard}}"), Err(WebhookError::Port(name())));
        assert_eq!(of("{kind: server, port: 9443, host: localhost}"), Err(WebhookError::Service(name())));
        assert_eq!(of("{kind: server, port: 9443, service: {name: guard}}"), Err(WebhookError::Certificate(name())));
        let elsewhere = of("{kind: server, port: 9443, host: guard.default.svc, secret: {name: s}}").unwrap_err();
        assert!(elsewhere.hint().contains("--operator-namespace default"), "{elsewhere}");
        let alone = services(&operators("{kind: server, port: 9443, service: {name: guard}}"), "ops", 1);
        assert!(alone.is_ok(), "one replica has one certificate");
        let written = WebhookError::Port(name()).hint();
        let server = written.split('`').nth(3).unwrap().trim_start_matches("server: ");
        assert!(of(server).is_ok(), "the hint is right: {server}");
    }

    #[test]
    fn given_certificates_are_in_one_folder() {
        let folder = |server: &str| certificate_folder(&operators(server));
        assert_eq!(
            folder("{kind: server, certfile: /tls/a, pkeyfile: /tls/b, cafile: /tls/c}"),
            Ok(Some("/tls".to_owned()))
        );
        assert!(folder("{kind: server, certfile: /tls/a, pkeyfile: /keys/b}").is_err());
        assert!(folder("{kind: server, certfile: a, pkeyfile: b}").is_err());
        assert_eq!(folder("{kind: server}"), Ok(None));
    }
}
