//! Budgets of scripts, as far as they are given.

use std::time::Duration;

use crate::script::Limits;

use super::reader::{Item, Reader};

/// The highest allowed limit of nested calls: more would not fit on a fiber's stack.
const MAX_CALL_DEPTH: i64 = 128;

/// The keys of budgets.
const LIMITS: [&str; 10] = [
    "operations",
    "time",
    "memory",
    "depth",
    "stringSize",
    "arraySize",
    "mapSize",
    "apiCalls",
    "apiCallsPerMinute",
    "output",
];

/// Budgets, as far as they are given.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Budgets {
    /// The time limit of one call.
    pub time: Option<Duration>,
    limits: Option<Limits>,
}

impl Budgets {
    /// Returns the budgets, with defaults for missing ones.
    pub(super) fn limits(&self) -> Limits {
        let limits = self.limits.clone().unwrap_or_default();
        Limits { time: self.time.or(limits.time), ..limits }
    }

    /// Reads a mapping of budgets, which override the current ones.
    pub(super) fn read(&mut self, reader: &Reader, item: &Item<'_>) {
        let Some(fields) = reader.fields(item, "the limits", &LIMITS) else { return };
        let mut limits = self.limits.clone().unwrap_or_default();
        let count = |reader: &Reader, item: &Item<'_>| reader.whole(item, 1).map(|count| count as u64);
        let items = |reader: &Reader, item: &Item<'_>| reader.whole(item, 1).map(|count| count as usize);
        let bytes = |reader: &Reader, item: &Item<'_>| reader.size(item).map(|size| size as usize);
        reader.set(&fields, "operations", &mut limits.operations, count);
        reader.set(&fields, "memory", &mut limits.memory, Reader::size);
        reader.set(&fields, "depth", &mut limits.depth, depth);
        reader.set(&fields, "stringSize", &mut limits.string_size, bytes);
        reader.set(&fields, "arraySize", &mut limits.array_size, items);
        reader.set(&fields, "mapSize", &mut limits.map_size, items);
        reader.set(&fields, "apiCalls", &mut limits.api_calls, count);
        reader.set(&fields, "apiCallsPerMinute", &mut limits.api_calls_per_minute, count);
        reader.set(&fields, "output", &mut limits.output, Reader::size);
        let mut time = self.time.unwrap_or_default();
        reader.set(&fields, "time", &mut time, |reader, item| {
            reader.duration_above_zero(item, "no budget is unlimited; leave it out for the default of one hour")
        });
        self.time = (!time.is_zero()).then_some(time).or(self.time);
        self.limits = Some(limits);
    }
}

fn depth(reader: &Reader, item: &Item<'_>) -> Option<usize> {
    let hint = "a script that needs more is better written with a loop";
    reader.whole_in(item, &(1..=MAX_CALL_DEPTH), hint).map(|depth| depth as usize)
}
