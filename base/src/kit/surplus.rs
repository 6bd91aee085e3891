//! How much is left of what is told only in part.

/// Returns how many there are beyond the most that are told; none if all are.
pub fn surplus(count: usize, most: usize) -> Option<usize> {
    count.checked_sub(most).filter(|more| *more > 0)
}
