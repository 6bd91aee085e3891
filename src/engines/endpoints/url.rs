//! The URL of the liveness endpoint, as on the command line.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// The default host and port, as in kopf.
const HOST: &str = "localhost";
const PORT: u16 = 80;

/// The address that the endpoints listen at, and the path of the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivenessUrl {
    /// The host to listen on.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path of the probes.
    pub path: String,
}

impl LivenessUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// If it does not begin with `http://`, or its port is not a number.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "such as http://0.0.0.0:8080/healthz";
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| format!("expected a URL that begins with http://, {EXAMPLE}"))?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        if path.contains(['?', '#']) {
            return Err(format!("the URL has no query and no fragment, {EXAMPLE}"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = port.filter(|port| !port.is_empty()).map(str::parse).transpose();
        let port = port.map_err(|_| format!("expected a port from 0 to 65535, {EXAMPLE}"))?.unwrap_or(PORT);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = if host.is_empty() { HOST } else { host };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Returns the addresses to listen on: the first one that can be used.
    ///
    /// # Errors
    /// If the host has no address.
    pub fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl std::fmt::Display for LivenessUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port, path } = self;
        if host.contains(':') {
            write!(formatter, "http://[{host}]:{port}{path}")
        } else {
            write!(formatter, "http://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_paths_have_the_defaults_of_kopf() {
        let read = |text: &str| LivenessUrl::parse(text).map(|url| url.to_string());
        let cases = [
            ("http://0.0.0.0:8080/healthz", "http://0.0.0.0:8080/healthz"),
            ("http://", "http://localhost:80/"),
            ("http://:8080", "http://localhost:8080/"),
            ("http://example.com", "http://example.com:80/"),
            ("http://[::]:8080/a/b", "http://[::]:8080/a/b"),
            ("http://[::1]", "http://[::1]:80/"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["https://0.0.0.0:8080/healthz", "0.0.0.0:8080", "http://a:99999/", "http://a:b/", "http://a/?b"] {
            assert!(read(text).unwrap_err().contains("such as http://0.0.0.0:8080/healthz"), "{text}");
        }
    }
}
