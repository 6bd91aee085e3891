//! `version::`: semantic versions, compared as Helm does.

use std::cmp::Ordering;

use rhai::{Array, Dynamic, Engine, Map, Module};
use semver::{BuildMetadata, Prerelease, Version};

use super::comparing::sort;
use super::lists::texts_of;
use crate::script::functions::options::text;
use crate::script::functions::support::{Given, Native, Thrown, WorkCounter, one, two, unreadable};
use crate::script::runtime::bounded;

/// Limit of the bytes of a version and of a constraint.
const MAX_LENGTH: usize = 1_000;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    one(&mut module, "parse", |_, given| parse(given));
    one(&mut module, "is_valid", |_, given| {
        Ok(given.as_immutable_string_ref().is_ok_and(|text| read(&text).is_some()).into())
    });
    two(&mut module, "compare", |_, a, b| {
        Ok((version("version::compare", a)?.cmp_precedence(&version("version::compare", b)?) as i64).into())
    });
    two(&mut module, "satisfies", |_, given, constraint| satisfies(given, constraint));
    one(&mut module, "sorted", sorted);
    engine.register_static_module("version", module.into());
}

/// Reads a version. A `v` before it is ignored, and missing parts are 0.
fn read(text: &str) -> Option<Version> {
    let given = partial(text)?;
    (!given.is_open).then_some(given.version)
}

/// A version whose last parts may be missing, or `x` or `*`; they are 0.
struct Partial {
    version: Version,
    parts: usize,
    is_open: bool,
}

fn partial(text: &str) -> Option<Partial> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let text = text.trim();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (core, build) = text.split_once('+').map_or((text, ""), |(core, build)| (core, build));
    let (core, pre) = core.split_once('-').map_or((core, ""), |(core, pre)| (core, pre));
    let mut numbers = [0; 3];
    let mut parts = 0;
    let mut is_open = false;
    for (index, part) in core.split('.').enumerate() {
        let place = numbers.get_mut(index)?;
        if matches!(part, "x" | "X" | "*") {
            is_open = true;
            continue;
        }
        if is_open {
            return None;
        }
        if part.is_empty() || !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        *place = part.parse().ok()?;
        parts += 1;
    }
    let [major, minor, patch] = numbers;
    let (pre, build) = (Prerelease::new(pre).ok()?, BuildMetadata::new(build).ok()?);
    Some(Partial { version: Version { major, minor, patch, pre, build }, parts, is_open })
}

fn version(function: &str, given: &Dynamic) -> Result<Version, Thrown> {
    let written = text(function, "the version", given)?;
    read(&written)
        .ok_or_else(|| unreadable(function, format!("{:?} is no version, as \"1.2.3\"", bounded::shortened(&written))))
}

/// `version::parse(text)`: a map with `major`, `minor`, `patch`, `pre`, `build`.
fn parse(given: &Dynamic) -> Given {
    let Version { major, minor, patch, pre, build } = version("version::parse", given)?;
    let mut parts = Map::new();
    for (name, number) in [("major", major), ("minor", minor), ("patch", patch)] {
        parts.insert(name.into(), i64::try_from(number).unwrap_or(i64::MAX).into());
    }
    parts.insert("pre".into(), pre.as_str().into());
    parts.insert("build".into(), build.as_str().into());
    Ok(parts.into())
}

/// `version::sorted(list)`: the texts in the order of their versions.
fn sorted(_: &Native<'_>, given: &Dynamic) -> Given {
    let mut versions = Vec::new();
    let mut work = WorkCounter::default();
    for written in texts_of("version::sorted", "each version", given)? {
        let version = version("version::sorted", &written.clone().into())?;
        bounded::reserve(written.len() + 2 * size_of::<Version>())?;
        work.spend(written.len() + size_of::<Version>())?;
        versions.push((version, written));
    }
    let sorted = sort(versions, &mut |(a, _), (b, _)| {
        work.spend(size_of::<Version>())?;
        Ok(a.cmp_precedence(b))
    })?;
    Ok(sorted.into_iter().map(|(_, written)| written.into()).collect::<Array>().into())
}

/// `version::satisfies(version, constraint)`: whether the version fulfils a constraint such as `">=1.2, <2"`, `"^1.2"`,
/// `"~1.2"`, `"1.x"`, `"1.2 - 1.5"`, `"1.2 || 2.x"`. A version before a release fulfils only constraints that name one,
/// such as `">=1.2-0"`.
fn satisfies(given: &Dynamic, constraint: &Dynamic) -> Given {
    let version = version("version::satisfies", given)?;
    let written = text("version::satisfies", "the constraint", constraint)?;
    let wrong = || {
        unreadable(
            "version::satisfies",
            format!("{:?} is no constraint, as \">=1.2, <2\"", bounded::shortened(&written)),
        )
    };
    if written.len() > MAX_LENGTH {
        return Err(wrong());
    }
    let mut is_satisfied = false;
    for alternative in written.split("||") {
        let constraints = constraints(alternative).ok_or_else(wrong)?;
        is_satisfied |= constraints.iter().all(|constraint| constraint.holds(&version));
    }
    Ok(is_satisfied.into())
}

