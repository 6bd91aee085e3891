//! The authentication of requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::Array;

use super::exchange::{self, Answered};
use super::given::Given;
use super::hosts::Thrown;
use super::oauth::ClientCredentials;
use super::redirects::Hop;
use super::request::{self, Request};
use super::sigv4::{Signed, Signer};
use crate::script::runtime::context::Context;

/// The option `auth`.
pub(super) enum Auth {
    /// There is none.
    None,
    /// A header `Authorization`.
    Header(String),
    /// A signature of each request.
    Aws(Signer),
    /// A token of another server.
    Client(ClientCredentials),
}

impl Auth {
    /// Reads the option.
    ///
    /// # Errors
    /// If it is invalid.
    pub(super) fn read(request: &Request, options: &Given) -> Result<Self, Thrown> {
        let Some(auth) = options.part("auth", &["aws", "basic", "bearer", "oauth2"])? else { return Ok(Self::None) };
        if request::has(&request.headers, "authorization") {
            return Err(options.wrong("auth", "missing if there is a header `Authorization`"));
        }
        if auth.keys().count() != 1 {
            return Err(options.wrong("auth", "a map with one key: `bearer`, `basic`, `oauth2` or `aws`"));
        }
        if let Some(token) = auth.secret("bearer")? {
            let token = token.trim_end_matches(['\r', '\n']);
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(auth.wrong("bearer", "a token"));
            }
            return Ok(Self::Header(format!("Bearer {token}")));
        }
        if let Some(aws) = auth.part("aws", &["access_key", "region", "secret_key", "service", "session_token"])? {
            return Signer::read(&aws).map(Self::Aws);
        }
        if let Some(client) = auth.part("oauth2", &["fields", "id", "in_body", "scope", "secret", "url"])? {
            return ClientCredentials::read(&request.function, &client).map(Self::Client);
        }
        let pair = auth.value("basic").and_then(|value| value.read_lock::<Array>().map(|pair| pair.clone()));
        let pair = pair
            .filter(|pair| pair.len() == 2)
            .ok_or_else(|| auth.wrong("basic", "an array of a name and a password"))?;
        let [name, password] = [0, 1].map(|index| auth.item("basic", &pair[index]));
        let (name, password) = (name?, password?);
        if name.contains(&b':') {
            return Err(auth.wrong("basic", "a name without a colon, and a password"));
        }
        Ok(Self::Header(format!("Basic {}", STANDARD.encode([name.as_slice(), b":", &password].concat()))))
    }

    /// Returns the headers of one request of a call.
    ///
    /// # Errors
    /// If another server gives no token.
    fn headers(&self, context: &Context, request: &Request, hop: &Hop) -> Result<Vec<(String, String)>, Thrown> {
        let authorization = |value: String| vec![("authorization".to_owned(), value)];
        Ok(match self {
            Self::None => Vec::new(),
            Self::Header(value) => authorization(value.clone()),
            Self::Client(client) => authorization(format!("Bearer {}", client.token(context, request)?)),
            Self::Aws(signer) => {
                let signed = Signed { method: &hop.method, url: &hop.url, headers: &hop.headers, body: &hop.body };
                signer.headers(&signed, context.clock().now())
            }
        })
    }
}

/// Sends a request with credentials, and returns its last answer.
///
/// # Errors
/// If there is no answer, or the call must end.
pub(super) fn perform(context: &Context, request: &Request, auth: &Auth) -> Result<Answered, Thrown> {
    let send = || exchange::perform(context, request, &|hop| auth.headers(context, request, hop));
    let answered = send()?;
    match auth {
        // A kept token may have been revoked.
        Auth::Client(client) if answered.answer.status == 401 => {
            client.forget(context);
            send()
        }
        _ => Ok(answered),
    }
}
