//! `stopped`: asks a timer, a daemon or a reconciliation to stop, and says why.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, NativeCallContext};

use super::context::{Context, wait_in};
use super::throwing::Failure;
use super::time;
use crate::kit::Stop;

/// Why a function is to stop, or how far its stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopFlag {
    /// The object has ceased to match the filters.
    FiltersMismatch,
    /// The object is deleted.
    ResourceDeleted,
    /// The operator pauses.
    OperatorPausing,
    /// The operator exits.
    OperatorExiting,
    /// The declaration or its code has changed.
    OperatorReloading,
    /// The function was asked to stop, and has its back-off.
    DaemonSignalled,
    /// The function was cancelled.
    DaemonCancelled,
    /// The function is not waited for any longer.
    DaemonAbandoned,
    /// The function has ended.
    Done,
}

impl StopFlag {
    /// Returns kopf's name of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiltersMismatch => "FILTERS_MISMATCH",
            Self::ResourceDeleted => "RESOURCE_DELETED",
            Self::OperatorPausing => "OPERATOR_PAUSING",
            Self::OperatorExiting => "OPERATOR_EXITING",
            Self::OperatorReloading => "OPERATOR_RELOADING",
            Self::DaemonSignalled => "DAEMON_SIGNALLED",
            Self::DaemonCancelled => "DAEMON_CANCELLED",
            Self::DaemonAbandoned => "DAEMON_ABANDONED",
            Self::Done => "DONE",
        }
    }
}

/// The flags of one running function, in the order in which they were raised; they only grow. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stopped(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    raised: Mutex<Vec<StopFlag>>,
    stop: Stop,
}

impl Stopped {
    /// Raises a flag, unless it is raised.
    pub fn raise(&self, flag: StopFlag) {
        let mut raised = self.0.raised.lock();
        if !raised.contains(&flag) {
            raised.push(flag);
        }
        drop(raised);
        self.0.stop.request(flag.as_str());
    }

    /// Tells whether any flag is raised.
    pub fn is_set(&self) -> bool {
        self.0.stop.is_requested()
    }

    /// Returns the flags that are raised.
    pub fn flags(&self) -> Vec<StopFlag> {
        self.0.raised.lock().clone()
    }

    /// Waits until a flag is raised.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn raised(&self) {
        self.0.stop.requested().await;
    }

    fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        match key.as_str() {
            "reason" => Ok(self.flags().into_iter().map(|flag| flag.as_str().into()).collect::<Array>().into()),
            other => Err(Failure::argument(format!("`stopped` has no `{other}`; it has is_set(), wait(), reason")).into()),
        }
    }
}

/// Registers what scripts can do with it.
pub fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Stopped>("Stopped");
    pure!(get engine, Stopped::get);
    pure!(engine, "is_set", |stopped: &mut Stopped| stopped.is_set());
    pure!(engine, "wait", |native: NativeCallContext<'_>, stopped: &mut Stopped| wait(&native, stopped, None));
    pure!(engine, "wait", |native: NativeCallContext<'_>, stopped: &mut Stopped, seconds: Dynamic| {
        wait(&native, stopped, Some(time::duration(&seconds)?))
    });
}

/// Waits for a flag, at most until the limit. Returns whether one is raised.
fn wait(native: &NativeCallContext<'_>, stopped: &Stopped, limit: Option<Duration>) -> Result<bool, Box<EvalAltResult>> {
    let context = Context::of(native)?;
    context.acts("stopped.wait")?;
    // What is too long for the timer is no limit.
    let until = limit.and_then(|limit| tokio::time::Instant::now().checked_add(limit));
    wait_in(&context, async {
        match until {
            // The time being over is no failure: what matters is whether a flag is raised.
            Some(until) => drop(tokio::time::timeout_at(until, stopped.raised()).await),
            None => stopped.raised().await,
        }
    })?;
    context.budget().refill();
    Ok(stopped.is_set())
}
