//! Tests that measure the memory or the time of their own process. They run one after another.

mod hostile;
mod script_sleepers;
mod soak;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets a test run alone in this process while the guard is held.
fn alone() -> parking_lot::MutexGuard<'static, ()> {
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    ALONE.lock()
}
