//! Expected numbers: exactly, at least, at most.

use crate::manifest::reader::{Item, Reader};
use crate::manifest::tree::{Kind, SourceSpan};

/// An expected number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub at_least: Option<u64>,
    pub at_most: Option<u64>,
    /// Position of the exact number in the file, which `--update` can replace.
    pub exact: Option<SourceSpan>,
}

impl Count {
    /// Returns the default: at least one.
    pub fn some() -> Self {
        Self { at_least: Some(1), ..Self::default() }
    }

    /// Tells whether a number is within the limits.
    pub fn allows(&self, number: u64) -> bool {
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => write!(formatter, "{least}"),
            (Some(least), Some(most)) => write!(formatter, "{least} to {most}"),
            (Some(least), None) => write!(formatter, "at least {least}"),
            (None, Some(most)) => write!(formatter, "at most {most}"),
            (None, None) => formatter.write_str("any number"),
        }
    }
}

/// Reads a number, or a mapping of limits.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<Count> {
    if !matches!(item.node.kind, Kind::Map(_)) {
        let exact = u64::try_from(reader.whole(item, 0)?).ok();
        return Some(Count { at_least: exact, at_most: exact, exact: Some(item.node.spot) });
    }
    let fields = reader.fields(item, "a count", &["exactly", "atLeast", "atMost"])?;
    let number = |key: &str| {
        let item = fields.get(key)?;
        Some((u64::try_from(reader.whole(&item, 0)?).ok()?, item.node.spot))
    };
    let exactly = number("exactly");
    let limit = |key: &str| exactly.or_else(|| number(key)).map(|(number, _)| number);
    let count = Count { at_least: limit("atLeast"), at_most: limit("atMost"), exact: exactly.map(|(_, spot)| spot) };
    if ["exactly", "atLeast", "atMost"].iter().all(|key| !fields.mentions(key)) {
        reader.error_with(item, "the count has no limit", "write `exactly`, `atLeast`, or `atMost`, or a number alone");
    }
    if matches!((count.at_least, count.at_most), (Some(least), Some(most)) if least > most) {
        reader.error_with(item, "`atLeast` is greater than `atMost`", "swap `atLeast` and `atMost`");
    }
    Some(count)
}
