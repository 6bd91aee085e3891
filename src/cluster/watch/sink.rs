//! The values that a watcher passes on, and their receiver.

use serde_json::Value;

use crate::object::{Body, EventKind, Resource};
use crate::wire::{self, PartialMetadata};

use super::super::error::Error;

/// Receives the events of a watcher. While a method waits, nothing more is read from the server.
pub trait Sink: Send {
    /// A list begins: at the start, or because the watch lost its version.
    fn listing_began(&mut self) {}

    /// An object was seen.
    fn seen(&mut self, seen: Seen<'_>) -> impl Future<Output = ()> + Send;

    /// The list is complete, and vanished objects were reported as deleted.
    fn listed(&mut self) -> impl Future<Output = ()> + Send;

    /// A stream of events was opened.
    fn opened(&mut self) {}

    /// All known objects were passed on, as this request and the earlier ones demand.
    fn revisited(&mut self, _request: u64) {}

    /// A request failed; the watcher retries by itself. Status 404 means that the server does not have the resource.
    fn request_failed(&mut self, _error: &Error) {}
}

/// An event of an object.
pub struct Seen<'a> {
    /// The kind of the event.
    pub event_kind: EventKind,
    /// Its metadata.
    pub head: &'a PartialMetadata<'a>,
    /// The whole object as JSON. A vanished object has only its identity.
    pub text: &'a str,
    /// Its resource.
    pub resource: &'a Resource,
}

impl Seen<'_> {
    /// Reads the whole object.
    ///
    /// # Errors
    /// If the text is not valid JSON.
    pub fn body(&self) -> Result<Body, serde_json::Error> {
        read(self.text, self.resource)
    }
}

/// Parses a whole object from the text of an event. Items of lists may lack their kind and version, which are filled
/// in.
///
/// # Errors
/// If the text is not JSON.
pub fn read(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    let mut value = wire::parse_text(text)?;
    if let Some(object) = value.as_object_mut() {
        object.entry("kind").or_insert_with(|| Value::String(resource.kind.clone()));
        object.entry("apiVersion").or_insert_with(|| Value::String(resource.api_version()));
    }
    Ok(value.into())
}
