//! The limits of the values in one file, with those that aliases repeat.

use crate::kit::source::SourceSpan;

use super::mistake::Mistake;
use super::node::{Kind, Node};

/// The deepest nesting of lists and mappings. Kubernetes' own objects stay below 30.
pub(super) const MAX_DEPTH: usize = 100;
/// Limit of values in one file, including values repeated by aliases: enough for the largest CRDs.
const MAX_NODES: usize = 400_000;
/// Limit of bytes of all texts in one file, including texts repeated by aliases.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// The size of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    pub nodes: usize,
    pub text: usize,
}

/// The amounts that the values read so far have used.
#[derive(Debug, Default)]
pub(super) struct Used {
    nodes: usize,
    text: usize,
}

impl Used {
    /// Adds a value.
    ///
    /// # Errors
    /// If it is more than the limits.
    pub(super) fn charge(&mut self, weight: Weight, spot: SourceSpan) -> Result<(), Mistake> {
        self.nodes += weight.nodes;
        self.text += weight.text;
        if self.nodes > MAX_NODES || self.text > MAX_TEXT_BYTES {
            let message = if self.nodes > MAX_NODES {
                format!("more than {MAX_NODES} values in one file, those repeated by aliases included")
            } else {
                format!("more than {} MiB of text in one file, that repeated by aliases included", MAX_TEXT_BYTES >> 20)
            };
            return Err(Mistake {
                spot,
                path: None,
                message,
                hint: Some("split the file, or use fewer aliases".to_owned()),
            });
        }
        Ok(())
    }
}

/// Returns the size of a value with all that it contains.
pub(super) fn weight_of(node: &Node) -> Weight {
    let children = |sum: Weight, child: Weight| Weight { nodes: sum.nodes + child.nodes, text: sum.text + child.text };
    match &node.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) => Weight { nodes: 1, text: 0 },
        Kind::Text(text) => Weight { nodes: 1, text: text.value.len() },
        Kind::List(items) => items.iter().map(weight_of).fold(Weight { nodes: 1, text: 0 }, children),
        Kind::Map(entries) => entries
            .iter()
            .map(|entry| children(weight_of(&entry.value), Weight { nodes: 1, text: entry.key.len() }))
            .fold(Weight { nodes: 1, text: 0 }, children),
    }
}
