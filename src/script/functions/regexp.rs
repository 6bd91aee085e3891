//! `regex::`: regular expressions in linear time. The first argument is the pattern.

use regex::Regex;
use rhai::{Array, Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};

use super::options::{placed, text};
use super::patterns::Patterns;
use super::searching::{Searches, Wanted};
use crate::script::bounded::{self, Text};
use crate::script::declaration::Limit;

type Thrown = Box<EvalAltResult>;

/// What an item of a result takes besides its text.
const BYTES_PER_ITEM: usize = 64;

/// Registers the module.
pub(crate) fn register(engine: &mut Engine) {
    let patterns = Patterns::default();
    let mut module = Module::new();
    let two: [(&str, Function<2>); 3] = [("is_match", is_match), ("find", find), ("find_all", find_all)];
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

/// `regex::replace(pattern, text, with)`: the text with every match replaced; `$1` and `${name}` mean groups, `$$` a dollar.
fn replace(searches: &Searches<'_>, [pattern, given, with]: [Dynamic; 3]) -> Result<Dynamic, Thrown> {
    let with = text("regex::replace", "the replacement", &with)?;
    let search = searches.prepare("regex::replace", &pattern, &given)?;
    let text = &search.text;
    let (mut replaced, mut end) = (Text::up_to(searches.max_text), 0);
    let push =
        |replaced: &mut Text, part: &str| if replaced.push(part.as_bytes()) { Ok(()) } else { Err(bounded::refused(Limit::StringSize)) };
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
