//! The pages of lists.

use serde::Deserialize;
use serde_json::value::RawValue;

/// One page of a list. Servers written in Go send null for an empty list.
#[derive(Debug, Deserialize)]
pub struct Page<'a> {
    /// The metadata of the list.
    #[serde(default)]
    pub metadata: PageMetadata,
    /// The objects as JSON.
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

impl<'a> Page<'a> {
    /// Reads the body of an answer.
    ///
    /// # Errors
    /// If it is not JSON, or not a list.
    pub fn of(body: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }
}

/// The metadata of a list, in one page.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct PageMetadata {
    /// The version of the list.
    #[serde(default)]
    pub resource_version: Option<String>,
    /// The continue token of the next page; missing or empty on the last one.
    #[serde(default, rename = "continue")]
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_may_be_null_or_absent() {
        let page = Page::of(br#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1},{}]}"#).unwrap();
        let items: Vec<&str> = page.items.iter().flatten().map(|item| item.get()).collect();
        assert_eq!(
            (items, page.metadata.resource_version.as_deref(), page.metadata.next.as_deref()),
            (vec![r#"{"a":1}"#, "{}"], Some("7"), Some("x"))
        );
        for text in [r#"{"items":null}"#, "{}"] {
            let page = Page::of(text.as_bytes()).unwrap();
            assert!(page.items.is_none() && page.metadata.next.is_none(), "{text}");
        }
        assert!(Page::of(b"{\"items\":1}").is_err() && Page::of(b"[").is_err());
    }
}
