//! The server of admission webhooks in the settings.

use std::time::Duration;

use super::reader::{Fields, Item, Reader};
use super::storages::named;

/// A declared server of webhooks.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionServer {
    /// The kind of server or tunnel.
    pub kind: ServerKind,
    /// The address to bind; `None` means all interfaces.
    pub addr: Option<String>,
    /// The port; `None` means a free one.
    pub port: Option<u16>,
    /// The prefix of the paths.
    pub path: Option<String>,
    /// The host that the API server connects to.
    pub host: Option<String>,
    /// The Service through which the API server connects, in place of a host.
    pub service: Option<ServiceName>,
    /// Whether it uses plain HTTP.
    pub insecure: bool,
    /// The certificate and its authority.
    pub certificate: Certificate,
    /// The Secret that keeps a made certificate, so that replicas share it.
    pub secret: Option<SecretName>,
    /// The verification of clients' certificates.
    pub verification: Verification,
    /// Further names in a self-signed certificate.
    pub extra_sans: Vec<String>,
    /// The interval at which the files are checked for changes.
    pub file_check_interval: Duration,
    /// The account and the region of a tunnel.
    pub tunnel: Tunnel,
}

/// The certificate of a server and its authority.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Certificate {
    /// The authority, as text.
    pub cadata: Option<String>,
    /// The authority, as a file.
    pub cafile: Option<String>,
    /// The file that the current authority is written to.
    pub cadump: Option<String>,
    /// The file of the certificate.
    pub certfile: Option<String>,
    /// The file of the private key.
    pub pkeyfile: Option<String>,
    /// The password of the private key.
    pub password: Option<String>,
}

/// The name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// The name.
    pub name: String,
    /// The namespace; `None` for that of the credentials.
    pub namespace: Option<String>,
}

/// The name of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceName {
    /// The name.
    pub name: String,
    /// The namespace; `None` for that of the credentials.
    pub namespace: Option<String>,
    /// The port of the Service; `None` for 443.
    pub port: Option<u16>,
}

/// The verification of clients' certificates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verification {
    /// `none`, `optional`, or `required`.
    pub mode: Option<String>,
    /// Authorities, as a file.
    pub cafile: Option<String>,
    /// Authorities, as a directory.
    pub capath: Option<String>,
    /// Authorities, as text.
    pub cadata: Option<String>,
}

/// The account and the region of a tunnel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tunnel {
    /// The token of the account.
    pub token: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The program to start.
    pub binary: Option<String>,
}

/// Kinds of servers and tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A plain server.
    Server,
    /// A server for K3d.
    K3d,
    /// A server for Minikube.
    Minikube,
    /// A server for Docker Desktop.
    DockerDesktop,
    /// A tunnel through ngrok.
    Ngrok,
    /// A server whose host is derived from the cluster.
    AutoServer,
    /// A server if the cluster is known, else a tunnel.
    AutoTunnel,
}

const KINDS: [(&str, ServerKind); 7] = [
    ("server", ServerKind::Server),
    ("k3d", ServerKind::K3d),
    ("minikube", ServerKind::Minikube),
    ("dockerDesktop", ServerKind::DockerDesktop),
    ("ngrok", ServerKind::Ngrok),
    ("autoServer", ServerKind::AutoServer),
    ("autoTunnel", ServerKind::AutoTunnel),
];

const SERVER_KEYS: [&str; 20] = [
    "kind",
    "addr",
    "port",
    "path",
    "host",
    "service",
    "insecure",
    "cadata",
    "cafile",
    "cadump",
    "certfile",
    "pkeyfile",
    "password",
    "extraSans",
    "verifyMode",
    "verifyCafile",
    "verifyCapath",
    "verifyCadata",
    "fileCheckInterval",
    "secret",
];

