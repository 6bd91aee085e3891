//! The causes of errors of connections.

use std::error::Error as StdError;

/// Finds an error of a type among the causes of another one. An error of input and output is itself no cause of what it
/// holds.
pub(super) fn found<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    if let Some(wanted) = error.downcast_ref::<T>() {
        return Some(wanted);
    }
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let held = held.map(|held| held as &(dyn StdError + 'static));
    held.or_else(|| error.source()).and_then(found::<T>)
}

/// Returns a text with the innermost cause of an error.
pub(super) fn chain(text: &str, error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("{text}: {innermost}")
}
