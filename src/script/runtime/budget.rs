//! The remaining budget of one call, and whether it must end: the interpreter checks it at every operation.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Position};
use tokio::time::Instant;

use super::held::Held;
use crate::handling::message::seconds;
use crate::kit::Stop;
use crate::script::interface::call::SelfWrite;
use crate::script::limits::allocator::{self, Account};
use crate::script::limits::call_rate::CallRate;
use crate::script::limits::process_memory::ProcessMemory;
use crate::script::limits::{Limit, Limits};

/// The operations between two checks of the clock and the stop signals, as long as operations are quick.
const OPERATIONS_PER_LOOK: u64 = 32;

/// If the operations between two checks took longer than this, the clock is checked after each operation.
const SLOW_OPERATIONS: Duration = Duration::from_micros(250);

/// The time after which the script yields to others of its thread.
const SLICE: Duration = Duration::from_millis(4);

/// The bytes that a running call may hold more or less than its process knows.
const BYTES_PER_REPORT: usize = 1 << 20;

/// The operations after the end of a call in which it may end by reading a variable. The interpreter's own end of a call loses the place: every
/// function on the way out replaces it by that of its call.
const GRACE: u8 = 8;

/// The operations after which the script yields in virtual time, where the same seed must give the same order: about a millisecond.
const OPERATIONS_PER_SLICE: u64 = 8_192;

/// How many writes to the handled object are noted.
const MAX_SELF_WRITES: usize = 64;

/// The remaining budget of a call. The closures of `parallel` run on fibers of their own: each has a budget that shares the counts of the call.
pub(crate) struct Budget {
    limits: Limits,
    operations: Rc<Counter>,
    /// The number of operations at the next check of the clock.
    next_look: Cell<u64>,
    time_slice: Cell<TimeSlice>,
    slices: Slices,
    /// The operations before the last refill.
    earlier_operations: Rc<Cell<u64>>,
    api_calls: Rc<Counter>,
    /// The recent calls of the API by all calls of the handler.
    call_rate: Option<Arc<CallRate>>,
    output: Rc<Counter>,
    deadline: Option<Instant>,
    stop: Stop,
    is_refilled_by_waits: bool,
    is_abandoned: Cell<bool>,
    is_preempted: Cell<bool>,
    stack_floor: Cell<usize>,
    /// What the call had allocated when the variables of each level of calls were looked at.
    looked_at_data: RefCell<Vec<usize>>,
    /// The memory of the process, and the bytes of it that are known to belong to this call.
    process_memory: Option<Arc<ProcessMemory>>,
    reported: Rc<Cell<usize>>,
    /// The script, the handler and the object.
    title: String,
    ending: RefCell<Option<Ending>>,
    /// The operations until the interpreter ends the call, after it must end. Until then, reading a variable ends it at the right place.
    grace: Cell<u8>,
    overrun: Rc<Cell<Option<Limit>>>,
    held: Held,
    /// The writes to the handled object so far.
    self_writes: Rc<RefCell<Vec<SelfWrite>>>,
    /// Describes what the call waits for, besides time.
    waiting_for: RefCell<Option<Box<dyn Fn() -> String>>>,
    /// The budget of the fiber that waits for this one.
    parent: Option<Rc<Self>>,
    /// The fibers of the call, besides its first one.
    children: Rc<Cell<usize>>,
}

/// Why a call must end. The script cannot catch it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// The stop signal was given, or the call is no longer awaited.
    Cancelled,
    /// A budget is used up.
    Overrun(Overrun),
    /// It must be called again after a delay, because of its sub-handlers.
    Unfinished(Duration),
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// Which budget.
    pub limit: Limit,
    /// The text for users.
    pub text: String,
}

/// When a script that computes yields to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slices {
    /// After some time.
    Time,
    /// After a number of operations, so that the order of calls does not depend on the machine.
    Operations,
}

