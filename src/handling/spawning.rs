//! Daemons and timers in a cycle: which are started and stopped, whether they need the finalizer, and how long the
//! cycle waits for them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::filter::{Predicates, Unsettled, View};
use super::handler::Handler;
use super::lists::SpawningHandlers;
use super::message::{Message, seconds};
use super::select;

/// The demands of an object's daemons and timers on a cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackgroundDemand {
    /// Whether any of them needs the finalizer.
    pub demand_finalizer: bool,
    /// The times until each of the stopping tasks is checked again.
    pub delays: Vec<Duration>,
}

/// The reason why a daemon or timer must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// The object is deleted.
    Deleted,
    /// The object no longer passes the filters of the handler.
    Mismatch,
    /// The operator is paused.
    Pausing,
    /// The operator exits.
    Exiting,
    /// The declaration or its code has changed.
    Reloading,
}

/// The tasks of one object at an event.
#[derive(Debug, Clone, Copy)]
pub struct RunningTasks<'a> {
    /// The ids of the running tasks, including stopping tasks.
    pub running: &'a BTreeSet<String>,
    /// The ids of the running tasks that were stopped to start anew: their declaration or code has changed, or the
    /// operator was paused.
    pub outdated: &'a BTreeSet<String>,
    /// The ids of the tasks that ended on their own; they are not started again.
    pub ended: &'a BTreeSet<String>,
    /// The reason why no task may run at all, if the operator is paused or exits.
    pub halt: Option<StopReason>,
}

/// The tasks to start and to stop.
#[derive(Debug, Default)]
pub struct BackgroundPlan<'a> {
    /// The handlers to start a task for.
    pub spawn: Vec<&'a Handler>,
    /// The handlers whose outdated tasks are replaced: they are stopped already, and start again after their end.
    pub replace: Vec<&'a Handler>,
    /// The ids of the tasks to stop, with the reasons.
    pub stop: Vec<(String, StopReason)>,
    /// Whether any handler needs the finalizer, including handlers whose tasks are stopping.
    pub demand_finalizer: bool,
}

/// Returns the tasks to start and to stop at an event.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn plan<'a>(
    handlers: &'a SpawningHandlers,
    tasks: RunningTasks<'_>,
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<BackgroundPlan<'a>, Unsettled> {
    let matching = select::spawning(handlers, tasks.ended, view, predicates)?;
    let all_for = |reason| tasks.running.iter().map(|id| (id.clone(), reason)).collect();
    let demand_finalizer = !matching.is_empty();
    if view.body.is_deleting() {
        return Ok(BackgroundPlan {
            stop: all_for(StopReason::Deleted),
            demand_finalizer,
            ..BackgroundPlan::default()
        });
    }
    if let Some(reason) = tasks.halt {
        return Ok(BackgroundPlan { stop: all_for(reason), demand_finalizer, ..BackgroundPlan::default() });
    }
    let is_matching = |id: &String| matching.iter().any(|handler| handler.id == *id);
    let mismatching = tasks.running.iter().filter(|id| !is_matching(id) && !tasks.outdated.contains(*id));
    let stop = mismatching.map(|id| (id.clone(), StopReason::Mismatch)).collect();
    let replace = matching.iter().filter(|handler| tasks.outdated.contains(&handler.id)).copied().collect();
    let spawn = matching.into_iter().filter(|handler| !tasks.running.contains(&handler.id)).collect();
    Ok(BackgroundPlan { spawn, replace, stop, demand_finalizer })
}

/// The time limits of stopping a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// The time between the stop request and the cancellation.
    pub backoff: Option<Duration>,
    /// The time between the cancellation and the abandonment; `None` means no cancellation.
    pub timeout: Option<Duration>,
    /// The interval of checks, if there is no timeout.
    pub polling: Duration,
}

/// The stage of stopping a task. A task may end at any stage.
///
/// ```text
/// Asked ──backoff──▶ Signalled ──▶ Cancelled ──▶ Abandoned
///   └── without a backoff ────────────▲
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It was asked to stop.
    Asked,
    /// Its back-off to stop on its own has begun.
    Signalled,
    /// It was cancelled.
    Cancelled,
    /// It is no longer awaited; the object may be released.
    Abandoned,
}

