//! The sender of a review: the headers of its request, and its client certificate in the form of Python's
//! `getpeercert`.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::http::{Connection, PeerCertificate};

/// The sender of a review, as scripts see it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestPeer {
    /// The headers of the request, by lower-case names.
    pub headers: Map<String, Value>,
    /// The client certificate; empty without one.
    pub certificate: Map<String, Value>,
}

impl RequestPeer {
    /// Returns the sender of an HTTP request. Of repeated headers the last one counts; values that are no text are left
    /// out.
    pub fn of(headers: &HeaderMap, connection: Option<&Connection>) -> Self {
        let texts =
            headers.iter().filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.into())));
        let certificate = connection.and_then(Connection::peer_certificate).map(|certificate| described(&certificate));
        Self { headers: texts.collect(), certificate: certificate.unwrap_or_default() }
    }
}

fn described(certificate: &PeerCertificate) -> Map<String, Value> {
    let name = |parts: &[(String, String)]| parts.iter().map(|(key, value)| json!([[key, value]])).collect::<Value>();
    let mut fields = Map::from_iter([
        ("subject".to_owned(), name(&certificate.subject)),
        ("issuer".to_owned(), name(&certificate.issuer)),
        ("version".to_owned(), certificate.version.into()),
        ("serialNumber".to_owned(), certificate.serial_number.clone().into()),
        ("notBefore".to_owned(), python_time(certificate.validity.not_before).into()),
        ("notAfter".to_owned(), python_time(certificate.validity.not_after).into()),
    ]);
    if !certificate.alternative_names.is_empty() {
        let names = certificate.alternative_names.iter().map(|(kind, name)| json!([kind, name]));
        fields.insert("subjectAltName".to_owned(), names.collect());
    }
    fields
}

/// Returns a time as OpenSSL prints it.
fn python_time(at: jiff::Timestamp) -> String {
    at.strftime("%b %e %H:%M:%S %Y GMT").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Validity;

    #[test]
    fn a_certificate_has_the_form_of_python() {
        let validity = Validity {
            not_before: "2026-11-04T01:02:03Z".parse().unwrap(),
            not_after: "2027-11-24T00:00:00Z".parse().unwrap(),
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let certificate = PeerCertificate {
            subject: vec![pair("organizationName", "system:masters"), pair("commonName", "apiserver")],
            issuer: vec![pair("commonName", "ca")],
            version: 3,
            serial_number: "0A".to_owned(),
            validity,
            alternative_names: vec![pair("DNS", "localhost")],
        };
        let expected = json!({
            "subject": [[["organizationName", "system:masters"]], [["commonName", "apiserver"]]],
            "issuer": [[["commonName", "ca"]]],
            "version": 3,
            "serialNumber": "0A",
            "notBefore": "Nov  4 01:02:03 2026 GMT",
            "notAfter": "Nov 24 00:00:00 2027 GMT",
            "subjectAltName": [["DNS", "localhost"]],
        });
        assert_eq!(Value::Object(described(&certificate)), expected);
    }

    #[test]
    fn headers_have_lower_case_names() {
        let mut headers = HeaderMap::new();
        headers.insert("X-Thing", "a".parse().unwrap());
        headers.append("x-thing", "b".parse().unwrap());
        headers.insert("odd", http::HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(Value::Object(RequestPeer::of(&headers, None).headers), json!({"x-thing": "b"}));
    }
}
