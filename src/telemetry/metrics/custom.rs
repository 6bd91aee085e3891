//! The metrics that scripts count: of any name that is not the engine's, with a limited number of series.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tracing::warn;

use super::table::{BUCKETS, MetricKind};

/// The beginning of the names of the engine's own metrics.
const RESERVED: &str = "kopfd_";

/// The label that all series have.
const OPERATOR: &str = "operator";

/// Limit of the metrics of one operator.
pub const MAX_METRICS: usize = 100;

/// Limit of the series of one metric of one operator. Each takes a few hundred bytes here, and more in Prometheus.
pub const MAX_SERIES: usize = 500;

/// The label value of counts beyond the limit of series.
pub const OTHER: &str = "other";

/// The names and values of labels, in the order of the names.
pub type SeriesLabels = BTreeMap<String, String>;

/// A change of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A counter grows.
    Add(f64),
    /// A gauge has a value.
    Set(f64),
    /// A histogram has one observation more; its upper bounds are the default ones if there are none.
    Observe(f64, Option<Vec<f64>>),
    /// The series is gone.
    Remove,
}

/// The metrics of the scripts of all operators.
#[derive(Debug, Clone, Default)]
pub(super) struct CustomMetrics(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    families: BTreeMap<String, CustomFamily>,
    helps: BTreeMap<String, String>,
}

#[derive(Debug)]
struct CustomFamily {
    kind: MetricKind,
    bounds: Vec<f64>,
    operators: BTreeMap<Arc<str>, Series>,
}

/// The series of one operator.
#[derive(Debug, Default)]
struct Series {
    values: BTreeMap<SeriesLabels, Value>,
    has_overflowed: bool,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Histogram { sum: f64, counts: Vec<u64> },
}

impl CustomMetrics {
    /// Changes a series of a metric of the scripts of an operator.
    ///
    /// # Errors
    /// If the name, a label or the value is not allowed, or the metric has another type.
    pub(super) fn record(
        &self,
        operator: &Arc<str>,
        name: &str,
        labels: SeriesLabels,
        change: Change,
    ) -> Result<(), String> {
        check_name(name)?;
        labels.keys().try_for_each(|label| check_label(label))?;
        let kind = match &change {
            Change::Remove => {
                self.remove(operator, name, &labels);
                return Ok(());
            }
            Change::Add(more) if !more.is_finite() || *more < 0.0 => {
                return Err(format!(
                    "the counter {name} cannot grow by {more}: it takes numbers that are not negative"
                ));
            }
            Change::Set(value) | Change::Observe(value, _) if value.is_nan() => {
                return Err(format!("the metric {name} has no value that is not a number"));
            }
            Change::Add(_) => MetricKind::Counter,
            Change::Set(_) => MetricKind::Gauge,
            Change::Observe(..) => MetricKind::Histogram,
        };
        let bounds = match &change {
            Change::Observe(_, Some(bounds)) => checked_bounds(name, bounds)?,
            Change::Observe(_, None) => BUCKETS.to_vec(),
            _ => Vec::new(),
        };
        let has_overflowed = self.0.lock().change(operator, name, labels, (kind, bounds), &change)?;
        if has_overflowed {
            warn!(
                metric = name,
                limit = MAX_SERIES,
                "The metric has as many series as a script may make. What has other labels is counted with the label value `other`; \
                 gauges are left out."
            );
        }
        Ok(())
    }

    /// Sets the text that describes a metric.
    ///
    /// # Errors
    /// If the name is not allowed, or too many metrics are described.
    pub(super) fn describe(&self, name: &str, help: &str) -> Result<(), String> {
        check_name(name)?;
        let mut state = self.0.lock();
        let name = family_name(name);
        if !state.helps.contains_key(name) && state.helps.len() >= MAX_METRICS {
            return Err(format!("{MAX_METRICS} metrics are described already"));
        }
        // The format has one line for it.
        state.helps.insert(name.to_owned(), help.replace('\\', "\\\\").replace('\n', "\\n"));
        Ok(())
    }

