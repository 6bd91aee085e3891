//! Verifies expectations against objects, events and the timeline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::kit::visible;
use crate::manifest::suggest::nearest;
use crate::manifest::tree::SourceSpan;
use crate::object::secret::Values;
pub(super) use crate::reactor::activity::shown;
use crate::telemetry::credentials;

use super::expressions::{Answers, Question};
use super::metrics::{MetricExpectation, Sample};
use super::model::{
    BackgroundExpectation, Call, Calls, Events, Expectation, ExpectedExit, ExpectedProbes, IndexExpectation, LogPattern, Logs,
    ObjectExpectation, Requests, Target,
};
use super::pattern::{Mismatch, Pattern, PatternKind};
use super::timeline::{DEBUG, Event, Subject, Timeline};
use super::update::{Fix, ListItem};

/// How far the time of a call may be from the expected one: requests take a few milliseconds.
const TIME_TOLERANCE: Duration = Duration::from_millis(500);

/// What expectations are verified against: the embedded server, or a real cluster.
pub trait Observations {
    /// Finds an object by its name.
    ///
    /// # Errors
    /// If the name is ambiguous or the resource unknown.
    fn object(&self, target: &Target) -> Result<ObservedObject, String>;

    /// Returns the timeline so far.
    fn timeline(&self) -> &Timeline;

    /// Returns the ids of the running timers and daemons of an object.
    ///
    /// # Errors
    /// If they are not known.
    fn tasks(&self, _subject: &Subject) -> Result<Vec<String>, String> {
        Err("the running timers and daemons are known in virtual time only".to_owned())
    }

    /// Returns all Kubernetes events.
    fn events(&self) -> Vec<Arc<Value>>;

    /// Returns the content of an index.
    ///
    /// # Errors
    /// If it cannot be observed.
    fn index(&self, _name: &str) -> Result<Value, String> {
        Err("indexes are in the memory of the operator, and cannot be observed here".to_owned())
    }

    /// Returns the samples of the operators' metrics.
    ///
    /// # Errors
    /// If they cannot be observed.
    fn metrics(&self) -> Result<Vec<Sample>, String> {
        Err("the metrics are in the memory of the operator, and cannot be observed here".to_owned())
    }

    /// Tells whether an object ever existed, as far as known.
    fn has_existed(&self, _seen: &ObservedObject, _namespace: Option<&str>) -> bool {
        true
    }

    /// Returns the names of all objects of a kind that ever existed, as far as known.
    fn names(&self, _subject: &Subject) -> Vec<String> {
        Vec::new()
    }

    /// Returns the last end of the operators, if they have ended.
    fn exit(&self) -> Option<Exited> {
        None
    }

    /// Returns why the operators are paused; empty if they are not.
    fn pauses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the answer of the probes; `None` if the operators do not run.
    fn probes(&self) -> impl Future<Output = Option<ProbeAnswer>> {
        std::future::ready(None)
    }

    /// Evaluates an expression of the scenario. Its error is the text of the failure.
    fn evaluate(&self, question: &Question) -> impl Future<Output = Result<bool, String>>;
}

/// An end of the operators.
#[derive(Debug, Clone)]
pub struct Exited {
    /// The exit code.
    pub code: u8,
    /// The error; empty without one.
    pub message: String,
}

/// The answer of the liveness endpoint.
#[derive(Debug, Clone)]
pub struct ProbeAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The results as JSON, or the text of a failure.
    pub body: String,
}

/// An object that was looked up, whether it exists or not.
#[derive(Debug, Clone)]
pub struct ObservedObject {
    /// If the object does not exist, the namespace is that in which it was looked up.
    pub subject: Subject,
    /// Plural name of its kind.
    pub plural: String,
    /// `None` if it does not exist.
    pub value: Option<Arc<Value>>,
}

/// A difference from an expectation.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Position of the expectation.
    pub spot: SourceSpan,
    /// The difference, in one or several lines.
    pub text: String,
    /// How `--update` can change the file to match.
    pub fix: Option<Fix>,
    /// Log lines that the difference refers to.
    pub lines: Vec<String>,
}

impl Difference {
    pub(super) fn new(spot: SourceSpan, text: impl Into<String>) -> Self {
        Self { spot, text: credentials::hide(text.into()), fix: None, lines: Vec::new() }
    }

