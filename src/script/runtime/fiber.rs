//! A script as a future: it runs on its own stack, and suspends when a host function has to wait.
//!
//! Why its two `unsafe` expressions are sound (`stack_pages.rs` explains the third one, which returns unused pages):
//!
//! * A fiber is polled only on the thread that created it: it is neither `Send` nor `Sync`.
//! * [`CURRENT`] points to the yielder of the fiber that runs. It is set when a fiber is resumed, and reset when it is
//!   suspended or ends, also by a panic. The yielder lives on the fiber's stack as long as its function.
//! * [`Ask`] points to a step on the stack of a suspended fiber, which waits for it and does nothing else. It is used
//!   by the fiber's own future only, and released before the fiber continues.
//! * The future a fiber waits for is polled on the stack of the fiber's poller: nothing is current there, so that
//!   another fiber, polled inside of it, cannot be mixed up with this one. The part of the stack that the poll needs is
//!   not kept during the wait.
//! * Thread-locals are reached through functions that are not inlined, so that no address of one is kept across a
//!   suspension.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::budget::Budget;
use super::overflow::{self, Running};
use super::stack_pages;
use crate::script::limits::allocator::{self, Account};

/// The size of a fiber's stack. Only touched pages take memory, as long as it is smaller than a huge page of 2 MiB: a
/// kernel that gives huge pages to everything would otherwise give each fiber one.
const STACK_SIZE: usize = if cfg!(debug_assertions) { 12 << 20 } else { (2 << 20) - (64 << 10) };

/// The part of the stack reserved for native functions, which do not check its size: converting, comparing, printing
/// and dropping nested values recurses. The rest is for scripts: 64 levels of closures called by `map` take 0.8 MiB.
const STACK_RESERVE: usize = if cfg!(debug_assertions) { 8 << 20 } else { 1 << 20 };

/// The number of unused stacks that a thread keeps. Their touched pages stay in memory, so this also limits memory.
const POOLED_STACKS: usize = 256;

/// How often an abandoned script is resumed until it ends by itself. Each of its waits fails at once, so two would
/// suffice.
const LAST_RESUMES: usize = 1_000;

