//! Verifies the calls of handlers.

use std::time::Duration;

use super::super::model::{Call, Calls};
use super::super::timeline::{Event, Subject};
use super::super::update::{Fix, ListItem};
use super::align::{Aligned, align};
use super::difference::Difference;
use super::observations::Observations;
use super::targets::{check_target, is_about};

/// How far the time of a call may be from the expected one: requests take a few milliseconds.
const TIME_TOLERANCE: Duration = Duration::from_millis(500);

pub(super) fn verify_calls(observations: &impl Observations, calls: &Calls) -> Option<Difference> {
    let Calls { node, is_exact, wanted, target, handlers } = calls;
    let check_target = target
        .as_ref()
        .and_then(|(target, spot)| check_target(observations, target, *spot, *is_exact && wanted.is_empty()));
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
    let fix = is_exact.then(|| Fix::List {
        node: node.clone(),
        items: steps.iter().filter_map(|step| listed(step, &made)).collect(),
    });
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
