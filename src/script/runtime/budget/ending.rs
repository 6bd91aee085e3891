//! The reason why a call must end.

use std::time::Duration;

use rhai::{Dynamic, EvalAltResult, Position};

use crate::handling::message::seconds;
use crate::script::limits::{Limit, Limits};

/// The reason why a call must end. The script cannot catch it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    /// The stop signal was given, or the call is no longer awaited.
    Cancelled,
    /// A budget is used up.
    Overrun(Overrun),
    /// It must be called again after a delay, because of its sub-handlers.
    Unfinished(Duration),
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// Which budget.
    pub limit: Limit,
    /// The text for users.
    pub text: String,
}

/// The effect of an operation.
pub(crate) enum Tick {
    /// The script continues.
    GoOn,
    /// The script yields to others of its thread.
    GiveWay,
    /// The call ends.
    End(Ending),
}

impl Overrun {
    /// Returns the overrun of one of these limits.
    pub(super) fn among(limits: &Limits, limit: Limit) -> Self {
        let Limits {
            operations,
            memory,
            depth,
            string_size,
            array_size,
            map_size,
            api_calls,
            api_calls_per_minute,
            output,
            ..
        } = limits;
        let what = match limit {
            Limit::Operations => format!("{operations} operations"),
            Limit::Time => format!("{} seconds", seconds(limits.time.unwrap_or_default())),
            Limit::Memory => format!("{memory} bytes of memory"),
            Limit::Depth => format!("{depth} nested calls"),
            Limit::StringSize => format!("{string_size} bytes of one text"),
            Limit::ArraySize => format!("{array_size} items of one list"),
            Limit::MapSize => format!("{map_size} entries of one map"),
            Limit::ApiCalls => format!("{api_calls} calls of the API"),
            Limit::ApiCallsPerMinute => {
                format!("{api_calls_per_minute} calls of the API within a minute, by all calls of this function")
            }
            Limit::Output => format!("{output} bytes of output"),
        };
        Self::of(limit, &what)
    }

    /// Returns the overrun of a limit; `what` is its value in words.
    pub(crate) fn of(limit: Limit, what: &str) -> Self {
        Self {
            limit,
            text: format!("the call has used up its budget: {what} (limits.{}, which can be raised)", limit.as_str()),
        }
    }

    /// Returns the overrun of a limit that cannot be raised.
    pub(crate) fn fixed(limit: Limit, what: &str) -> Self {
        Self { limit, text: format!("the call has used up its budget: {what}") }
    }
}

impl Ending {
    /// The interpreter keeps the place of this error, unlike that of a terminated call. The script can catch it, and is
    /// ended by its next operation.
    pub(super) fn into_error(self) -> Box<EvalAltResult> {
        EvalAltResult::ErrorRuntime(Dynamic::from(self), Position::NONE).into()
    }
}
