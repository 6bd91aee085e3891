//! Methods of lists, and of views of lists. Those of the language change the list; all others return something and
//! change nothing.

use std::cmp::Ordering;
use std::collections::HashSet;

use rhai::{Array, Dynamic, Engine, FnPtr, ImmutableString, Map};

use super::comparing::{Identity, compare, number, sort};
use super::sizes::{copy, size, size_of_items};
use crate::script::functions::options::placed;
use crate::script::functions::support::{Given, Native, Thrown, WorkCounter, call, may_have_items, shown, wrong};
use crate::script::language::convert;
use crate::script::language::view::View;
use crate::script::limits::Limit;
use crate::script::runtime::bounded::{self, Text};
use crate::script::values::time::Time;

/// Registers the methods.
pub(super) fn register(engine: &mut Engine) {
    method(engine, "join", |native, items| join(native, items, ""));
    method(engine, "sorted", sorted);
    method(engine, "reversed", |_, items| reversed(items));
    method(engine, "unique", |_, items| unique(items));
    method(engine, "flatten", flatten);
    method(engine, "sum", |_, items| sum(items));
    method(engine, "min", |_, items| extreme("min", items));
    method(engine, "max", |_, items| extreme("max", items));
    // Views have it, too, so that one code works for both.
    pure!(engine, "copy", |native: Native<'_>, items: &mut Array| placed(&native, copied(items).map(Dynamic::from)));
    method_of_two(engine, "join", |native, items, separator| {
        join(native, items, &text_of("join", "the separator", separator)?)
    });
    method_of_two(engine, "union", union);
    method_of_two(engine, "intersection", |_, items, other| common("intersection", items, other, true));
    method_of_two(engine, "difference", |_, items, other| common("difference", items, other, false));
    // Views pass it on to that of lists, as they do with a function.
    pure!(engine, "zip", |native: Native<'_>, items: &mut Array, other: Dynamic| placed(
        &native,
        zip(&native, items, &other)
    ));
    for (name, function) in [("sorted_by", sorted_by as ByKey), ("unique_by", unique_by), ("group_by", group_by)] {
        pure!(engine, name, move |native: Native<'_>, items: &mut Array, key: FnPtr| {
            placed(&native, function(&native, items, &Key::Function(key)))
        });
        pure!(engine, name, move |native: Native<'_>, items: &mut Array, key: ImmutableString| {
            placed(&native, function(&native, items, &Key::Name(key)))
        });
        pure!(engine, name, move |native: Native<'_>, view: &mut View, key: FnPtr| {
            placed(&native, list_of(name, view).and_then(|items| function(&native, &items, &Key::Function(key))))
        });
        pure!(engine, name, move |native: Native<'_>, view: &mut View, key: ImmutableString| {
            placed(&native, list_of(name, view).and_then(|items| function(&native, &items, &Key::Name(key))))
        });
    }
    // The interpreter's own methods of these names ignore errors of the function.
    for name in ["sort", "sort_by"] {
        engine.register_fn(name, move |native: Native<'_>, items: &mut Array, order: FnPtr| {
            *items = placed(&native, ordered(name, &native, items, &order))?;
            Ok::<(), Thrown>(())
        });
    }
    for name in ["order", "order_by"] {
        pure!(engine, name, move |native: Native<'_>, items: &mut Array, order: FnPtr| {
            placed(&native, ordered(name, &native, items, &order))
        });
    }
    // As in Python, a separator joins a list.
    pure!(engine, "join", |native: Native<'_>, separator: &mut ImmutableString, items: Dynamic| {
        placed(&native, items_of("join", &items).and_then(|items| join(&native, &items, separator)))
    });
}

type ByKey = fn(&Native<'_>, &Array, &Key) -> Given;

fn method(engine: &mut Engine, name: &'static str, function: fn(&Native<'_>, &Array) -> Given) {
    pure!(engine, name, move |native: Native<'_>, items: &mut Array| placed(&native, function(&native, items)));
    pure!(engine, name, move |native: Native<'_>, view: &mut View| {
        placed(&native, list_of(name, view).and_then(|items| function(&native, &items)))
    });
}

