//! The fibers of one call besides its first one: the functions of `parallel`, which wait at the same time.
//!
//! They are polled by the future that the waiting fiber of the call waits for, so they never leave its thread, and its
//! memory account is installed. Between two waits of one of them no other one runs, as for the calls of one object.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use rhai::EvalAltResult;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::budget::{Budget, Ending};
use super::fiber::Fiber;
use super::rounds;
use crate::script::limits::allocator;

/// The levels of nested waits for functions.
pub(crate) const MAX_LEVELS: usize = 3;

/// How many fibers of one call run at once, on all levels. On a level, one may always run.
pub(crate) const MAX_AT_ONCE: usize = 64;

/// How many such fibers of each level the process has at once. A fiber takes two memory mappings, and the process dies
/// without them: those of the calls, and of these levels, stay below the 65,530 that Linux allows. A level waits for
/// the next one only, so the waits end.
const PLACES_PER_LEVEL: usize = 2_000;

static PLACES: [Semaphore; MAX_LEVELS] = [const { Semaphore::const_new(PLACES_PER_LEVEL) }; MAX_LEVELS];

/// The memory that the stack of a fiber counts as in its call.
const STACK_BYTES: isize = 64 << 10;

type Thrown = Box<EvalAltResult>;

/// A function that gets the budget of its fiber.
pub(crate) type Task<V> = Box<dyn FnOnce(Rc<Budget>) -> Result<V, Thrown>>;

/// The reason why not all functions have returned. The others are ended.
#[derive(Debug)]
pub(crate) enum Failed {
    /// One has thrown an error.
    Thrown(Thrown),
    /// The call must end, as one of them has found; with its error, if there is one.
    Ended(Ending, Option<Thrown>),
    /// The interpreter has panicked.
    Panicked(Box<dyn Any + Send>),
    /// There is no memory for a stack.
    NoStack(std::io::Error),
}

/// Runs functions on fibers of their own, up to a number at once. Its value is that of the functions, in their order.
pub(crate) struct Children<V: 'static> {
    parent: Rc<Budget>,
    places: &'static Semaphore,
    limit: usize,
    tasks: std::iter::Enumerate<std::vec::IntoIter<Task<V>>>,
    place: Option<LocalBoxFuture<'static, SemaphorePermit<'static>>>,
    running: Vec<Child<V>>,
    /// The next one to poll. It is not the first one if one computes, or others of the thread were let run.
    position: usize,
    round: Option<LocalBoxFuture<'static, ()>>,
    values: Vec<Option<V>>,
}

/// A function that has begun.
struct Child<V: 'static> {
    index: usize,
    budget: Rc<Budget>,
    fiber: Option<Fiber<Result<V, Thrown>>>,
    count: Rc<Cell<usize>>,
    _place: SemaphorePermit<'static>,
}

impl<V: 'static> Child<V> {
    fn new(index: usize, task: Task<V>, parent: &Rc<Budget>, place: SemaphorePermit<'static>) -> std::io::Result<Self> {
        let budget = Rc::new(parent.of_child());
        let own = Rc::clone(&budget);
        let fiber = Fiber::of_child(Rc::clone(&budget), move || task(own))?;
        let count = Rc::clone(parent.children());
        count.set(count.get() + 1);
        allocator::charge(STACK_BYTES);
        Ok(Self { index, budget, fiber: Some(fiber), count, _place: place })
    }
}

/// A function that has not ended is ended here, on the stack of the fiber that waits for it.
impl<V: 'static> Drop for Child<V> {
    fn drop(&mut self) {
        self.fiber = None;
        self.budget.held().release();
        self.count.set(self.count.get().saturating_sub(1));
        allocator::charge(-STACK_BYTES);
    }
}

