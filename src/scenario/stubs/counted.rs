//! Stubs that answer a limited number of calls.

use parking_lot::Mutex;

/// The stubs of one kind in one run, with the remaining calls of each.
pub(super) struct CountedStubs<Stub> {
    stubs: Vec<Stub>,
    /// How many calls each stub still answers; `None` for any number.
    left: Mutex<Vec<Option<usize>>>,
}

impl<Stub> CountedStubs<Stub> {
    /// Returns stubs that have answered nothing yet.
    pub(super) fn new(stubs: Vec<Stub>, times: impl Fn(&Stub) -> Option<usize>) -> Self {
        let left = Mutex::new(stubs.iter().map(times).collect());
        Self { stubs, left }
    }

    /// Returns the first stub that fits a call and may answer it, and counts the answer.
    pub(super) fn take(&self, fits: impl Fn(&Stub) -> bool) -> Option<&Stub> {
        let mut left = self.left.lock();
        let (stub, left) =
            self.stubs.iter().zip(left.iter_mut()).find(|(stub, left)| **left != Some(0) && fits(stub))?;
        *left = left.map(|count| count - 1);
        Some(stub)
    }
}