/// How long the script has been running since its last wait, and how fast.
#[derive(Debug, Clone, Copy)]
struct TimeSlice {
    /// When the slice began, and its first operation.
    began: std::time::Instant,
    first: u64,
    /// When the clock was checked.
    looked: std::time::Instant,
    /// The operations until the next check.
    interval: u64,
}

impl TimeSlice {
    fn new(first: u64) -> Self {
        let now = std::time::Instant::now();
        Self { began: now, first, looked: now, interval: 1 }
    }
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
    pub(crate) fn new(limits: &Limits, stop: Stop) -> Self {
        Self {
            limits: limits.clone(),
            operations: Rc::new(Counter::new(limits.operations)),
            next_look: Cell::new(0),
            time_slice: Cell::new(TimeSlice::new(0)),
            slices: Slices::Operations,
            earlier_operations: Rc::default(),
            api_calls: Rc::new(Counter::new(limits.api_calls)),
            call_rate: None,
            output: Rc::new(Counter::new(limits.output)),
            deadline: limits.time.and_then(|time| Instant::now().checked_add(time)),
            stop,
            is_refilled_by_waits: false,
            is_abandoned: Cell::new(false),
            is_preempted: Cell::new(false),
            stack_floor: Cell::new(0),
            looked_at_data: RefCell::default(),
            process_memory: None,
            reported: Rc::default(),
            title: String::new(),
            ending: RefCell::new(None),
            grace: Cell::new(GRACE),
            overrun: Rc::default(),
            held: Held::default(),
            self_writes: Rc::default(),
            waiting_for: RefCell::new(None),
            parent: None,
            children: Rc::default(),
        }
    }

    /// Returns the budget of a fiber of the same call, which this one waits for: everything that it takes counts in both.
    pub(crate) fn of_child(self: &Rc<Self>) -> Self {
        Self {
            operations: Rc::clone(&self.operations),
            slices: self.slices,
            earlier_operations: Rc::clone(&self.earlier_operations),
            api_calls: Rc::clone(&self.api_calls),
            call_rate: self.call_rate.clone(),
            output: Rc::clone(&self.output),
            deadline: self.deadline,
            is_refilled_by_waits: self.is_refilled_by_waits,
            process_memory: self.process_memory.clone(),
            reported: Rc::clone(&self.reported),
            title: self.title.clone(),
            overrun: Rc::clone(&self.overrun),
            self_writes: Rc::clone(&self.self_writes),
            parent: Some(Rc::clone(self)),
            children: Rc::clone(&self.children),
            ..Self::new(&self.limits, self.stop.clone())
        }
    }

    /// Returns the budget of the fiber that waits for this one, if there is one.
    pub(crate) fn parent(&self) -> Option<&Rc<Self>> {
        self.parent.as_ref()
    }

