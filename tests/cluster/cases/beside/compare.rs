//! Compares the sides of a group with the expectations and with each other.

use jiff::Timestamp;

use super::differences::Differences;
use super::document::{BesideCase, Group, Handover};
use super::log::LoggedCall;
use super::record::Record;
use super::side::Side;
use crate::harness::Engine;

/// Everything that is not as expected or differs between the sides.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// What kopf did not do as expected.
    of_reference: Vec<String>,
    /// What the other sides did not do as expected.
    of_others: Vec<String>,
    /// What the other sides did as expected, but late.
    late: Vec<String>,
    /// What the sides did differently.
    differences: Vec<String>,
}

impl Report {
    /// Tells whether a busy machine may be the reason of all: everybody but kopf did what is expected, or was only
    /// late. Then the differences say nothing.
    pub(super) fn is_excusable(&self) -> bool {
        self.of_others.is_empty() && !(self.of_reference.is_empty() && self.late.is_empty())
    }

    /// Returns all descriptions.
    pub(super) fn problems(&self) -> Vec<String> {
        [&self.of_reference, &self.of_others, &self.late, &self.differences].into_iter().flatten().cloned().collect()
    }

    fn of_side(&mut self, side: &Side) -> &mut Vec<String> {
        if side.is_kopf() { &mut self.of_reference } else { &mut self.of_others }
    }
}

/// Compares the sides of a group with the expectations and with each other.
pub(super) fn report(group: &Group, sides: &[Side], differences: &Differences) -> Report {
    let mut report = Report::default();
    for side in sides {
        report.of_side(side).extend(exit_problem(group, side));
    }
    for case in &group.cases {
        let records: Vec<Record> = sides.iter().map(|side| Record::of(side, case)).collect();
        let title = group.title(case);
        let heading = |found: &[String]| format!("\n== {title}: {}\n{}", case.that, found.join("\n"));
        for (side, record) in sides.iter().zip(&records) {
            let described = |problem: String| format!("{}: {problem}", side.title());
            let (late, early): (Vec<Mistimed>, Vec<Mistimed>) =
                mistimed(case, side, record).into_iter().partition(|time| time.is_late);
            let early = early.into_iter().map(|time| time.text);
            let own: Vec<String> = own_problems(case, side, record).into_iter().chain(early).map(described).collect();
            report.of_side(side).extend((!own.is_empty()).then(|| heading(&own)));
            let late: Vec<String> = late.into_iter().map(|time| described(time.text)).collect();
            let list = if side.is_kopf() { &mut report.of_reference } else { &mut report.late };
            list.extend((!late.is_empty()).then(|| heading(&late)));
        }
        let (reference, others) = (&sides[0], &sides[1..]);
        let mut found = Vec::new();
        for (side, record) in others.iter().zip(&records[1..]) {
            for ((aspect, expected), (_, lines)) in records[0].aspects.iter().zip(&record.aspects) {
                let expected = differences.reduced(&title, *aspect, reference.is_kopf(), expected);
                let lines = differences.reduced(&title, *aspect, side.is_kopf(), lines);
                let names = [reference.title(), side.title()];
                found.extend(difference(&expected, &lines, &names).map(|text| format!("{aspect:?} differ:\n{text}")));
            }
        }
        report.differences.extend((!found.is_empty()).then(|| heading(&found)));
    }
    // If kopf plays both parts, nothing differs.
    let missing = if Engine::under_test() == Engine::Kopf { Vec::new() } else { differences.missing(&group.titles()) };
    report
        .differences
        .extend(missing.into_iter().map(|reason| format!("a difference of {} has not occurred: {reason}", group.name)));
    report
}

fn exit_problem(group: &Group, side: &Side) -> Option<String> {
    let exits = side.recorded().exits;
    let is_expected = |(turn, code): (usize, &Option<i32>)| {
        let is_crashed = group.handover == Handover::Crash && turn + 1 < exits.len();
        *code == if is_crashed { None } else { Some(group.exit) }
    };
    (!exits.iter().enumerate().all(is_expected))
        .then(|| format!("{}: {}: the exit codes are {exits:?}", group.name, side.title()))
}

