//! The interface of scripts to the metrics of their operator.

use std::collections::BTreeMap;

/// The metrics that scripts count. None of them waits; errors are texts.
pub trait Measures: Send + Sync {
    /// Changes a series.
    ///
    /// # Errors
    /// If the name, a label or the value is not allowed.
    fn record(&self, sample: Sample) -> Result<(), String>;

    /// Sets the description of a metric.
    ///
    /// # Errors
    /// If the name is not allowed, or there are too many.
    fn describe(&self, name: &str, help: &str) -> Result<(), String>;
}

/// A change of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name of the metric.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The change.
    pub measure: Measure,
}

/// A change of the value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// The counter grows.
    Add(f64),
    /// The gauge is set.
    Set(f64),
    /// A value is observed, with the upper bounds of the histogram, if the script has given them.
    Observe(f64, Option<Vec<f64>>),
    /// The series ends.
    Remove,
}
