//! What measures the memory or the time of its own process. These tests run one after another.

mod hostile;
mod script_sleepers;
mod soak;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets a test run alone in this process for as long as the guard lives.
fn alone() -> parking_lot::MutexGuard<'static, ()> {
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    ALONE.lock()
}
