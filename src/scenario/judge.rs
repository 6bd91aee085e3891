//! Judging expectations: what is expected against what is there and what has happened.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::manifest::suggest::nearest;
use crate::manifest::tree::Spot;
use crate::reactor::account::shown;

use super::expressions::{Answers, Question};
use super::pattern::{Mismatch, Pattern, Says};
use super::run::DEBUG;
use super::story::{Call, Calls, Events, Expectation, Line, Logs, Requests, Sight, Target};
use super::timeline::{Event, Subject, Timeline};
use super::update::{Fix, Listed};

/// What a story is judged by: the objects of a cluster, and what has happened. The embedded server is one; a real cluster may be another.
pub trait Witness {
    /// Finds an object by its name.
    ///
    /// # Errors
    /// If it is not clear which is meant.
    fn seen(&self, target: &Target) -> Result<Seen, String>;

    /// Returns what has happened.
    fn timeline(&self) -> &Timeline;

    /// Returns Kubernetes' events.
    fn events(&self) -> Vec<Arc<Value>>;

    /// Tells whether an object was ever there, as far as that is known.
    fn has_existed(&self, _seen: &Seen, _namespace: Option<&str>) -> bool {
        true
    }

    /// Returns the names of objects of a kind that were ever there, as far as they are known.
    fn names(&self, _subject: &Subject) -> Vec<String> {
        Vec::new()
    }

    /// Tells whether an expression of the scenario holds; its errors are the texts of failures.
    fn answer(&self, question: &Question) -> impl Future<Output = Result<bool, String>>;
}

/// An object that is meant, whether it is there or not.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its group, kind, namespace, and name. If it is nowhere, the namespace is that where it would be.
    pub subject: Subject,
    /// The plural name of its kind.
    pub plural: String,
    /// The object, if it is there.
    pub value: Option<Arc<Value>>,
}

/// Something that is not as expected.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Where the expectation is written.
    pub spot: Spot,
    /// The difference, in one line or several.
    pub text: String,
    /// How the file would say what is there, if that is possible.
    pub fix: Option<Fix>,
    /// The lines that were logged which it is about.
    pub lines: Vec<String>,
}

impl Difference {
    fn new(spot: Spot, text: impl Into<String>) -> Self {
        Self { spot, text: text.into(), fix: None, lines: Vec::new() }
    }

    fn with_fix(self, fix: Option<Fix>) -> Self {
        Self { fix, ..self }
    }

    fn about_line(self, line: Option<&str>) -> Self {
        Self { lines: line.map(str::to_owned).into_iter().collect(), ..self }
    }
}

/// Returns everything that is not as expected.
pub async fn judge(witness: &impl Witness, spot: Spot, expectation: &Expectation) -> Vec<Difference> {
    let mut answers = Answers::default();
    let mut failed = Vec::new();
    loop {
        let found = compare(witness, expectation, &mut answers);
        let questions = answers.questions();
        if questions.is_empty() {
            return found.into_iter().chain(failed).collect();
        }
        for question in questions {
            let holds = witness.answer(&question).await;
            answers.keep(question, holds == Ok(true));
            failed.extend(holds.err().map(|text| Difference::new(spot, format!("an expression fails: {text}"))));
        }
    }
}

/// Compares, as far as the answers of expressions are known.
fn compare(witness: &impl Witness, expectation: &Expectation, answers: &mut Answers) -> Vec<Difference> {
    let mut found = Vec::new();
    let Expectation { object, calls, events, logs, requests } = expectation;
    if let Some(sight) = object {
        found.extend(judge_object(witness, sight, answers));
    }
    if let Some(calls) = calls {
        found.extend(judge_calls(witness, calls));
    }
    for events in events {
        found.extend(judge_events(witness, events, answers));
    }
    if let Some(logs) = logs {
        found.extend(judge_logs(witness, logs, answers));
    }
    for requests in requests {
        found.extend(judge_requests(witness, requests));
    }
    found
}

