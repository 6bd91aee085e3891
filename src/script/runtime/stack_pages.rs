//! Returns the unused pages of a suspended script's stack to the system: what deeper calls have touched before would
//! stay resident as long as the script waits, and thousands of daemons wait for days.
//!
//! Why the `unsafe` here is sound: the pages lie on a stack whose script is suspended, below everything that its
//! functions use. Functions that are called later find zeros there, and expect uninitialized memory.

/// Distance from the innermost function of the suspended script to the pages that are returned: what suspending it
/// saves on the stack. That is less than two hundred bytes, and more without optimisation.
const MARGIN: usize = if cfg!(debug_assertions) { 4096 } else { 1024 };

/// Returns the pages between the lowest address of a stack and the innermost frame of its script.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the pages hold nothing that anyone reads")]
pub(crate) fn release(lowest: usize, innermost: usize) {
    let page = page_size();
    let begin = lowest.next_multiple_of(page);
    let end = innermost.saturating_sub(MARGIN) / page * page;
    if begin < end {
        // It fails only where the system does not know the advice; then the pages stay.
        let _ =
            unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(begin), end - begin, libc::MADV_DONTNEED) };
    }
}

/// Other systems keep the pages.
#[cfg(not(unix))]
pub(crate) fn release(_lowest: usize, _innermost: usize) {}

#[cfg(unix)]
#[expect(unsafe_code, reason = "a question to the system")]
fn page_size() -> usize {
    use std::sync::OnceLock;

    static SIZE: OnceLock<usize> = OnceLock::new();
    // Larger than any page, if the system does not report the size: then only whole multiples of it are released.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16))
}
