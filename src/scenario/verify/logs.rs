//! Verifies log lines.

use serde_json::Value;

use crate::reactor::activity::shown;

use super::super::expressions::Answers;
use super::super::model::{LogPattern, Logs};
use super::super::pattern::{Pattern, PatternKind};
use super::super::timeline::{DEBUG, Event};
use super::align::{Aligned, align};
use super::difference::{Difference, describe};
use super::observations::Observations;

pub(super) fn verify_logs(observations: &impl Observations, logs: &Logs, answers: &mut Answers) -> Vec<Difference> {
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
        found.push(
            Difference::new(*spot, format!("logs: no matching line{place}: {}{hint}", describe(like)))
                .about_line(nearest),
        );
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
        let common = align(&wanted, &found, |one, other| one == other)
            .iter()
            .filter(|step| matches!(step, Aligned::Both(..)))
            .count();
        (2 * common, wanted.len() + found.len())
    };
    let texts = lines.iter().filter_map(Value::as_str).map(|line| (likeness(line), line));
    let near = texts.filter(|((common, words), _)| 2 * common > *words);
    near.max_by(|((common, words), _), ((other, others), _)| (common * others).cmp(&(other * words)))
        .map(|(_, line)| line)
}