fn judge_object(witness: &impl Witness, sight: &Sight, answers: &mut Answers) -> Vec<Difference> {
    let Sight { target, spot, is_absent, matches } = sight;
    let value = match witness.seen(target) {
        Ok(seen) => seen.value,
        Err(unclear) => return vec![Difference::new(*spot, unclear)],
    };
    match (value, is_absent) {
        (None, true) => Vec::new(),
        (Some(_), true) => vec![Difference::new(*spot, format!("{target}: expected to be absent, and it is there"))],
        (None, false) => vec![Difference::new(*spot, format!("{target}: expected to be there, and it is not"))],
        (Some(value), false) => {
            let mut mismatches = Vec::new();
            if let Some(pattern) = matches {
                pattern.compare(Some(&value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
            }
            mismatches.into_iter().map(|mismatch| of_mismatch(target, mismatch)).collect()
        }
    }
}

fn of_mismatch(target: &Target, mismatch: Mismatch) -> Difference {
    let Mismatch { path, spot, wanted, found, is_plain } = mismatch;
    let found_text = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
    let fix = found.filter(|_| is_plain).map(|value| Fix::Scalar { spot, value });
    Difference::new(spot, format!("{target}: {path}: expected {wanted}, found {found_text}")).with_fix(fix)
}

/// Tells whether something is about an object that was named. A name that means nothing is about nothing.
fn is_about<'t, W: Witness>(witness: &W, target: &'t Target) -> impl Fn(&Subject) -> bool + use<'t, W> {
    let meant = witness.seen(target).ok().map(|seen| seen.subject);
    move |subject: &Subject| {
        let is_like = |meant: &Subject| meant.group == subject.group && meant.kind == subject.kind && meant.name == subject.name;
        meant.as_ref().is_some_and(is_like) && target.namespace.as_ref().is_none_or(|namespace| *namespace == subject.namespace)
    }
}

/// Tells what is wrong with an object that nothing is expected about: a name that is unclear, or one of an object that was never there,
/// about which there can be nothing.
fn doubt(witness: &impl Witness, target: &Target, spot: Spot, is_nothing: bool) -> Option<Difference> {
    let seen = match witness.seen(target) {
        Ok(seen) => seen,
        Err(unclear) => return Some(Difference::new(spot, unclear)),
    };
    if !is_nothing || seen.value.is_some() || witness.has_existed(&seen, target.namespace.as_deref()) {
        return None;
    }
    let names = witness.names(&seen.subject);
    let meant = nearest(&target.name, names.iter().map(String::as_str));
    let meant = meant.map(|name| format!("; did you mean `{}/{name}`?", target.resource)).unwrap_or_default();
    Some(Difference::new(spot, format!("{target}: there was never such an object, so that nothing can be about it{meant}")))
}

fn judge_calls(witness: &impl Witness, calls: &Calls) -> Option<Difference> {
    let Calls { node, is_exact, wanted, target, handlers } = calls;
    let doubt = target.as_ref().and_then(|(target, spot)| doubt(witness, target, *spot, *is_exact && wanted.is_empty()));
    if doubt.is_some() {
        return doubt;
    }
    let about = target.as_ref().map(|(target, _)| is_about(witness, target));
    let counts = |subject: &Subject, call: &Call| {
        about.as_ref().is_none_or(|about| about(subject)) && (handlers.is_empty() || handlers.contains(&call.handler))
    };
    let made: Vec<Call> = witness.timeline().with(|entries| {
        let made = entries.iter().filter_map(|(_, event)| match event {
            Event::Called { subject, call, .. } if counts(subject, call) => Some(call.clone()),
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
            Aligned::Both(_, found) => format!("    {}", made[*found]),
            Aligned::Wanted(index) => format!("  - {}", wanted[*index]),
            Aligned::Found(index) => format!("  {} {}", if *is_exact { '+' } else { ' ' }, made[*index]),
        })
        .collect();
    // What others must be among is not found by looking at what there is.
    let fix = is_exact.then(|| Fix::List { node: node.clone(), items: steps.iter().filter_map(|step| listed(step, &made)).collect() });
    let text = format!("calls: expected (-) and made (+)\n{}", lines.join("\n"));
    Some(Difference::new(node.spot, text).with_fix(fix))
}

fn listed(step: &Aligned, made: &[Call]) -> Option<Listed> {
    match step {
        Aligned::Both(index, _) => Some(Listed::Kept(*index)),
        Aligned::Wanted(_) => None,
        Aligned::Found(index) => Some(Listed::New(made[*index].to_string())),
    }
}

fn is_call(wanted: &Call, made: &Call) -> bool {
    wanted.handler == made.handler && (wanted.retry.is_none() || wanted.retry == made.retry)
}

/// A step through two lists.
enum Aligned {
    /// An item of both, by their places.
    Both(usize, usize),
    /// An item that is only wanted.
    Wanted(usize),
    /// An item that is only there.
    Found(usize),
}

/// Walks through two lists along their longest common part.
fn align<T>(wanted: &[T], found: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<Aligned> {
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

fn judge_events(witness: &impl Witness, events: &Events, answers: &mut Answers) -> Option<Difference> {
    let Events { spot, like, target, count } = events;
    let doubt = target.as_ref().and_then(|target| doubt(witness, target, *spot, count.allows(0)));
    if doubt.is_some() {
        return doubt;
    }
    let about = target.as_ref().map(|target| is_about(witness, target));
    let all = witness.events();
    let mut is_like = |event: &Value| {
        let mut passes =
            |(key, pattern): &(String, Pattern)| pattern.passes(&event[key.as_str()], &mut |asked, value| answers.ask(asked, value));
        like.iter().all(&mut passes) && about.as_ref().is_none_or(|about| about(&involved(event)))
    };
    // An event that is repeated is one object with a count.
    let number: u64 = all.iter().filter(|event| is_like(event)).map(|event| event["count"].as_u64().unwrap_or(1).max(1)).sum();
    if count.allows(number) {
        return None;
    }
    let told: Vec<String> = all
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            format!("    {} {}: {} (count {})", text("type"), text("reason"), text("message"), event["count"].as_u64().unwrap_or(1))
        })
        .collect();
    let there = if told.is_empty() { "there are no events at all".to_owned() } else { format!("the events are\n{}", told.join("\n")) };
    let fix = count.exact.map(|spot| Fix::Scalar { spot, value: number.into() });
    Some(Difference::new(*spot, format!("events: expected {count} such, found {number}; {there}")).with_fix(fix))
}

fn involved(event: &Value) -> Subject {
    let of = &event["involvedObject"];
    Subject::of(
        &serde_json::json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "metadata": {"namespace": of["namespace"], "name": of["name"]}}),
    )
}

