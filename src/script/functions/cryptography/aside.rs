//! Work that takes the processor for long is done on another thread: other scripts run meanwhile.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

use crate::script::functions::support::{Native, Thrown};
use crate::script::runtime::bounded::elsewhere;
use crate::script::runtime::context::Context;

/// As many works at once as there are processors, in the whole process.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, NonZero::get)));

/// Does a work elsewhere, and waits for it.
///
/// # Errors
/// In code that may not wait, and if the call must end.
pub(super) fn compute<T: Send + 'static>(
    native: &Native<'_>,
    function: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Thrown> {
    let context = Context::of(native)?;
    context.acts(function)?;
    elsewhere(&context, &PLACES, work)
}
