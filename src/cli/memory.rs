//! The allocator of the program, and how it returns unused memory to the operating system.
//!
//! It keeps what was freed for a second, since it may be needed again, and looks for it only when further memory is
//! freed. So an operator that has nothing to do after a burst would keep all of the memory of the burst. It also keeps
//! an empty page of up to 4 MiB for each size of blocks, and gives it up only after several calls.

use std::alloc::{GlobalAlloc, Layout};
use std::time::Duration;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// After which time of a process unused memory is first returned: a start needs more than what follows.
const FIRST: Duration = Duration::from_secs(2);

/// How often unused memory is returned. It takes a tenth of a millisecond if there is none, and a few milliseconds for
/// 10 MB.
const INTERVAL: Duration = Duration::from_secs(10);

/// Returns unused memory regularly. Never ends.
pub(super) async fn release_regularly() {
    tokio::time::sleep(FIRST).await;
    loop {
        Heap::release_unused();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Memory of mimalloc. Requests without a special alignment take its direct way, which ignores the alignment: half of
/// the instructions.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

impl Heap {
    /// Returns the unused memory of this thread to the operating system at once. Without force, mimalloc would keep
    /// empty pages for 4 to 16 calls. If the process has another allocator, this does nothing.
    #[expect(
        unsafe_code,
        reason = "a foreign function without arguments that could be wrong; it may be called at any time on any thread"
    )]
    pub fn release_unused() {
        unsafe { libmimalloc_sys::mi_collect(true) }
    }
}

/// The alignment of all memory of mimalloc.
const ALIGNMENT: usize = 8;

#[expect(unsafe_code, reason = "it forwards to mimalloc, whose functions have the contracts of an allocator")]
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        unsafe { if alignment <= ALIGNMENT { mi_malloc(size) } else { mi_malloc_aligned(size, alignment) } }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        unsafe { if alignment <= ALIGNMENT { mi_zalloc(size) } else { mi_zalloc_aligned(size, alignment) } }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, _layout: Layout) {
        unsafe { mi_free(pointer.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (pointer, alignment) = (pointer.cast(), layout.align());
        unsafe {
            if alignment <= ALIGNMENT {
                mi_realloc(pointer, size)
            } else {
                mi_realloc_aligned(pointer, size, alignment)
            }
        }
        .cast()
    }
}