    fn with_fix(self, fix: Option<Fix>) -> Self {
        Self { fix, ..self }
    }

    fn about_line(self, line: Option<&str>) -> Self {
        Self { lines: line.map(str::to_owned).into_iter().collect(), ..self }
    }
}

/// Returns all differences.
pub async fn verify(observations: &impl Observations, spot: SourceSpan, expectation: &Expectation) -> Vec<Difference> {
    let probed = if expectation.probes.is_some() { observations.probes().await } else { None };
    let compare = |answers: &mut Answers| {
        let mut found = compare(observations, expectation, answers);
        if let Some(expected) = &expectation.probes {
            found.extend(verify_probes(probed.as_ref(), expected, answers));
        }
        found
    };
    compared(observations, spot, compare).await
}

/// Compares with the answers known so far, and collects the unanswered expressions.
fn compare(observations: &impl Observations, expectation: &Expectation, answers: &mut Answers) -> Vec<Difference> {
    let mut found = Vec::new();
    let Expectation { object, calls, background, events, logs, requests, indexes, metrics, exit, probes: _, paused } = expectation;
    if let Some(object_expectation) = object {
        found.extend(verify_object(observations, object_expectation, answers));
    }
    if let Some(calls) = calls {
        found.extend(verify_calls(observations, calls));
    }
    for background in background {
        found.extend(verify_background(observations, background));
    }
    for events in events {
        found.extend(verify_events(observations, events, answers));
    }
    if let Some(logs) = logs {
        found.extend(verify_logs(observations, logs, answers));
    }
    for requests in requests {
        found.extend(verify_requests(observations, requests));
    }
    for index in indexes {
        found.extend(verify_index(observations, index, answers));
    }
    if !metrics.is_empty() {
        found.extend(verify_metrics(observations, metrics));
    }
    if let Some(expected) = exit {
        found.extend(verify_exit(observations.exit(), expected, answers));
    }
    if let Some(paused) = *paused {
        found.extend(verify_pause(observations, paused));
    }
    found
}

fn verify_index(observations: &impl Observations, index: &IndexExpectation, answers: &mut Answers) -> Vec<Difference> {
    let IndexExpectation { name, spot, matches } = index;
    let content = match observations.index(name) {
        Ok(content) => content,
        Err(error) => return vec![Difference::new(*spot, format!("index {name}: {error}"))],
    };
    let mut mismatches = Vec::new();
    matches.compare(Some(&content), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
    mismatches.into_iter().map(|mismatch| of_mismatch(&format!("index {name}"), mismatch, None)).collect()
}

fn verify_metrics(observations: &impl Observations, metrics: &[MetricExpectation]) -> Vec<Difference> {
    let samples = match observations.metrics() {
        Ok(samples) => samples,
        Err(error) => return metrics.iter().map(|metric| Difference::new(metric.spot, format!("metrics: {error}"))).collect(),
    };
    let differences = metrics.iter().filter(|metric| !metric.value.allows(metric.sum(&samples))).map(|metric| {
        let (sum, exact) = (metric.sum(&samples), metric.value.exact);
        let lines: Vec<String> = metric.named(&samples).map(|sample| format!("    {sample}")).collect();
        let there = if lines.is_empty() { "there are no samples".to_owned() } else { format!("the samples are\n{}", lines.join("\n")) };
        let fix = exact.map(|spot| Fix::Scalar { spot, value: number(sum) });
        let text = format!("metrics: {metric}: expected {}, found {sum}; {there}", metric.value);
        Difference::new(exact.unwrap_or(metric.spot), text).with_fix(fix)
    });
    differences.collect()
}

/// Returns a number without a fraction if it has none.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::from(number as i64) } else { Value::from(number) }
}

fn verify_exit(exit: Option<Exited>, expected: &ExpectedExit, answers: &mut Answers) -> Option<Difference> {
    let ExpectedExit { spot, code, message } = expected;
    let Some(exit) = exit else {
        return Some(Difference::new(*spot, format!("exit: expected code {code}, but the operator has not exited")));
    };
    let is_like = |like: &Pattern, answers: &mut Answers| {
        like.passes(&Value::from(exit.message.as_str()), &mut |asked, value| answers.ask(asked, value))
    };
    if i64::from(exit.code) != *code {
        return Some(Difference::new(*spot, format!("exit: expected code {code}, found {}: {}", exit.code, exit.message)));
    }
    let message = message.as_ref().filter(|like| !is_like(like, answers))?;
    Some(Difference::new(*spot, format!("exit: expected {}, found {:?}", describe(message), exit.message)))
}

