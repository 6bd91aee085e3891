//! Credentials in texts: hides tokens, headers of `Authorization`, and passwords in addresses.
//!
//! A last protection for texts that others have written, such as errors of libraries and servers. Values that are known
//! to be secret are not written into texts at all.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Stands for a hidden text.
const HIDDEN: &str = "***";

/// Occurs in every text with a credential: other texts are not searched any further.
static SUSPICIOUS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"://|eyJ|(?i:authorization|bearer|(?:key|secret|passwo?r?d|pwd|token)=)"));

/// The user and the password before the host of an address. A password may have unescaped characters that end the host
/// elsewhere; a number before a slash is a port.
static USER: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?P<kept>[A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#"'<>:]*:[0-9]*[^\s"'<>/0-9][^\s"'<>]*|[^\s/?#"'<>]+)@"#)
});

/// A header with its value, also as `Debug` or JSON prints it; the scheme is kept.
static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)(?P<kept>authorization\\?["']?\s*[:=]\s*\\?["']?(?:(?:basic|bearer|digest|negotiate|token)\s+)?)[^\s"'\\,;{}]+"#,
    )
});

/// A bearer token outside of a header. A word of letters only is no token: "bearer authentication".
static BEARER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)(?P<kept>\bbearer\s+)(?:[A-Za-z]*[0-9._~+/=-][A-Za-z0-9._~+/=-]{5,}|[A-Za-z]{24,})"));

/// A parameter of an address, or a setting of a command line or an environment: `?access_token=…`, `--password=…`,
/// `SECRET=…`.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?i)(?P<kept>(?:access_?key|api_?key|client_?secret|passw(?:or)?d|pwd|secret|token)=\\?["']?)[^&\s"'#]+"#)
});

/// A JSON web token, as service accounts have them.
static WEB_TOKEN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?P<kept>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Returns a text without its credentials.
pub(crate) fn hidden(text: &str) -> Cow<'_, str> {
    if !SUSPICIOUS.is_match(text) {
        return Cow::Borrowed(text);
    }
    let mut text = Cow::Borrowed(text);
    for (pattern, end) in [(&USER, "@"), (&HEADER, ""), (&BEARER, ""), (&ASSIGNMENT, ""), (&WEB_TOKEN, "")] {
        let hide = |found: &Captures<'_>| format!("{}{HIDDEN}{end}", &found["kept"]);
        let replaced = match pattern.replace_all(&text, hide) {
            Cow::Owned(replaced) => Some(replaced),
            Cow::Borrowed(_) => None,
        };
        text = replaced.map_or(text, Cow::Owned);
    }
    text
}

/// Hides the credentials of an owned text, which is usually kept as it is.
pub(crate) fn hide(text: String) -> String {
    match hidden(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(hidden) => hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl_-";

    #[test]
    fn credentials_are_hidden_in_every_spelling() {
        let cases = [
            ("cannot reach https://admin:s3cr3t@example.com:6443/api", "cannot reach https://***@example.com:6443/api"),
            ("proxy http://s3cr3t@proxy:3128", "proxy http://***@proxy:3128"),
            ("postgres://user:s3:cr@3t@db/main", "postgres://***@db/main"),
            ("amqp://user:s3/cr3t?#@queue/main", "amqp://***@queue/main"),
            ("amqp://:1s3cr3t@queue", "amqp://***@queue"),
            ("helm upgrade --password=s3cr3t --set a=b", "helm upgrade --password=*** --set a=b"),
            (r#"PGPASSWORD="s3cr3t""#, r#"PGPASSWORD="***""#),
            ("Authorization: Basic czNjcjN0OmE=", "Authorization: Basic ***"),
            ("authorization: Bearer s3cr3t", "authorization: Bearer ***"),
            ("Proxy-Authorization: s3cr3t", "Proxy-Authorization: ***"),
            (
                r#"{"authorization": "Bearer s3cr3t", "accept": "*/*"}"#,
                r#"{"authorization": "Bearer ***", "accept": "*/*"}"#,
            ),
            (r#"{\"Authorization\":\"Bearer s3cr3t\"}"#, r#"{\"Authorization\":\"Bearer ***\"}"#),
            ("sent bearer s3cr3t-0", "sent bearer ***"),
            ("https://example.com/hook?a=1&token=s3cr3t&b=2", "https://example.com/hook?a=1&token=***&b=2"),
            ("https://example.com/hook?ACCESS_TOKEN=s3cr3t", "https://example.com/hook?ACCESS_TOKEN=***"),
        ];
        for (text, expected) in cases {
            assert_eq!(hidden(text), expected);
            assert!(!expected.contains("cr3t"));
        }
        for text in [TOKEN.to_owned(), format!("token={TOKEN}"), format!("Bearer {TOKEN}"), format!("\"{TOKEN}\"")] {
            assert!(!hidden(&text).contains("c2lnbmF0dXJl") && !hidden(&text).contains("eyJ"), "{}", hidden(&text));
        }
    }

    #[test]
    fn other_texts_are_left_as_they_are() {
        let texts = [
            "Handler 'f' succeeded.",
            "https://example.com/@user/package?page=2&size=3",
            "https://example.com:8443/@user/package",
            "tokens=3, secrets: 4, a=b",
            "the bearer authentication is not configured",
            "authorization of the request has failed",
            "mail somebody@example.com",
            "v1/Secret default/token",
        ];
        for text in texts {
            assert!(matches!(hidden(text), Cow::Borrowed(same) if same == text), "{}", hidden(text));
            assert_eq!(hide(text.to_owned()), text);
        }
    }
}
