//! Reports which script has overflowed its stack, before the process ends. Scripts and host functions check the stack
//! that is left, so this does not happen unless one of these checks is missing.
//!
//! Why the `unsafe` here is sound: the handler runs on the alternate stack that the standard library gives to each of
//! its threads. It reads thread-local cells that are initialised by constants and never dropped, and a text that its
//! fiber keeps alive while it runs; it writes to standard error and restores the previous handler, which are both safe
//! in signal handlers. Then it returns, and the failing instruction fails again under the previous handler.

use std::cell::Cell;
#[cfg(unix)]
use std::sync::OnceLock;

/// How far below the stack an access counts as an overflow: a function with a large frame skips the guard page.
const BELOW: usize = 64 << 10;

/// The fiber that runs on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Running {
    /// The lowest address of its stack, where the guard page begins.
    limit: usize,
    title: *const u8,
    length: usize,
}

const NOBODY: Running = Running { limit: 0, title: std::ptr::null(), length: 0 };

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(NOBODY) };
}

impl Running {
    /// Returns a fiber with a stack from this address on, and its script, handler and object as a text, which must live
    /// while it runs.
    pub(crate) fn new(limit: usize, title: &str) -> Self {
        Self { limit, title: title.as_ptr(), length: title.len() }
    }
}

/// Sets the fiber that runs on this thread, and returns the one before.
#[inline(never)]
pub(crate) fn switch(running: Running) -> Running {
    RUNNING.replace(running)
}

#[cfg(unix)]
static PREVIOUS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

/// The signals of accesses to a guard page.
#[cfg(unix)]
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Installs the handler, once per process.
#[cfg(unix)]
#[expect(unsafe_code, reason = "signal handlers are installed by the C library")]
pub(crate) fn install() {
    PREVIOUS.get_or_init(|| {
        SIGNALS.map(|signal| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut previous: libc::sigaction = std::mem::zeroed();
            // The result is an error only for signals that do not exist.
            libc::sigaction(signal, &raw const action, &raw mut previous);
            previous
        })
    });
}

/// Other systems have no such signals.
#[cfg(not(unix))]
pub(crate) fn install() {}

#[cfg(unix)]
#[expect(unsafe_code, reason = "it is called by the system")]
unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Running { limit, title, length } = RUNNING.get();
    let address = unsafe { (*info).si_addr() }.addr();
    if limit != 0 && address >= limit.saturating_sub(BELOW) && address < limit + BELOW {
        write(b"kopfd: the stack has overflowed in the script of ");
        write(unsafe { std::slice::from_raw_parts(title, length) });
        write(b"; the process ends\n");
    }
    let index = usize::from(signal == libc::SIGBUS);
    match PREVIOUS.get() {
        Some(previous) => unsafe { libc::sigaction(signal, &raw const previous[index], std::ptr::null_mut()) },
        None => unsafe { libc::signal(signal, libc::SIG_DFL) as libc::c_int },
    };
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "only this function of the system may be called in a signal handler")]
fn write(text: &[u8]) {
    // Nothing can be done about an error.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
