//! The allocator of the program, and how it returns unused memory to the operating system.
//!
//! It keeps what was freed for a second, since it may be needed again, and looks for it only when further memory is
//! freed. So an operator that has nothing to do after a burst would keep all of the memory of the burst. It also keeps
//! an empty page of up to 4 MiB for each size of blocks until it was asked for memory several times.

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
        release();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns all unused memory of this thread, also that which was in use until now: without force, each call counts as
/// one of the 4 to 16 requests after which empty pages are given up. If the process has another allocator, this does
/// nothing.
#[expect(
    unsafe_code,
    reason = "a foreign function without arguments that could be wrong; it may be called at any time on any thread"
)]
fn release() {
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Memory of mimalloc. Requests without a special alignment take its direct way, which ignores the alignment: half of
/// the instructions.
#[derive(Debug, Clone, Copy)]
pub struct Heap;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of blocks, each with pages of its own in the allocator.
    const SIZES: [usize; 11] = [80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448];

    /// All blocks of a size together.
    const EACH: usize = 4 << 20;

    /// Returns the resident memory of the process in bytes.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    #[expect(unsafe_code, reason = "the test has another allocator; blocks are freed once, with their layout")]
    fn empty_pages_are_returned_at_once() {
        let layouts = SIZES.map(|size| Layout::from_size_align(size << 10, ALIGNMENT).unwrap());
        let before = resident();
        let mut blocks = Vec::new();
        for layout in layouts {
            for _ in 0..EACH / layout.size() {
                let block = unsafe { Heap.alloc(layout) };
                unsafe { block.write_bytes(1, layout.size()) };
                blocks.push((block, layout));
            }
        }
        let used = resident();
        blocks.into_iter().for_each(|(block, layout)| unsafe { Heap.dealloc(block, layout) });
        release();
        let (all, left) = (used - before, resident().saturating_sub(before));
        assert!(all > SIZES.len() * EACH / 2 && left < all / 4, "{left} of {all} bytes are still resident");
    }
}
