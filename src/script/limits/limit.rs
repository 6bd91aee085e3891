//! The limits of one call, and their defaults.

use std::time::Duration;

/// One of the budgets that end a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The operations of the interpreter.
    Operations,
    /// The wall time.
    Time,
    /// The size of a value.
    Memory,
    /// Nested calls.
    Depth,
    /// The length of a string.
    StringSize,
    /// The items of an array.
    ArraySize,
    /// The entries of a map.
    MapSize,
    /// Calls of the API in one call.
    ApiCalls,
    /// Calls of the API in a minute.
    ApiCallsPerMinute,
    /// Logged text.
    Output,
}

impl Limit {
    /// All limits, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Operations,
        Self::Time,
        Self::Memory,
        Self::Depth,
        Self::StringSize,
        Self::ArraySize,
        Self::MapSize,
        Self::ApiCalls,
        Self::ApiCallsPerMinute,
        Self::Output,
    ];

    /// Returns the key in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Depth => "depth",
            Self::StringSize => "stringSize",
            Self::ArraySize => "arraySize",
            Self::MapSize => "mapSize",
            Self::ApiCalls => "apiCalls",
            Self::ApiCallsPerMinute => "apiCallsPerMinute",
            Self::Output => "output",
        }
    }
}

/// The budgets of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Rhai operations.
    pub operations: u64,
    /// Wall time, including waits; `None` for daemons.
    pub time: Option<Duration>,
    /// Bytes, as precisely as the interpreter allows.
    pub memory: u64,
    /// Nested calls.
    pub depth: usize,
    /// Bytes of one string.
    pub string_size: usize,
    /// Items of one array.
    pub array_size: usize,
    /// Entries of one map.
    pub map_size: usize,
    /// Calls of the API in one call.
    pub api_calls: u64,
    /// Calls of the API within a minute, by all calls of the handler together.
    pub api_calls_per_minute: u64,
    /// Bytes of printed or logged text.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            operations: 50_000_000,
            time: Some(Duration::from_hours(1)),
            memory: 64 << 20,
            depth: 64,
            string_size: 4 << 20,
            array_size: 100_000,
            map_size: 100_000,
            api_calls: 10_000,
            // More than a process can send: a default that none of several thousand objects meets.
            api_calls_per_minute: 600_000,
            output: 4 << 20,
        }
    }
}