fn method_of_two(engine: &mut Engine, name: &'static str, function: fn(&Native<'_>, &Array, &Dynamic) -> Given) {
    pure!(engine, name, move |native: Native<'_>, items: &mut Array, other: Dynamic| placed(
        &native,
        function(&native, items, &other)
    ));
    pure!(engine, name, move |native: Native<'_>, view: &mut View, other: Dynamic| {
        placed(&native, list_of(name, view).and_then(|items| function(&native, &items, &other)))
    });
}

/// Returns the items of a view of a list; they are views, too.
fn list_of(function: &str, view: &mut View) -> Result<Array, Thrown> {
    let level = view.level();
    level.into_array().map_err(|_| wrong(function, "it is a method of lists, and this is a map"))
}

/// Returns the items of a list or of a view.
pub(super) fn items_of(function: &str, value: &Dynamic) -> Result<Array, Thrown> {
    if let Some(mut view) = value.read_lock::<View>().map(|view| view.clone()) {
        return list_of(function, &mut view);
    }
    match value.as_array_ref() {
        Ok(items) => {
            bounded::reserve(size_of_items(&items))?;
            Ok(items.clone())
        }
        Err(_) => Err(wrong(function, format!("it needs a list, not {}", shown(value)))),
    }
}

/// Returns a text or a character.
fn text_of(function: &str, what: &str, value: &Dynamic) -> Result<ImmutableString, Thrown> {
    if let Ok(c) = value.as_char() {
        return Ok(c.to_string().into());
    }
    let text = value.as_immutable_string_ref().map(|text| text.clone());
    text.map_err(|_| wrong(function, format!("{what} must be a text, not {}", shown(value))))
}

/// `list.join(separator)`: the items as one text. Lists, maps and `()` are errors.
fn join(native: &Native<'_>, items: &Array, separator: &str) -> Given {
    let mut joined = Text::up_to(native.engine().max_string_size());
    let mut work = WorkCounter::default();
    for (index, item) in items.iter().enumerate() {
        let item = plain_text("join", item)?;
        work.spend(item.len() + separator.len() + 1)?;
        if !(index == 0 || joined.push(separator.as_bytes())) || !joined.push(item.as_bytes()) {
            return Err(exceeded());
        }
    }
    Ok(joined.into_string().into())
}

/// Returns the error of a text that did not fit.
fn exceeded() -> Thrown {
    bounded::refused(crate::script::limits::allocator::exceeded().unwrap_or(Limit::StringSize))
}

/// Returns the text of a value that is not composed of others.
fn plain_text(function: &str, value: &Dynamic) -> Result<ImmutableString, Thrown> {
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok(text.clone());
    }
    if value.is_int() || value.is_float() || value.is_bool() || value.is_char() {
        return Ok(value.to_string().into());
    }
    if let Some(time) = value.read_lock::<Time>() {
        return Ok(time.to_string().into());
    }
    Err(wrong(function, format!("{} has no plain text", shown(value))))
}

/// `list.sorted()`: the items in ascending order; equal ones keep theirs.
fn sorted(_: &Native<'_>, items: &Array) -> Given {
    let items = copied(items)?;
    let mut work = WorkCounter::default();
    Ok(sort(items, &mut |a, b| compare("sorted", a, b, &mut work))?.into())
}

/// The items in the order that a function gives: for two of them, a negative or positive number or zero, or whether the
/// first one comes first.
fn ordered(name: &str, native: &Native<'_>, items: &Array, order: &FnPtr) -> Result<Array, Thrown> {
    let asked = |a: &Dynamic, b: &Dynamic| call(name, native, order, [copy(a)?, copy(b)?]);
    sort(copied(items)?, &mut |a, b| {
        let answer: Dynamic = asked(a, b)?;
        if let Some(sign) = number(&answer) {
            return sign.partial_cmp(&0.0).ok_or_else(|| wrong(name, "the function has returned no number"));
        }
        match answer.as_bool() {
            Ok(true) => Ok(Ordering::Less),
            // Equal items keep their order.
            Ok(false) => Ok(if asked(b, a)?.as_bool().unwrap_or(false) { Ordering::Greater } else { Ordering::Equal }),
            Err(_) => {
                Err(wrong(name, format!("the function must return a number or a boolean, not {}", shown(&answer))))
            }
        }
    })
}

