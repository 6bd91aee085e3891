//! The order in which an event is handled: decides the next step.
//!
//! The first steps prepare the cycle, and the others make it up. Objects are also indexed where no cycle follows: while
//! they are slowed down after errors, and by replicas that do not lead.
//!
//! The reactor carries out the steps; `select` and `plan` decide about their handlers.

use std::time::Duration;

use super::cause::Reason;

/// The steps of an event, in their order. Steps that do not apply are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Call the index functions: all other handlers may read the indexes.
    Index,
    /// Do nothing else with the event, since this replica does not lead.
    StandBy,
    /// Wait until the indexes of all kinds are filled.
    Readiness,
    /// Read the state stored on the object, and detect the cause.
    Detect,
    /// Call the handlers of raw events. Nothing waits for them.
    Watch,
    /// Start and stop daemons and timers.
    Background,
    /// Check whether any change handler concerns the object. If none does, there is no cause.
    Concern,
    /// Add or remove the finalizer, if necessary. The cause then waits for the event of that patch.
    Finalizer,
    /// Wait for the event of the operator's last patch: handlers must not see an older state.
    Consistency,
    /// Call the handlers of changes.
    Changes,
    /// Remove the finalizer from an object that is being deleted, if no handler is pending.
    Release,
    /// Send the changes.
    Patch,
    /// Sleep until the next attempt is due. Newer events interrupt the sleep.
    Sleep,
    /// Change the object after the sleep, so that its event begins the next attempt.
    Touch,
    /// No step is left.
    End,
}

const ORDER: [Step; 14] = [
    Step::Index,
    Step::StandBy,
    Step::Readiness,
    Step::Detect,
    Step::Watch,
    Step::Background,
    Step::Concern,
    Step::Finalizer,
    Step::Consistency,
    Step::Changes,
    Step::Release,
    Step::Patch,
    Step::Sleep,
    Step::Touch,
];

/// Which handlers the kind has, regardless of their filters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Handlers of raw events.
    pub watching: bool,
    /// Daemons and timers.
    pub spawning: bool,
    /// Handlers of changes.
    pub changing: bool,
}

/// The state of the operator's last patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OwnPatch {
    /// Its event was seen, or is no longer awaited.
    #[default]
    Seen,
    /// Its event is pending.
    Awaited,
    /// Another event arrived during the wait. It is handled in its own cycle.
    Interrupted,
}

impl OwnPatch {
    /// Returns the state at the begin of a cycle: whether a newer event is queued, and whether that of the patch is
    /// awaited.
    pub(crate) fn at_begin(is_outdated: bool, is_awaited: bool) -> Self {
        match (is_outdated, is_awaited) {
            (true, _) => Self::Interrupted,
            (false, true) => Self::Awaited,
            (false, false) => Self::Seen,
        }
    }
}

/// The state of an event that is being handled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Situation {
    /// The step that was carried out last.
    pub done: Option<Step>,
    /// The object is not indexed yet in this state, and its kind has indexes.
    pub is_unindexed: bool,
    /// This replica does not lead.
    pub stands_by: bool,
    /// The indexes of the operator are not filled yet.
    pub awaits_indexes: bool,
    /// Which handlers the kind has.
    pub handlers: Presence,
    /// The object is deleted: nothing can be written to it.
    pub is_gone: bool,
    /// The deletion of the object was requested, and our finalizer blocks it.
    pub is_held: bool,
    /// The cause for change handlers: `None` without such handlers, and while the cause waits for the finalizer.
    pub cause: Option<Reason>,
    /// The cycle began with the unsent rest of an earlier patch.
    pub began_with_patch: bool,
    /// The state of the operator's last patch.
    pub own_patch: OwnPatch,
    /// There are changes to send.
    pub has_patch: bool,
    /// The time until the next attempt, if there is one.
    pub delay: Option<Duration>,
    /// The sleep was not interrupted.
    pub has_slept: bool,
}

impl Situation {
    /// Tells whether the cause must wait for the event of a patch, and is handled in a later cycle.
    pub(crate) fn is_postponed(&self) -> bool {
        let is_consistent = !self.began_with_patch
            && match self.own_patch {
                OwnPatch::Seen => true,
                // A deleted object has no further events.
                OwnPatch::Awaited => self.cause == Some(Reason::Gone),
                OwnPatch::Interrupted => false,
            };
        self.cause.is_some() && !is_consistent
    }

