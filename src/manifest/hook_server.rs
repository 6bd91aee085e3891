//! The listener of hooks in the settings, beside that of the probes.

use serde_json::{Value, json};

use super::reader::{Fields, Item, Reader};

/// A declared listener of hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookServer {
    /// The address to bind; `None` means all interfaces.
    pub addr: Option<String>,
    /// The port.
    pub port: u16,
    /// The prefix of the paths.
    pub path: Option<String>,
    /// Whether it uses plain HTTP, such as behind a proxy that has the certificate.
    pub insecure: bool,
    /// The file of the certificate.
    pub certfile: Option<String>,
    /// The file of the private key.
    pub pkeyfile: Option<String>,
    /// The authorities of client certificates, as a file.
    pub verify_cafile: Option<String>,
    /// The authorities of client certificates, as text.
    pub verify_cadata: Option<String>,
}

const KEYS: [&str; 8] = ["addr", "port", "path", "insecure", "certfile", "pkeyfile", "verifyCafile", "verifyCadata"];

impl HookServer {
    /// Tells whether it asks clients for certificates.
    pub fn verifies_clients(&self) -> bool {
        self.verify_cafile.is_some() || self.verify_cadata.is_some()
    }
}

/// Reads `settings.hooks.server`.
pub(crate) fn read(reader: &Reader, item: &Item<'_>) -> Option<HookServer> {
    let fields = reader.fields(item, "the server of hooks", &KEYS)?;
    let text = |key: &str| reader.string(&fields, key);
    let port = reader.required(&fields, "port", "write such as `port: 8443`").and_then(|item| port(reader, &item));
    let path = fields.get("path").map(|item| prefix(reader, &item));
    let server = HookServer {
        addr: text("addr"),
        port: port?,
        path: path.map_or(Some(None), |path| path.map(Some))?,
        insecure: reader.flag(&fields, "insecure").unwrap_or(false),
        certfile: text("certfile"),
        pkeyfile: text("pkeyfile"),
        verify_cafile: text("verifyCafile"),
        verify_cadata: text("verifyCadata"),
    };
    check(reader, &fields, &server);
    Some(server)
}

fn check(reader: &Reader, fields: &Fields<'_>, server: &HookServer) {
    for (given, missing) in [("certfile", "pkeyfile"), ("pkeyfile", "certfile")] {
        if let Some(item) = fields.get(given).filter(|_| fields.get(missing).is_none()) {
            reader.error_with(&item, format!("`{given}` needs `{missing}`"), format!("add `{missing}`"));
        }
    }
    let is_certified = server.certfile.is_some() || server.pkeyfile.is_some();
    if let Some(item) =
        fields.get("insecure").filter(|_| server.insecure && (is_certified || server.verifies_clients()))
    {
        reader.error_with(
            &item,
            "an insecure server has no certificates",
            "leave out `insecure`, or the options of certificates",
        );
    } else if !server.insecure && !is_certified {
        let hint = "add `certfile` and `pkeyfile`, or write `insecure: true` for plain HTTP, such as behind an Ingress";
        reader.error_with(&fields.item, "the server of hooks has no certificate", hint);
    }
}

fn port(reader: &Reader, item: &Item<'_>) -> Option<u16> {
    u16::try_from(reader.whole_in(item, &(1..=65_535), "write such as `port: 8443`")?).ok()
}

fn prefix(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    if text.starts_with('/') && text.chars().all(is_plain) {
        return Some(text.trim_end_matches('/').to_owned());
    }
    reader.error_with(item, format!("`{text}` cannot be the prefix of paths"), "write such as `/hooks`");
    None
}

/// Returns the keys of a server that are set.
pub(crate) fn to_value(server: &HookServer) -> Value {
    let HookServer { addr, port, path, insecure, certfile, pkeyfile, verify_cafile, verify_cadata } = server;
    let mut tree = json!({ "port": port, "insecure": insecure });
    let texts = [
        ("addr", addr),
        ("path", path),
        ("certfile", certfile),
        ("pkeyfile", pkeyfile),
        ("verifyCafile", verify_cafile),
        ("verifyCadata", verify_cadata),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            tree[key] = json!(text);
        }
    }
    tree
}
