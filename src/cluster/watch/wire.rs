//! The wire format of lists and watches, as far as a watcher reads it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::client::Response;
use super::super::error::Error;
use super::super::partial_metadata::Text;

/// One line of a watch.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// One page of a list. Servers written in Go send null for an empty list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

impl<'a> Page<'a> {
    /// Reads the body of an answer.
    pub(super) fn of(response: &'a Response) -> Result<Self, Error> {
        serde_json::from_slice(&response.body).map_err(payload)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMetadata {
    #[serde(default)]
    pub(super) resource_version: Option<String>,
    /// The continue token of the next page; missing or empty on the last one.
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
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
