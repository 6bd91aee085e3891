//! `regex::`: regular expressions in linear time. The first argument is the pattern.

use regex::Regex;
use rhai::{Array, Dynamic, Engine, EvalAltResult, FuncRegistration, Map, Module, NativeCallContext};

use super::options::{placed, text};
use super::patterns::Patterns;
use super::searching::{Groups, Search, Searches, Wanted};
use crate::script::limits::Limit;
use crate::script::runtime::bounded::{self, Text};

type Thrown = Box<EvalAltResult>;

/// The memory of an item of a result besides its text.
const BYTES_PER_ITEM: usize = 64;

/// Registers the module.
pub(crate) fn register(engine: &mut Engine) {
    let patterns = Patterns::default();
    let mut module = Module::new();
    let two: [(&str, Function<2>); 7] = [
        ("is_match", is_match),
        ("find", find),
        ("find_all", find_all),
        ("captures", captures),
        ("captures_all", captures_all),
        ("named", named),
        ("split", split),
    ];
    for (name, function) in two {
        let patterns = patterns.clone();
        let call = move |native: NativeCallContext<'_>, a: Dynamic, b: Dynamic| {
            placed(&native, Searches::of(&native, &patterns).and_then(|searches| function(&searches, [a, b])))
        };
        FuncRegistration::new(name).set_into_module(&mut module, call);
    }
    let call = move |native: NativeCallContext<'_>, a: Dynamic, b: Dynamic, c: Dynamic| {
        placed(&native, Searches::of(&native, &patterns).and_then(|searches| replace(&searches, [a, b, c])))
    };
    FuncRegistration::new("replace").set_into_module(&mut module, call);
    FuncRegistration::new("escape").set_into_module(&mut module, |native: NativeCallContext<'_>, given: Dynamic| {
        placed(&native, escape(&native, &given))
    });
    engine.register_static_module("regex", module.into());
}

