//! The memory of copies: the interpreter copies lists and maps with all that is in them, and shares texts.

use rhai::{Array, Dynamic, Map};

use crate::script::functions::support::Thrown;
use crate::script::runtime::bounded;

/// The memory of an entry of a map besides its key and its value.
const BYTES_PER_ENTRY: usize = 64;

/// Returns the bytes that a copy of a value takes, approximately. The interpreter limits the nesting of values.
pub(super) fn size(value: &Dynamic) -> usize {
    let inner = if let Ok(items) = value.as_array_ref() {
        items.iter().map(size).sum()
    } else if let Ok(entries) = value.as_map_ref() {
        size_of_entries(&entries)
    } else {
        value.as_blob_ref().map_or(0, |bytes| bytes.len())
    };
    size_of::<Dynamic>() + inner
}

/// Returns the bytes that a copy of the items takes, approximately.
pub(super) fn size_of_items(items: &Array) -> usize {
    items.iter().map(size).sum()
}

/// Returns the bytes that a copy of the entries takes, approximately.
pub(super) fn size_of_entries(entries: &Map) -> usize {
    entries.iter().map(|(key, item)| BYTES_PER_ENTRY + key.len() + size(item)).sum()
}

/// Returns a copy of a value.
///
/// # Errors
/// If the call may not hold it.
pub(super) fn copy(value: &Dynamic) -> Result<Dynamic, Thrown> {
    bounded::reserve(size(value))?;
    Ok(value.flatten_clone())
}
