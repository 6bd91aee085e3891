//! OAuth 2 client credentials (RFC 6749, 4.4): a token is fetched with the first request, and kept until it expires.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::utf8_percent_encode;
use rhai::{Dynamic, Map};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::body;
use super::exchange::{self, Answered};
use super::given::Given;
use super::hosts::{Thrown, address, thrown};
use super::request::Request;
use crate::kit::hexadecimal;
use crate::script::functions::library::RESERVED;
use crate::script::outside::{HttpConnection, HttpError, HttpProblem};
use crate::script::runtime::context::Context;

/// The answer of a server of tokens is small.
const MAX_BYTES: usize = 64 << 10;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The credentials of a client, and the requested scope.
pub(super) struct ClientCredentials {
    url: Url,
    id: String,
    secret: String,
    /// Whether the credentials are part of the form, and not a header.
    in_body: bool,
    /// The other fields of the form.
    fields: Map,
    /// Stands for all of it.
    key: String,
}

impl ClientCredentials {
    /// Reads the option `auth.oauth2`.
    ///
    /// # Errors
    /// If a part is missing or invalid.
    pub(super) fn read(function: &str, given: &Given) -> Result<Self, Thrown> {
        let url = address(function, &given.required("url")?)?;
        let (id, secret) = (given.required("id")?, given.required("secret")?.trim_end_matches(['\r', '\n']).to_owned());
        let in_body = given.flag("in_body", false)?;
        let mut fields = given.map("fields")?.unwrap_or_default();
        if let Some(scope) = given.text("scope")? {
            fields.insert("scope".into(), scope.into());
        }
        fields.insert("grant_type".into(), "client_credentials".into());
        let all = [url.as_str(), &id, &secret, &body::encoded(function, &fields)?].join("\n");
        let key = hexadecimal(&Sha256::digest(all));
        Ok(Self { url, id, secret, in_body, fields, key })
    }

    /// Returns a kept token, or a new one.
    ///
    /// # Errors
    /// If the server gives none.
    pub(super) fn token(&self, context: &Context, request: &Request) -> Result<String, Thrown> {
        let known = context.environment().outside.tokens().get(&self.key, context.clock().now());
        known.map_or_else(|| self.fetch(context, request), Ok)
    }

    /// Drops the token, which a server refuses.
    pub(super) fn forget(&self, context: &Context) {
        context.environment().outside.tokens().forget(&self.key);
    }

    fn fetch(&self, context: &Context, request: &Request) -> Result<String, Thrown> {
        let function = &request.function;
        let mut fields = self.fields.clone();
        let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
        let auth = if self.in_body {
            fields.insert("client_id".into(), Dynamic::from(self.id.clone()));
            fields.insert("client_secret".into(), Dynamic::from(self.secret.clone()));
            Vec::new()
        } else {
            // The RFC demands that both are encoded before.
            let pair = STANDARD.encode(format!("{}:{}", encoded(&self.id), encoded(&self.secret)));
            vec![("authorization".to_owned(), format!("Basic {pair}"))]
        };
        // The certificate of the client is for the server of the request.
        let connection = Arc::new(HttpConnection { identity: None, ..(*request.connection).clone() });
        let sent = Request {
            function: function.clone(),
            method: "POST".to_owned(),
            home: self.url.origin(),
            url: self.url.clone(),
            headers: [("accept", "application/json"), ("content-type", "application/x-www-form-urlencoded")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            body: body::encoded(function, &fields)?.into_bytes(),
            timeout: TIMEOUT,
            max_bytes: MAX_BYTES,
            redirects: 0,
            // A second token does no harm.
            retries: 2,
            is_idempotent: true,
            raises: false,
            wants_bytes: false,
            connection,
        };
        let now = context.clock().now();
        let Answered { answer, .. } = exchange::perform(context, &sent, &|_| Ok(auth.clone()))?;
        let content = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let token = content["access_token"]
            .as_str()
            .filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        let Some(token) = token.filter(|_| answer.status == 200) else {
            let why = content["error"].as_str().map(|why| format!(", {why}")).unwrap_or_default();
            let message = format!("{}: the server gives no token (status {}{why})", sent.title(), answer.status);
            return Err(thrown(HttpError { problem: HttpProblem::Status, message }, Some(answer.status)));
        };
        let seconds = content["expires_in"].as_i64().or_else(|| content["expires_in"].as_str()?.parse().ok());
        context.environment().outside.tokens().put(&self.key, token, now, seconds);
        Ok(token.to_owned())
    }
}
