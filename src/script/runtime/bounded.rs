//! Results of host functions that cannot become larger than the call may hold: the size is checked while they are made.

use std::fmt;

use rhai::EvalAltResult;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use tokio::sync::Semaphore;

use super::context::{Context, unless_ended};
use super::fiber;
use super::progress_hook;
use crate::script::limits::Limit;
use crate::script::limits::allocator;
use crate::script::values::script_error::Failure;

/// The memory of a part of a JSON value, besides its texts.
const BYTES_PER_VALUE: usize = 64;

/// The parts of a value between two checks of the clock.
const VALUES_PER_PAUSE: usize = 256;

/// The length of a value in an error message, in characters.
const SHOWN: usize = 120;

/// Returns the error of a call that would exceed a limit. The script cannot catch it.
pub(crate) fn refused(limit: Limit) -> Box<EvalAltResult> {
    allocator::refuse(limit);
    fiber::with_budget(|budget| budget.overrun(limit))
        .unwrap_or_else(|| Failure::host("budget", "a limit is exceeded").into())
}

/// Checks that the call may hold this many bytes more.
///
/// # Errors
/// If it may not.
pub(crate) fn reserve(bytes: usize) -> Result<(), Box<EvalAltResult>> {
    if allocator::reserve(bytes) { Ok(()) } else { Err(refused(Limit::Memory)) }
}

/// Lets other scripts run in the middle of a long function, which must hold nothing that they need.
///
/// # Errors
/// If the call must end.
pub(crate) fn pause() -> Result<(), Box<EvalAltResult>> {
    if progress_hook::pause() {
        return Ok(());
    }
    let ended = fiber::with_budget(|budget| budget.check().err()).flatten();
    Err(ended.unwrap_or_else(|| Failure::host("internal", "the call has ended").into()))
}

/// Runs a long function on another thread, and lets other scripts run meanwhile, except those about the same object.
/// The function ends by itself: if the call ends before, its result is lost.
///
/// # Errors
/// If the call must end.
pub(crate) fn elsewhere<T: Send + 'static>(
    context: &Context,
    places: &'static Semaphore,
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<EvalAltResult>> {
    let budget = context.budget();
    budget.check()?;
    let run = async {
        let place = places.acquire().await.expect("the semaphore is never closed");
        let run = move || {
            let _place = place;
            function()
        };
        tokio::task::spawn_blocking(run).await
    };
    budget.set_preempted(true);
    let ended = fiber::wait(unless_ended(budget, run));
    budget.set_preempted(false);
    budget.begin_slice();
    ended?.map_err(|_| Failure::host("internal", "the function has failed").into())
}

/// Returns the beginning of a text, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text that stops growing when the call may not hold more.
#[derive(Debug, Default)]
pub(crate) struct Text {
    written: Vec<u8>,
    max: Option<usize>,
}

impl Text {
    /// Returns a text that is at most this long, in bytes.
    pub(crate) fn up_to(max: usize) -> Self {
        Self { written: Vec::new(), max: Some(max) }
    }

    /// Returns the text.
    pub(crate) fn into_string(self) -> String {
        String::from_utf8(self.written).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Appends bytes of UTF-8, and returns whether they fit.
    pub(crate) fn push(&mut self, more: &[u8]) -> bool {
        let length = self.written.len() + more.len();
        if self.max.is_some_and(|max| length > max) {
            allocator::refuse(Limit::StringSize);
            return false;
        }
        // A vector doubles its capacity when it grows.
        if length > self.written.capacity() && !allocator::reserve(length.saturating_mul(2)) {
            return false;
        }
        self.written.extend_from_slice(more);
        true
    }
}

impl std::io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.push(bytes) { Ok(bytes.len()) } else { Err(std::io::Error::other("the text is too large")) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns the text of a JSON value; only its beginning, if the call may not hold more, and will be ended.
pub(crate) fn json_text(value: &Value) -> String {
    let mut text = Text::default();
    // Text that was written until an error is kept.
    let _ = serde_json::to_writer(&mut text, value);
    text.into_string()
}

/// A value that is read only as far as the call may hold it. A parser with state of its thread must not yield to other
/// scripts.
pub(crate) struct Parsed<const YIELDS: bool>(
    /// The value.
    pub Value,
);

impl<'de, const YIELDS: bool> Deserialize<'de> for Parsed<YIELDS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading::<YIELDS>)
    }
}

struct Reading<const YIELDS: bool>;

fn count<E: de::Error>(yields: bool, number: usize, bytes: usize) -> Result<(), E> {
    if !allocator::reserve(bytes + BYTES_PER_VALUE) {
        return Err(E::custom("the value is larger than the call's limit of memory"));
    }
    if yields && number.is_multiple_of(VALUES_PER_PAUSE) && !progress_hook::pause() {
        return Err(E::custom("the call has ended"));
    }
    Ok(())
}

impl<'de, const YIELDS: bool> Visitor<'de> for Reading<YIELDS> {
    type Value = Parsed<YIELDS>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed<YIELDS>, D::Error> {
        Parsed::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Parsed<YIELDS>, E> {
        count(YIELDS, 1, text.len())?;
        Ok(Parsed(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Parsed<YIELDS>, E> {
        Ok(Parsed(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Parsed<YIELDS>, A::Error> {
        let mut items = Vec::new();
        while let Some(Parsed(item)) = access.next_element::<Parsed<YIELDS>>()? {
            count(YIELDS, items.len() + 1, 0)?;
            items.push(item);
        }
        Ok(Parsed(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Parsed<YIELDS>, A::Error> {
        let mut entries = Map::new();
        while let Some((key, Parsed(value))) = access.next_entry::<String, Parsed<YIELDS>>()? {
            count(YIELDS, entries.len() + 1, key.len())?;
            entries.insert(key, value);
        }
        Ok(Parsed(entries.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_by_serde() {
        for text in
            ["null", "[1, -2, 1.5, 18446744073709551615, \"a\", true]", "{\"b\": {\"c\": []}, \"a\": \"x\"}", "1e400"]
        {
            let expected = serde_json::from_str::<Value>(text).ok();
            assert_eq!(serde_json::from_str::<Parsed<false>>(text).ok().map(|parsed| parsed.0), expected, "{text}");
        }
    }

    #[test]
    fn a_text_stops_at_its_limit() {
        use std::fmt::Write as _;
        let mut text = Text::up_to(4);
        assert!(text.write_str("abc").is_ok());
        assert!(text.write_str("de").is_err());
        assert_eq!(text.into_string(), "abc");
        allocator::switch(allocator::Account::limited(u64::MAX));
    }
}