    fn remove(&self, operator: &Arc<str>, name: &str, labels: &SeriesLabels) {
        let mut state = self.0.lock();
        let series = state.families.get_mut(family_name(name)).and_then(|family| family.operators.get_mut(operator));
        if let Some(series) = series {
            series.values.remove(labels);
        }
    }
}

impl State {
    /// Changes a series, and returns whether it is the first one beyond the limit.
    fn change(
        &mut self,
        operator: &Arc<str>,
        name: &str,
        labels: SeriesLabels,
        (kind, bounds): (MetricKind, Vec<f64>),
        change: &Change,
    ) -> Result<bool, String> {
        let base = family_name(name);
        if kind != MetricKind::Counter && base != name {
            return Err(format!("the name {name} is one of a counter, and a {} cannot have it", kind.as_str()));
        }
        if !self.families.contains_key(base) {
            self.check_new(operator, base, kind)?;
        }
        let family = self.families.entry(base.to_owned()).or_insert_with(|| CustomFamily {
            kind,
            bounds: bounds.clone(),
            operators: BTreeMap::new(),
        });
        if family.kind != kind {
            let (found, wanted) = (family.kind.as_str(), kind.as_str());
            return Err(format!(
                "the metric {name} is a {found}, and no {wanted}: a name keeps its type as long as the process runs"
            ));
        }
        if family.bounds != bounds {
            return Err(format!(
                "the histogram {name} has other buckets: a name keeps them as long as the process runs"
            ));
        }
        let series = family.operators.entry(Arc::clone(operator)).or_default();
        let is_beyond = series.values.len() >= MAX_SERIES && !series.values.contains_key(&labels);
        let is_first = is_beyond && !series.has_overflowed;
        series.has_overflowed |= is_beyond;
        let labels = match is_beyond {
            false => labels,
            // The last of several values means nothing.
            true if kind == MetricKind::Gauge => return Ok(is_first),
            true => labels.into_keys().map(|label| (label, OTHER.to_owned())).collect(),
        };
        series
            .values
            .entry(labels)
            .or_insert_with(|| Value::empty(kind, &family.bounds))
            .change(change, &family.bounds);
        Ok(is_first)
    }

    fn check_new(&self, operator: &Arc<str>, base: &str, kind: MetricKind) -> Result<(), String> {
        let own = self.families.values().filter(|family| family.operators.contains_key(operator)).count();
        if own >= MAX_METRICS {
            return Err(format!("the operator has {MAX_METRICS} metrics already: put what differs into labels"));
        }
        let wanted = sample_names(base, kind);
        let taken = self.families.iter().find(|(name, family)| !sample_names(name, family.kind).is_disjoint(&wanted));
        match taken {
            Some((name, family)) => Err(format!(
                "the {} {base} would have the same samples as the {} {name}",
                kind.as_str(),
                family.kind.as_str()
            )),
            None => Ok(()),
        }
    }
}

impl Value {
    fn empty(kind: MetricKind, bounds: &[f64]) -> Self {
        match kind {
            MetricKind::Histogram => Self::Histogram { sum: 0.0, counts: vec![0; bounds.len() + 1] },
            MetricKind::Counter | MetricKind::Gauge => Self::Number(0.0),
        }
    }

    fn change(&mut self, change: &Change, bounds: &[f64]) {
        match (self, change) {
            (Self::Number(number), Change::Add(more)) => *number += more,
            (Self::Number(number), Change::Set(value)) => *number = *value,
            (Self::Histogram { sum, counts }, Change::Observe(value, _)) => {
                *sum += value;
                let bucket = bounds.iter().position(|bound| value <= bound).unwrap_or(bounds.len());
                counts[bucket] += 1;
            }
            // The kind of a family never changes.
            _ => {}
        }
    }
}

