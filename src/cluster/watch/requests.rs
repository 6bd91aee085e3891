//! The requests of a watcher: pages of lists, and streams.

use std::sync::Arc;

use super::super::address;
use super::super::client::{Client, Repeat, Request, Response, in_time};
use super::super::error::Error;
use super::super::selection::Selection;
use super::super::settings::ConnectionSettings;
use super::super::transport::ByteStream;
use crate::object::Resource;
use crate::wire::Page;

/// The name of the log.
pub(super) const LOG: &str = "kopfd::cluster::watch";

/// Objects in a page of a list: kubectl's number, at which a page of usual objects is a few megabytes.
pub(super) const PAGE: &str = "500";

/// The requests of a watch: the watched resource, its path and its selection.
pub(super) struct Requests {
    client: Client,
    pub resource: Resource,
    pub path: String,
    /// Which objects are watched.
    pub selection: Selection,
}

impl Requests {
    /// Returns the requests for all objects of a resource.
    ///
    /// # Errors
    /// If a namespace is given for a kind without namespaces.
    pub(super) fn new(client: Client, resource: Resource, namespace: Option<&str>) -> Result<Self, Error> {
        let path = address::collection(&resource, namespace)?;
        Ok(Self { client, resource, path, selection: Selection::default() })
    }

    /// Returns the settings of the client.
    pub(super) fn settings(&self) -> Arc<ConnectionSettings> {
        self.client.settings()
    }

    /// Requests a page of a list: the first one, or the next one by its token.
    pub(super) async fn page(&self, limit: Option<&str>, next: Option<&str>) -> Result<Response, Error> {
        let pieces = [("limit", limit), ("continue", next)];
        let parameters: Vec<(&str, &str)> = pieces.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        self.client.request(&Request::get(self.address(&parameters)).repeated(Repeat::Never)).await
    }

    /// Opens a stream of events after a version.
    pub(super) async fn open(&self, version: &str) -> Result<ByteStream, Error> {
        self.client.open(&self.watch_path(version)).await
    }

    /// Tells whether the server is behind our version, as after a restore from a backup. Such a server would keep a
    /// watch open without sending events.
    pub(super) async fn is_behind(&self, version: &str) -> Result<bool, Error> {
        let response = in_time(self.client.opening_limit(), self.page(Some("1"), None)).await?;
        let page = Page::of(&response.body).map_err(payload)?;
        Ok(page.metadata.resource_version.is_some_and(|current| is_before(&current, version)))
    }

    /// Returns the path of the resource with parameters and the selector.
    fn address(&self, parameters: &[(&str, &str)]) -> String {
        let Selection { labels, fields } = &self.selection;
        let selectors = [("fieldSelector", fields.as_deref()), ("labelSelector", labels.as_deref())];
        let selectors = selectors.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let parameters: Vec<(&str, &str)> = parameters.iter().copied().chain(selectors).collect();
        self.path.clone() + &address::query(&parameters)
    }

    /// Returns the path of a watch from a version.
    fn watch_path(&self, version: &str) -> String {
        let timeout = self.settings().watching.server_timeout.map(|limit| limit.as_secs().to_string());
        let mut parameters = vec![("watch", "true"), ("allowWatchBookmarks", "true")];
        if !version.is_empty() {
            parameters.push(("resourceVersion", version));
        }
        if let Some(timeout) = &timeout {
            parameters.push(("timeoutSeconds", timeout));
        }
        self.address(&parameters)
    }
}

/// Compares versions that are numbers, as on all known API servers.
pub(super) fn is_before(version: &str, other: &str) -> bool {
    match (version.parse::<u64>(), other.parse::<u64>()) {
        (Ok(version), Ok(other)) => version < other,
        _ => false,
    }
}

/// Returns the error of an answer that cannot be read.
pub(super) fn payload(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Payload(Box::new(error))
}
