//! Searches with regular expressions, which take linear time, but not always little: those that may take long run on
//! another thread.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regex::{CaptureLocations, Regex};
use regex_automata::util::interpolate;
use rhai::{Dynamic, EvalAltResult, NativeCallContext};
use tokio::sync::Semaphore;

use super::options::text;
use super::patterns::{Pattern, Patterns};
use crate::script::runtime::bounded;
use crate::script::runtime::context::Context;
use crate::script::runtime::fiber;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// The cost above which a search runs on another thread: bytes of the compiled pattern times bytes of the text. The
/// slowest patterns take a nanosecond for about ten of them.
const MAX_COST_HERE: usize = 64 << 20;

/// The cost above which a search is refused, since nothing can end it: the slowest patterns would take about ten
/// seconds.
const MAX_COST: usize = 64 << 30;

/// The threads that search at the same time, for the whole process. An abandoned search keeps its place until it ends.
static PLACES: Semaphore = Semaphore::const_new(4);

/// Matches that another thread finds before it hands them over.
const MATCHES_AT_ONCE: usize = 1_024;

/// The time after which another thread hands over the matches that it has found.
const TIME_AT_ONCE: Duration = Duration::from_millis(4);

/// The searches of one call.
pub(super) struct Searches<'a> {
    context: Context,
    patterns: &'a Patterns,
    /// Limit of bytes of a resulting text.
    pub max_text: usize,
    /// Limit of items of a resulting list.
    pub max_items: usize,
}

impl<'a> Searches<'a> {
    /// Returns the searches of the running call.
    pub(super) fn of(native: &NativeCallContext<'_>, patterns: &'a Patterns) -> Result<Self, Thrown> {
        let engine = native.engine();
        Ok(Self {
            context: Context::of(native)?,
            patterns,
            max_text: engine.max_string_size(),
            max_items: engine.max_array_size(),
        })
    }

    /// Returns a search for a pattern in a text.
    ///
    /// # Errors
    /// If the arguments are no texts, the pattern is invalid, or the search might take too long.
    pub(super) fn prepare(&self, function: &str, pattern: &Dynamic, given: &Dynamic) -> Result<Search<'_>, Thrown> {
        let pattern = self.patterns.compiled(function, pattern)?;
        let text: Arc<str> = text(function, "the second argument", given)?.into();
        let cost = pattern.bytes.saturating_mul(text.len());
        if cost > MAX_COST {
            let problem = format!("`{function}`: the pattern is too large for a text of {} bytes", text.len());
            return Err(Failure::argument(problem).into());
        }
        // In virtual time, other threads must not decide the order of calls.
        let is_here = cost <= MAX_COST_HERE || self.context.environment().clock.is_virtual() || !fiber::is_fiber();
        Ok(Search { context: &self.context, pattern, text, is_here })
    }
}

/// A search for a pattern in a text.
pub(super) struct Search<'a> {
    context: &'a Context,
    pattern: Pattern,
    /// The text.
    pub text: Arc<str>,
    is_here: bool,
}

impl Search<'_> {
    /// Returns the pattern.
    pub(super) fn regex(&self) -> &Regex {
        &self.pattern.regex
    }

    /// Runs a part of the search.
    ///
    /// # Errors
    /// If the call must end.
    pub(super) fn run<T: Send + 'static>(
        &self,
        part: impl FnOnce(&Regex, &str) -> T + Send + 'static,
    ) -> Result<T, Thrown> {
        if self.is_here {
            return Ok(part(&self.pattern.regex, &self.text));
        }
        let (regex, text) = (self.pattern.regex.clone(), Arc::clone(&self.text));
        bounded::elsewhere(self.context, &PLACES, move || part(&regex, &text))
    }

    /// Calls a function with all matches, in their order.
    ///
    /// # Errors
    /// Those of the function, and if the call must end.
    pub(super) fn each(
        &self,
        wanted: Wanted,
        mut take: impl FnMut(&Groups) -> Result<(), Thrown>,
    ) -> Result<(), Thrown> {
        let mut next = Some(Cursor::default());
        let (most, time) = if self.is_here { (1, Duration::MAX) } else { (MATCHES_AT_ONCE, TIME_AT_ONCE) };
        while let Some(cursor) = next {
            let found;
            (found, next) = self.run(move |regex, text| some_matches(regex, text, cursor, wanted, (most, time)))?;
            found.iter().try_for_each(&mut take)?;
            // Each search takes linear time, and there are up to as many as the text is long.
            bounded::pause()?;
        }
        Ok(())
    }
}