/// Reads `settings.admission.server`.
pub fn read(reader: &Reader, item: &Item<'_>) -> Option<AdmissionServer> {
    let kind = item.node.get("kind").and_then(|node| node.text()).and_then(kind_of);
    let known: &[&'static str] = match kind {
        Some(ServerKind::Ngrok) => &["kind", "addr", "port", "path", "token", "region", "binary"],
        Some(ServerKind::AutoTunnel) => &["kind", "addr", "port", "path"],
        _ => &SERVER_KEYS,
    };
    let fields = reader.fields(item, "an admission server", known)?;
    let text = |key: &str| reader.string(&fields, key);
    let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
    let hint = format!("`kind` is one of {}", words.join(", "));
    let kind = reader.required(&fields, "kind", &hint).and_then(|item| reader.word(&item, &words)).and_then(kind_of);
    let port = fields.get("port").and_then(|item| port(reader, &item, "leave it out for a free one"));
    let mut file_check_interval = Duration::from_mins(1);
    reader.set(&fields, "fileCheckInterval", &mut file_check_interval, Reader::duration);
    if let Some(item) = fields.get("fileCheckInterval").filter(|_| file_check_interval.is_zero()) {
        reader.error_with(&item, "`fileCheckInterval` must be longer than 0", "leave it out for one minute");
    }
    check_certificate(reader, &fields);
    check_service(reader, &fields);
    Some(AdmissionServer {
        kind: kind?,
        addr: text("addr"),
        port,
        path: text("path"),
        host: text("host"),
        service: fields.get("service").and_then(|item| service(reader, &item)),
        insecure: reader.flag(&fields, "insecure").unwrap_or(false),
        certificate: Certificate {
            cadata: text("cadata"),
            cafile: text("cafile"),
            cadump: text("cadump"),
            certfile: text("certfile"),
            pkeyfile: text("pkeyfile"),
            password: text("password"),
        },
        secret: fields.get("secret").and_then(|item| secret(reader, &item)),
        verification: Verification {
            mode: fields
                .get("verifyMode")
                .and_then(|item| reader.word(&item, &["none", "optional", "required"]))
                .map(str::to_owned),
            cafile: text("verifyCafile"),
            capath: text("verifyCapath"),
            cadata: text("verifyCadata"),
        },
        extra_sans: reader.list_of(&fields, "extraSans").iter().filter_map(|item| reader.owned(item)).collect(),
        file_check_interval,
        tunnel: Tunnel { token: text("token"), region: text("region"), binary: text("binary") },
    })
}

/// Reports options of certificates that contradict each other.
fn check_certificate(reader: &Reader, fields: &Fields<'_>) {
    for (given, missing) in [("certfile", "pkeyfile"), ("pkeyfile", "certfile")] {
        if let Some(item) = fields.get(given).filter(|_| fields.get(missing).is_none()) {
            reader.error_with(
                &item,
                format!("`{given}` needs `{missing}`"),
                format!("add `{missing}`, or leave both out for a made certificate"),
            );
        }
    }
    let Some(secret) = fields.get("secret") else { return };
    if fields.get("certfile").is_some() {
        reader.error_with(
            &secret,
            "`secret` keeps made certificates, and `certfile` is a given one",
            "leave one of them out",
        );
    }
    if fields.get("insecure").is_some_and(|item| item.node.to_value() == serde_json::Value::Bool(true)) {
        reader.error_with(
            &secret,
            "an insecure server has no certificate to keep in a `secret`",
            "leave one of them out",
        );
    }
}

/// Reports options that contradict a Service.
fn check_service(reader: &Reader, fields: &Fields<'_>) {
    let Some(service) = fields.get("service") else { return };
    if fields.get("host").is_some() {
        reader.error_with(
            &service,
            "the API server connects either to a `service` or to a `host`",
            "leave one of them out",
        );
    }
    if fields.get("insecure").is_some_and(|item| item.node.to_value() == serde_json::Value::Bool(true)) {
        reader.error_with(&service, "the API server calls a `service` by TLS only", "leave `insecure` out");
    }
}

fn port(reader: &Reader, item: &Item<'_>, way_out: &str) -> Option<u16> {
    u16::try_from(reader.whole_in(item, &(1..=65_535), &format!("write a port from 1 to 65535, or {way_out}"))?).ok()
}

fn service(reader: &Reader, item: &Item<'_>) -> Option<ServiceName> {
    let fields = reader.fields(item, "the Service of webhooks", &["name", "namespace", "port"])?;
    let name = reader.required(&fields, "name", "write such as `service: {name: my-operator}`");
    let name = name.and_then(|item| named(reader, &item));
    let namespace = fields.get("namespace").map(|item| named(reader, &item));
    let port = fields.get("port").map(|item| port(reader, &item, "leave it out for 443"));
    // Invalid values were reported.
    Some(ServiceName {
        name: name?,
        namespace: namespace.map_or(Some(None), |namespace| namespace.map(Some))?,
        port: port.map_or(Some(None), |port| port.map(Some))?,
    })
}

fn secret(reader: &Reader, item: &Item<'_>) -> Option<SecretName> {
    let fields = reader.fields(item, "the Secret of a certificate", &["name", "namespace"])?;
    let name = reader.required(&fields, "name", "write such as `secret: {name: my-operator-webhooks}`");
    let name = name.and_then(|item| named(reader, &item))?;
    let namespace = fields.get("namespace").map(|item| named(reader, &item));
    // A namespace with a mistake was reported.
    Some(SecretName { name, namespace: namespace.map_or(Some(None), |namespace| namespace.map(Some))? })
}

/// Returns the name of a kind of server.
pub fn word_of(kind: ServerKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("server", |(word, _)| word)
}

/// Tells whether a kind has only the options of tunnels.
pub fn is_tunnel(kind: ServerKind) -> bool {
    matches!(kind, ServerKind::Ngrok | ServerKind::AutoTunnel)
}

fn kind_of(word: &str) -> Option<ServerKind> {
    KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
}