    /// Returns this budget, and those of the fibers that wait for it.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.parent.as_deref())
    }

    /// Returns the count of the call's fibers besides its first one.
    pub(crate) fn children(&self) -> &Rc<Cell<usize>> {
        &self.children
    }

    /// Returns what the call holds of the operator's shared state.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Notes a write to the handled object.
    pub(crate) fn note_self_write(&self, write: SelfWrite) {
        let mut writes = self.self_writes.borrow_mut();
        // A call that writes all the time needs no complete list.
        if writes.len() < MAX_SELF_WRITES && writes.iter().all(|known| known.version != write.version) {
            writes.push(write);
        }
    }

    /// Returns the writes to the handled object, and forgets them.
    pub(crate) fn take_self_writes(&self) -> Vec<SelfWrite> {
        self.self_writes.take()
    }

    /// Tells whether the time of the call is limited.
    pub(crate) fn has_time_limit(&self) -> bool {
        self.limits.time.is_some()
    }

    /// Describes what the call waits for, while the guard exists: if its time ends meanwhile, the error says so.
    pub(crate) fn waiting_for(&self, describe: impl Fn() -> String + 'static) -> WaitingFor<'_> {
        *self.waiting_for.borrow_mut() = Some(Box::new(describe));
        WaitingFor(self)
    }

    /// Sets the address below which no script function may reach.
    pub(crate) fn set_stack_floor(&self, address: usize) {
        self.stack_floor.set(address);
    }

    /// Records whether the call is suspended to let other scripts run.
    pub(crate) fn set_preempted(&self, is_preempted: bool) {
        self.is_preempted.set(is_preempted);
    }

    /// Marks the call as no longer awaited: it ends as soon as it can.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.set(true);
    }

    /// Returns why the call must end, if it must.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Ends the call. The first reason is kept.
    pub(crate) fn end(&self, ending: Ending) -> Box<EvalAltResult> {
        self.grace.set(0);
        self.decide(ending).into_error()
    }

    fn decide(&self, ending: Ending) -> Ending {
        self.ending.borrow_mut().get_or_insert(ending).clone()
    }

    /// Revokes the ending if it concerns only sub-handlers: their parent continues.
    pub(crate) fn take_unfinished(&self) -> Option<Duration> {
        let mut ending = self.ending.borrow_mut();
        let Some(Ending::Unfinished(delay)) = *ending else { return None };
        *ending = None;
        Some(delay)
    }

    /// Returns a budget that yields to other scripts in this way.
    pub(crate) fn with_slices(self, slices: Slices) -> Self {
        Self { slices, ..self }
    }

    /// Returns a budget of a call with a title: its script, its handler, and its object.
    pub(crate) fn titled(self, title: String) -> Self {
        Self { title, ..self }
    }

    /// Returns a budget of a call whose memory counts in its process.
    pub(crate) fn counted_in(self, process_memory: Arc<ProcessMemory>) -> Self {
        Self { process_memory: Some(process_memory), ..self }
    }

    /// Returns a budget of a call whose calls of the API count with those of the other calls of its handler.
    pub(crate) fn sharing(self, call_rate: Arc<CallRate>) -> Self {
        Self { call_rate: Some(call_rate), ..self }
    }

    /// Records how much the call holds.
    pub(crate) fn report(&self, live: isize) {
        let now = usize::try_from(live).unwrap_or_default();
        let before = self.reported.replace(now);
        if let Some(memory) = self.process_memory.as_ref().filter(|_| before != now) {
            memory.change(before, now);
        }
    }

    /// Returns the script, the handler and the object of the call.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Tells whether the variables of a level of calls were last looked at before so many bytes were allocated, and counts from here.
    pub(crate) fn is_look_at_data_due(&self, level: usize, total: usize, bytes: usize) -> bool {
        let mut looked = self.looked_at_data.borrow_mut();
        if looked.len() <= level {
            looked.resize(level + 1, 0);
        }
        let is_due = total.wrapping_sub(looked[level]) >= bytes;
        if is_due {
            looked[level] = total;
        }
        is_due
    }

    /// Records that the script goes on after others have run.
    pub(crate) fn begin_slice(&self) {
        let operations = self.operations.used.get();
        self.time_slice.set(TimeSlice::new(operations));
        self.next_look.set(operations);
    }

    /// Returns the limit of the call's memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        usize::try_from(self.limits.memory).unwrap_or(usize::MAX)
    }

    /// Ends the call if it holds more than it may, or a function has refused its work for that reason.
    pub(crate) fn look_at_memory(&self) {
        if let Some(limit) = allocator::exceeded() {
            self.decide(Ending::Overrun(self.describe(limit)));
        }
    }

    /// Returns the account of the call's memory.
    pub(crate) fn account(&self) -> Account {
        Account::limited(self.limits.memory)
    }

    /// Returns a budget whose counts are reset after each wait, for daemons.
    pub(crate) fn refilled_by_waits(self) -> Self {
        Self { is_refilled_by_waits: true, ..self }
    }

    /// Returns the operations of the whole call so far.
    pub(crate) fn used_operations(&self) -> u64 {
        self.earlier_operations.get().saturating_add(self.operations.used.get())
    }

    /// Records that the call has ended because of an overrun.
    pub(crate) fn set_overrun(&self, limit: Limit) {
        self.overrun.set(Some(limit));
    }

    /// Returns the budget whose overrun has ended the call, if one has.
    pub(crate) fn overrun_limit(&self) -> Option<Limit> {
        self.overrun.get()
    }

    /// Resets the counts after a sleep, if the budget is refilled by waits.
    pub(crate) fn refill(&self) {
        if !self.is_refilled_by_waits {
            return;
        }
        self.earlier_operations.set(self.used_operations());
        for counter in [&self.operations, &self.api_calls, &self.output] {
            counter.used.set(0);
        }
        self.begin_slice();
        allocator::allow(isize::try_from(self.limits.memory / 2).unwrap_or(isize::MAX));
    }

    /// Counts a call of the API.
    ///
    /// # Errors
    /// If there were too many.
    pub(crate) fn count_api_call(&self) -> Result<(), Box<EvalAltResult>> {
        if !self.api_calls.count() {
            return Err(self.overrun(Limit::ApiCalls));
        }
        let is_allowed = self.call_rate.as_ref().is_none_or(|rate| rate.count(self.limits.api_calls_per_minute));
        if is_allowed { Ok(()) } else { Err(self.overrun(Limit::ApiCallsPerMinute)) }
    }

    /// Counts the bytes of a logged text.
    ///
    /// # Errors
    /// If there were too many.
    pub(crate) fn count_output(&self, bytes: usize) -> Result<(), Box<EvalAltResult>> {
        if self.output.add(bytes as u64) {
            return Ok(());
        }
        Err(self.overrun(Limit::Output))
    }

    /// Ends the call because of a limit.
    pub(crate) fn overrun(&self, limit: Limit) -> Box<EvalAltResult> {
        self.end(Ending::Overrun(self.describe(limit)))
    }

    /// Describes the overrun of a limit.
    pub(crate) fn describe(&self, limit: Limit) -> Overrun {
        let Limits { operations, memory, depth, string_size, array_size, map_size, api_calls, api_calls_per_minute, output, .. } =
            &self.limits;
        let what = match limit {
            Limit::Operations => format!("{operations} operations"),
            Limit::Time => format!("{} seconds", seconds(self.limits.time.unwrap_or_default())),
            Limit::Memory => format!("{memory} bytes of memory"),
            Limit::Depth => format!("{depth} nested calls"),
            Limit::StringSize => format!("{string_size} bytes of one text"),
            Limit::ArraySize => format!("{array_size} items of one list"),
            Limit::MapSize => format!("{map_size} entries of one map"),
            Limit::ApiCalls => format!("{api_calls} calls of the API"),
            Limit::ApiCallsPerMinute => format!("{api_calls_per_minute} calls of the API within a minute, by all calls of this function"),
            Limit::Output => format!("{output} bytes of output"),
        };
        Overrun::of(limit, &what)
    }

    /// Checks that the call may continue.
    ///
    /// # Errors
    /// If it must end.
    pub(crate) fn check(&self) -> Result<(), Box<EvalAltResult>> {
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
        } else if let Some(limit) = allocator::exceeded() {
            self.decide(Ending::Overrun(self.describe(limit)));
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.decide(self.late());
        }
    }

    fn late(&self) -> Ending {
        let Overrun { limit, text } = self.describe(Limit::Time);
        let waiting = self.waiting_for.borrow().as_ref().map(|describe| format!("; it was waiting for {}", describe()));
        Ending::Overrun(Overrun { limit, text: text + &waiting.unwrap_or_default() })
    }

    /// Waits until the call must end.
    pub(crate) async fn ended(&self) -> Box<EvalAltResult> {
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
    pub(crate) fn is_preempted(&self) -> bool {
        self.is_preempted.get()
    }

    /// Returns why a script that reads a variable must end here. It can be caught once; then the interpreter ends the call.
    pub(crate) fn end_at_variable(&self, level: usize) -> Option<Box<EvalAltResult>> {
        if level > self.limits.depth {
            return Some(self.overrun(Limit::Depth));
        }
        let is_ending = self.grace.get() < GRACE;
        is_ending.then(|| self.ending())?.map(|ending| {
            self.grace.set(0);
            ending.into_error()
        })
    }

    /// Ends the call at one of its next operations.
    fn end_soon(&self, ending: Ending) -> Tick {
        let ending = self.decide(ending);
        match self.grace.get() {
            0 => Tick::End(ending),
            left => {
                self.grace.set(left - 1);
                Tick::GoOn
            }
        }
    }

    /// Counts one operation.
    pub(crate) fn tick(&self) -> Tick {
        let is_allowed = self.operations.count();
        let here = 0u8;
        if ptr::from_ref(&here).addr() < self.stack_floor.get() {
            return Tick::End(self.decide(Ending::Overrun(Overrun::fixed(Limit::Depth, "the stack of a call"))));
        }
        if !is_allowed {
            return self.end_soon(Ending::Overrun(self.describe(Limit::Operations)));
        }
        if let Some(limit) = allocator::exceeded() {
            return self.end_soon(Ending::Overrun(self.describe(limit)));
        }
        if self.operations.used.get() < self.next_look.get() && self.ending.borrow().is_none() {
            return Tick::GoOn;
        }
        match self.pause() {
            Tick::End(ending @ Ending::Overrun(_)) => self.end_soon(ending),
            tick => tick,
        }
    }

    /// Checks the clock and the stop signals, also in the middle of a long native function.
    pub(crate) fn pause(&self) -> Tick {
        let is_over = self.is_slice_over();
        allocator::settle();
        let live = allocator::running().live;
        if live.abs_diff(self.reported.get() as isize) >= BYTES_PER_REPORT {
            self.report(live);
        }
        self.look();
        match self.ending() {
            Some(ending) => Tick::End(ending),
            None if is_over => Tick::GiveWay,
            None => Tick::GoOn,
        }
    }

    /// Sets the next check of the clock, and tells whether the slice is over.
    pub(crate) fn is_slice_over(&self) -> bool {
        let operations = self.operations.used.get();
        let TimeSlice { began, first, looked, interval } = self.time_slice.get();
        if self.slices == Slices::Operations {
            self.next_look.set(operations + OPERATIONS_PER_LOOK);
            // A wait of another fiber may have refilled the count.
            return operations.saturating_sub(first) >= OPERATIONS_PER_SLICE;
        }
        let now = std::time::Instant::now();
        let is_slow = now.duration_since(looked) > SLOW_OPERATIONS;
        let interval = if is_slow { 1 } else { (interval * 2).min(OPERATIONS_PER_LOOK) };
        self.next_look.set(operations + interval);
        self.time_slice.set(TimeSlice { began, first, looked: now, interval });
        now.duration_since(began) >= SLICE
    }
}

/// The wait of a call for something besides time.
pub(crate) struct WaitingFor<'a>(&'a Budget);

impl Drop for WaitingFor<'_> {
    fn drop(&mut self) {
        self.0.waiting_for.take();
    }
}

/// The effect of an operation.
pub(crate) enum Tick {
    /// The script continues.
    GoOn,
    /// The script yields to others of its thread.
    GiveWay,
    /// The call ends.
    End(Ending),
}

impl Overrun {
    /// Returns the overrun of a limit; `what` is its value in words.
    pub(crate) fn of(limit: Limit, what: &str) -> Self {
        Self { limit, text: format!("the call has used up its budget: {what} (limits.{}, which can be raised)", limit.as_str()) }
    }
}

impl Overrun {
    /// Returns the overrun of a limit that cannot be raised.
    pub(crate) fn fixed(limit: Limit, what: &str) -> Self {
        Self { limit, text: format!("the call has used up its budget: {what}") }
    }
}

impl Ending {
    /// The interpreter keeps the place of this error, unlike that of a terminated call. The script can catch it, and is ended by its next
    /// operation.
    fn into_error(self) -> Box<EvalAltResult> {
        EvalAltResult::ErrorRuntime(Dynamic::from(self), Position::NONE).into()
    }
}
