//! Redirects: which request follows an answer. The host of each is checked like that of the first.

use std::sync::Arc;

use url::Url;

use super::request::Request;
use crate::script::outside::{HttpAnswer, HttpConnection};

/// Headers that another host gets, too. The others may be credentials.
const HARMLESS: [&str; 5] = ["accept", "accept-language", "content-type", "user-agent", "range"];

/// One request of a chain.
pub(super) struct Hop {
    pub method: String,
    pub url: Url,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub connection: Arc<HttpConnection>,
    /// Whether all requests of the chain go to one scheme, host and port, which gets the credentials.
    pub is_trusted: bool,
}

impl Hop {
    /// Returns the first request.
    pub(super) fn first(request: &Request) -> Self {
        let first = Self {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            connection: Arc::clone(&request.connection),
            is_trusted: true,
        };
        if request.url.origin() == request.home { first } else { first.without_credentials() }
    }

    fn without_credentials(mut self) -> Self {
        self.headers.retain(|(name, _)| HARMLESS.contains(&name.as_str()));
        if self.connection.identity.is_some() {
            self.connection = Arc::new(HttpConnection { identity: None, ..(*self.connection).clone() });
        }
        self.is_trusted = false;
        self
    }

    /// Returns the request that an answer redirects to; `None` if it is not a redirect.
    ///
    /// # Errors
    /// If the address cannot be followed.
    pub(super) fn next(&self, answer: &HttpAnswer) -> Result<Option<Self>, String> {
        if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = answer.header("location") else { return Ok(None) };
        let mut url =
            self.url.join(location).map_err(|error| format!("the address of the redirect cannot be read: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
            return Err("the redirect leads to an address that is not plain HTTP".to_owned());
        }
        url.set_fragment(None);
        // As browsers do: only 307 and 308 repeat a POST.
        let becomes_get = match answer.status {
            303 => self.method != "HEAD",
            301 | 302 => self.method == "POST",
            _ => false,
        };
        let (method, body) =
            if becomes_get { ("GET".to_owned(), Vec::new()) } else { (self.method.clone(), self.body.clone()) };
        let mut headers = self.headers.clone();
        if becomes_get {
            headers.retain(|(name, _)| !name.starts_with("content-"));
        }
        let is_same = url.origin() == self.url.origin();
        let next =
            Self { method, url, headers, body, connection: Arc::clone(&self.connection), is_trusted: self.is_trusted };
        Ok(Some(if is_same { next } else { next.without_credentials() }))
    }
}
