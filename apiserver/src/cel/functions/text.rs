//! Functions of texts. Positions count characters.

use super::format_text::{self, quote};
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome, whole};
use crate::cel::value::Value;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |arguments| test(arguments, |text, part| text.contains(part)),
        "startsWith" => |arguments| test(arguments, |text, part| text.starts_with(part)),
        "endsWith" => |arguments| test(arguments, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "lowerAscii" => |arguments| change(arguments, str::to_ascii_lowercase),
        "upperAscii" => |arguments| change(arguments, str::to_ascii_uppercase),
        "trim" => |arguments| change(arguments, |text| text.trim().to_owned()),
        "strings.quote" => |arguments| change(arguments, quote),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => format_text::format,
        _ => return None,
    })
}

fn test(arguments: &[Value], holds: fn(&str, &str) -> bool) -> Outcome {
    match arguments {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(no_such_overload()),
    }
}

fn change(arguments: &[Value], changed: fn(&str) -> String) -> Outcome {
    match arguments {
        [Value::String(text)] => Ok(Value::text(&changed(text))),
        _ => Err(no_such_overload()),
    }
}

fn out_of_range(index: i64) -> Error {
    failed(format!("index out of range: {index}"))
}

/// Returns a position, which may be the end.
fn position(characters: &[char], index: i64) -> Result<usize, Error> {
    usize::try_from(index).ok().filter(|position| *position <= characters.len()).ok_or_else(|| out_of_range(index))
}

fn char_at(arguments: &[Value]) -> Outcome {
    let [Value::String(text), Value::Int(index)] = arguments else { return Err(no_such_overload()) };
    let characters: Vec<char> = text.chars().collect();
    let position = position(&characters, *index)?;
    Ok(Value::text(&characters.get(position).map(char::to_string).unwrap_or_default()))
}

/// Returns the first position of a text in another, from an offset on.
pub(super) fn index_of(arguments: &[Value]) -> Outcome {
    let (text, part, offset) = search(arguments, |_| 0)?;
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let offset = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let found = (offset..(text.len() + 1).saturating_sub(part.len())).find(|at| text[*at..].starts_with(&part));
    Ok(found.map_or(Value::Int(-1), whole))
}

/// Returns the last position of a text in another, up to an offset.
pub(super) fn last_index_of(arguments: &[Value]) -> Outcome {
    let (text, part, offset) = search(arguments, |length| i64::try_from(length).unwrap_or(i64::MAX) - 1)?;
    if part.is_empty() {
        return Ok(if arguments.len() == 2 { whole(text.len()) } else { Value::Int(offset) });
    }
    if text.len() < part.len() && arguments.len() == 2 {
        return Ok(Value::Int(-1));
    }
    let offset = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if offset >= text.len() || part.len() > text.len() {
        return Ok(Value::Int(-1));
    }
    let found = (0..=offset.min(text.len() - part.len())).rev().find(|at| text[*at..].starts_with(&part));
    Ok(found.map_or(Value::Int(-1), whole))
}

fn search(arguments: &[Value], start: fn(usize) -> i64) -> Result<(Vec<char>, Vec<char>, i64), Error> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(no_such_overload()),
    };
    let text: Vec<char> = text.chars().collect();
    let offset = offset.unwrap_or_else(|| start(text.len()));
    Ok((text, part.chars().collect(), offset))
}

fn replace(arguments: &[Value]) -> Outcome {
    Ok(Value::text(&match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => text.replace(&**old, new),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => {
            match usize::try_from(*count) {
                Ok(count) => text.replacen(&**old, new, count),
                Err(_) => text.replace(&**old, new),
            }
        }
        _ => return Err(no_such_overload()),
    }))
}

fn split(arguments: &[Value]) -> Outcome {
    let (text, separator, limit) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(no_such_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<String> = match limit {
        0 => Vec::new(),
        _ if separator.is_empty() => into_characters(text, limit),
        _ => text.splitn(limit, &**separator).map(str::to_owned).collect(),
    };
    Ok(Value::list(parts.iter().map(|part| Value::text(part)).collect()))
}

fn into_characters(text: &str, limit: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let alone = characters.len().min(limit - 1);
    let mut parts: Vec<String> = characters[..alone].iter().map(char::to_string).collect();
    if alone < characters.len() {
        parts.push(characters[alone..].iter().collect());
    }
    parts
}

fn substring(arguments: &[Value]) -> Outcome {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_such_overload()),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let characters: Vec<char> = text.chars().collect();
    let start = position(&characters, start)?;
    let end = end.map_or(Ok(characters.len()), |end| position(&characters, end))?;
    Ok(Value::text(&characters[start..end].iter().collect::<String>()))
}

fn join(arguments: &[Value]) -> Outcome {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(no_such_overload()),
    };
    let mut parts = Vec::with_capacity(list.items.len());
    for item in &list.items {
        let Value::String(text) = item else { return Err(no_such_overload()) };
        parts.push(&**text);
    }
    Ok(Value::text(&parts.join(separator)))
}