impl Collector for CustomMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.0.lock();
        for (name, family) in &state.families {
            if family.operators.values().all(|series| series.values.is_empty()) {
                continue;
            }
            let metric_type = match family.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let help = state.helps.get(name).map_or("Counted by scripts", String::as_str);
            let mut encoder = encoder.encode_descriptor(name, help, None, metric_type)?;
            for (operator, series) in &family.operators {
                for (labels, value) in &series.values {
                    let own = std::iter::once((OPERATOR, &**operator));
                    let labels: Vec<(&str, &str)> =
                        own.chain(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).collect();
                    let mut sample = encoder.encode_family(&labels)?;
                    match (value, family.kind) {
                        (Value::Number(number), MetricKind::Counter) => {
                            sample.encode_counter::<NoLabelSet, f64, f64>(number, None)?;
                        }
                        (Value::Number(number), _) => sample.encode_gauge(number)?,
                        (Value::Histogram { sum, counts }, _) => {
                            let bounds = family.bounds.iter().copied().chain([f64::INFINITY]);
                            let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
                            sample.encode_histogram::<NoLabelSet>(*sum, counts.iter().sum(), &buckets, None)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the name of the family: that of a counter has no suffix, which its samples get.
fn family_name(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

/// Returns the names of the samples of a metric, with its own.
fn sample_names(base: &str, kind: MetricKind) -> BTreeSet<String> {
    let suffixes: &[&str] = match kind {
        MetricKind::Counter => &["", "_total"],
        MetricKind::Gauge => &[""],
        MetricKind::Histogram => &["", "_bucket", "_sum", "_count"],
    };
    suffixes.iter().map(|suffix| format!("{base}{suffix}")).collect()
}

/// Tells whether scripts may have a metric of this name.
///
/// # Errors
/// The reason why they may not.
pub fn check_name(name: &str) -> Result<(), String> {
    if !is_word(name) || family_name(name).is_empty() {
        return Err(format!(
            "{name:?} cannot be the name of a metric: it has letters, digits and underscores, and begins with a letter"
        ));
    }
    if name.starts_with(RESERVED) {
        return Err(format!("the metric {name} cannot be one of a script: `{RESERVED}` is for those of the engine"));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<(), String> {
    match label {
        OPERATOR | "le" | "quantile" => Err(format!("the label `{label}` is set by the engine")),
        label if !is_word(label) => Err(format!(
            "{label:?} cannot be the name of a label: it has letters, digits and underscores, and begins with a letter"
        )),
        _ => Ok(()),
    }
}

/// Tells whether a name is one for Prometheus. Colons are for recording rules, and a leading underscore is for internal
/// names.
fn is_word(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn checked_bounds(name: &str, bounds: &[f64]) -> Result<Vec<f64>, String> {
    let is_growing = bounds.windows(2).all(|pair| pair[0] < pair[1]);
    let is_finite = bounds.iter().all(|bound| bound.is_finite());
    if bounds.is_empty() || bounds.len() > 50 || !is_growing || !is_finite {
        return Err(format!("the buckets of {name} must be 1 to 50 numbers, each greater than the one before"));
    }
    Ok(bounds.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    fn labels(entries: &[(&str, &str)]) -> SeriesLabels {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_scripts_count_is_exposed_with_the_operator() {
        let metrics = Metrics::default();
        let (demo, other) = (metrics.operator("demo"), metrics.operator("other"));
        demo.describe("builds_total", "Finished builds").unwrap();
        demo.record("builds_total", labels(&[("result", "a \"b\"\n")]), Change::Add(1.0)).unwrap();
        demo.record("builds", labels(&[("result", "a \"b\"\n")]), Change::Add(0.5)).unwrap();
        other.record("builds", labels(&[]), Change::Add(2.0)).unwrap();
        demo.record("size_bytes", labels(&[]), Change::Set(-7.0)).unwrap();
        demo.record("size_bytes", labels(&[("gone", "x")]), Change::Set(1.0)).unwrap();
        demo.record("size_bytes", labels(&[("gone", "x")]), Change::Remove).unwrap();
        for value in [0.5, 2.0, 9.0] {
            demo.record("wait_seconds", labels(&[]), Change::Observe(value, Some(vec![1.0, 2.0]))).unwrap();
        }
        let text = metrics.text();
        let expected = "# HELP builds Finished builds\n# TYPE builds counter\n\
            builds_total{operator=\"demo\",result=\"a \\\"b\\\"\\n\"} 1.5\nbuilds_total{operator=\"other\"} 2.0\n\
            # HELP size_bytes Counted by scripts\n# TYPE size_bytes gauge\nsize_bytes{operator=\"demo\"} -7.0\n\
            # HELP wait_seconds Counted by scripts\n# TYPE wait_seconds histogram\n\
            wait_seconds_sum{operator=\"demo\"} 11.5\nwait_seconds_count{operator=\"demo\"} 3\n\
            wait_seconds_bucket{le=\"1.0\",operator=\"demo\"} 1\nwait_seconds_bucket{le=\"2.0\",operator=\"demo\"} 2\n\
            wait_seconds_bucket{le=\"+Inf\",operator=\"demo\"} 3\n# EOF\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn a_name_has_one_type_and_no_other_sample_of_its_name() {
        let demo = Metrics::default().operator("demo");
        let record = |name: &str, change| {
            demo.record(name, labels(&[]), change).map_err(|error| error.split(':').next().unwrap().to_owned())
        };
        record("a", Change::Add(1.0)).unwrap();
        record("h", Change::Observe(1.0, None)).unwrap();
        record("h", Change::Observe(f64::INFINITY, None)).unwrap();
        for (name, change, error) in [
            ("a", Change::Set(1.0), "the metric a is a counter, and no gauge"),
            ("a_total", Change::Set(1.0), "the name a_total is one of a counter, and a gauge cannot have it"),
            ("h_count", Change::Set(1.0), "the gauge h_count would have the same samples as the histogram h"),
            ("h", Change::Observe(1.0, Some(vec![1.0])), "the histogram h has other buckets"),
            (
                "g",
                Change::Observe(1.0, Some(vec![2.0, 1.0])),
                "the buckets of g must be 1 to 50 numbers, each greater than the one before",
            ),
            ("a", Change::Add(-1.0), "the counter a cannot grow by -1"),
            ("a", Change::Add(f64::NAN), "the counter a cannot grow by NaN"),
            ("g", Change::Set(f64::NAN), "the metric g has no value that is not a number"),
            ("kopfd_cycles_total", Change::Add(1.0), "the metric kopfd_cycles_total cannot be one of a script"),
            ("a-b", Change::Add(1.0), "\"a-b\" cannot be the name of a metric"),
            ("_total", Change::Add(1.0), "\"_total\" cannot be the name of a metric"),
        ] {
            assert_eq!(record(name, change), Err(error.to_owned()));
        }
        for label in ["operator", "le", "a-b", ""] {
            assert!(demo.record("a", labels(&[(label, "x")]), Change::Add(1.0)).is_err(), "{label}");
        }
    }

    #[test]
    fn series_and_names_are_limited() {
        let metrics = Metrics::default();
        let demo = metrics.operator("demo");
        for number in 0..MAX_SERIES + 3 {
            demo.record("calls", labels(&[("user", &number.to_string())]), Change::Add(1.0)).unwrap();
            demo.record("last", labels(&[("user", &number.to_string())]), Change::Set(1.0)).unwrap();
        }
        let text = metrics.text();
        assert!(text.contains("calls_total{operator=\"demo\",user=\"other\"} 3.0\n"));
        let count = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((count("calls_total{"), count("last{")), (MAX_SERIES + 1, MAX_SERIES));
        for number in 2..MAX_METRICS {
            demo.record(&format!("m{number}"), labels(&[]), Change::Add(1.0)).unwrap();
        }
        assert!(demo.record("more", labels(&[]), Change::Add(1.0)).is_err());
        metrics.operator("other").record("more", labels(&[]), Change::Add(1.0)).unwrap();
    }
}
