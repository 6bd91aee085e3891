//! The remaining budget of one call, and whether it must end: the interpreter checks it at every operation.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Position};
use tokio::time::Instant;

use super::declaration::{Limit, Limits};
use super::held::Held;
use crate::handling::message::seconds;
use crate::kit::Stop;

/// The operations between two checks of the clock and the stop signals.
const OPERATIONS_PER_LOOK: u64 = 256;

/// The operations after which the script yields to others of its thread: about a millisecond.
const OPERATIONS_PER_SLICE: u64 = 8_192;

/// The remaining budget of a call.
pub(super) struct Budget {
    operations: Counter,
    /// The operations before the last refill.
    earlier_operations: Cell<u64>,
    api_calls: Counter,
    output: Counter,
    time: Option<Duration>,
    deadline: Option<Instant>,
    stop: Stop,
    is_refilled_by_waits: bool,
    is_abandoned: Cell<bool>,
    is_preempted: Cell<bool>,
    stack_floor: Cell<usize>,
    ending: RefCell<Option<Ending>>,
    overrun: Cell<Option<Limit>>,
    held: Held,
    /// Describes what the call waits for, besides time.
    waiting_for: RefCell<Option<Box<dyn Fn() -> String>>>,
}

/// Why a call must end. The script cannot catch it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    /// The stop signal was given, or the call is no longer awaited.
    Cancelled,
    /// A budget is used up.
    Overrun(Overrun),
    /// It must be called again after a delay, because of its sub-handlers.
    Unfinished(Duration),
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overrun {
    /// Which budget.
    pub limit: Limit,
    /// The text for users.
    pub text: String,
}

struct Counter {
    used: Cell<u64>,
    limit: u64,
}

impl Counter {
    fn new(limit: u64) -> Self {
        Self { used: Cell::new(0), limit }
    }

    /// Counts one more, and tells whether the limit allows it.
    fn count(&self) -> bool {
        self.add(1)
    }

    /// Counts some more, and tells whether the limit allows them.
    fn add(&self, more: u64) -> bool {
        let used = self.used.get().saturating_add(more);
        self.used.set(used);
        used <= self.limit
    }
}

impl Budget {
    /// Returns the budget of a call that begins now.
    pub(super) fn new(limits: &Limits, stop: Stop) -> Self {
        Self {
            operations: Counter::new(limits.operations),
            earlier_operations: Cell::new(0),
            api_calls: Counter::new(limits.api_calls),
            output: Counter::new(limits.output),
            time: limits.time,
            deadline: limits.time.and_then(|time| Instant::now().checked_add(time)),
            stop,
            is_refilled_by_waits: false,
            is_abandoned: Cell::new(false),
            is_preempted: Cell::new(false),
            stack_floor: Cell::new(0),
            ending: RefCell::new(None),
            overrun: Cell::new(None),
            held: Held::default(),
            waiting_for: RefCell::new(None),
        }
    }

    /// Returns what the call holds of the operator's shared state.
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// Tells whether the time of the call is limited.
    pub(super) fn has_time_limit(&self) -> bool {
        self.time.is_some()
    }

