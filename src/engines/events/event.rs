//! All events of the engine.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::handling::admission::Judged;
use crate::handling::spawning::Stage;
use crate::handling::timer::Schedule;
use crate::handling::{Answers, Handler, Message, Outcome, Reason, Verdict};
use crate::manifest::operator::{Delay, Moment};
use crate::object::{Body, EventKind, Patch};
use crate::script::Returned;
use crate::script::interface::subject::ReviewRequest;

/// An event of the engine.
#[derive(Debug)]
pub enum EngineEvent<'a> {
    /// A message about the handled object. The current span is that of the object.
    Message(&'a Message),
    /// A message about the handling of an object, which was passed on as a message before. Kopf may post these as
    /// Kubernetes Events.
    HandlingReported {
        /// The object.
        body: &'a Body,
        /// The message.
        message: &'a Message,
    },
    /// A worker begins to process an event of an object.
    ObjectSeen {
        /// The object.
        body: &'a Body,
        /// The kind of the received event.
        event_kind: EventKind,
        /// The remaining time of the wait for the operator's last patch; negative if it is over.
        consistency_in: Option<SignedDuration>,
    },
    /// An object is forgotten: it was deleted, or its kind or namespace is no longer served. It may be repeated after
    /// the end of its worker.
    ObjectForgotten {
        /// The unique id, or its substitute.
        uid: &'a str,
    },
    /// A handler is called.
    HandlerCalled {
        /// The object that the handler gets.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The reason; `None` for handlers of raw events, daemons and timers.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
    },
    /// A call has returned.
    HandlerReturned {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The reason; `None` for handlers of raw events, daemons and timers.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
        /// The result of the call.
        returned: &'a Returned,
    },
    /// An attempt was judged, including one that was not made because of a limit.
    AttemptJudged {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
    },
    /// A daemon or timer was started for an object.
    TaskStarted {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// When a timer is called; `None` for a daemon.
        schedule: Option<&'a Schedule>,
        /// The declared delay before the first call.
        initial_delay: Option<Delay>,
    },
    /// The initial delay of a daemon or timer was computed by its expression; zero if that has failed.
    InitialDelayComputed {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The delay, which begins with this event.
        delay: Duration,
    },
    /// An attempt of a daemon or timer is concluded: it was judged, and its changes were sent or given up.
    AttemptConcluded {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
    },
    /// The daemons and timers of an object follow a state of it: it is what their idle times and functions refer to.
    BackgroundObserved {
        /// The object.
        body: &'a Body,
    },
    /// It was decided for a state of an object which daemons and timers match it.
    BackgroundDecided {
        /// The object.
        body: &'a Body,
        /// The values of the filters' expressions.
        answers: &'a Answers,
    },
    /// The stop of a daemon or timer has reached a further stage.
    TaskStopping {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The stage.
        stage: Stage,
    },
    /// A daemon or timer has ended.
    TaskEnded {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// Whether it was asked to stop. A task that ends on its own is not started again.
        is_requested: bool,
    },
    /// An attempt of an index function was judged, including one that was not made because of a limit.
    IndexFunctionJudged {
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
        /// Whether it has failed with an error that is ignored; the outcome is a success.
        is_ignored: bool,
        /// The duration of the call; `None` if it was not made.
        duration: Option<Duration>,
    },
    /// A handler of an activity is called.
    ActivityCalled {
        /// The activity.
        activity: Moment,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
    },
    /// An attempt of a handler of an activity was judged, including one that was not made because of a limit.
    ActivityJudged {
        /// The activity.
        activity: Moment,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
    },
    /// A run of an activity has ended: all of its handlers have finished, or it is given up.
    ActivityEnded {
        /// The activity.
        activity: Moment,
    },
    /// A schedule begins to wait for its ticks.
    ScheduleStarted {
        /// The schedule.
        handler: &'a Handler,
        /// Whether no read from the store is pending.
        is_synced: bool,
    },
    /// A schedule is called for a tick.
    ScheduleCalled {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
        /// The attempts made before for this tick.
        retry: u64,
    },
    /// An attempt of a schedule was judged, including one that was not made because of a limit.
    ScheduleJudged {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
        /// The attempts made before for this tick.
        retry: u64,
        /// The outcome; `None` if the call was cancelled, since the operator stops.
        outcome: Option<&'a Outcome>,
    },
    /// A schedule has given up the attempts for a tick, since the next one has come.
    ScheduleGivenUp {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
    },
    /// A schedule has stored its done ticks, or has some to store.
    ScheduleSynced {
        /// The schedule.
        handler: &'a Handler,
        /// Whether all done ticks are stored.
        is_synced: bool,
    },
    /// A schedule has ended: it has no further ticks, or stops. All done ticks are stored, or could not be stored.
    ScheduleEnded {
        /// The schedule.
        handler: &'a Handler,
    },
    /// A webhook is called for a request.
    WebhookCalled {
        /// The object of the request.
        body: &'a Body,
        /// The handler of the webhook.
        handler: &'a Handler,
    },
    /// A call of a webhook has returned.
    WebhookJudged {
        /// The object of the request.
        body: &'a Body,
        /// The handler of the webhook.
        handler: &'a Handler,
        /// The verdict.
        verdict: &'a Verdict,
        /// The duration of the call.
        duration: Duration,
    },
    /// A call of a webhook has ended: it has returned, or its client has given up.
    WebhookEnded {
        /// The handler of the webhook.
        handler: &'a Handler,
    },
    /// A request was reviewed.
    Reviewed {
        /// The object of the request.
        body: &'a Body,
        /// The request.
        request: &'a ReviewRequest,
        /// The webhook that was asked; `None` for all of them.
        webhook: Option<&'a str>,
        /// The result.
        judged: &'a Judged,
    },
    /// A conversion review was answered.
    Converted {
        /// The function.
        handler: &'a Handler,
        /// The wanted `apiVersion`.
        wanted: &'a str,
        /// The number of objects in the review.
        objects: usize,
        /// The reason why one of them cannot be converted.
        failure: Option<&'a str>,
    },
    /// All handlers of a cycle have run; the cycle then sends its changes and sleeps.
    CycleDecided {
        /// The times until the next attempts.
        delays: &'a [Duration],
    },
    /// A patch is about to be sent.
    PatchPrepared {
        /// The object.
        body: &'a Body,
        /// The patch.
        patch: &'a Patch,
    },
    /// A patch was sent.
    PatchSent {
        /// The object before.
        body: &'a Body,
        /// The patch.
        patch: &'a Patch,
        /// The resulting version, if the patch has changed anything.
        version: Option<&'a str>,
    },
    /// An object is slowed down, since it keeps triggering itself.
    LoopBegan {
        /// The object's unique id.
        uid: &'a str,
        /// The ids of the handlers of its last cycles.
        handlers: &'a [String],
    },
    /// The slowdown of an object has ended.
    LoopEnded {
        /// The object's unique id.
        uid: &'a str,
    },
    /// The operator is paused: it begins nothing new.
    OperatorPaused {
        /// The reasons of the pause.
        causes: &'a [String],
    },
    /// The pause of the operator has ended.
    OperatorResumed,
    /// A cycle has ended; for a deleted object always without an error.
    CycleEnded {
        /// The object's unique id.
        uid: &'a str,
        /// The object.
        body: &'a Body,
        /// The error, if it has failed.
        error: Option<&'a str>,
    },
}
