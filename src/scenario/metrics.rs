//! Expected metrics: the samples of a name with some labels, whose sum is compared.

use std::collections::BTreeMap;

use crate::manifest::reader::{Fields, Item};
use crate::manifest::suggest::{nearest, one_of};
use crate::manifest::tree::{Kind, SourceSpan};
use crate::telemetry::metrics::{Description, MetricKind, TABLE, check_name};

use super::read_context::ReadContext;

/// The suffixes of the samples of a histogram.
const HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The label of the samples of a histogram with its upper bound.
const BOUND: &str = "le";

/// An expected metric.
#[derive(Debug, Clone)]
pub struct MetricExpectation {
    pub spot: SourceSpan,
    /// The name of the samples.
    pub name: String,
    /// The samples have at least these labels.
    pub labels: BTreeMap<String, String>,
    /// The limits of their sum.
    pub value: Bounds,
}

/// The limits of a number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// Position of the exact number in the file, which `--update` can replace.
    pub exact: Option<SourceSpan>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its name, with the suffix of samples of histograms.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Bounds {
    /// Tells whether a number is within the limits.
    pub fn allows(&self, number: f64) -> bool {
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(_)) if self.exact.is_some() => write!(formatter, "{least}"),
            (Some(least), Some(most)) => write!(formatter, "{least} to {most}"),
            (Some(least), None) => write!(formatter, "at least {least}"),
            (None, Some(most)) => write!(formatter, "at most {most}"),
            (None, None) => formatter.write_str("any number"),
        }
    }
}

impl std::fmt::Display for MetricExpectation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_sample(formatter, &self.name, &self.labels)
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_sample(formatter, &self.name, &self.labels)?;
        write!(formatter, " {}", self.value)
    }
}

fn write_sample(
    formatter: &mut std::fmt::Formatter<'_>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> std::fmt::Result {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    write!(formatter, "{name}{{{}}}", labels.join(","))
}

impl MetricExpectation {
    /// Returns the sum of the samples that are meant. What was never counted has no sample, and is zero.
    pub fn sum(&self, samples: &[Sample]) -> f64 {
        let has_labels =
            |sample: &&Sample| self.labels.iter().all(|(name, value)| sample.labels.get(name) == Some(value));
        // The sum of nothing is a negative zero.
        self.named(samples).filter(has_labels).map(|sample| sample.value).sum::<f64>() + 0.0
    }

    /// Returns the samples of the name.
    pub fn named<'s>(&self, samples: &'s [Sample]) -> impl Iterator<Item = &'s Sample> {
        samples.iter().filter(|sample| sample.name == self.name)
    }
}

/// Returns the samples of a text in Prometheus' format, in the order of their names and labels.
pub(super) fn samples(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect();
    samples.sort_by(|one, other| (&one.name, &one.labels).cmp(&(&other.name, &other.labels)));
    samples
}

fn sample(line: &str) -> Option<Sample> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_prefix('{').unwrap_or(rest);
    while let Some((label, quoted)) = rest.split_once("=\"").filter(|_| !rest.starts_with(['}', ' '])) {
        let (value, after) = unquoted(quoted)?;
        labels.insert(label.to_owned(), value);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    let value = rest.strip_prefix('}').unwrap_or(rest).trim().parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Returns the text up to the closing quote, without its escapes, and what follows.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => text.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            letter => text.push(letter),
        }
    }
    None
}

/// Reads the expected metrics.
pub(super) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Vec<MetricExpectation> {
    let items = item.items().unwrap_or_else(|| vec![item.clone()]);
    items.iter().filter_map(|item| read_one(context, item)).collect()
}

fn read_one(context: &ReadContext<'_>, item: &Item<'_>) -> Option<MetricExpectation> {
    let reader = context.reader;
    let fields = reader.fields(item, "a metric", &["name", "labels", "value"])?;
    let name = reader.required(&fields, "name", "name the metric: `name: kopfd_handler_calls_total`");
    let value = reader.required(&fields, "value", "write a number, or `value: {atLeast: 1}`");
    let name_item = name?;
    let name = &reader.text(&name_item)?.value;
    let found = described(name);
    // Scripts may count under any name that is not the engine's.
    if found.is_none() && check_name(name).is_err() {
        let known: Vec<String> = TABLE.iter().flat_map(sample_names).collect();
        let nearest = nearest(name, known.iter().map(String::as_str));
        let hint = nearest
            .map_or_else(|| "docs/metrics.md lists all of them".to_owned(), |name| format!("did you mean `{name}`?"));
        reader.error_with(&name_item, format!("there is no metric `{name}`"), hint);
        return None;
    }
    let labels = labels(context, &fields, found.as_ref());
    Some(MetricExpectation { spot: item.node.spot, name: name.clone(), labels, value: bounds(context, &value?)? })
}

