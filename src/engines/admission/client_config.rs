//! The address of a server for the API server: a URL or a service, with the authority of its certificate.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

/// The characters of an id that are encoded in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~').remove(b'/');

/// The address of a server's webhooks for the API server. Each webhook appends its id to the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The address.
    pub target: Target,
    /// The authorities of the server's certificate, as PEM; `None` for those that the API server trusts anyway.
    pub authorities: Option<String>,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A URL, without a slash at its end.
    Url(String),
    /// A service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port; `None` for 443.
        port: Option<u16>,
        /// The prefix of the paths; empty or with a leading slash.
        path: String,
    },
}

impl ClientConfig {
    /// Returns the `clientConfig` of a webhook.
    pub fn of_webhook(&self, id: &str) -> Value {
        with_id(self.to_value(), id)
    }

    /// Returns the `clientConfig` of the server as a whole.
    pub fn to_value(&self) -> Value {
        let mut config = match &self.target {
            Target::Url(url) => json!({"url": url}),
            Target::Service { namespace, name, port, path } => {
                let mut service = json!({"namespace": namespace, "name": name, "path": path});
                if let Some(port) = port {
                    service["port"] = json!(port);
                }
                json!({"service": service})
            }
        };
        if let Some(authorities) = &self.authorities {
            config["caBundle"] = STANDARD.encode(authorities).into();
        }
        config
    }
}

/// Returns the `clientConfig` of a webhook from that of its server: the id is appended to the path.
pub fn with_id(mut config: Value, id: &str) -> Value {
    let id = encoded(id);
    if let Some(Value::String(url)) = config.get_mut("url") {
        *url = format!("{}/{id}", url.trim_end_matches('/'));
    }
    if let Some(service) = config.get_mut("service") {
        let path = service.get("path").and_then(Value::as_str).unwrap_or_default();
        service["path"] = format!("{path}/{id}").into();
    }
    config
}

/// Returns an id as a part of a path: everything except letters and digits of ASCII, `_.-~/` is percent-encoded.
pub fn encoded(id: &str) -> String {
    utf8_percent_encode(id, ENCODED).to_string()
}

/// Returns the id in a part of a path; `None` if it is no text.
pub fn decoded(path: &str) -> Option<String> {
    percent_decode_str(path).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Returns the URL of a server. The default port is left out, and addresses of IPv6 are in brackets.
pub fn url(is_insecure: bool, host: &str, port: u16, path: &str) -> String {
    let (scheme, default_port) = if is_insecure { ("http", 80) } else { ("https", 443) };
    let host = match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    };
    let port = if port == default_port { String::new() } else { format!(":{port}") };
    format!("{scheme}://{host}{port}{}", path.trim_end_matches('/'))
}

/// Returns a host that reaches a bound address from the same machine: unspecified addresses are replaced.
pub fn accessible(address: Option<&str>) -> String {
    match address {
        None => "localhost".to_owned(),
        Some("0.0.0.0") => "127.0.0.1".to_owned(),
        Some("::") => "::1".to_owned(),
        Some(other) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_part_of_the_path_and_is_read_back() {
        for (id, path) in [("fn/spec.x", "fn/spec.x"), ("a/b c", "a/b%20c"), ("ä_~", "%C3%A4_~"), ("50%", "50%25")] {
            assert_eq!((encoded(id).as_str(), decoded(path).as_deref()), (path, Some(id)));
        }
        assert_eq!(decoded("a%2Fb%20c").as_deref(), Some("a/b c"));
        assert_eq!(decoded("%zz%4").as_deref(), Some("%zz%4"), "what is no code is taken as it is");
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn urls_leave_out_default_ports_and_have_brackets_around_ipv6() {
        assert_eq!(url(false, "localhost", 443, ""), "https://localhost");
        assert_eq!(url(true, "::1", 8080, "/hooks/"), "http://[::1]:8080/hooks");
        assert_eq!(
            [None, Some("0.0.0.0"), Some("::"), Some("10.0.0.1")].map(accessible),
            ["localhost", "127.0.0.1", "::1", "10.0.0.1"]
        );
    }

    #[test]
    fn the_authorities_are_encoded_in_the_bundle() {
        let target = Target::Url("https://host/path//".to_owned());
        let config = ClientConfig { target, authorities: Some("CA".to_owned()) };
        assert_eq!(config.of_webhook("fn"), json!({"url": "https://host/path/fn", "caBundle": "Q0E="}));
        let target =
            Target::Service { namespace: "n".to_owned(), name: "s".to_owned(), port: Some(8443), path: String::new() };
        let config = ClientConfig { target, authorities: None };
        assert_eq!(
            config.of_webhook("a b"),
            json!({"service": {"namespace": "n", "name": "s", "port": 8443, "path": "/a%20b"}})
        );
    }
}
