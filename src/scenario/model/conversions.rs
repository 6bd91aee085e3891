//! Conversions of objects, and their expected results.

use serde_json::Value;

use crate::manifest::tree::SourceSpan;

use super::super::pattern::Pattern;

/// A conversion of objects.
#[derive(Debug, Clone)]
pub enum ConversionStep {
    /// Converts one object.
    One {
        /// The object.
        object: Value,
        /// The wanted version, with or without the group.
        to: String,
        /// The expected result.
        expected: ExpectedConversion,
    },
    /// Converts generated objects there and back.
    RoundTrip(RoundTrip),
}

/// The expected result of a conversion.
#[derive(Debug, Clone)]
pub enum ExpectedConversion {
    /// An object, which matches the pattern if there is one.
    Object(Option<Pattern>),
    /// A failure, whose message matches the pattern if there is one.
    Failure(SourceSpan, Option<Pattern>),
}

/// Conversions of generated objects.
#[derive(Debug, Clone)]
pub struct RoundTrip {
    /// The resource, as kubectl accepts it.
    pub resource: String,
    /// The versions; all that are served if there are none.
    pub versions: Vec<String>,
    /// The number of objects for each pair of versions.
    pub objects: usize,
    /// Fields that may differ afterwards.
    pub ignore: Vec<String>,
}
