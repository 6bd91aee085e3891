//! The allocator of the binary and of tests: it counts the bytes that the running fiber has allocated and not freed yet.
//!
//! Why the `unsafe` here is sound: every method passes its arguments on unchanged, and returns the result of the wrapped allocator. The counts
//! are thread-local cells that are initialised by constants and never dropped, so that counting neither allocates nor panics.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use super::limit::Limit;

/// Wraps an allocator, and counts for each thread what the code that runs on it holds.
pub struct Accounting<A>(
    /// The wrapped allocator.
    pub A,
);

/// What the running code has allocated on its thread, and may allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    /// The bytes that were allocated and not freed; less than zero if memory of others was freed.
    pub live: isize,
    /// The bytes that were ever allocated.
    pub total: usize,
    /// The limit of live bytes. Allocations do not fail beyond it: it is checked between operations, and by [`reserve`].
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

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
    static LIMIT: Cell<isize> = const { Cell::new(isize::MAX) };
    static REFUSED: Cell<Option<Limit>> = const { Cell::new(None) };
}

/// Returns the account of the code that runs on this thread.
#[inline(never)]
pub(crate) fn running() -> Account {
    Account { live: LIVE.get(), total: TOTAL.get(), limit: LIMIT.get(), refused: REFUSED.get() }
}

/// Installs the account of the code that runs on this thread from here on, and returns that of the code before.
#[inline(never)]
pub(crate) fn switch(account: Account) -> Account {
    let Account { live, total, limit, refused } = account;
    Account { live: LIVE.replace(live), total: TOTAL.replace(total), limit: LIMIT.replace(limit), refused: REFUSED.replace(refused) }
}

/// Returns the limit that the running call has exceeded, if it has: it holds too much, or a function has refused to hold more. Freeing memory
/// does not undo that.
#[inline(never)]
pub(crate) fn exceeded() -> Option<Limit> {
    if LIVE.get() > LIMIT.get() {
        refuse(Limit::Memory);
    }
    REFUSED.get()
}

/// Tells whether the running call may hold this many bytes more. If not, it is ended before its next operation.
#[inline(never)]
pub(crate) fn reserve(bytes: usize) -> bool {
    let fits = isize::try_from(bytes).is_ok_and(|bytes| LIVE.get().saturating_add(bytes) <= LIMIT.get());
    if !fits {
        refuse(Limit::Memory);
    }
    fits
}

/// Ends the running call before its next operation.
#[inline(never)]
pub(crate) fn refuse(limit: Limit) {
    if REFUSED.get().is_none() {
        REFUSED.set(Some(limit));
    }
}

/// Forgets that the running call has freed memory of others, which would let it hold more than its limit.
#[inline(never)]
pub(crate) fn settle() {
    LIVE.set(LIVE.get().max(0));
}

/// Lets the running call hold at least this many bytes more: some of what it has allocated was given to other tasks, which free it.
#[inline(never)]
pub(crate) fn allow(bytes: isize) {
    LIVE.set(LIVE.get().min(LIMIT.get().saturating_sub(bytes)));
}

/// Counts bytes of the running call that it has not allocated itself, such as the stack of one of its fibers; less than zero takes them back.
#[inline(never)]
pub(crate) fn charge(bytes: isize) {
    LIVE.set(LIVE.get().wrapping_add(bytes));
}

/// Runs code whose allocations do not belong to the running call, such as log lines, which another thread frees.
pub(crate) fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    let before = LIVE.get();
    let result = run();
    LIVE.set(before);
    result
}

#[inline]
fn add(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_add_unsigned(bytes));
    TOTAL.set(TOTAL.get().wrapping_add(bytes));
}

#[inline]
fn remove(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_sub_unsigned(bytes));
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