impl<V: 'static> Children<V> {
    /// Returns a future that only the fiber of this budget may wait for. The budget must not be on the last level.
    pub(crate) fn new(parent: &Rc<Budget>, tasks: Vec<Task<V>>, limit: usize) -> Self {
        let level = parent.lineage().count() - 1;
        Self {
            parent: Rc::clone(parent),
            places: &PLACES[level],
            limit: limit.clamp(1, MAX_AT_ONCE),
            values: tasks.iter().map(|_| None).collect(),
            tasks: tasks.into_iter().enumerate(),
            place: None,
            running: Vec::new(),
            position: 0,
            round: None,
        }
    }

    /// Begins as many functions as may run at once.
    fn begin(&mut self, context: &mut Context<'_>) -> Result<(), Failed> {
        while self.tasks.len() > 0 && self.running.len() < self.limit {
            if !self.running.is_empty() && self.parent.children().get() >= MAX_AT_ONCE {
                return Ok(());
            }
            let places = self.places;
            let place = self.place.get_or_insert_with(|| {
                async { places.acquire().await.expect("the semaphore is never closed") }.boxed_local()
            });
            let Poll::Ready(place) = place.as_mut().poll(context) else { return Ok(()) };
            self.place = None;
            if let Some((index, task)) = self.tasks.next() {
                self.running.push(Child::new(index, task, &self.parent, place).map_err(Failed::NoStack)?);
            }
        }
        Ok(())
    }

    /// Runs a function until it waits or ends. Returns whether it has ended.
    fn resume(&mut self, position: usize, context: &mut Context<'_>) -> Result<bool, Failed> {
        let child = &mut self.running[position];
        let fiber = child.fiber.as_mut().expect("a function runs until it is dropped");
        let Poll::Ready(ended) = Pin::new(fiber).poll(context) else { return Ok(false) };
        let child = self.running.remove(position);
        let ended = ended.map_err(Failed::Panicked)?;
        if let Some(ending) = child.budget.ending() {
            return Err(Failed::Ended(ending, ended.err()));
        }
        self.values[child.index] = Some(ended.map_err(Failed::Thrown)?);
        Ok(true)
    }

    fn run(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.parent.set_preempted(false);
        self.parent.begin_slice();
        // Those before the position may have been woken meanwhile.
        let mut is_complete = self.position == 0;
        loop {
            if let Some(round) = &mut self.round {
                if round.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.round = None;
                self.parent.begin_slice();
            }
            // One that computes goes on before another one begins.
            if self.position == 0
                && let Err(failed) = self.begin(context)
            {
                return Poll::Ready(Err(failed));
            }
            if self.running.is_empty() && self.tasks.len() == 0 {
                return Poll::Ready(Ok(()));
            }
            while let Some(child) = self.running.get(self.position) {
                let budget = Rc::clone(&child.budget);
                match self.resume(self.position, context) {
                    Err(failed) => return Poll::Ready(Err(failed)),
                    Ok(true) => {
                        if let Err(failed) = self.begin(context) {
                            return Poll::Ready(Err(failed));
                        }
                    }
                    Ok(false) if budget.is_preempted() => {
                        // The other calls of the object do not run, either.
                        self.parent.set_preempted(true);
                        return Poll::Pending;
                    }
                    Ok(false) => self.position += 1,
                }
                if self.parent.is_slice_over() {
                    self.round = Some(rounds::next().boxed_local());
                    break;
                }
            }
            if self.round.is_some() {
                is_complete = false;
                continue;
            }
            self.position = 0;
            if is_complete && (!self.running.is_empty() || self.tasks.len() > 0) {
                return Poll::Pending;
            }
            is_complete = true;
        }
    }
}

impl<V: 'static> Future for Children<V> {
    type Output = Result<Vec<V>, Failed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The values are moved only, never pinned.
        let this = &mut *self;
        match this.run(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(failed)) => Poll::Ready(Err(failed)),
            Poll::Ready(Ok(())) => Poll::Ready(Ok(std::mem::take(&mut this.values).into_iter().flatten().collect())),
        }
    }
}

impl<V: 'static> Unpin for Children<V> {}

/// The functions end before the fiber that waits for them goes on.
impl<V: 'static> Drop for Children<V> {
    fn drop(&mut self) {
        self.parent.set_preempted(false);
        self.running.clear();
    }
}
