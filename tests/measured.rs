//! Tests that measure the memory or the time of their own process. They run one after another.

#[expect(dead_code, reason = "other test programs use the rest")]
mod child;
mod hostile;
mod limits;
mod script_sleepers;
mod soak;
#[path = "script/world.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "a test helper; the other tests of scripts use the rest")]
mod world;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: kopfd::script::Accounting<kopfd::cli::Heap> = kopfd::script::Accounting(kopfd::cli::Heap);

/// Returns the resident memory of the process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells the memory of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a running process has memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("memory is a number") << 10
}

/// Lets a test run alone in this process while the guard is held.
fn alone() -> parking_lot::MutexGuard<'static, ()> {
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    ALONE.lock()
}