fn judge_logs(witness: &impl Witness, logs: &Logs, answers: &mut Answers) -> Vec<Difference> {
    let lines: Vec<Value> = witness.timeline().with(|entries| {
        let told = entries.iter().filter_map(|(_, event)| match event {
            Event::Log { level, message, .. } if *level != DEBUG => Some(Value::String(message.clone())),
            _ => None,
        });
        told.collect()
    });
    let mut passes = |like: &Pattern, line: &Value| like.passes(line, &mut |asked, value| answers.ask(asked, value));
    let mut found = Vec::new();
    let mut from = 0;
    for Line { spot, like } in &logs.includes {
        if let Some(at) = lines[from..].iter().position(|line| passes(like, line)) {
            from += at + 1;
            continue;
        }
        let place = if from == 0 { String::new() } else { format!(" after {}", shown(&lines[from - 1])) };
        let earlier = lines[..from].iter().find(|line| passes(like, line)).and_then(Value::as_str);
        let nearest = earlier.or_else(|| nearest_line(like, &lines));
        let hint = match (earlier, nearest) {
            (Some(_), _) => "; there is one before that".to_owned(),
            (None, Some(line)) => format!("; the nearest line is {}", Value::from(line)),
            (None, None) => String::new(),
        };
        found.push(Difference::new(*spot, format!("logs: no such line{place}: {}{hint}", words(like))).about_line(nearest));
    }
    for Line { spot, like } in &logs.excludes {
        if let Some(line) = lines.iter().find(|line| passes(like, line)) {
            let text = format!("logs: there is a line that must not be there: {line}");
            found.push(Difference::new(*spot, text).about_line(line.as_str()));
        }
    }
    found
}

/// Returns the line that is most like a text that was expected, if one is more like it than not.
fn nearest_line<'l>(like: &Pattern, lines: &'l [Value]) -> Option<&'l str> {
    let Says::Value(Value::String(wanted)) = &like.says else { return None };
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

fn words(pattern: &Pattern) -> String {
    match &pattern.says {
        Says::Value(value) => value.to_string(),
        Says::Matcher(_, words) => words.clone(),
        _ => "a pattern that no line is like".to_owned(),
    }
}

fn judge_requests(witness: &impl Witness, requests: &Requests) -> Vec<Difference> {
    let Requests { target, spot, counts } = requests;
    // That something is not created is about an object that was never there.
    let is_nothing = counts.iter().all(|(verb, count)| *verb != "create" && count.allows(0));
    if let Some(doubt) = doubt(witness, target, *spot, is_nothing) {
        return vec![doubt];
    }
    let seen = match witness.seen(target) {
        Ok(seen) => seen,
        Err(unclear) => return vec![Difference::new(*spot, unclear)],
    };
    let mut found = Vec::new();
    for (verb, count) in counts {
        let number = witness.timeline().with(|entries| {
            let sent = entries.iter().filter(|(_, event)| match event {
                Event::Request(request) => {
                    let is_object =
                        request.group == seen.subject.group && request.plural == seen.plural && request.name == seen.subject.name;
                    let is_place = target.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace);
                    request.verb == *verb && is_object && is_place
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
