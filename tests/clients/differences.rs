//! What may differ between the embedded API server and a real one, and why. Whoever takes away a difference takes it off this list:
//! one that is listed and not met fails the suite.

/// One command whose output may differ, or one object.
pub struct Difference {
    /// The title of the case.
    pub case: &'static str,
    /// What the command or the place of the object begins with.
    pub command: &'static str,
    /// How much of it.
    pub extent: Extent,
    /// Why.
    #[expect(dead_code, reason = "it is for the reader")]
    pub reason: &'static str,
}

/// How much may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Anything; the case checks what matters.
    Output,
    /// Lines may be missing, but there are none that the real server does not print.
    MissingLines,
    /// The lines may come in another order.
    OrderOfLines,
}

/// The list.
pub const DIFFERENCES: &[Difference] = &[];