    fn applies(&self, step: Step) -> bool {
        match step {
            Step::Index => self.is_unindexed,
            Step::StandBy => self.stands_by,
            Step::Readiness => self.awaits_indexes,
            Step::Detect => self.handlers.changing || self.handlers.spawning,
            Step::Watch => self.handlers.watching,
            Step::Background => self.handlers.spawning,
            Step::Concern => self.cause.is_some(),
            // Also without a handler that could demand it: the finalizer of an earlier version of the operator is
            // removed.
            Step::Finalizer | Step::End => true,
            Step::Consistency => self.awaits_own_patch(),
            Step::Changes => self.cause.is_some() && !self.is_postponed(),
            Step::Release => self.is_held && !self.is_gone && self.delay.is_none() && !self.is_postponed(),
            Step::Patch => self.has_patch && !self.is_gone,
            // A patch causes an event, which starts the next cycle.
            Step::Sleep => self.delay.is_some() && !self.has_patch && !self.is_gone,
            Step::Touch => self.done == Some(Step::Sleep) && self.has_slept,
        }
    }

    /// With changes to send there is no need to wait: the next wait will be for that patch.
    fn awaits_own_patch(&self) -> bool {
        self.own_patch == OwnPatch::Awaited
            && !self.has_patch
            && self.cause.is_some_and(|reason| reason != Reason::Gone)
    }
}