    /// Describes what the call waits for, while the guard exists: if its time ends meanwhile, the error says so.
    pub(super) fn waiting_for(&self, describe: impl Fn() -> String + 'static) -> WaitingFor<'_> {
        *self.waiting_for.borrow_mut() = Some(Box::new(describe));
        WaitingFor(self)
    }

    /// Sets the address below which no script function may reach.
    pub(super) fn set_stack_floor(&self, address: usize) {
        self.stack_floor.set(address);
    }

    /// Records whether the call is suspended to let other scripts run.
    pub(super) fn set_preempted(&self, is_preempted: bool) {
        self.is_preempted.set(is_preempted);
    }

    /// Marks the call as no longer awaited: it ends as soon as it can.
    pub(super) fn abandon(&self) {
        self.is_abandoned.set(true);
    }

    /// Returns why the call must end, if it must.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Ends the call. The first reason is kept.
    pub(super) fn end(&self, ending: Ending) -> Box<EvalAltResult> {
        self.decide(ending).into_error()
    }

    fn decide(&self, ending: Ending) -> Ending {
        self.ending.borrow_mut().get_or_insert(ending).clone()
    }

    /// Revokes the ending if it concerns only sub-handlers: their parent continues.
    pub(super) fn take_unfinished(&self) -> Option<Duration> {
        let mut ending = self.ending.borrow_mut();
        let Some(Ending::Unfinished(delay)) = *ending else { return None };
        *ending = None;
        Some(delay)
    }

    /// Returns a budget whose counts are reset after each wait, for daemons.
    pub(super) fn refilled_by_waits(self) -> Self {
        Self { is_refilled_by_waits: true, ..self }
    }

    /// Returns the operations of the whole call so far.
    pub(super) fn used_operations(&self) -> u64 {
        self.earlier_operations.get().saturating_add(self.operations.used.get())
    }

    /// Records that the call has ended because of an overrun.
    pub(super) fn set_overrun(&self, limit: Limit) {
        self.overrun.set(Some(limit));
    }

    /// Returns the budget whose overrun has ended the call, if one has.
    pub(super) fn overrun_limit(&self) -> Option<Limit> {
        self.overrun.get()
    }

    /// Resets the counts after a sleep, if the budget is refilled by waits.
    pub(super) fn refill(&self) {
        if !self.is_refilled_by_waits {
            return;
        }
        self.earlier_operations.set(self.used_operations());
        for counter in [&self.operations, &self.api_calls, &self.output] {
            counter.used.set(0);
        }
    }

    /// Counts a call of the API.
    ///
    /// # Errors
    /// If there were too many.
    pub(super) fn count_api_call(&self) -> Result<(), Box<EvalAltResult>> {
        if self.api_calls.count() {
            Ok(())
        } else {
            Err(self.overrun(Limit::ApiCalls, &format!("{} calls of the API", self.api_calls.limit)))
        }
    }

    /// Counts the bytes of a logged text.
    ///
    /// # Errors
    /// If there were too many.
    pub(super) fn count_output(&self, bytes: usize) -> Result<(), Box<EvalAltResult>> {
        if self.output.add(bytes as u64) {
            return Ok(());
        }
        Err(self.overrun(Limit::Output, &format!("{} bytes of output", self.output.limit)))
    }

    fn overrun(&self, limit: Limit, what: &str) -> Box<EvalAltResult> {
        self.end(Ending::Overrun(Overrun::of(limit, what)))
    }

    /// Checks that the call may continue.
    ///
    /// # Errors
    /// If it must end.
    pub(super) fn check(&self) -> Result<(), Box<EvalAltResult>> {
        self.look();
        self.ending().map_or(Ok(()), |ending| Err(ending.into_error()))
    }

    /// Ends the call if a stop was requested or the time is over.
    fn look(&self) {
        if self.ending.borrow().is_some() {
            return;
        }
        if self.is_abandoned.get() || self.stop.is_requested() {
            self.decide(Ending::Cancelled);
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.decide(self.late());
        }
    }

    fn late(&self) -> Ending {
        let seconds = seconds(self.time.unwrap_or_default());
        let Overrun { limit, text } = Overrun::of(Limit::Time, &format!("{seconds} seconds"));
        let waiting = self.waiting_for.borrow().as_ref().map(|describe| format!("; it was waiting for {}", describe()));
        Ending::Overrun(Overrun { limit, text: text + &waiting.unwrap_or_default() })
    }

    /// Waits until the call must end.
    pub(super) async fn ended(&self) -> Box<EvalAltResult> {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let ending = tokio::select! {
            biased;
            () = self.abandoned() => Ending::Cancelled,
            () = self.stop.requested() => Ending::Cancelled,
            () = late => self.late(),
        };
        self.end(ending)
    }

    /// An abandoned call is polled immediately afterwards.
    async fn abandoned(&self) {
        std::future::poll_fn(|_| if self.is_abandoned.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }).await;
    }

    /// Tells whether the call is suspended without waiting for anything.
    pub(super) fn is_preempted(&self) -> bool {
        self.is_preempted.get()
    }

    /// Counts one operation.
    pub(super) fn tick(&self) -> Tick {
        let is_allowed = self.operations.count();
        let operations = self.operations.used.get();
        let here = 0u8;
        if ptr::from_ref(&here).addr() < self.stack_floor.get() {
            return Tick::End(self.decide(Ending::Overrun(Overrun::of(Limit::Depth, "the stack of a call"))));
        }
        if !is_allowed {
            let what = format!("{} operations", self.operations.limit);
            return Tick::End(self.decide(Ending::Overrun(Overrun::of(Limit::Operations, &what))));
        }
        if !operations.is_multiple_of(OPERATIONS_PER_LOOK) && self.ending.borrow().is_none() {
            return Tick::GoOn;
        }
        self.look();
        match self.ending() {
            Some(ending) => Tick::End(ending),
            None if operations.is_multiple_of(OPERATIONS_PER_SLICE) => Tick::GiveWay,
            None => Tick::GoOn,
        }
    }
}

/// The wait of a call for something besides time.
pub(super) struct WaitingFor<'a>(&'a Budget);

impl Drop for WaitingFor<'_> {
    fn drop(&mut self) {
        self.0.waiting_for.take();
    }
}

/// The effect of an operation.
pub(super) enum Tick {
    /// The script continues.
    GoOn,
    /// The script yields to others of its thread.
    GiveWay,
    /// The call ends.
    End(Ending),
}

impl Overrun {
    /// Returns the overrun of a limit; `what` is its value in words.
    pub(super) fn of(limit: Limit, what: &str) -> Self {
        Self { limit, text: format!("the call has used up its budget: {what} (limits.{})", limit.as_str()) }
    }
}

impl Ending {
    fn into_error(self) -> Box<EvalAltResult> {
        EvalAltResult::ErrorTerminated(Dynamic::from(self), Position::NONE).into()
    }
}