/// One comparison of a constraint.
#[derive(Debug, Clone, PartialEq)]
struct Constraint {
    operator: &'static str,
    version: Version,
    /// The number of its parts that are given.
    parts: usize,
}

/// The operators, longer ones first.
const OPERATORS: [&str; 12] = ["==", "!=", ">=", "=>", "<=", "=<", "=", ">", "<", "~", "^", ""];

/// Reads the constraints that must all hold: they are separated by commas or spaces.
fn constraints(text: &str) -> Option<Vec<Constraint>> {
    let text = text.trim();
    if let Some((low, high)) = text.split_once(" - ") {
        return Some(vec![constraint(&format!(">={}", low.trim()))?, constraint(&format!("<={}", high.trim()))?]);
    }
    let mut constraints = Vec::new();
    let mut operator = String::new();
    for piece in text.split([',', ' ']).filter(|piece| !piece.is_empty()) {
        operator.push_str(piece);
        // An operator may be separated from its version.
        if !OPERATORS.contains(&operator.as_str()) {
            constraints.push(constraint(&operator)?);
            operator.clear();
        }
    }
    (operator.is_empty() && !constraints.is_empty()).then_some(constraints)
}

fn constraint(text: &str) -> Option<Constraint> {
    let operator = OPERATORS.into_iter().find(|operator| text.starts_with(operator))?;
    let Partial { version, parts, .. } = partial(&text[operator.len()..])?;
    let operator = match operator {
        "==" | "" => "=",
        "=>" => ">=",
        "=<" => "<=",
        operator => operator,
    };
    Some(Constraint { operator, version, parts })
}

impl Constraint {
    fn holds(&self, version: &Version) -> bool {
        if self.operator != "!=" && !version.pre.is_empty() && self.version.pre.is_empty() {
            return false;
        }
        let order = version.cmp_precedence(&self.version);
        match self.operator {
            ">=" => order != Ordering::Less,
            "<" => order == Ordering::Less,
            // `>1.2` excludes 1.2.5, and `<=1.2` includes it.
            ">" => order == Ordering::Greater && !self.is_prefix_of(version),
            "<=" => order != Ordering::Greater || self.is_prefix_of(version),
            "=" => self.is_prefix_of(version) && (self.parts < 3 || order == Ordering::Equal),
            "!=" => !(self.is_prefix_of(version) && (self.parts < 3 || order == Ordering::Equal)),
            "~" => order != Ordering::Less && self.agrees(version, self.parts.min(2)),
            _ => order != Ordering::Less && self.agrees(version, self.first_part()),
        }
    }

    fn is_prefix_of(&self, version: &Version) -> bool {
        self.parts < 3 && self.agrees(version, self.parts)
            || (self.parts == 3 && self.agrees(version, 3) && self.version.pre == version.pre)
    }

    fn agrees(&self, version: &Version, parts: usize) -> bool {
        let numbers = |version: &Version| [version.major, version.minor, version.patch];
        numbers(version)[..parts] == numbers(&self.version)[..parts]
    }

    /// `^` keeps everything up to the first part that is not 0.
    fn first_part(&self) -> usize {
        let numbers = [self.version.major, self.version.minor, self.version.patch];
        numbers[..self.parts].iter().position(|number| *number > 0).map_or(self.parts, |index| index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(version: &str, constraint: &str) -> bool {
        satisfies(&version.into(), &constraint.into()).unwrap().as_bool().unwrap()
    }

    #[test]
    fn constraints_hold_as_in_helm() {
        for (version, constraint) in [
            ("1.2.3", ">=1.2, <2"),
            ("1.2.3", ">= 1.2 < 2"),
            ("v1.2.3", "1.2.x"),
            ("1.2.3", "1.2"),
            ("1.2.3", "*"),
            ("1.9.0", "^1.2"),
            ("0.2.9", "^0.2.3"),
            ("1.2.9", "~1.2.3"),
            ("1.9.9", "~1"),
            ("1.5.9", "1.2 - 1.5"),
            ("2.4.0", "1.2 || 2.x"),
            ("1.2.3", "!=1.2.4"),
            ("1.28.3-gke.100", ">=1.20-0"),
            ("1.2.3+build", "=1.2.3"),
            ("1.3.0", ">1.2"),
        ] {
            assert!(holds(version, constraint), "{version} {constraint}");
        }
        for (version, constraint) in [
            ("2.0.0", "^1.2"),
            ("0.3.0", "^0.2.3"),
            ("1.3.0", "~1.2.3"),
            ("1.2.4", "1.2.3"),
            ("1.28.3-gke.100", ">=1.20"),
            ("1.2.3", "!=1.2"),
            ("1.2.5", ">1.2"),
            ("1.2.3-rc.1", "1.2.3"),
        ] {
            assert!(!holds(version, constraint), "{version} {constraint}");
        }
        for constraint in ["", ">=", "1.2.3.4", "abc", ">=1.2,,~", "1..2", "~=1.2"] {
            assert!(satisfies(&"1.0.0".into(), &constraint.into()).is_err(), "{constraint}");
        }
    }
}