/// Returns the metric to which samples of a name belong, and whether they have bounds.
fn described(name: &str) -> Option<(Description, bool)> {
    let found = TABLE.iter().find(|one| sample_names(one).iter().any(|sample| sample == name))?;
    Some((*found, name.ends_with(HISTOGRAM[0])))
}

fn sample_names(metric: &Description) -> Vec<String> {
    match metric.kind {
        MetricKind::Histogram => HISTOGRAM.iter().map(|suffix| format!("{}{suffix}", metric.name)).collect(),
        MetricKind::Counter | MetricKind::Gauge => vec![metric.name.to_owned()],
    }
}

/// Reads the labels. Those of metrics of scripts may be any.
fn labels(
    context: &ReadContext<'_>,
    fields: &Fields<'_>,
    metric: Option<&(Description, bool)>,
) -> BTreeMap<String, String> {
    let reader = context.reader;
    let Some(item) = fields.get("labels") else { return BTreeMap::new() };
    let Some(entries) = item.entries() else {
        reader.error_with(
            &item,
            format!("`labels` must be a mapping, not {}", item.node.noun()),
            "write `labels: {handler: on_create}`",
        );
        return BTreeMap::new();
    };
    let known: Option<Vec<&str>> =
        metric.map(|(metric, is_bucket)| metric.labels.iter().copied().chain(is_bucket.then_some(BOUND)).collect());
    let read = |(name, item): (&str, Item<'_>)| {
        if let Some(known) = known.as_ref().filter(|known| !known.contains(&name)) {
            let hint = format!("it has {}", one_of(known).replace(" or ", " and "));
            reader.key_error(&item, format!("the metric has no label `{name}`"), hint);
            return None;
        }
        Some((name.to_owned(), reader.text(&item)?.value.clone()))
    };
    entries.into_iter().filter_map(read).collect()
}

fn bounds(context: &ReadContext<'_>, item: &Item<'_>) -> Option<Bounds> {
    let reader = context.reader;
    if !matches!(item.node.kind, Kind::Map(_)) {
        let exact = number(context, item);
        return exact.map(|_| Bounds { at_least: exact, at_most: exact, exact: Some(item.node.spot) });
    }
    let fields = reader.fields(item, "a value", &["atLeast", "atMost"])?;
    if matches!(&item.node.kind, Kind::Map(entries) if entries.is_empty()) {
        reader.error_with(item, "the value has no limit", "write `atLeast` or `atMost`, or a number alone");
        return None;
    }
    let limit = |key: &str| number(context, &fields.get(key)?);
    Some(Bounds { at_least: limit("atLeast"), at_most: limit("atMost"), exact: None })
}

fn number(context: &ReadContext<'_>, item: &Item<'_>) -> Option<f64> {
    if let Kind::Number(number) = &item.node.kind {
        return number.as_f64();
    }
    context.reader.mistyped(item, "a number", "write a number, such as 1 or 0.5");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text =
            "# TYPE a gauge\na{x=\"1\",y=\"a \\\"b\\\" \\\\ }\"} 2.5\nb 7\nc_bucket{le=\"+Inf\",x=\"\"} 1\n# EOF\n";
        let shown: Vec<String> = samples(text).iter().map(ToString::to_string).collect();
        assert_eq!(shown, [r#"a{x="1",y="a \"b\" \\ }"} 2.5"#, "b{} 7", r#"c_bucket{le="+Inf",x=""} 1"#]);
    }

    #[test]
    fn the_samples_with_the_labels_are_added() {
        let samples = samples("a{x=\"1\",y=\"1\"} 2\na{x=\"1\",y=\"2\"} 3\na{x=\"2\",y=\"1\"} 4\nb{x=\"1\"} 9\n");
        let sum = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            MetricExpectation { spot: SourceSpan::default(), name: "a".to_owned(), labels, value: Bounds::default() }
                .sum(&samples)
        };
        assert_eq!(
            (sum(&[]), sum(&[("x", "1")]), sum(&[("x", "1"), ("y", "2")]), sum(&[("x", "3")])),
            (9.0, 5.0, 3.0, 0.0)
        );
    }
}