/// `list.reversed()`: the items from the last one to the first one.
fn reversed(items: &Array) -> Given {
    let mut items = copied(items)?;
    items.reverse();
    Ok(items.into())
}

fn copied(items: &Array) -> Result<Array, Thrown> {
    bounded::reserve(size_of_items(items))?;
    Ok(items.clone())
}

/// `list.unique()`: the items without repetitions, in the order of their first occurrence.
fn unique(items: &Array) -> Given {
    let mut known = Known::new("unique");
    let mut kept = Array::new();
    for item in items {
        if known.add(item)? {
            kept.push(copy(item)?);
        }
    }
    Ok(kept.into())
}

/// The values that were seen.
struct Known {
    function: &'static str,
    seen: HashSet<Identity>,
    work: WorkCounter,
}

impl Known {
    fn new(function: &'static str) -> Self {
        Self { function, seen: HashSet::new(), work: WorkCounter::default() }
    }

    fn of(function: &'static str, items: &Array) -> Result<Self, Thrown> {
        let mut known = Self::new(function);
        for item in items {
            known.add(item)?;
        }
        Ok(known)
    }

    /// Adds a value, and returns whether it is new.
    fn add(&mut self, value: &Dynamic) -> Result<bool, Thrown> {
        let identity = Identity::of(self.function, value, &mut self.work)?;
        // A set doubles its capacity when it grows.
        bounded::reserve(2 * size_of::<Identity>())?;
        Ok(self.seen.insert(identity))
    }

    fn contains(&mut self, value: &Dynamic) -> Result<bool, Thrown> {
        Ok(self.seen.contains(&Identity::of(self.function, value, &mut self.work)?))
    }
}

/// `list.flatten()`: the items of the lists in it, one level deep; other items stay.
fn flatten(native: &Native<'_>, items: &Array) -> Given {
    let mut flat = Array::new();
    let mut work = WorkCounter::default();
    for item in items {
        if item.is_array() || item.read_lock::<View>().is_some_and(|view| view.value().is_array()) {
            let inner = items_of("flatten", item)?;
            may_have_items(native, flat.len() + inner.len())?;
            work.spend(inner.len() * size_of::<Dynamic>())?;
            flat.extend(inner);
        } else {
            may_have_items(native, flat.len() + 1)?;
            flat.push(copy(item)?);
        }
    }
    Ok(flat.into())
}

/// `list.sum()`: the sum of the numbers, 0 for an empty list.
fn sum(items: &Array) -> Given {
    let (mut whole, mut real) = (0_i64, None);
    for item in items {
        match (item.as_int(), real, number(item)) {
            (Ok(integer), None, _) => {
                whole =
                    whole.checked_add(integer).ok_or_else(|| wrong("sum", "the sum is too large for an integer"))?;
            }
            (_, before, Some(more)) => real = Some(before.unwrap_or(whole as f64) + more),
            (_, _, None) => return Err(wrong("sum", format!("{} is not a number", shown(item)))),
        }
    }
    Ok(real.map_or_else(|| whole.into(), Into::into))
}

/// `list.min()` and `list.max()`: the least and the greatest item; `()` for an empty list.
fn extreme(function: &'static str, items: &Array) -> Given {
    let mut work = WorkCounter::default();
    let mut found: Option<&Dynamic> = None;
    for item in items {
        let is_better = match found {
            None => true,
            Some(best) => {
                let order = compare(function, item, best, &mut work)?;
                if function == "min" { order.is_lt() } else { order.is_gt() }
            }
        };
        if is_better {
            found = Some(item);
        }
    }
    found.map_or(Ok(Dynamic::UNIT), copy)
}

/// `list.union(other)`: the items of both lists without repetitions.
fn union(native: &Native<'_>, items: &Array, other: &Dynamic) -> Given {
    let mut known = Known::new("union");
    let mut all = Array::new();
    for item in items.iter().chain(&items_of("union", other)?) {
        if known.add(item)? {
            may_have_items(native, all.len() + 1)?;
            all.push(copy(item)?);
        }
    }
    Ok(all.into())
}

