//! A script as a future: it runs on a stack of its own, and suspends when a host function has to wait.
//!
//! This is the only file with `unsafe`, two expressions of it. Why they are sound:
//!
//! * A fiber is polled on the thread that made it only: it is neither `Send` nor `Sync`.
//! * [`CURRENT`] points to the yielder and to the waker's context of the poll in progress. It is set when a fiber is resumed,
//!   and reset when it is suspended or ends, also by a panic. Both pointees outlive the time between: the yielder lives on the
//!   fiber's stack as long as its function, the context belongs to the caller of the poll that waits for us to come back.
//! * While [`wait`] polls a future, nothing is current, so that a fiber polled inside of it, or a `wait` inside of it, cannot
//!   take the outer fiber for its own.
//! * Thread-locals are reached through functions that are not inlined, so that no address of one is kept across a suspension.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::budget::Budget;

/// The size of a fiber's stack. Only what is touched takes memory. 64 levels of closures called by `map` take 0.8 MiB.
const STACK_SIZE: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };

/// The part of the stack that is kept for native functions, which check nothing.
const STACK_RESERVE: usize = if cfg!(debug_assertions) { 512 << 10 } else { 128 << 10 };

/// The unused stacks that a thread keeps. Their touched pages stay in memory, so this is a bound for that, too.
const POOLED_STACKS: usize = 256;

/// How often an abandoned script is resumed so that it ends by itself. Each of its waits fails at once, so two would do.
const LAST_RESUMES: usize = 1_000;

/// The context of the poll in progress, its lifetime erased; only valid until the next suspension.
#[derive(Clone, Copy)]
struct Poller(*mut Context<'static>);

type Suspender = Yielder<Poller, ()>;
type Ended<T> = Result<T, Box<dyn Any + Send>>;

thread_local! {
    static CURRENT: Cell<(*const Suspender, Poller)> = const { Cell::new(NOTHING) };
    static RUNNING: RefCell<Option<Rc<Budget>>> = const { RefCell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

const NOTHING: (*const Suspender, Poller) = (ptr::null(), Poller(ptr::null_mut()));

/// A script that runs, waits, or has not begun.
pub struct Fiber<T: 'static> {
    coroutine: Option<Coroutine<Poller, (), Ended<T>, DefaultStack>>,
    budget: Rc<Budget>,
}

impl<T: 'static> Fiber<T> {
    /// Returns a fiber that will run a function within a budget, which host functions and the interpreter find by [`with_budget`].
    ///
    /// # Errors
    /// If there is no memory for a stack.
    pub fn new(budget: Rc<Budget>, function: impl FnOnce() -> T + 'static) -> std::io::Result<Self> {
        let stack = match STACKS.with(|stacks| stacks.borrow_mut().pop()) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_SIZE)?,
        };
        budget.set_stack_floor(stack.limit().get() + STACK_RESERVE);
        let coroutine = Coroutine::with_stack(stack, move |suspender: &Suspender, poller| {
            set_current((ptr::from_ref(suspender), poller));
            catch_unwind(AssertUnwindSafe(function))
        });
        Ok(Self { coroutine: Some(coroutine), budget })
    }

    fn resume(&mut self, context: &mut Context<'_>) -> Poll<Ended<T>> {
        let coroutine = self.coroutine.as_mut().expect("a fiber is not polled after its end");
        let resumed = {
            let _installed = Installed::new(Rc::clone(&self.budget));
            coroutine.resume(Poller(ptr::from_mut(context).cast()))
        };
        match resumed {
            CoroutineResult::Yield(()) => Poll::Pending,
            CoroutineResult::Return(ended) => {
                self.coroutine.take().into_iter().for_each(|coroutine| keep(coroutine.into_stack()));
                Poll::Ready(ended)
            }
        }
    }
}

impl<T: 'static> Future for Fiber<T> {
    type Output = Ended<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.resume(context)
    }
}

/// A suspended script is not simply unwound: the interpreter catches the unwinding where it sorts, and would go on.
/// So it is told to end, resumed until it has, and unwound only if it does not.
impl<T: 'static> Drop for Fiber<T> {
    fn drop(&mut self) {
        let is_suspended = self.coroutine.as_ref().is_some_and(|coroutine| coroutine.started() && !coroutine.done());
        if !is_suspended {
            return;
        }
        self.budget.abandon();
        let mut context = Context::from_waker(futures::task::noop_waker_ref());
        for _ in 0..LAST_RESUMES {
            if self.resume(&mut context).is_ready() {
                return;
            }
        }
    }
}

/// What is installed while a fiber runs; what was there before comes back afterwards, so that polls may nest.
struct Installed {
    outer: (*const Suspender, Poller),
    outer_budget: Option<Rc<Budget>>,
}

impl Installed {
    fn new(budget: Rc<Budget>) -> Self {
        Self { outer: current(), outer_budget: RUNNING.with(|running| running.replace(Some(budget))) }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        set_current(self.outer);
        let outer_budget = self.outer_budget.take();
        RUNNING.with(|running| running.replace(outer_budget));
    }
}

#[inline(never)]
fn current() -> (*const Suspender, Poller) {
    CURRENT.with(Cell::get)
}

#[inline(never)]
fn set_current(current: (*const Suspender, Poller)) {
    CURRENT.with(|cell| cell.set(current));
}

fn keep(stack: DefaultStack) {
    STACKS.with(|stacks| {
        let mut stacks = stacks.borrow_mut();
        if stacks.len() < POOLED_STACKS {
            stacks.push(stack);
        }
    });
}

/// Asks the budget of the fiber that runs on this thread; nothing outside of fibers. The question must not wait.
#[inline(never)]
pub fn with_budget<T>(question: impl FnOnce(&Budget) -> T) -> Option<T> {
    RUNNING.with(|running| running.borrow().as_deref().map(question))
}

/// Tells whether a fiber runs here, which may wait.
pub fn is_fiber() -> bool {
    !current().0.is_null()
}

/// Waits for a future inside of a fiber. The thread does other things meanwhile.
///
/// The caller must not hold anything that others could ask for: no borrowed cell, no lock.
///
/// # Panics
/// Outside of fibers.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (suspender, mut poller) = current();
    assert!(!suspender.is_null(), "only fibers wait");
    loop {
        set_current(NOTHING);
        let polled = poll_once(future.as_mut(), poller);
        set_current((suspender, poller));
        match polled {
            Poll::Ready(value) => return value,
            Poll::Pending => poller = suspend(suspender),
        }
    }
}

#[inline(never)]
#[expect(unsafe_code, reason = "the context outlives the poll in progress, and nobody else uses it meanwhile")]
fn poll_once<F: Future>(future: Pin<&mut F>, poller: Poller) -> Poll<F::Output> {
    future.poll(unsafe { &mut *poller.0 })
}

#[inline(never)]
#[expect(unsafe_code, reason = "the suspender lives on the stack of the fiber that runs this very line")]
fn suspend(suspender: *const Suspender) -> Poller {
    let poller = unsafe { &*suspender }.suspend(());
    set_current((suspender, poller));
    poller
}

/// Lets other tasks of the thread go first.
pub async fn yield_now() {
    let mut is_over = false;
    std::future::poll_fn(|context| {
        if is_over {
            return Poll::Ready(());
        }
        is_over = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