fn verify_pause(observations: &impl Observations, (spot, is_expected): (SourceSpan, bool)) -> Option<Difference> {
    let causes = observations.pauses();
    let state = if causes.is_empty() { "running".to_owned() } else { format!("paused because of {}", causes.join(", ")) };
    let wanted = if is_expected { "paused" } else { "running" };
    (is_expected == causes.is_empty()).then(|| Difference::new(spot, format!("paused: expected {wanted}, found {state}")))
}

fn verify_probes(probed: Option<&ProbeAnswer>, expected: &ExpectedProbes, answers: &mut Answers) -> Vec<Difference> {
    let ExpectedProbes { spot, status, results, message } = expected;
    let Some(ProbeAnswer { status: found, body }) = probed else {
        return vec![Difference::new(*spot, "probes: the operator does not run")];
    };
    if i64::from(*found) != *status {
        return vec![Difference::new(*spot, format!("probes: expected status {status}, found {found}: {body}"))];
    }
    let mut differences = Vec::new();
    if let Some(results) = results {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let mut mismatches = Vec::new();
        results.compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
        differences.extend(mismatches.into_iter().map(|Mismatch { path, spot, wanted, found, .. }| {
            let found = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            Difference::new(spot, format!("probes: {path}: expected {wanted}, found {found}"))
        }));
    }
    if let Some(like) = message
        && !like.passes(&Value::from(body.as_str()), &mut |asked, value| answers.ask(asked, value))
    {
        differences.push(Difference::new(*spot, format!("probes: expected {}, found {body:?}", describe(like))));
    }
    differences
}

fn verify_object(observations: &impl Observations, object_expectation: &ObjectExpectation, answers: &mut Answers) -> Vec<Difference> {
    let ObjectExpectation { target, spot, is_absent, matches } = object_expectation;
    let value = match observations.object(target) {
        Ok(observed) => observed.value,
        Err(error) => return vec![Difference::new(*spot, error)],
    };
    match (value, is_absent) {
        (None, true) => Vec::new(),
        (Some(_), true) => vec![Difference::new(*spot, format!("{target}: expected to be absent, but it exists"))],
        (None, false) => vec![Difference::new(*spot, format!("{target}: expected to exist, but it does not"))],
        (Some(value), false) => {
            let mut mismatches = Vec::new();
            if let Some(pattern) = matches {
                pattern.compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
            }
            let values = Values::of(&value);
            let shown = |mismatch: Mismatch| {
                // The value itself is kept for `--update`, which writes it into the author's file.
                let hidden = values.as_ref().zip(mismatch.found.as_ref()).map(|(values, found)| {
                    let path: Vec<String> = mismatch.path.split(['.', '[']).filter(|key| !key.is_empty()).map(str::to_owned).collect();
                    values.shown_at(&path, found)
                });
                of_mismatch(&target.to_string(), mismatch, hidden)
            };
            mismatches.into_iter().map(shown).collect()
        }
    }
}

/// Returns the difference of a mismatch, which may show something else than the value that was found.
fn of_mismatch(subject: &str, mismatch: Mismatch, hidden: Option<Value>) -> Difference {
    let Mismatch { path, spot, wanted, found, is_plain } = mismatch;
    let found_text = hidden.as_ref().or(found.as_ref()).map_or_else(|| "nothing".to_owned(), shown);
    let fix = found.filter(|_| is_plain).map(|value| Fix::Scalar { spot, value });
    let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
    Difference::new(spot, format!("{subject}: {path}expected {wanted}, found {found_text}")).with_fix(fix)
}

/// Returns a predicate for a named object. An unknown or ambiguous name matches nothing.
fn is_about<'t, W: Observations>(observations: &W, target: &'t Target) -> impl Fn(&Subject) -> bool + use<'t, W> {
    let wanted = observations.object(target).ok().map(|observed| observed.subject);
    move |subject: &Subject| {
        let is_like = |wanted: &Subject| wanted.group == subject.group && wanted.kind == subject.kind && wanted.name == subject.name;
        wanted.as_ref().is_some_and(is_like) && target.namespace.as_ref().is_none_or(|namespace| *namespace == subject.namespace)
    }
}

