//! Methods of texts that return something and change nothing.

use rhai::{Array, Dynamic, Engine, ImmutableString};

use crate::script::functions::options::placed;
use crate::script::functions::support::{
    Given, Native, Thrown, WorkCounter, count, may_have_bytes, may_have_items, shown, wrong,
};
use crate::script::runtime::bounded;

/// Registers the methods.
pub(super) fn register(engine: &mut Engine) {
    method(engine, "trimmed", |_, text| Ok(text.trim().into()));
    method(engine, "trimmed_start", |_, text| Ok(text.trim_start().into()));
    method(engine, "trimmed_end", |_, text| Ok(text.trim_end().into()));
    method(engine, "reversed", |native, text| {
        may_have_bytes(native, text.len())?;
        Ok(text.chars().rev().collect::<String>().into())
    });
    method(engine, "lines", lines);
    method(engine, "capitalized", |native, text| joined_words(native, &[text], "", capitalized));
    method(engine, "title_case", title_case);
    method(engine, "kebab_case", |native, text| {
        joined_words(native, &words(text)?, "-", |word, _| word.to_lowercase())
    });
    method(engine, "snake_case", |native, text| {
        joined_words(native, &words(text)?, "_", |word, _| word.to_lowercase())
    });
    method(engine, "camel_case", |native, text| {
        joined_words(
            native,
            &words(text)?,
            "",
            |word, index| if index == 0 { word.to_lowercase() } else { capitalized(word, index) },
        )
    });
    with_text(engine, "trimmed", |text, signs| text.trim_matches(|c: char| signs.contains(c)));
    with_text(engine, "trimmed_start", |text, signs| text.trim_start_matches(|c: char| signs.contains(c)));
    with_text(engine, "trimmed_end", |text, signs| text.trim_end_matches(|c: char| signs.contains(c)));
    with_text(engine, "without_prefix", |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    with_text(engine, "without_suffix", |text, suffix| text.strip_suffix(suffix).unwrap_or(text));
    pure!(engine, "replaced", |native: Native<'_>, text: &mut ImmutableString, find: Dynamic, with: Dynamic| {
        placed(&native, replaced(&native, text, &find, &with))
    });
    pure!(engine, "repeated", |native: Native<'_>, text: &mut ImmutableString, times: Dynamic| {
        placed(&native, repeated(&native, text, &times))
    });
    for (name, at_start) in [("padded", false), ("padded_start", true)] {
        pure!(engine, name, move |native: Native<'_>, text: &mut ImmutableString, length: Dynamic| {
            placed(&native, padded(&native, name, text, &length, " ", at_start))
        });
        pure!(engine, name, move |native: Native<'_>, text: &mut ImmutableString, length: Dynamic, with: Dynamic| {
            placed(
                &native,
                argument(name, &with).and_then(|with| padded(&native, name, text, &length, &with, at_start)),
            )
        });
    }
}

