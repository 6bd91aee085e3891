//! Returns unused memory to the operating system.
//!
//! The allocator keeps what was freed for a second, since it may be needed again, and looks for it only when further memory is freed. So
//! an operator that has nothing to do after a burst would keep all of the memory of the burst.

use std::time::Duration;

/// How often unused memory is returned. It takes a tenth of a millisecond if there is none, and a few milliseconds for 10 MB.
const INTERVAL: Duration = Duration::from_secs(10);

/// Returns unused memory regularly. Never ends.
pub(super) async fn release_regularly() {
    loop {
        tokio::time::sleep(INTERVAL).await;
        release();
    }
}

/// Returns the memory that is unused for a second. If the process has another allocator, this does nothing.
#[expect(unsafe_code, reason = "a foreign function without arguments that could be wrong; it may be called at any time on any thread")]
fn release() {
    unsafe { libmimalloc_sys::mi_collect(false) }
}