/// Checks the name in an expectation of nothing: such an expectation holds trivially if the name is ambiguous, or if
/// the object never existed.
fn check_target(observations: &impl Observations, target: &Target, spot: SourceSpan, is_nothing: bool) -> Option<Difference> {
    let observed = match observations.object(target) {
        Ok(observed) => observed,
        Err(error) => return Some(Difference::new(spot, error)),
    };
    if !is_nothing || observed.value.is_some() || observations.has_existed(&observed, target.namespace.as_deref()) {
        return None;
    }
    let names = observations.names(&observed.subject);
    let suggestion = nearest(&target.name, names.iter().map(String::as_str));
    let suggestion = suggestion.map(|name| format!("; did you mean `{}/{name}`?", target.resource)).unwrap_or_default();
    Some(Difference::new(spot, format!("{target}: no such object ever existed{suggestion}")))
}

fn verify_calls(observations: &impl Observations, calls: &Calls) -> Option<Difference> {
    let Calls { node, is_exact, wanted, target, handlers } = calls;
    let check_target = target.as_ref().and_then(|(target, spot)| check_target(observations, target, *spot, *is_exact && wanted.is_empty()));
    if check_target.is_some() {
        return check_target;
    }
    let about = target.as_ref().map(|(target, _)| is_about(observations, target));
    let counts = |subject: &Subject, call: &Call| {
        about.as_ref().is_none_or(|about| about(subject)) && (handlers.is_empty() || handlers.contains(&call.handler))
    };
    let has_times = wanted.iter().any(|call| call.at.is_some());
    let made: Vec<(Duration, Call)> = observations.timeline().with(|entries| {
        let made = entries.iter().filter_map(|(at, event)| match event {
            Event::Called { subject, call, .. } if counts(subject, call) => {
                Some((*at, Call { at: has_times.then_some(*at), ..call.clone() }))
            }
            _ => None,
        });
        made.collect()
    });
    let steps = align(wanted, &made, is_call);
    let is_wrong = |step: &Aligned| match step {
        Aligned::Both(..) => false,
        Aligned::Wanted(_) => true,
        Aligned::Found(_) => *is_exact,
    };
    if !steps.iter().any(is_wrong) {
        return None;
    }
    let lines: Vec<String> = steps
        .iter()
        .map(|step| match step {
            Aligned::Both(_, found) => format!("    {}", made[*found].1),
            Aligned::Wanted(index) => format!("  - {}", wanted[*index]),
            Aligned::Found(index) => format!("  {} {}", if *is_exact { '+' } else { ' ' }, made[*index].1),
        })
        .collect();
    // The calls of `includes` cannot be derived from all calls.
    let fix = is_exact.then(|| Fix::List { node: node.clone(), items: steps.iter().filter_map(|step| listed(step, &made)).collect() });
    let text = format!("calls: expected (-) and made (+)\n{}", lines.join("\n"));
    Some(Difference::new(node.spot, text).with_fix(fix))
}

fn listed(step: &Aligned, made: &[(Duration, Call)]) -> Option<ListItem> {
    match step {
        Aligned::Both(index, _) => Some(ListItem::Kept(*index)),
        Aligned::Wanted(_) => None,
        Aligned::Found(index) => Some(ListItem::New(made[*index].1.to_string())),
    }
}

fn is_call(wanted: &Call, (made_at, made): &(Duration, Call)) -> bool {
    wanted.handler == made.handler
        && (wanted.retry.is_none() || wanted.retry == made.retry)
        && wanted.at.is_none_or(|at| at.abs_diff(*made_at) <= TIME_TOLERANCE)
}

fn verify_background(observations: &impl Observations, background: &BackgroundExpectation) -> Option<Difference> {
    let BackgroundExpectation { target, spot, running } = background;
    let wrong_target = check_target(observations, target, *spot, running.is_empty());
    if wrong_target.is_some() {
        return wrong_target;
    }
    let found = observations.object(target).and_then(|observed| observations.tasks(&observed.subject));
    let list = |ids: &[String]| if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    match found {
        Err(error) => Some(Difference::new(*spot, error)),
        Ok(found) => {
            let mut wanted = running.clone();
            wanted.sort();
            let text = || format!("background: {target}: expected to run: {}, found: {}", list(&wanted), list(&found));
            (wanted != found).then(|| Difference::new(*spot, text()))
        }
    }
}