/// Compares a side with the expectations of a case.
fn own_problems(case: &BesideCase, side: &Side, record: &Record) -> Vec<String> {
    let recorded = side.recorded();
    let mut problems: Vec<String> = recorded.failures.get(&case.name).cloned().into_iter().collect();
    let mut expected: Vec<String> = case.calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
    let mut found: Vec<String> = record.calls.iter().map(|(_, call)| shown(call)).collect();
    if case.unordered {
        expected.sort_by_key(|call| name_of(call).to_owned());
        found.sort_by_key(|call| name_of(call).to_owned());
    }
    problems.extend(
        difference(&expected, &found, &["expected", "found"].map(str::to_owned))
            .map(|text| format!("the calls:\n{text}")),
    );
    problems
}

/// A time that is not within its limits.
struct Mistimed {
    /// Whether it is too long, rather than too short or missing.
    is_late: bool,
    /// The description.
    text: String,
}

/// Compares the times of a side with those of a case.
fn mistimed(case: &BesideCase, side: &Side, record: &Record) -> Vec<Mistimed> {
    let recorded = side.recorded();
    let check = |what: String, seconds: Option<f64>, least: f64, most: f64| {
        let is_kept = seconds.is_some_and(|seconds| (least..=most).contains(&seconds));
        (!is_kept).then(|| Mistimed {
            is_late: seconds.is_some_and(|seconds| seconds > most),
            text: format!("{what} {seconds:?}, not between {least} and {most} seconds"),
        })
    };
    let paces = case.pace.iter().filter_map(|(name, pace)| {
        check(format!("the median pause of {name} is"), median_pause(&times_of(record, name)), pace.least, pace.most)
    });
    let marks = |mark: &str| recorded.marks.get(&(case.name.clone(), mark.to_owned())).copied();
    let moment = |name: &str| marks(name).or_else(|| call_time(record, name));
    let spans = case.spans.iter().filter_map(|span| {
        let seconds = moment(&span.from).zip(moment(&span.to)).map(|(from, to)| to.duration_since(from).as_secs_f64());
        check(format!("from {:?} to {:?} it took", span.from, span.to), seconds, span.least, span.most)
    });
    paces.chain(spans).collect()
}

fn shown(call: &LoggedCall) -> String {
    format!("{} {}", call.name, call.arguments)
}

fn name_of(call: &str) -> &str {
    call.split(' ').next().unwrap_or_default()
}

/// Returns the time of a call written as `name number`.
fn call_time(record: &Record, name: &str) -> Option<Timestamp> {
    let (name, number) = name.split_once(' ')?;
    times_of(record, name).get(number.parse::<usize>().ok()?.checked_sub(1)?).copied()
}

fn times_of(record: &Record, name: &str) -> Vec<Timestamp> {
    record.calls.iter().filter(|(_, call)| call.name == name).map(|(at, _)| *at).collect()
}

fn median_pause(times: &[Timestamp]) -> Option<f64> {
    let mut pauses: Vec<f64> = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()).collect();
    pauses.sort_by(f64::total_cmp);
    pauses.get(pauses.len() / 2).copied()
}

/// Describes the difference of two lists of lines: both from the first different line on.
fn difference(expected: &[String], found: &[String], names: &[String; 2]) -> Option<String> {
    let same = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
    if expected.len() == same && found.len() == same {
        return None;
    }
    let rest = |name: &str, lines: &[String]| {
        let lines: Vec<String> = lines[same..].iter().take(SHOWN).map(|line| format!("      {line}")).collect();
        format!("    {name}, after {same} equal lines:\n{}", lines.join("\n"))
    };
    Some(format!("{}\n{}", rest(&names[0], expected), rest(&names[1], found)))
}

/// Number of lines shown of each side.
const SHOWN: usize = 8;
