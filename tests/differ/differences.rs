//! Where the embedded server may answer differently, and why.

/// A difference that is allowed.
pub struct Difference {
    /// The cases: their topics and names, in which `*` stands for anything.
    pub case: &'static str,
    /// Where in the answer: the number of the step and a path, in which `*` stands for anything.
    pub at: &'static str,
    /// Why it is allowed.
    pub reason: &'static str,
}

/// All differences that are allowed. One that is not needed fails the test.
pub const DIFFERENCES: &[Difference] = &[];