/// The next step for a task that was asked to stop and still runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The new stage, if it changes.
    pub enter: Option<Stage>,
    /// The time until the next check; `None` if it is not awaited.
    pub delay: Option<Duration>,
}

/// Returns the next step for a task; the age is the time since the stop request.
pub fn step(cancellation: Cancellation, reached: Stage, age: Duration) -> Step {
    let enter = |stage| (reached < stage).then_some(stage);
    let backoff = cancellation.backoff.unwrap_or_default();
    match (cancellation.backoff, cancellation.timeout) {
        (Some(_), _) if age < backoff => {
            Step { enter: enter(Stage::Signalled), delay: Some(backoff.saturating_sub(age)) }
        }
        (_, Some(timeout)) if age < timeout + backoff => {
            Step { enter: enter(Stage::Cancelled), delay: Some((timeout + backoff).saturating_sub(age)) }
        }
        (_, Some(_)) => Step { enter: enter(Stage::Abandoned), delay: None },
        (_, None) => Step { enter: None, delay: Some(cancellation.polling) },
    }
}

/// Returns the message about a step, if there is one.
pub fn step_message(handler: &Handler, step: Step) -> Option<Message> {
    let title = handler.title();
    Some(match (step.enter, step.delay) {
        (Some(Stage::Signalled), _) => Message::debug(format!("{title} is signalled to exit gracefully.")),
        (Some(Stage::Cancelled), _) => Message::debug(format!("{title} is signalled to exit by force.")),
        (Some(Stage::Abandoned), _) => Message::warning(format!("{title} did not exit in time. Leaving it orphaned.")),
        (None, Some(delay)) => {
            Message::debug(format!("{title} is still exiting. The next check is in {} seconds.", seconds(delay)))
        }
        _ => return None,
    })
}

