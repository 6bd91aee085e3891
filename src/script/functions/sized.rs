//! Functions of the language whose results can be much larger than their arguments. The language checks sizes
//! afterwards; here they are known, or limited, before anything is made.

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext, Position};

use crate::script::language::convert;
use crate::script::limits::Limit;
use crate::script::limits::allocator;
use crate::script::runtime::bounded::{self, Text};
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;

/// The memory of an item of a list of texts besides its text.
const BYTES_PER_ITEM: usize = 64;

/// Registers the functions. They take precedence over those of the language.
pub(super) fn register(engine: &mut Engine) {
    engine.register_fn(
        "replace",
        |native: Native<'_>, text: &mut ImmutableString, find: ImmutableString, with: ImmutableString| {
            replace(&native, text, &find, &with)
        },
    );
    engine.register_fn(
        "replace",
        |native: Native<'_>, text: &mut ImmutableString, find: char, with: ImmutableString| {
            replace(&native, text, find.encode_utf8(&mut [0; 4]), &with)
        },
    );
    engine.register_fn(
        "replace",
        |native: Native<'_>, text: &mut ImmutableString, find: ImmutableString, with: char| {
            replace(&native, text, &find, with.encode_utf8(&mut [0; 4]))
        },
    );
    pure!(engine, "split", |native: Native<'_>, text: &mut ImmutableString| split(
        &native,
        text,
        text.split_whitespace()
    ));
    pure!(engine, "split", |native: Native<'_>, text: &mut ImmutableString, at: ImmutableString| split(
        &native,
        text,
        text.split(&*at)
    ));
    pure!(engine, "split", |native: Native<'_>, text: &mut ImmutableString, at: char| split(
        &native,
        text,
        text.split(at)
    ));
    pure!(engine, "split", |native: Native<'_>, text: &mut ImmutableString, at: ImmutableString, count: i64| {
        split(&native, text, text.splitn(segments(count), &*at))
    });
    pure!(engine, "split", |native: Native<'_>, text: &mut ImmutableString, at: char, count: i64| {
        split(&native, text, text.splitn(segments(count), at))
    });
    pure!(engine, "split_rev", |native: Native<'_>, text: &mut ImmutableString, at: ImmutableString| {
        split(&native, text, text.rsplit(&*at))
    });
    pure!(engine, "split_rev", |native: Native<'_>, text: &mut ImmutableString, at: char| split(
        &native,
        text,
        text.rsplit(at)
    ));
    pure!(engine, "split_rev", |native: Native<'_>, text: &mut ImmutableString, at: ImmutableString, count: i64| {
        split(&native, text, text.rsplitn(segments(count), &*at))
    });
    pure!(engine, "split_rev", |native: Native<'_>, text: &mut ImmutableString, at: char, count: i64| {
        split(&native, text, text.rsplitn(segments(count), at))
    });
    pure!(engine, "to_chars", |native: Native<'_>, text: &mut ImmutableString| to_chars(&native, text));
    for name in ["to_string", "to_debug"] {
        pure!(engine, name, |native: Native<'_>, items: &mut Array| shown_list(&native, items));
        pure!(engine, name, |native: Native<'_>, entries: &mut Map| shown_map(&native, entries));
    }
    pure!(engine, "to_json", |entries: &mut Map| to_json(entries));
}

fn too_large(what: &str) -> Thrown {
    EvalAltResult::ErrorDataTooLarge(what.to_owned(), Position::NONE).into()
}

fn segments(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default().max(1)
}

/// `text.replace(find, with)`: replaces all occurrences in the text.
fn replace(native: &Native<'_>, text: &mut ImmutableString, find: &str, with: &str) -> Result<(), Thrown> {
    if with.len() > find.len() {
        let more = text.matches(find).count().saturating_mul(with.len() - find.len());
        let max = native.engine().max_string_size();
        if max > 0 && text.len().saturating_add(more) > max {
            return Err(too_large("Length of string"));
        }
        bounded::reserve(text.len() + more)?;
    }
    *text = text.replace(find, with).into();
    Ok(())
}

/// Returns the parts of a text. An empty text has one part.
fn split<'a>(
    native: &Native<'_>,
    text: &ImmutableString,
    parts: impl Iterator<Item = &'a str>,
) -> Result<Array, Thrown> {
    if text.is_empty() {
        return Ok(vec![text.clone().into()]);
    }
    let max = native.engine().max_array_size();
    let mut items = Array::new();
    for part in parts {
        if max > 0 && items.len() >= max {
            return Err(too_large("Size of array"));
        }
        bounded::reserve(part.len() + BYTES_PER_ITEM)?;
        items.push(part.into());
    }
    Ok(items)
}

/// `text.to_chars()`: the characters of the text.
fn to_chars(native: &Native<'_>, text: &ImmutableString) -> Result<Array, Thrown> {
    let max = native.engine().max_array_size();
    if max > 0 && text.chars().nth(max).is_some() {
        return Err(too_large("Size of array"));
    }
    Ok(text.chars().map(Into::into).collect())
}

/// Returns the text of a list, as the language shows it. If it is too large, the text is cut off, and the call is ended
/// before its next operation: the language would show the list itself after an error.
fn shown_list(native: &Native<'_>, items: &mut Array) -> String {
    let mut text = Text::up_to(max_text(native));
    text.push(b"[");
    for (index, item) in items.iter_mut().enumerate() {
        if !(text.push(if index == 0 { b"" } else { b", " }) && text.push(shown_item(native, item).as_bytes())) {
            break;
        }
    }
    text.push(b"]");
    text.into_string()
}

fn shown_map(native: &Native<'_>, entries: &mut Map) -> String {
    let mut text = Text::up_to(max_text(native));
    text.push(b"#{");
    for (index, (key, item)) in entries.iter_mut().enumerate() {
        let key = format!("{}{key:?}: ", if index == 0 { "" } else { ", " });
        if !(text.push(key.as_bytes()) && text.push(shown_item(native, item).as_bytes())) {
            break;
        }
    }
    text.push(b"}");
    text.into_string()
}

fn max_text(native: &Native<'_>) -> usize {
    match native.engine().max_string_size() {
        0 => usize::MAX,
        max => max,
    }
}

fn shown_item(native: &Native<'_>, item: &mut Dynamic) -> String {
    let length = item.as_immutable_string_ref().map_or(0, |text| text.len());
    if !allocator::reserve(length) {
        return String::new();
    }
    match native.call_native_fn_raw("to_debug", true, &mut [item]) {
        Ok(shown) => shown.into_string().unwrap_or_else(str::to_owned),
        Err(_) if allocator::exceeded().is_some() => String::new(),
        Err(_) => format!("{item:?}"),
    }
}

/// `map.to_json()`: the map as JSON, on one line. Values without a JSON form are errors.
fn to_json(entries: &Map) -> Result<String, Thrown> {
    let json = convert::to_json(&Dynamic::from(entries.clone()))
        .map_err(|error| Failure::argument(format!("`to_json`: {error}")))?;
    let text = bounded::json_text(&json);
    if allocator::exceeded().is_some() { Err(bounded::refused(Limit::Memory)) } else { Ok(text) }
}