type Function<const N: usize> = fn(&Searches<'_>, [Dynamic; N]) -> Result<Dynamic, Thrown>;

/// `regex::is_match(pattern, text)`: whether the pattern matches anywhere in the text.
fn is_match(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::is_match", &pattern, &given)?;
    Ok(search.run(Regex::is_match)?.into())
}

/// `regex::find(pattern, text)`: the first part of the text that matches; `()` if there is none.
fn find(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::find", &pattern, &given)?;
    let found = search.run(|regex, text| regex.find(text).map(|found| found.range()))?;
    Ok(found.map_or(Dynamic::UNIT, |range| search.text[range].into()))
}

/// `regex::find_all(pattern, text)`: an array of all parts of the text that match, which do not overlap.
fn find_all(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::find_all", &pattern, &given)?;
    let mut all = Array::new();
    search.each(Wanted::Whole, |groups| {
        let found = &search.text[groups.whole()];
        if all.len() >= searches.max_items {
            return Err(bounded::refused(Limit::ArraySize));
        }
        bounded::reserve(found.len() + BYTES_PER_ITEM)?;
        all.push(found.into());
        Ok(())
    })?;
    Ok(all.into())
}

/// `regex::captures(pattern, text)`: the groups of the first match, in a list whose first item is the whole match; a
/// group that has no part in it is `()`. Without a match it is `()`.
fn captures(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::captures", &pattern, &given)?;
    let first = first_groups(&search)?;
    first.map_or(Ok(Dynamic::UNIT), |groups| parts(searches, &search.text, &groups).map(Into::into))
}

/// `regex::captures_all(pattern, text)`: a list with the groups of each match, which are lists as those of `captures`.
fn captures_all(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::captures_all", &pattern, &given)?;
    let (mut all, mut count) = (Array::new(), 0);
    search.each(Wanted::Groups, |groups| {
        // The interpreter counts the items of inner lists, too.
        count += groups.0.len() + 1;
        if count > searches.max_items {
            return Err(bounded::refused(Limit::ArraySize));
        }
        all.push(parts(searches, &search.text, groups)?.into());
        Ok(())
    })?;
    Ok(all.into())
}

/// `regex::named(pattern, text)`: a map of the named groups of the first match; a group that has no part in it is `()`.
/// Without a match it is `()`.
fn named(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::named", &pattern, &given)?;
    let Some(groups) = first_groups(&search)? else { return Ok(Dynamic::UNIT) };
    let parts = parts(searches, &search.text, &groups)?;
    let names = search.regex().capture_names();
    Ok(names.zip(parts).filter_map(|(name, part)| Some((name?.into(), part))).collect::<Map>().into())
}

fn first_groups(search: &Search<'_>) -> Result<Option<Groups>, Thrown> {
    search.run(|regex, text| {
        let mut locations = regex.capture_locations();
        regex.captures_read(&mut locations, text).map(|_| Groups::of(&locations))
    })
}

/// Returns the texts of groups.
fn parts(searches: &Searches<'_>, text: &str, groups: &Groups) -> Result<Array, Thrown> {
    if groups.0.len() > searches.max_items {
        return Err(bounded::refused(Limit::ArraySize));
    }
    bounded::reserve(
        groups.0.iter().map(|range| range.as_ref().map_or(0, ExactSizeIterator::len) + BYTES_PER_ITEM).sum(),
    )?;
    Ok(groups.0.iter().map(|range| range.clone().map_or(Dynamic::UNIT, |range| text[range].into())).collect())
}

/// `regex::split(pattern, text)`: a list of the parts of the text between the matches.
fn split(searches: &Searches<'_>, [pattern, given]: [Dynamic; 2]) -> Result<Dynamic, Thrown> {
    let search = searches.prepare("regex::split", &pattern, &given)?;
    let (mut all, mut end) = (Array::new(), 0);
    let mut push = |part: &str| {
        if all.len() >= searches.max_items {
            return Err(bounded::refused(Limit::ArraySize));
        }
        bounded::reserve(part.len() + BYTES_PER_ITEM)?;
        all.push(part.into());
        Ok(())
    };
    search.each(Wanted::Whole, |groups| {
        let whole = groups.whole();
        push(&search.text[end..whole.start])?;
        end = whole.end;
        Ok(())
    })?;
    push(&search.text[end..])?;
    Ok(all.into())
}

/// `regex::escape(text)`: a pattern that matches the text itself.
fn escape(native: &NativeCallContext<'_>, given: &Dynamic) -> Result<Dynamic, Thrown> {
    let plain = text("regex::escape", "the text", given)?;
    if plain.len().saturating_mul(2) > native.engine().max_string_size() {
        return Err(bounded::refused(Limit::StringSize));
    }
    bounded::reserve(plain.len().saturating_mul(2))?;
    Ok(regex::escape(&plain).into())
}

/// `regex::replace(pattern, text, with)`: the text with every match replaced; `$1` and `${name}` mean groups, `$$` a
/// dollar.
fn replace(searches: &Searches<'_>, [pattern, given, with]: [Dynamic; 3]) -> Result<Dynamic, Thrown> {
    let with = text("regex::replace", "the replacement", &with)?;
    let search = searches.prepare("regex::replace", &pattern, &given)?;
    let text = &search.text;
    let (mut replaced, mut end) = (Text::up_to(searches.max_text), 0);
    let push = |replaced: &mut Text, part: &str| {
        if replaced.push(part.as_bytes()) { Ok(()) } else { Err(bounded::refused(Limit::StringSize)) }
    };
    search.each(Wanted::Groups, |groups| {
        let whole = groups.whole();
        push(&mut replaced, &text[end..whole.start])?;
        let longest = groups.0.iter().flatten().map(ExactSizeIterator::len).max().unwrap_or_default();
        // A replacement refers to a group at most once in two bytes.
        bounded::reserve((with.len() / 2 + 1).saturating_mul(longest + 2))?;
        push(&mut replaced, &groups.expanded(search.regex(), text, &with))?;
        end = whole.end;
        Ok(())
    })?;
    push(&mut replaced, &text[end..])?;
    Ok(replaced.into_string().into())
}