/// A step through two aligned lists.
enum Aligned {
    /// An item of both, by index.
    Both(usize, usize),
    /// An expected item only, by index.
    Wanted(usize),
    /// An actual item only, by index.
    Found(usize),
}

/// Aligns two lists along their longest common subsequence.
fn align<T, F>(wanted: &[T], found: &[F], is_same: impl Fn(&T, &F) -> bool) -> Vec<Aligned> {
    let mut lengths = vec![vec![0_usize; found.len() + 1]; wanted.len() + 1];
    for i in (0..wanted.len()).rev() {
        for j in (0..found.len()).rev() {
            lengths[i][j] =
                if is_same(&wanted[i], &found[j]) { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut steps) = (0, 0, Vec::new());
    while i < wanted.len() || j < found.len() {
        if i < wanted.len() && j < found.len() && is_same(&wanted[i], &found[j]) {
            steps.push(Aligned::Both(i, j));
            (i, j) = (i + 1, j + 1);
        } else if j == found.len() || (i < wanted.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            steps.push(Aligned::Wanted(i));
            i += 1;
        } else {
            steps.push(Aligned::Found(j));
            j += 1;
        }
    }
    steps
}

fn verify_events(observations: &impl Observations, events: &Events, answers: &mut Answers) -> Option<Difference> {
    let Events { spot, like, target, count } = events;
    let check_target = target.as_ref().and_then(|target| check_target(observations, target, *spot, count.allows(0)));
    if check_target.is_some() {
        return check_target;
    }
    let about = target.as_ref().map(|target| is_about(observations, target));
    let all = observations.events();
    let mut is_like = |event: &Value| {
        let mut passes =
            |(key, pattern): &(String, Pattern)| pattern.passes(&event[key.as_str()], &mut |asked, value| answers.ask(asked, value));
        like.iter().all(&mut passes) && about.as_ref().is_none_or(|about| about(&involved(event)))
    };
    // A repeated event is one object with a count.
    let number: u64 = all.iter().filter(|event| is_like(event)).map(|event| event["count"].as_u64().unwrap_or(1).max(1)).sum();
    if count.allows(number) {
        return None;
    }
    let lines: Vec<String> = all
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            let line = format!("{} {}: {} (count {})", text("type"), text("reason"), text("message"), event["count"].as_u64().unwrap_or(1));
            format!("    {}", visible::one_line(&line))
        })
        .collect();
    let there = if lines.is_empty() { "there are no events".to_owned() } else { format!("the events are\n{}", lines.join("\n")) };
    let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
    Some(Difference::new(*spot, format!("events: expected {count}, found {number}; {there}")).with_fix(fix))
}

fn involved(event: &Value) -> Subject {
    let of = &event["involvedObject"];
    Subject::of(
        &serde_json::json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": {"namespace": of["namespace"], "name": of["name"]}}),
    )
}

fn verify_logs(observations: &impl Observations, logs: &Logs, answers: &mut Answers) -> Vec<Difference> {
    let lines: Vec<Value> = observations.timeline().with(|entries| {
        let lines = entries.iter().filter_map(|(_, event)| match event {
            Event::Log { level, message, .. } if *level != DEBUG => Some(Value::String(message.clone())),
            _ => None,
        });
        lines.collect()
    });
    let mut passes = |like: &Pattern, line: &Value| like.passes(line, &mut |asked, value| answers.ask(asked, value));
    let mut found = Vec::new();
    let mut from = 0;
    for LogPattern { spot, like } in &logs.includes {
        if let Some(at) = lines[from..].iter().position(|line| passes(like, line)) {
            from += at + 1;
            continue;
        }
        let place = if from == 0 { String::new() } else { format!(" after {}", shown(&lines[from - 1])) };
        let earlier = lines[..from].iter().find(|line| passes(like, line)).and_then(Value::as_str);
        let nearest = earlier.or_else(|| nearest_line(like, &lines));
        let hint = match (earlier, nearest) {
            (Some(_), _) => "; an earlier line matches".to_owned(),
            (None, Some(line)) => format!("; the most similar line is {}", Value::from(line)),
            (None, None) => String::new(),
        };
        found.push(Difference::new(*spot, format!("logs: no matching line{place}: {}{hint}", describe(like))).about_line(nearest));
    }
    for LogPattern { spot, like } in &logs.excludes {
        if let Some(line) = lines.iter().find(|line| passes(like, line)) {
            let text = format!("logs: unexpected line: {line}");
            found.push(Difference::new(*spot, text).about_line(line.as_str()));
        }
    }
    found
}

