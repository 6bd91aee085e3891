//! Times and durations in scripts: `t1 - t2` is seconds, `t + seconds` is a time, their text is RFC 3339.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rhai::{Dynamic, Engine, EvalAltResult};

use super::script_error::Failure;
use super::titles;
use crate::kit::duration::{self, ParseError};

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Time(pub Timestamp);

impl Time {
    /// Returns the moment some seconds later, or earlier.
    ///
    /// # Errors
    /// If it is out of range.
    pub(crate) fn after(self, seconds: f64) -> Result<Self, Failure> {
        let span = SignedDuration::try_from_secs_f64(seconds).ok();
        let moment = span.and_then(|span| self.0.checked_add(span).ok());
        moment.map(Self).ok_or_else(|| Failure::argument(format!("there is no time {seconds} seconds from {self}")))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Returns the duration of a value: seconds as an integer or a float, or a text with units. Longer durations than the
/// maximum are cut to it.
///
/// # Errors
/// If it has another type, or is negative.
pub(crate) fn duration(value: &Dynamic) -> Result<Duration, Failure> {
    let wrong =
        || Failure::argument(format!("{} is no duration: write seconds, or a text such as \"1h30m\"", shown(value)));
    let seconds = value.as_float().or_else(|_| value.as_int().map(|integer| integer as f64));
    if let Ok(seconds) = seconds {
        let is_duration = seconds.is_finite() && seconds >= 0.0;
        return if is_duration {
            Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        } else {
            Err(wrong())
        };
    }
    let text = value.as_immutable_string_ref().map_err(|_| wrong())?;
    match duration::parse(&text) {
        Err(ParseError::TooLong) => Ok(Duration::MAX),
        parsed => parsed.map_err(|_| wrong()),
    }
}

fn shown(value: &Dynamic) -> String {
    if value.is_string() || value.is_int() || value.is_float() { format!("{value:?}") } else { titles::of_value(value) }
}

/// Registers the arithmetic of times. The functions that create times are host functions.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Time>("Time");
    engine.register_fn("to_string", |time: &mut Time| time.to_string());
    engine.register_fn("to_debug", |time: &mut Time| time.to_string());
    engine.register_fn("to_json", |time: &mut Time| format!("\"{time}\""));
    engine.register_fn("-", |a: Time, b: Time| a.0.duration_since(b.0).as_secs_f64());
    engine
        .register_fn("+", |time: Time, seconds: f64| -> Result<Time, Box<EvalAltResult>> { Ok(time.after(seconds)?) });
    engine.register_fn("+", |time: Time, seconds: i64| -> Result<Time, Box<EvalAltResult>> {
        Ok(time.after(seconds as f64)?)
    });
    engine
        .register_fn("-", |time: Time, seconds: f64| -> Result<Time, Box<EvalAltResult>> { Ok(time.after(-seconds)?) });
    engine.register_fn("-", |time: Time, seconds: i64| -> Result<Time, Box<EvalAltResult>> {
        Ok(time.after(-(seconds as f64))?)
    });
    engine.register_fn("==", |a: Time, b: Time| a == b);
    engine.register_fn("!=", |a: Time, b: Time| a != b);
    engine.register_fn("<", |a: Time, b: Time| a < b);
    engine.register_fn("<=", |a: Time, b: Time| a <= b);
    engine.register_fn(">", |a: Time, b: Time| a > b);
    engine.register_fn(">=", |a: Time, b: Time| a >= b);
}