/// Returns the message about the end of a task.
pub fn end_message(handler: &Handler, is_requested: bool) -> Message {
    let how = if is_requested { "on request" } else { "on its own" };
    Message::debug(format!("{} has exited {how} and will not be retried or restarted.", handler.title()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Answers, Filters, Matcher, On};
    use crate::object::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn labelled(id: &str) -> Handler {
        let filters = Filters { labels: vec![("on".into(), Matcher::Present)], ..Filters::default() };
        Handler { filters, ..Handler::simple(id, On::Daemon) }
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    /// Returns the ids to start, the ids to stop, and whether the finalizer is needed.
    fn planned(metadata: Value, running: &[&str], ended: &[&str]) -> (Vec<String>, Vec<(String, StopReason)>, bool) {
        let handlers = SpawningHandlers::of([labelled("a"), labelled("b")].map(Arc::new));
        let body = Body::from(json!({"metadata": metadata}));
        let tasks = RunningTasks { running: &ids(running), outdated: &BTreeSet::new(), ended: &ids(ended), halt: None };
        let plan = plan(&handlers, tasks, View { body: &body, change: None }, &Answers::default()).unwrap();
        let spawn = plan.spawn.iter().map(|handler| handler.id.clone()).collect();
        (spawn, plan.stop, plan.demand_finalizer)
    }

    #[test]
    fn a_matching_daemon_is_started_unless_it_has_ended_by_itself() {
        assert_eq!(planned(json!({"labels": {"on": "1"}}), &["a"], &[]), (vec!["b".into()], vec![], true));
        assert_eq!(planned(json!({"labels": {"on": "1"}}), &["a"], &["b"]), (vec![], vec![], true));
        assert_eq!(planned(json!({"labels": {"on": "1"}}), &[], &["a", "b"]), (vec![], vec![], false));
    }

    #[test]
    fn mismatching_daemons_are_stopped_and_need_no_finalizer() {
        assert_eq!(planned(json!({}), &["a"], &[]), (vec![], vec![("a".into(), StopReason::Mismatch)], false));
    }

    #[test]
    fn an_outdated_task_is_replaced_if_its_handler_still_matches() {
        let handlers = SpawningHandlers::of([labelled("a"), labelled("b")].map(Arc::new));
        let (running, outdated) = (ids(&["a", "removed"]), ids(&["a", "removed"]));
        let tasks = RunningTasks { running: &running, outdated: &outdated, ended: &BTreeSet::new(), halt: None };
        let planned = |labels: Value| {
            let body = Body::from(json!({"metadata": {"labels": labels}}));
            let plan = plan(&handlers, tasks, View { body: &body, change: None }, &Answers::default()).unwrap();
            let ids = |handlers: &[&Handler]| handlers.iter().map(|handler| handler.id.clone()).collect::<Vec<_>>();
            (ids(&plan.spawn), ids(&plan.replace), plan.stop)
        };
        assert_eq!(planned(json!({"on": "1"})), (vec!["b".to_owned()], vec!["a".to_owned()], vec![]));
        assert_eq!(planned(json!({})), (vec![], vec![], vec![]), "the revision has stopped them");
    }

    #[test]
    fn a_deletion_stops_all_tasks_and_keeps_the_finalizer_meanwhile() {
        let metadata = json!({"labels": {"on": "1"}, "deletionTimestamp": "2020-01-01T00:00:00Z"});
        assert_eq!(planned(metadata, &["a"], &[]), (vec![], vec![("a".into(), StopReason::Deleted)], true));
    }

    /// Returns the step at each of these ages, as `stage/delay`.
    fn ladder(backoff: Option<u64>, timeout: Option<u64>, ages: &[u64]) -> Vec<String> {
        let mut reached = Stage::Asked;
        let (backoff, timeout) = (backoff.map(Duration::from_secs), timeout.map(Duration::from_secs));
        let mut take = |age: &u64| {
            let cancellation = Cancellation { backoff, timeout, polling: Duration::from_mins(1) };
            let step = step(cancellation, reached, Duration::from_secs(*age));
            reached = step.enter.unwrap_or(reached);
            let stage = step.enter.map_or("-".to_owned(), |stage| format!("{stage:?}"));
            format!("{stage}/{}", step.delay.map_or("-".to_owned(), seconds))
        };
        ages.iter().map(&mut take).collect()
    }

    #[test]
    fn a_stop_climbs_from_asking_to_giving_up() {
        assert_eq!(
            ladder(Some(10), Some(5), &[0, 4, 10, 15, 20]),
            ["Signalled/10", "-/6", "Cancelled/5", "Abandoned/-", "-/-"]
        );
        assert_eq!(ladder(None, Some(5), &[0, 5]), ["Cancelled/5", "Abandoned/-"]);
    }

    #[test]
    fn without_a_timeout_it_is_waited_for_without_end() {
        assert_eq!(ladder(None, None, &[0, 9000]), ["-/60", "-/60"]);
        assert_eq!(ladder(Some(10), None, &[0, 10]), ["Signalled/10", "-/60"]);
    }

    #[test]
    fn each_stage_of_a_stop_is_told_once_and_the_waiting_at_each_check() {
        let handler = Handler::simple("run", On::Daemon);
        let told = |enter, delay: Option<u64>| {
            let message = step_message(&handler, Step { enter, delay: delay.map(Duration::from_secs) })?;
            Some(format!("{} {message}", message.level.as_str()))
        };
        let lines = [
            (Some(Stage::Signalled), Some(3), "DEBUG Daemon 'run' is signalled to exit gracefully."),
            (Some(Stage::Cancelled), Some(3), "DEBUG Daemon 'run' is signalled to exit by force."),
            (Some(Stage::Abandoned), None, "WARNING Daemon 'run' did not exit in time. Leaving it orphaned."),
            (None, Some(3), "DEBUG Daemon 'run' is still exiting. The next check is in 3 seconds."),
        ];
        for (enter, delay, expected) in lines {
            assert_eq!(told(enter, delay).as_deref(), Some(expected));
        }
        assert_eq!(told(None, None), None);
    }
}
