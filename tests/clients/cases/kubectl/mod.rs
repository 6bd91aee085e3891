//! kubectl, as a user types it.

mod access;
mod applying;
mod changing;
mod creating;
mod deleting;
mod describing;
mod explaining;
mod reading;
mod rolling;
mod waiting;

use super::Case;

/// Returns the cases.
pub(crate) fn cases() -> Vec<Case> {
    [
        creating::CASES,
        applying::CASES,
        reading::CASES,
        changing::CASES,
        rolling::CASES,
        deleting::CASES,
        describing::CASES,
        waiting::CASES,
        explaining::CASES,
        access::CASES,
    ]
    .concat()
}
