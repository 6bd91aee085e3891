//! A request as the script has given it, checked.

use std::sync::Arc;
use std::time::Duration;

use rhai::Dynamic;
use url::{Origin, Url};

use super::body::{self, Body};
use super::given::Given;
use super::hosts::{Thrown, address, check_host, shown};
use crate::script::functions::options::text;
use crate::script::outside::{Grants, HttpConnection, Identity, ProxyChoice};
use crate::script::runtime::bounded;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

/// The options of all functions.
pub(super) const OPTIONS: &[&str] = &[
    "auth",
    "body",
    "bytes",
    "ca",
    "cert",
    "form",
    "headers",
    "idempotent",
    "key",
    "limit",
    "multipart",
    "proxy",
    "query",
    "raise",
    "redirects",
    "retries",
    "timeout",
];

/// The time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// Repetitions of a request that may be repeated.
const RETRIES: usize = 2;

/// Headers that the client writes itself: others would let one request look like two, or like one to another host.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A request, with how it is sent.
pub(super) struct Request {
    /// The name of the function, for messages.
    pub function: String,
    pub method: String,
    pub url: Url,
    /// The scheme, host and port that get the credentials.
    pub home: Origin,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub timeout: Duration,
    pub max_bytes: usize,
    pub redirects: usize,
    pub retries: usize,
    pub is_idempotent: bool,
    pub raises: bool,
    pub wants_bytes: bool,
    pub connection: Arc<HttpConnection>,
}

impl Request {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub(super) fn read(
        context: &Context,
        function: &str,
        method: &str,
        url: &Dynamic,
        body: Option<&Dynamic>,
        options: &Given,
        max_text: usize,
    ) -> Result<Self, Thrown> {
        let method = method_of(function, method)?;
        let mut url = address(function, &text(function, "the address", url)?)?;
        if let Some(query) = options.map("query")? {
            let query = body::encoded(function, &query)?;
            let joined = url.query().filter(|present| !present.is_empty()).map(|present| format!("{present}&{query}"));
            url.set_query(Some(joined.as_deref().unwrap_or(&query)).filter(|query| !query.is_empty()));
        }
        let Body { bytes, content_type } = Body::of(function, body, options, context)?;
        let mut headers = headers(function, options)?;
        if let Some(content_type) = content_type.filter(|_| !has(&headers, "content-type")) {
            headers.push(("content-type".to_owned(), content_type));
        }
        if !has(&headers, "user-agent") {
            headers.push(("user-agent".to_owned(), concat!("kopfd/", env!("CARGO_PKG_VERSION")).to_owned()));
        }
        let is_idempotent =
            options.flag("idempotent", matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"))?;
        let most = context.budget().memory() / 4;
        let max_bytes = options.size("limit")?.unwrap_or(max_text.min(most));
        if max_bytes > most {
            return Err(options.wrong("limit", "at most a quarter of `limits.memory`"));
        }
        Ok(Self {
            function: function.to_owned(),
            method,
            home: url.origin(),
            url,
            headers,
            body: bytes,
            timeout: options.duration("timeout")?.unwrap_or(TIMEOUT),
            max_bytes,
            redirects: options.count("redirects", REDIRECTS, 20)?,
            retries: options.count("retries", RETRIES, 10)?,
            is_idempotent,
            raises: options.flag("raise", false)?,
            wants_bytes: options.flag("bytes", false)?,
            connection: Arc::new(connection(context, function, options)?),
        })
    }

    /// Describes the request for messages: without the query, which may have secrets.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method, shown(&self.url))
    }
}

fn method_of(function: &str, given: &str) -> Result<String, Thrown> {
    let method = given.to_ascii_uppercase();
    let is_token = !method.is_empty() && method.len() <= 32 && method.bytes().all(is_token_byte);
    if !is_token || matches!(method.as_str(), "CONNECT" | "TRACE") {
        return Err(Failure::argument(format!("`{function}`: {} is no method", bounded::shortened(given))).into());
    }
    Ok(method)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Tells whether there is a header of a name in small letters.
pub(super) fn has(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(known, _)| known == name)
}

fn headers(function: &str, options: &Given) -> Result<Vec<(String, String)>, Thrown> {
    let mut headers = Vec::new();
    let Some(given) = options.part_of_any("headers")? else { return Ok(headers) };
    for key in given.keys() {
        let name = key.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(Failure::argument(format!(
                "`{function}`: `{}` is no name of a header",
                bounded::shortened(key)
            ))
            .into());
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(Failure::argument(format!("`{function}`: the header `{key}` cannot be set")).into());
        }
        let Some(value) = given.plain(key)? else { continue };
        if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            return Err(given.wrong(key, "one line of text"));
        }
        headers.push((name, value));
    }
    Ok(headers)
}

fn connection(context: &Context, function: &str, options: &Given) -> Result<HttpConnection, Thrown> {
    let identity = match (options.bytes("cert")?, options.bytes("key")?) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        _ => return Err(options.wrong("cert", "given together with `key`")),
    };
    let proxy = match options.value("proxy") {
        None => ProxyChoice::Environment,
        Some(value) if value.as_bool() == Ok(false) => ProxyChoice::Direct,
        Some(_) => {
            let written = options.text("proxy")?.unwrap_or_default();
            let url = Url::parse(&written).ok().filter(|url| url.scheme() == "http" && url.has_host());
            ProxyChoice::Given(
                url.ok_or_else(|| options.wrong("proxy", "`false`, or an address that begins with http://"))?,
            )
        }
    };
    if let ProxyChoice::Given(url) = &proxy {
        check_host(context, function, url)?;
    }
    Ok(HttpConnection { grants: Grants::of(&context.allow().http), authorities: options.bytes("ca")?, identity, proxy })
}