/// Returns the step that comes next.
pub(crate) fn next(situation: &Situation) -> Step {
    if situation.done == Some(Step::StandBy) {
        return Step::End;
    }
    let left = ORDER.into_iter().filter(|step| situation.done.is_none_or(|done| *step > done));
    left.into_iter().find(|step| situation.applies(*step)).unwrap_or(Step::End)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::{
        Background, Changes, Concern, Consistency, Detect, End, Finalizer, Index, Patch, Readiness, Release, Sleep,
        StandBy, Touch, Watch,
    };

    const CHANGING: Presence = Presence { watching: false, spawning: false, changing: true };

    fn created() -> Situation {
        Situation { handlers: CHANGING, cause: Some(Reason::Create), ..Situation::default() }
    }

    /// Returns the steps from a situation on, if nothing else changes in it.
    fn steps(mut situation: Situation) -> Vec<Step> {
        let mut steps = Vec::new();
        while situation.done != Some(End) {
            let step = next(&situation);
            steps.push(step);
            situation.done = Some(step);
        }
        steps
    }

    #[test]
    fn every_situation_has_its_steps() {
        let all = Presence { watching: true, spawning: true, changing: true };
        let deleted = Situation { cause: Some(Reason::Delete), is_held: true, ..created() };
        let gone = Situation { cause: Some(Reason::Gone), is_gone: true, is_held: true, ..created() };
        let awaited = Situation { own_patch: OwnPatch::Awaited, ..created() };
        let (sleepy, patched) = (Some(Duration::from_secs(5)), true);
        let unindexed = Situation { is_unindexed: true, ..created() };
        let table: [(&str, Situation, &[Step]); 24] = [
            ("no handlers at all", Situation::default(), &[Finalizer, End]),
            ("a creation", created(), &[Detect, Concern, Finalizer, Changes, End]),
            ("an indexed kind", unindexed, &[Index, Detect, Concern, Finalizer, Changes, End]),
            (
                "an indexed kind of a replica that does not lead",
                Situation { stands_by: true, ..unindexed },
                &[Index, StandBy, End],
            ),
            (
                "a replica that does not lead",
                Situation { stands_by: true, awaits_indexes: true, ..created() },
                &[StandBy, End],
            ),
            (
                "indexes that are being filled",
                Situation { awaits_indexes: true, ..unindexed },
                &[Index, Readiness, Detect, Concern, Finalizer, Changes, End],
            ),
            (
                "all handlers",
                Situation { handlers: all, ..created() },
                &[Detect, Watch, Background, Concern, Finalizer, Changes, End],
            ),
            (
                "only raw events",
                Situation { handlers: Presence { watching: true, ..Presence::default() }, ..Situation::default() },
                &[Watch, Finalizer, End],
            ),
            (
                "only daemons",
                Situation { handlers: Presence { spawning: true, ..Presence::default() }, ..Situation::default() },
                &[Detect, Background, Finalizer, End],
            ),
            ("nothing concerns the object", Situation { cause: None, ..created() }, &[Detect, Finalizer, End]),
            (
                "something to send",
                Situation { has_patch: patched, ..created() },
                &[Detect, Concern, Finalizer, Changes, Patch, End],
            ),
            ("a retry", Situation { delay: sleepy, ..created() }, &[Detect, Concern, Finalizer, Changes, Sleep, End]),
            (
                "a full sleep",
                Situation { delay: sleepy, has_slept: true, ..created() },
                &[Detect, Concern, Finalizer, Changes, Sleep, Touch, End],
            ),
            (
                "a retry with a patch",
                Situation { delay: sleepy, has_patch: patched, ..created() },
                &[Detect, Concern, Finalizer, Changes, Patch, End],
            ),
            ("an awaited patch", awaited, &[Detect, Concern, Finalizer, Consistency, End]),
            (
                "an awaited patch with something to send",
                Situation { has_patch: patched, ..awaited },
                &[Detect, Concern, Finalizer, Patch, End],
            ),
            ("an awaited patch without a cause", Situation { cause: None, ..awaited }, &[Detect, Finalizer, End]),
            (
                "a newer event",
                Situation { own_patch: OwnPatch::Interrupted, delay: sleepy, ..created() },
                &[Detect, Concern, Finalizer, Sleep, End],
            ),
            (
                "left over from an earlier cycle",
                Situation { began_with_patch: true, has_patch: patched, ..created() },
                &[Detect, Concern, Finalizer, Patch, End],
            ),
            ("a deletion", deleted, &[Detect, Concern, Finalizer, Changes, Release, End]),
            (
                "a deletion with a retry",
                Situation { delay: sleepy, ..deleted },
                &[Detect, Concern, Finalizer, Changes, Sleep, End],
            ),
            (
                "a deletion that must wait",
                Situation { own_patch: OwnPatch::Interrupted, ..deleted },
                &[Detect, Concern, Finalizer, End],
            ),
            ("a deletion without a cause", Situation { cause: None, ..deleted }, &[Detect, Finalizer, Release, End]),
            (
                "gone",
                Situation { own_patch: OwnPatch::Awaited, has_patch: patched, delay: sleepy, ..gone },
                &[Detect, Concern, Finalizer, Changes, End],
            ),
        ];
        for (what, situation, expected) in table {
            assert_eq!(steps(situation), expected, "{what}");
        }
    }

    #[test]
    fn a_cycle_with_a_newer_event_leaves_changes_to_it() {
        let at_begin = [(false, false), (false, true), (true, false), (true, true)]
            .map(|(newer, awaited)| OwnPatch::at_begin(newer, awaited));
        assert_eq!(at_begin, [OwnPatch::Seen, OwnPatch::Awaited, OwnPatch::Interrupted, OwnPatch::Interrupted]);
    }

    #[test]
    fn a_step_is_never_repeated_and_the_order_holds() {
        let bools = [false, true];
        let own_patches = [OwnPatch::Seen, OwnPatch::Awaited, OwnPatch::Interrupted];
        for own_patch in own_patches {
            for (is_gone, is_held, has_patch) in bools.into_iter().flat_map(|a| bools.map(|b| (a, b, a != b))) {
                for cause in [None, Some(Reason::Create), Some(Reason::Gone)] {
                    let situation = Situation { is_gone, is_held, cause, own_patch, has_patch, ..created() };
                    let steps = steps(situation);
                    assert!(steps.is_sorted_by(|a, b| a < b), "{situation:?}: {steps:?}");
                    assert!(
                        !is_gone || !steps.iter().any(|step| matches!(step, Release | Patch | Sleep | Touch)),
                        "{situation:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_result_of_a_step_changes_the_next_steps() {
        let before = Situation { done: Some(Finalizer), own_patch: OwnPatch::Awaited, ..created() };
        assert_eq!(next(&before), Consistency);
        let after = Situation { done: Some(Consistency), ..before };
        assert_eq!(next(&Situation { own_patch: OwnPatch::Seen, ..after }), Changes);
        assert_eq!(next(&Situation { own_patch: OwnPatch::Interrupted, ..after }), End);
    }
}
