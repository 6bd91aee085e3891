//! The number of omitted items in shortened lists.

/// Returns the number of items beyond a maximum; `None` if there are none.
pub fn surplus(count: usize, most: usize) -> Option<usize> {
    count.checked_sub(most).filter(|more| *more > 0)
}