/// `list.intersection(other)` and `list.difference(other)`: the items that are in the other list, or are not, without
/// repetitions.
fn common(function: &'static str, items: &Array, other: &Dynamic, is_wanted: bool) -> Given {
    let mut others = Known::of(function, &items_of(function, other)?)?;
    let mut known = Known::new(function);
    let mut kept = Array::new();
    for item in items {
        if others.contains(item)? == is_wanted && known.add(item)? {
            kept.push(copy(item)?);
        }
    }
    Ok(kept.into())
}

/// `list.zip(other)`: pairs of the items, as many as the shorter list has.
fn zip(native: &Native<'_>, items: &Array, other: &Dynamic) -> Given {
    let other = items_of("zip", other)?;
    may_have_items(native, items.len().min(other.len()))?;
    bounded::reserve(items.iter().take(other.len()).map(|item| size(item) + 3 * size_of::<Dynamic>()).sum())?;
    Ok(items.iter().zip(other).map(|(a, b)| Dynamic::from_array(vec![a.flatten_clone(), b])).collect::<Array>().into())
}

/// The source of an item's key: a function, or the name of a field.
enum Key {
    Function(FnPtr),
    Name(ImmutableString),
}

impl Key {
    fn of(&self, function: &str, native: &Native<'_>, item: &Dynamic) -> Given {
        match self {
            Self::Function(key) => call(function, native, key, [copy(item)?]),
            Self::Name(name) => {
                if let Some(mut view) = item.read_lock::<View>().map(|view| view.clone()) {
                    return view.get(name.clone());
                }
                let entries = item.as_map_ref();
                let entries = entries.map_err(|_| wrong(function, format!("{} has no `{name}`", shown(item))))?;
                entries.get(name.as_str()).map_or(Ok(Dynamic::UNIT), copy)
            }
        }
    }
}

/// `list.sorted_by(key)`: the items in the order of their keys, which a function returns, or a field of the items is.
fn sorted_by(native: &Native<'_>, items: &Array, key: &Key) -> Given {
    let mut pairs = Vec::new();
    for item in items {
        bounded::reserve(2 * size_of::<Dynamic>())?;
        pairs.push((key.of("sorted_by", native, item)?, copy(item)?));
    }
    let mut work = WorkCounter::default();
    let sorted = sort(pairs, &mut |(a, _), (b, _)| compare("sorted_by", a, b, &mut work))?;
    Ok(sorted.into_iter().map(|(_, item)| item).collect::<Array>().into())
}

/// `list.unique_by(key)`: the first item of each key.
fn unique_by(native: &Native<'_>, items: &Array, key: &Key) -> Given {
    let mut known = Known::new("unique_by");
    let mut kept = Array::new();
    for item in items {
        if known.add(&key.of("unique_by", native, item)?)? {
            kept.push(copy(item)?);
        }
    }
    Ok(kept.into())
}

/// `list.group_by(key)`: a map from the text of each key to a list of its items. The key `()` is an empty text.
fn group_by(native: &Native<'_>, items: &Array, key: &Key) -> Given {
    let mut groups = Map::new();
    for item in items {
        let key = key.of("group_by", native, item)?;
        let key = if key.is_unit() { ImmutableString::new() } else { plain_text("group_by", &key)? };
        let max = native.engine().max_map_size();
        if max > 0 && !groups.contains_key(key.as_str()) && groups.len() >= max {
            return Err(bounded::refused(Limit::MapSize));
        }
        bounded::reserve(key.len() + 2 * size_of::<Dynamic>())?;
        let group = groups.entry(key.as_str().into()).or_insert_with(|| Array::new().into());
        if let Ok(mut group) = group.as_array_mut() {
            group.push(copy(item)?);
        }
    }
    Ok(groups.into())
}

/// Returns the texts of a list.
///
/// # Errors
/// If it is no list, or one of them is no text.
pub(super) fn texts_of(function: &str, what: &str, value: &Dynamic) -> Result<Vec<ImmutableString>, Thrown> {
    items_of(function, value)?.iter().map(|item| text_of(function, what, item)).collect()
}

/// Returns a list with the plain forms of the items: views and handles are copied.
///
/// # Errors
/// If one has no JSON form.
pub(super) fn plain(function: &str, value: &Dynamic) -> Given {
    convert::to_plain(value).map_err(|error| wrong(function, error))
}