/// One poll of the future that a fiber waits for; returns whether the wait is over.
type Step<'a> = &'a mut dyn FnMut(&mut Context<'_>) -> bool;

/// The step that a suspended fiber waits for.
#[derive(Clone, Copy)]
struct Ask {
    /// Points to its step.
    step: *mut (),
    /// An address below which the stack is unused, if the wait is long.
    unused_below: Option<usize>,
}

type Suspender = Yielder<(), Ask>;
type Ended<T> = Result<T, Box<dyn Any + Send>>;

thread_local! {
    static CURRENT: Cell<*const Suspender> = const { Cell::new(ptr::null()) };
    static RUNNING: RefCell<Option<Rc<Budget>>> = const { RefCell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A script that runs, waits, or has not begun.
pub(crate) struct Fiber<T: 'static> {
    coroutine: Option<Coroutine<(), Ask, Ended<T>, DefaultStack>>,
    asked: Option<Ask>,
    budget: Rc<Budget>,
    /// The memory of the call; `None` if the fiber is polled by another one of the call, whose account is installed.
    account: Option<Account>,
    running: Running,
    /// The lowest address of the stack.
    lowest: usize,
}

impl<T: 'static> Fiber<T> {
    /// Returns a fiber that will run a function within a budget, which host functions and the interpreter find by
    /// [`with_budget`].
    ///
    /// # Errors
    /// If there is no memory for a stack.
    pub(crate) fn new(budget: Rc<Budget>, function: impl FnOnce() -> T + 'static) -> std::io::Result<Self> {
        let account = budget.account();
        Self::with_account(budget, Some(account), function)
    }

    /// Returns a fiber of a call that has one already. It must be polled and dropped on that fiber, or by the future
    /// that it waits for.
    ///
    /// # Errors
    /// If there is no memory for a stack.
    pub(crate) fn of_child(budget: Rc<Budget>, function: impl FnOnce() -> T + 'static) -> std::io::Result<Self> {
        Self::with_account(budget, None, function)
    }

    fn with_account(
        budget: Rc<Budget>,
        account: Option<Account>,
        function: impl FnOnce() -> T + 'static,
    ) -> std::io::Result<Self> {
        let stack = match STACKS.with(|stacks| stacks.borrow_mut().pop()) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_SIZE)?,
        };
        overflow::install();
        let limit = stack.limit().get();
        budget.set_stack_floor(limit + STACK_RESERVE);
        let coroutine = Coroutine::with_stack(stack, move |suspender: &Suspender, ()| {
            set_current(ptr::from_ref(suspender));
            catch_unwind(AssertUnwindSafe(function))
        });
        let running = Running::new(limit, budget.title());
        Ok(Self { coroutine: Some(coroutine), asked: None, budget, account, running, lowest: limit })
    }

    /// Runs until the script ends or has to wait.
    fn resume(&mut self, context: &mut Context<'_>) -> Poll<Ended<T>> {
        let Some(account) = self.account else { return self.run(context) };
        let outer = allocator::switch(account);
        let resumed = self.run(context);
        let account = allocator::switch(outer);
        self.account = Some(account);
        self.budget.report(account.live);
        resumed
    }

    /// Neither the script nor the future that it waits for can panic out of here.
    fn run(&mut self, context: &mut Context<'_>) -> Poll<Ended<T>> {
        let coroutine = self.coroutine.as_mut().expect("a fiber is not polled after its end");
        loop {
            if let Some(ask) = &mut self.asked {
                if !answer(*ask, context) {
                    if let Some(unused_below) = ask.unused_below.take() {
                        stack_pages::release(self.lowest, unused_below);
                    }
                    return Poll::Pending;
                }
                self.asked = None;
            }
            self.budget.begin_slice();
            let installed = Installed::new(Rc::clone(&self.budget), self.running);
            let resumed = coroutine.resume(());
            drop(installed);
            match resumed {
                CoroutineResult::Yield(ask) => self.asked = Some(ask),
                CoroutineResult::Return(ended) => {
                    self.coroutine.take().into_iter().for_each(|coroutine| keep(coroutine.into_stack()));
                    return Poll::Ready(ended);
                }
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

/// A suspended script is not simply unwound: the interpreter catches unwinding while it sorts, and would continue. So
/// it is asked to end, resumed until it returns, and unwound only if it does not.
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

/// The state installed while a fiber runs; the previous state is restored afterwards, so that polls may nest.
struct Installed {
    outer: *const Suspender,
    outer_budget: Option<Rc<Budget>>,
    outer_running: Running,
}

impl Installed {
    /// The title in `running` belongs to the budget, which is kept meanwhile.
    fn new(budget: Rc<Budget>, running: Running) -> Self {
        let outer_budget = RUNNING.with(|running| running.replace(Some(budget)));
        Self { outer: current(), outer_budget, outer_running: overflow::switch(running) }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        set_current(self.outer);
        overflow::switch(self.outer_running);
        let outer_budget = self.outer_budget.take();
        RUNNING.with(|running| running.replace(outer_budget));
    }
}

#[inline(never)]
fn current() -> *const Suspender {
    CURRENT.with(Cell::get)
}

#[inline(never)]
fn set_current(current: *const Suspender) {
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

/// Calls a function with the budget of the fiber that runs on this thread; returns `None` outside of fibers. The
/// function must not wait.
#[inline(never)]
pub(crate) fn with_budget<T>(question: impl FnOnce(&Budget) -> T) -> Option<T> {
    RUNNING.with(|running| running.borrow().as_deref().map(question))
}

/// Tells whether the current code runs on a fiber and may wait.
pub(crate) fn is_fiber() -> bool {
    !current().is_null()
}

/// Waits for a future inside of a fiber. The thread runs other tasks in the meantime.
///
/// The caller must not hold anything that others need: no borrowed cell, no lock.
///
/// # Panics
/// Outside of fibers.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    wait_until_ready(future, false)
}

/// Waits for a future that takes long, a second at least. It differs from [`wait`] in that the unused part of the stack
/// is returned to the system meanwhile, which costs some microseconds.
///
/// # Panics
/// Outside of fibers.
pub(crate) fn rest<F: Future>(future: F) -> F::Output {
    wait_until_ready(future, true)
}

fn wait_until_ready<F: Future>(future: F, is_long: bool) -> F::Output {
    let mut future = pin!(future);
    let suspender = current();
    assert!(!suspender.is_null(), "only fibers wait");
    let mut output = None;
    let mut poll = |context: &mut Context<'_>| {
        // A panic belongs to the waiting script, not to its poller.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(value)) => output = Some(Ok(value)),
            Err(panic) => output = Some(Err(panic)),
        }
        true
    };
    let mut step: Step<'_> = &mut poll;
    suspend(suspender, ptr::from_mut(&mut step).cast(), is_long);
    set_current(suspender);
    match output.expect("a fiber goes on when its wait is over") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// Its frame is below those of all functions of the fiber.
#[inline(never)]
fn suspend(suspender: *const Suspender, step: *mut (), is_long: bool) {
    let innermost = 0_u8;
    let unused_below = is_long.then(|| ptr::from_ref(&innermost).addr());
    yielder(suspender).suspend(Ask { step, unused_below });
}

#[expect(unsafe_code, reason = "the step lives on the stack of a fiber that is suspended for it")]
fn answer(ask: Ask, context: &mut Context<'_>) -> bool {
    let step = unsafe { &mut *ask.step.cast::<Step<'_>>() };
    step(context)
}

#[expect(unsafe_code, reason = "the yielder lives on the stack of the fiber that runs this very line")]
fn yielder<'a>(suspender: *const Suspender) -> &'a Suspender {
    unsafe { &*suspender }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kit::Stop;
    use crate::script::limits::Limits;

    fn fiber<T>(function: impl FnOnce() -> T + 'static) -> Fiber<T> {
        Fiber::new(Rc::new(Budget::new(&Limits::default(), Stop::new())), function).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn fibers_wait_beside_each_other() {
        let fibers = (0..500).map(|number| {
            fiber(move || {
                wait(tokio::time::sleep(Duration::from_secs(number % 7)));
                wait(async { number })
            })
        });
        let begun = tokio::time::Instant::now();
        let ended = futures::future::join_all(fibers).await;
        assert_eq!(ended.into_iter().map(Result::unwrap).sum::<u64>(), 500 * 499 / 2);
        assert_eq!(begun.elapsed().as_secs(), 6);
    }

    #[tokio::test]
    async fn a_panic_before_during_or_after_a_wait_is_the_fiber_s_own() {
        assert!(fiber(|| panic!("before")).await.is_err());
        assert!(fiber(|| wait(async { panic!("during") })).await.is_err());
        let after = || {
            wait(tokio::task::yield_now());
            panic!("after")
        };
        assert!(fiber(after).await.is_err());
        assert_eq!(fiber(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_fiber_within_a_wait_is_not_mixed_up_with_the_outer_one() {
        let outer = fiber(|| {
            let inner = wait(fiber(|| {
                wait(tokio::task::yield_now());
                is_fiber()
            }));
            wait(tokio::task::yield_now());
            inner.unwrap()
        });
        assert!(outer.await.unwrap());
        assert!(!is_fiber());
    }

    /// Uses the stack, and returns the sum of what is on it.
    #[inline(never)]
    fn dig(depth: usize) -> usize {
        let mut page = [depth; 512];
        std::hint::black_box(&mut page);
        let below = if depth == 0 { 0 } else { dig(depth - 1) };
        below + page.iter().sum::<usize>() / page.len()
    }

    /// Returns the resident memory besides the program's file.
    #[cfg(target_os = "linux")]
    fn resident_kilobytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        anonymous.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn a_long_wait_returns_the_unused_part_of_the_stack() {
        let before = resident_kilobytes();
        let mut fibers: Vec<_> = (0..100)
            .map(|_| {
                fiber(|| {
                    let kept = [1_usize; 512];
                    let first = dig(100);
                    rest(tokio::time::sleep(Duration::from_mins(1)));
                    first + dig(100) + kept.iter().sum::<usize>()
                })
            })
            .collect();
        let mut context = Context::from_waker(futures::task::noop_waker_ref());
        for fiber in &mut fibers {
            assert!(Pin::new(fiber).poll(&mut context).is_pending());
        }
        let held = resident_kilobytes().saturating_sub(before);
        assert!(held < 100 * 64, "100 resting fibers that have used 400 KiB each hold {held} KiB");
        for ended in futures::future::join_all(fibers).await {
            assert_eq!(ended.unwrap(), 5050 * 2 + 512);
        }
    }

    #[test]
    fn a_dropped_fiber_drops_what_it_holds() {
        let held = Rc::new(());
        let (started, fresh) = (Rc::clone(&held), Rc::clone(&held));
        let mut suspended = fiber(move || {
            wait(std::future::pending::<()>());
            drop(started);
        });
        let mut context = Context::from_waker(futures::task::noop_waker_ref());
        assert!(Pin::new(&mut suspended).poll(&mut context).is_pending());
        drop((suspended, fiber(move || drop(fresh))));
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
