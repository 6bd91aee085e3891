//! The budget of a call: its fields, how it begins, and what belongs to the call besides.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::time::Instant;

use super::ending::Ending;
use super::slices::{Pace, Slices};
use crate::kit::Stop;
use crate::script::interface::call::SelfWrite;
use crate::script::limits::call_rate::CallRate;
use crate::script::limits::process_memory::ProcessMemory;
use crate::script::limits::{Limit, Limits};
use crate::script::runtime::held::Held;

/// The operations after the end of a call in which it may end by reading a variable. The interpreter's own end of a
/// call loses the place: every function on the way out replaces it by that of its call.
pub(super) const GRACE: u8 = 8;

/// How many writes to the handled object are noted.
const MAX_SELF_WRITES: usize = 64;

/// The remaining budget of a call. The closures of `parallel` run on fibers of their own: each has a budget that shares
/// the counts of the call.
pub(crate) struct Budget {
    pub(super) limits: Limits,
    pub(super) operations: Rc<Counter>,
    pub(super) pace: Pace,
    /// The operations before the last refill.
    pub(super) earlier_operations: Rc<Cell<u64>>,
    pub(super) api_calls: Rc<Counter>,
    /// The recent calls of the API by all calls of the handler.
    pub(super) call_rate: Option<Arc<CallRate>>,
    pub(super) output: Rc<Counter>,
    pub(super) deadline: Option<Instant>,
    pub(super) stop: Stop,
    pub(super) is_refilled_by_waits: bool,
    pub(super) is_abandoned: Cell<bool>,
    is_preempted: Cell<bool>,
    pub(super) stack_floor: Cell<usize>,
    /// The bytes that the call had allocated when the variables of each level of calls were measured.
    pub(super) looked_at_data: RefCell<Vec<usize>>,
    /// The memory of the process, and the bytes of it that are known to belong to this call.
    pub(super) process_memory: Option<Arc<ProcessMemory>>,
    pub(super) reported: Rc<Cell<usize>>,
    /// The script, the handler and the object.
    title: String,
    pub(super) ending: RefCell<Option<Ending>>,
    /// The operations until the interpreter ends the call, after it must end. Until then, reading a variable ends it at
    /// the right place.
    pub(super) grace: Cell<u8>,
    pub(super) overrun: Rc<Cell<Option<Limit>>>,
    held: Held,
    /// The writes to the handled object so far.
    self_writes: Rc<RefCell<Vec<SelfWrite>>>,
    /// Describes the wait of the call, if it is not for time.
    pub(super) waiting_for: RefCell<Option<Box<dyn Fn() -> String>>>,
    /// The budget of the fiber that waits for this one.
    parent: Option<Rc<Self>>,
    /// The fibers of the call, besides its first one.
    children: Rc<Cell<usize>>,
}

/// A count with its limit.
pub(super) struct Counter {
    pub(super) used: Cell<u64>,
    limit: u64,
}

impl Counter {
    fn new(limit: u64) -> Self {
        Self { used: Cell::new(0), limit }
    }

    /// Counts one more, and returns whether the limit allows it.
    pub(super) fn count(&self) -> bool {
        self.add(1)
    }

    /// Counts some more, and returns whether the limit allows them.
    pub(super) fn add(&self, more: u64) -> bool {
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
            pace: Pace::new(Slices::Operations),
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

    /// Returns the budget of a fiber of the same call, which this one waits for: everything that it takes counts in
    /// both.
    pub(crate) fn of_child(self: &Rc<Self>) -> Self {
        Self {
            operations: Rc::clone(&self.operations),
            pace: self.pace.of_child(),
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

    /// Returns a budget that yields to other scripts in this way.
    pub(crate) fn with_slices(self, slices: Slices) -> Self {
        Self { pace: Pace::new(slices), ..self }
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

    /// Returns a budget whose counts are reset after each wait, for daemons.
    pub(crate) fn refilled_by_waits(self) -> Self {
        Self { is_refilled_by_waits: true, ..self }
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

    /// Returns the parts of the operator's shared state that the call holds.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Returns the script, the handler and the object of the call.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Tells whether the time of the call is limited.
    pub(crate) fn has_time_limit(&self) -> bool {
        self.limits.time.is_some()
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

    /// Describes the wait of the call, while the guard exists: if its time ends meanwhile, the error says so.
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

    /// Tells whether the call is suspended without waiting for anything.
    pub(crate) fn is_preempted(&self) -> bool {
        self.is_preempted.get()
    }

    /// Marks the call as no longer awaited: it ends as soon as it can.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.set(true);
    }
}

/// The wait of a call for something besides time.
pub(crate) struct WaitingFor<'a>(&'a Budget);

impl Drop for WaitingFor<'_> {
    fn drop(&mut self) {
        self.0.waiting_for.take();
    }
}
