//! Compiled regular expressions, with limits of their size and nesting.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use rhai::{Dynamic, EvalAltResult};

use super::options::text;
use crate::script::limits::allocator;
use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// Limit of cached patterns. With more of them, scripts generate patterns, and caching is useless.
const CACHED: usize = 256;

/// Limit of bytes of the cached patterns.
const CACHED_BYTES: usize = 8 << 20;

/// Limit of bytes of a pattern's text. Its syntax tree takes a hundred times as much.
const MAX_PATTERN: usize = 16 << 10;

/// Limit of bytes of one compiled pattern; the default would be ten times as much.
const MAX_SIZE: usize = 1 << 20;

/// A compiled pattern.
#[derive(Clone)]
pub(super) struct Pattern {
    /// The pattern.
    pub regex: Regex,
    /// The bytes that were allocated for it.
    pub bytes: usize,
}

/// Compiles a pattern, with limits of its size and nesting.
///
/// # Errors
/// The text of the error.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("a regular expression has at most {MAX_PATTERN} bytes, not {}", pattern.len()));
    }
    let regex = RegexBuilder::new(pattern).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).nest_limit(50).build();
    regex.map_err(|error| {
        // The parser prints the pattern in several lines; the last one has the error.
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("{:?} is no regular expression: {}", bounded::shortened(pattern), bounded::shortened(&last))
    })
}

/// The compiled patterns.
#[derive(Clone, Default)]
pub(super) struct Patterns(Rc<RefCell<Cache>>);

#[derive(Default)]
struct Cache {
    compiled: HashMap<String, Pattern>,
    /// The bytes that were allocated for them.
    bytes: usize,
}

impl Patterns {
    /// Returns a compiled pattern.
    ///
    /// # Errors
    /// If it is no text, or no valid pattern.
    pub(super) fn compiled(&self, function: &str, pattern: &Dynamic) -> Result<Pattern, Thrown> {
        let text = text(function, "the pattern", pattern)?;
        if let Some(known) = self.0.borrow().compiled.get(&text) {
            return Ok(known.clone());
        }
        let before = allocator::running().live;
        let regex = compile(&text).map_err(|error| Failure::argument(format!("`{function}`: {error}")))?;
        let bytes = usize::try_from(allocator::running().live - before).unwrap_or_default();
        let mut cache = self.0.borrow_mut();
        if cache.compiled.len() >= CACHED || cache.bytes >= CACHED_BYTES {
            *cache = Cache::default();
        }
        cache.bytes += bytes;
        let pattern = Pattern { regex, bytes };
        cache.compiled.insert(text, pattern.clone());
        Ok(pattern)
    }
}
