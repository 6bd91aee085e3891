//! Changes of files.

use serde_json::Value;

use crate::manifest::tree::{Node, SourceSpan};

/// A change of a file.
#[derive(Debug, Clone)]
pub enum Fix {
    /// Replaces a scalar.
    Scalar {
        /// Position of the old value.
        spot: SourceSpan,
        /// The new value.
        value: Value,
    },
    /// Replaces a list of texts.
    List {
        /// The list as written.
        node: Node,
        /// The new items.
        items: Vec<ListItem>,
    },
}

/// An item of a replaced list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListItem {
    /// An item of the old list, by index.
    Kept(usize),
    /// A new item.
    New(String),
}