/// The positions of a match and of its groups in the text. The first group is the whole match.
pub(super) struct Groups(pub Vec<Option<Range<usize>>>);

/// The positions that a search is for. Those of groups take longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those of whole matches.
    Whole,
    /// Those of groups, too.
    Groups,
}

impl Groups {
    /// Returns the positions that a search has found.
    pub(super) fn of(locations: &CaptureLocations) -> Self {
        Self((0..locations.len()).map(|group| locations.get(group).map(|(start, end)| start..end)).collect())
    }

    /// Returns the whole match.
    pub(super) fn whole(&self) -> Range<usize> {
        self.0.first().cloned().flatten().expect("the first group always matches")
    }

    /// Returns the replacement of the match: `$1` and `${name}` mean groups, `$$` a dollar.
    pub(super) fn expanded(&self, regex: &Regex, text: &str, with: &str) -> String {
        let mut expanded = String::new();
        let append = |group: usize, expanded: &mut String| {
            if let Some(range) = self.0.get(group).cloned().flatten() {
                expanded.push_str(&text[range]);
            }
        };
        let index_of = |name: &str| regex.capture_names().position(|known| known == Some(name));
        interpolate::string(with, append, index_of, &mut expanded);
        expanded
    }
}

/// The position at which a search goes on.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    start: usize,
    last_end: Option<usize>,
}

/// Returns the next matches, and where the search goes on if it has not ended. As in other languages, an empty match
/// does not follow another match immediately.
fn some_matches(
    regex: &Regex,
    text: &str,
    mut cursor: Cursor,
    wanted: Wanted,
    (most, time): (usize, Duration),
) -> (Vec<Groups>, Option<Cursor>) {
    let begun = Instant::now();
    let mut found = Vec::new();
    let mut locations = regex.capture_locations();
    let mut next_at = |start: usize| match wanted {
        Wanted::Whole => regex.find_at(text, start).map(|whole| Groups(vec![Some(whole.range())])),
        Wanted::Groups => regex.captures_read_at(&mut locations, text, start).map(|_| Groups::of(&locations)),
    };
    while found.len() < most && begun.elapsed() < time {
        if cursor.start > text.len() {
            return (found, None);
        }
        let Some(groups) = next_at(cursor.start) else { return (found, None) };
        let Range { start, end } = groups.whole();
        if start == end && cursor.last_end == Some(end) {
            let next = text[end..].chars().next().map_or(1, char::len_utf8);
            cursor = Cursor { start: end + next, last_end: None };
            continue;
        }
        cursor = Cursor { start: end, last_end: Some(end) };
        found.push(groups);
    }
    (found, Some(cursor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_and_replacements_are_those_of_the_library(
            pattern in r"[abé*?|()\.]{0,6}", text in "[abcé]{0,20}", with in r"[$0-2x{}]{0,6}", most in 1_usize..4, is_whole: bool,
        ) {
            let Ok(regex) = Regex::new(&pattern) else { return Ok(()) };
            let wanted = if is_whole { Wanted::Whole } else { Wanted::Groups };
            let (mut next, mut found) = (Some(Cursor::default()), Vec::new());
            while let Some(cursor) = next {
                let more;
                (more, next) = some_matches(&regex, &text, cursor, wanted, (most, Duration::MAX));
                found.extend(more);
            }
            let expected: Vec<Range<usize>> = regex.find_iter(&text).map(|found| found.range()).collect();
            prop_assert_eq!(found.iter().map(Groups::whole).collect::<Vec<_>>(), expected);
            if wanted == Wanted::Whole {
                return Ok(());
            }
            let (mut replaced, mut end) = (String::new(), 0);
            for groups in &found {
                replaced.push_str(&text[end..groups.whole().start]);
                replaced.push_str(&groups.expanded(&regex, &text, &with));
                end = groups.whole().end;
            }
            replaced.push_str(&text[end..]);
            prop_assert_eq!(replaced, regex.replace_all(&text, with.as_str()));
        }
    }
}
