//! The bridge from the `metric::` functions of scripts to the metrics of their operator.

use crate::script::outside::measures::{Measure, Measures, Sample};
use crate::telemetry::metrics::{Change, OperatorMetrics};

/// The metrics of one operator's scripts.
pub(super) struct ScriptMeasures(pub(super) OperatorMetrics);

impl Measures for ScriptMeasures {
    fn record(&self, sample: Sample) -> Result<(), String> {
        let Sample { name, labels, measure } = sample;
        let change = match measure {
            Measure::Add(more) => Change::Add(more),
            Measure::Set(value) => Change::Set(value),
            Measure::Observe(value, bounds) => Change::Observe(value, bounds),
            Measure::Remove => Change::Remove,
        };
        self.0.record(&name, labels, change)
    }

    fn describe(&self, name: &str, help: &str) -> Result<(), String> {
        self.0.describe(name, help)
    }
}