fn method(engine: &mut Engine, name: &'static str, function: fn(&Native<'_>, &str) -> Given) {
    pure!(engine, name, move |native: Native<'_>, text: &mut ImmutableString| placed(&native, function(&native, text)));
}

fn with_text(engine: &mut Engine, name: &'static str, function: for<'a> fn(&'a str, &str) -> &'a str) {
    pure!(engine, name, move |native: Native<'_>, text: &mut ImmutableString, other: Dynamic| {
        placed(
            &native,
            argument(name, &other).map(|other| Dynamic::from(ImmutableString::from(function(text, &other)))),
        )
    });
}

/// Returns an argument that is a text or a character.
fn argument(function: &str, value: &Dynamic) -> Result<ImmutableString, Thrown> {
    if let Ok(c) = value.as_char() {
        return Ok(c.to_string().into());
    }
    let text = value.as_immutable_string_ref().map(|text| text.clone());
    text.map_err(|_| wrong(function, format!("it needs a text, not {}", shown(value))))
}

/// `text.replaced(find, with)`: the text with all occurrences replaced.
fn replaced(native: &Native<'_>, text: &str, find: &Dynamic, with: &Dynamic) -> Given {
    let (find, with) = (argument("replaced", find)?, argument("replaced", with)?);
    let found = text.matches(find.as_str()).count();
    let length =
        text.len().saturating_sub(found.saturating_mul(find.len())).saturating_add(found.saturating_mul(with.len()));
    may_have_bytes(native, length)?;
    Ok(text.replace(find.as_str(), &with).into())
}

/// `text.repeated(times)`: the text several times.
fn repeated(native: &Native<'_>, text: &str, times: &Dynamic) -> Given {
    let times = count("repeated", "the number", times)?;
    may_have_bytes(native, text.len().saturating_mul(times))?;
    Ok(text.repeat(times).into())
}

/// `text.padded(length, with)` and `text.padded_start(length, with)`: the text with as many characters as the length,
/// filled up by a text behind or before it. A longer text stays as it is.
fn padded(native: &Native<'_>, function: &str, text: &str, length: &Dynamic, with: &str, at_start: bool) -> Given {
    let missing = count(function, "the length", length)?.saturating_sub(text.chars().count());
    if missing == 0 {
        return Ok(text.into());
    }
    if with.is_empty() {
        return Err(wrong(function, "the text to fill up with is empty"));
    }
    let widest = with.chars().map(char::len_utf8).max().unwrap_or_default();
    may_have_bytes(native, text.len().saturating_add(missing.saturating_mul(widest)))?;
    let filling: String = with.chars().cycle().take(missing).collect();
    Ok(if at_start { filling + text } else { text.to_owned() + &filling }.into())
}

/// `text.lines()`: a list of the lines without their ends.
fn lines(native: &Native<'_>, text: &str) -> Given {
    let mut lines = Array::new();
    let mut work = WorkCounter::default();
    for line in text.lines() {
        may_have_items(native, lines.len() + 1)?;
        bounded::reserve(line.len() + 2 * size_of::<Dynamic>())?;
        work.spend(line.len() + size_of::<Dynamic>())?;
        lines.push(line.into());
    }
    Ok(lines.into())
}

fn capitalized(word: &str, _: usize) -> String {
    let mut signs = word.chars();
    signs
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + &signs.as_str().to_lowercase())
}

/// `text.title_case()`: each word with a capital, and the text between the words unchanged.
fn title_case(native: &Native<'_>, text: &str) -> Given {
    // The other case of a character may take three times as many bytes.
    may_have_bytes(native, text.len().saturating_mul(3))?;
    let mut title = String::new();
    let mut is_inside = false;
    for c in text.chars() {
        if is_inside {
            title.extend(c.to_lowercase());
        } else {
            title.extend(c.to_uppercase());
        }
        is_inside = c.is_alphanumeric() || (is_inside && c == '\'');
    }
    Ok(title.into())
}

/// Returns the words of a text. A word ends at a sign that is no letter or digit, and where a capital follows a small
/// letter, as in `podName`.
fn words(text: &str) -> Result<Vec<&str>, Thrown> {
    let mut words = Vec::new();
    let mut begun: Option<usize> = None;
    let mut previous = ' ';
    let mut signs = text.char_indices().peekable();
    while let Some((index, c)) = signs.next() {
        let next_is_small = signs.peek().is_some_and(|(_, next)| next.is_lowercase());
        let is_boundary = c.is_uppercase()
            && (previous.is_lowercase() || previous.is_numeric() || (previous.is_uppercase() && next_is_small));
        if let Some(start) = begun.filter(|_| !c.is_alphanumeric() || is_boundary) {
            bounded::reserve(2 * size_of::<&str>())?;
            words.push(&text[start..index]);
            begun = None;
        }
        if c.is_alphanumeric() && begun.is_none() {
            begun = Some(index);
        }
        previous = c;
    }
    words.extend(begun.map(|start| &text[start..]));
    Ok(words)
}

/// Returns words with a separator between them, each changed by a function.
fn joined_words(native: &Native<'_>, words: &[&str], between: &str, change: fn(&str, usize) -> String) -> Given {
    let length: usize = words.iter().map(|word| word.len().saturating_mul(3) + between.len()).sum();
    may_have_bytes(native, length)?;
    let mut joined = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            joined.push_str(between);
        }
        joined.push_str(&change(word, index));
    }
    Ok(joined.into())
}