/// Returns the line most similar to an expected text, if more than half of the words agree.
fn nearest_line<'l>(like: &Pattern, lines: &'l [Value]) -> Option<&'l str> {
    let PatternKind::Value(Value::String(wanted)) = &like.kind else { return None };
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let likeness = |line: &str| {
        let found: Vec<&str> = line.split_whitespace().collect();
        let common = align(&wanted, &found, |one, other| one == other).iter().filter(|step| matches!(step, Aligned::Both(..))).count();
        (2 * common, wanted.len() + found.len())
    };
    let texts = lines.iter().filter_map(Value::as_str).map(|line| (likeness(line), line));
    let near = texts.filter(|((common, words), _)| 2 * common > *words);
    near.max_by(|((common, words), _), ((other, others), _)| (common * others).cmp(&(other * words))).map(|(_, line)| line)
}

pub(super) fn describe(pattern: &Pattern) -> String {
    match &pattern.kind {
        PatternKind::Value(value) => value.to_string(),
        PatternKind::Matcher(_, text) => text.clone(),
        _ => "a pattern".to_owned(),
    }
}

fn verify_requests(observations: &impl Observations, requests: &Requests) -> Vec<Difference> {
    let Requests { target, spot, counts } = requests;
    // For `create: 0` the object need not have existed.
    let is_nothing = counts.iter().all(|(verb, count)| *verb != "create" && count.allows(0));
    if let Some(check_target) = check_target(observations, target, *spot, is_nothing) {
        return vec![check_target];
    }
    let observed = match observations.object(target) {
        Ok(observed) => observed,
        Err(error) => return vec![Difference::new(*spot, error)],
    };
    let mut found = Vec::new();
    for (verb, count) in counts {
        let number = observations.timeline().with(|entries| {
            let sent = entries.iter().filter(|(_, event)| match event {
                Event::Request(request) => {
                    let is_object = request.group == observed.subject.group
                        && request.plural == observed.plural
                        && request.name == observed.subject.name;
                    let is_in_namespace = target.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace);
                    request.verb == *verb && is_object && is_in_namespace
                }
                _ => false,
            });
            sent.count() as u64
        });
        if !count.allows(number) {
            let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
            let text = format!("requests: {verb} {target}: expected {count}, found {number}");
            found.push(Difference::new(count.exact.unwrap_or(*spot), text).with_fix(fix));
        }
    }
    found
}

/// Compares what is there with what a step expects, with the answers to the expressions among the expectations. An expression that fails is a
/// difference.
pub(super) async fn compared(
    observations: &impl Observations,
    spot: SourceSpan,
    compare: impl Fn(&mut Answers) -> Vec<Difference>,
) -> Vec<Difference> {
    let mut answers = Answers::default();
    let mut failed = Vec::new();
    loop {
        let found = compare(&mut answers);
        let questions = answers.questions();
        if questions.is_empty() {
            return found.into_iter().chain(failed).collect();
        }
        for question in questions {
            let holds = observations.evaluate(&question).await;
            answers.keep(question, holds == Ok(true));
            failed.extend(holds.err().map(|text| Difference::new(spot, format!("an expression fails: {text}"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_along_their_common_part() {
        let shown = |wanted: &[&str], found: &[&str]| {
            let steps = align(wanted, found, |one, other| one == other);
            let shown = steps.iter().map(|step| match step {
                Aligned::Both(index, _) => wanted[*index].to_owned(),
                Aligned::Wanted(index) => format!("-{}", wanted[*index]),
                Aligned::Found(index) => format!("+{}", found[*index]),
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&["a", "b", "c"], &["a", "x", "c", "d"]), "a -b +x c +d");
        assert_eq!(shown(&[], &["a"]), "+a");
        assert_eq!(shown(&["a"], &[]), "-a");
    }
}
