//! The allocator of the binary and of tests: it counts the bytes that the running fiber has allocated and not freed
//! yet.
//!
//! Why the `unsafe` here is sound: every method passes its arguments on unchanged, and returns the result of the
//! wrapped allocator. The counts are thread-local cells that are initialised by constants and never dropped, so that
//! counting neither allocates nor panics.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use super::limit::Limit;

/// Wraps an allocator, and counts for each thread what the code that runs on it holds.
pub struct Accounting<A>(
    /// The wrapped allocator.
    pub A,
);

/// The allocations of the running code on its thread, and their limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    /// The bytes that were allocated and not freed; less than zero if memory of others was freed.
    pub live: isize,
    /// The bytes that were ever allocated.
    pub total: usize,
    /// The limit of live bytes. Allocations do not fail beyond it: it is checked between operations, and by
    /// [`reserve`].
    pub limit: isize,
    /// The limit that made a function refuse its work.
    pub refused: Option<Limit>,
}

impl Account {
    /// Returns the account of a call with a limit of bytes.
    pub(crate) fn limited(bytes: u64) -> Self {
        Self { live: 0, total: 0, limit: isize::try_from(bytes).unwrap_or(isize::MAX), refused: None }
    }
}

/// The account of the code that runs on a thread.
struct Running {
    live: Cell<isize>,
    total: Cell<usize>,
    limit: Cell<isize>,
    refused: Cell<Option<Limit>>,
}

thread_local! {
    static RUNNING: Running = const {
        Running { live: Cell::new(0), total: Cell::new(0), limit: Cell::new(isize::MAX), refused: Cell::new(None) }
    };
}

impl Running {
    fn refuse(&self, limit: Limit) {
        if self.refused.get().is_none() {
            self.refused.set(Some(limit));
        }
    }
}

/// Returns the account of the code that runs on this thread.
#[inline(never)]
pub(crate) fn running() -> Account {
    RUNNING.with(|running| Account {
        live: running.live.get(),
        total: running.total.get(),
        limit: running.limit.get(),
        refused: running.refused.get(),
    })
}

/// Installs the account of the code that runs on this thread from here on, and returns that of the code before.
#[inline(never)]
pub(crate) fn switch(account: Account) -> Account {
    let Account { live, total, limit, refused } = account;
    RUNNING.with(|running| Account {
        live: running.live.replace(live),
        total: running.total.replace(total),
        limit: running.limit.replace(limit),
        refused: running.refused.replace(refused),
    })
}

/// Returns the limit that the running call has exceeded, if it has: it holds too much, or a function has refused to
/// hold more. Freeing memory does not undo that.
#[inline(never)]
pub(crate) fn exceeded() -> Option<Limit> {
    RUNNING.with(|running| {
        if running.live.get() > running.limit.get() {
            running.refuse(Limit::Memory);
        }
        running.refused.get()
    })
}

/// Tells whether the running call may hold this many bytes more. If not, it is ended before its next operation.
#[inline(never)]
pub(crate) fn reserve(bytes: usize) -> bool {
    RUNNING.with(|running| {
        let fits =
            isize::try_from(bytes).is_ok_and(|bytes| running.live.get().saturating_add(bytes) <= running.limit.get());
        if !fits {
            running.refuse(Limit::Memory);
        }
        fits
    })
}

/// Ends the running call before its next operation.
#[inline(never)]
pub(crate) fn refuse(limit: Limit) {
    RUNNING.with(|running| running.refuse(limit));
}

/// Forgets that the running call has freed memory of others, which would let it hold more than its limit.
#[inline(never)]
pub(crate) fn settle() {
    RUNNING.with(|running| running.live.set(running.live.get().max(0)));
}

/// Lets the running call hold at least this many bytes more: some of what it has allocated was given to other tasks,
/// which free it.
#[inline(never)]
pub(crate) fn allow(bytes: isize) {
    RUNNING.with(|running| running.live.set(running.live.get().min(running.limit.get().saturating_sub(bytes))));
}

/// Counts bytes of the running call that it has not allocated itself, such as the stack of one of its fibers; less than
/// zero takes them back.
#[inline(never)]
pub(crate) fn charge(bytes: isize) {
    RUNNING.with(|running| running.live.set(running.live.get().wrapping_add(bytes)));
}

/// Runs code whose allocations do not belong to the running call, such as log lines, which another thread frees.
pub(crate) fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    let before = RUNNING.with(|running| running.live.get());
    let result = run();
    RUNNING.with(|running| running.live.set(before));
    result
}

#[expect(clippy::inline_always, reason = "optimised for size, it would be called, hundreds of times for each event")]
#[inline(always)]
fn add(bytes: usize) {
    RUNNING.with(|running| {
        running.live.set(running.live.get().wrapping_add_unsigned(bytes));
        running.total.set(running.total.get().wrapping_add(bytes));
    });
}

#[expect(clippy::inline_always, reason = "as `add`")]
#[inline(always)]
fn remove(bytes: usize) {
    RUNNING.with(|running| running.live.set(running.live.get().wrapping_sub_unsigned(bytes)));
}

#[expect(unsafe_code, reason = "it forwards to another allocator")]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Accounting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        remove(layout.size());
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        remove(layout.size());
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
