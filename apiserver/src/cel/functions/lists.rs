//! Functions of lists and sets.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{operators, text};
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome, whole};
use crate::cel::value::checked::order;
use crate::cel::value::{List, Value};

/// More items than any budget allows.
const MAX_RANGE: i64 = 10_000_000;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "max" => |arguments| extreme(arguments, "max", Ordering::Less),
        "min" => |arguments| extreme(arguments, "min", Ordering::Greater),
        "indexOf" => |arguments| match arguments {
            [Value::List(list), item] => Ok(found(list.items.iter().position(|one| one.equals(item)))),
            _ => text::index_of(arguments),
        },
        "lastIndexOf" => |arguments| match arguments {
            [Value::List(list), item] => Ok(found(list.items.iter().rposition(|one| one.equals(item)))),
            _ => text::last_index_of(arguments),
        },
        "slice" => slice,
        "flatten" => flatten,
        "sort" => |arguments| sort(arguments.first(), arguments.first()),
        "@sortByAssociatedKeys" => |arguments| sort(arguments.first(), arguments.get(1)),
        "lists.range" => range,
        "reverse" => |arguments| Ok(Value::list(items(arguments.first())?.iter().rev().cloned().collect())),
        "distinct" => distinct,
        "sets.contains" => |arguments| sets(arguments, contains_all),
        "sets.equivalent" => {
            |arguments| sets(arguments, |one, other| contains_all(one, other) && contains_all(other, one))
        }
        "sets.intersects" => {
            |arguments| sets(arguments, |one, other| one.items.iter().any(|item| other.contains(item)))
        }
        _ => return None,
    })
}

fn items(list: Option<&Value>) -> Result<&[Value], Error> {
    match list {
        Some(Value::List(list)) => Ok(&list.items),
        _ => Err(no_such_overload()),
    }
}

fn found(position: Option<usize>) -> Value {
    position.map_or(Value::Int(-1), whole)
}

fn is_sorted(arguments: &[Value]) -> Outcome {
    for pair in items(arguments.first())?.windows(2) {
        if order(&pair[0], &pair[1])?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

/// The sum of an empty list has no type: it is comparable with numbers of any type.
fn sum(arguments: &[Value]) -> Outcome {
    let items = items(arguments.first())?;
    let Some((first, others)) = items.split_first() else { return Ok(Value::Int(0)) };
    others.iter().try_fold(first.clone(), |sum, item| operators::add(&sum, item))
}

fn extreme(arguments: &[Value], name: &str, replaced: Ordering) -> Outcome {
    let (first, others) =
        items(arguments.first())?.split_first().ok_or_else(|| failed(format!("{name} called on empty list")))?;
    let mut result = first;
    for item in others {
        if order(result, item)? == replaced {
            result = item;
        }
    }
    Ok(result.clone())
}

fn slice(arguments: &[Value]) -> Outcome {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else { return Err(no_such_overload()) };
    let lead = format!("cannot slice({start}, {end}), ");
    if *start < 0 || *end < 0 {
        return Err(failed(format!("{lead}negative indexes not supported")));
    }
    if start > end {
        return Err(failed(format!("{lead}start index must be less than or equal to end index")));
    }
    let part = list.items.get(*start as usize..*end as usize);
    let part = part.ok_or_else(|| failed(format!("{lead}list is length {}", list.items.len())))?;
    Ok(Value::list(part.to_vec()))
}

fn flatten(arguments: &[Value]) -> Outcome {
    let depth = match arguments {
        [_] => 1,
        [_, Value::Int(depth)] => *depth,
        _ => return Err(no_such_overload()),
    };
    let depth = u64::try_from(depth).map_err(|_| failed("level must be non-negative"))?;
    let mut flat = Vec::new();
    flatten_into(items(arguments.first())?, depth, &mut flat);
    Ok(Value::list(flat))
}

fn flatten_into(items: &[Value], depth: u64, flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::List(list) if depth > 0 => flatten_into(&list.items, depth - 1, flat),
            other => flat.push(other.clone()),
        }
    }
}

/// Sorts by keys given in the order of the items.
fn sort(list: Option<&Value>, keys: Option<&Value>) -> Outcome {
    let (items, keys) = (items(list)?, items(keys)?);
    let Some(first) = keys.first() else { return Ok(Value::list(Vec::new())) };
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(failed("list elements must have the same type"));
    }
    if first.compare(first).is_none() {
        return Err(failed("list elements must be comparable"));
    }
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(items).collect();
    pairs.sort_by(|(one, _), (other, _)| one.compare(other).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item.clone()).collect()))
}

fn range(arguments: &[Value]) -> Outcome {
    let [Value::Int(end)] = arguments else { return Err(no_such_overload()) };
    if *end > MAX_RANGE {
        return Err(Error::TooExpensive);
    }
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn distinct(arguments: &[Value]) -> Outcome {
    let mut seen = List::default();
    for item in items(arguments.first())? {
        if !seen.contains(item) {
            seen.items.push(item.clone());
        }
    }
    Ok(Value::List(Arc::new(seen)))
}

fn sets(arguments: &[Value], holds: fn(&List, &List) -> bool) -> Outcome {
    match arguments {
        [Value::List(one), Value::List(other)] => Ok(Value::Bool(holds(one, other))),
        _ => Err(no_such_overload()),
    }
}

fn contains_all(list: &List, part: &List) -> bool {
    part.items.iter().all(|item| list.contains(item))
}
