//! Methods of maps, and of views of maps, that return something and change nothing.

use rhai::{Array, Dynamic, Engine, Map};

use super::lists::{plain, texts_of};
use super::sizes::{copy, size_of_entries};
use crate::script::functions::options::placed;
use crate::script::functions::support::{Given, Native, Thrown, WorkCounter, may_have_items, shown, wrong};
use crate::script::language::view::View;
use crate::script::limits::Limit;
use crate::script::runtime::bounded;

/// Registers the methods.
pub(super) fn register(engine: &mut Engine) {
    pure!(engine, "items", |native: Native<'_>, map: &mut Map| placed(&native, items(&native, map)));
    pure!(engine, "items", |native: Native<'_>, view: &mut View| {
        placed(&native, map_of("items", view).and_then(|map| items(&native, &map)))
    });
    // Views have it, too, so that one code works for both.
    pure!(engine, "copy", |native: Native<'_>, map: &mut Map| {
        placed(&native, bounded::reserve(size_of_entries(map)).map(|()| Dynamic::from(map.clone())))
    });
    method(engine, "merge", merge);
    method(engine, "pick", |_, map, keys| chosen("pick", map, keys, true));
    method(engine, "omit", |_, map, keys| chosen("omit", map, keys, false));
    pure!(engine, "to_map", |native: Native<'_>, pairs: &mut Array| placed(&native, to_map(&native, pairs)));
}

fn method(engine: &mut Engine, name: &'static str, function: fn(&Native<'_>, &Map, &Dynamic) -> Given) {
    pure!(engine, name, move |native: Native<'_>, map: &mut Map, other: Dynamic| placed(
        &native,
        function(&native, map, &other)
    ));
    pure!(engine, name, move |native: Native<'_>, view: &mut View, other: Dynamic| {
        placed(&native, map_of(name, view).and_then(|map| function(&native, &map, &other)))
    });
}

/// Returns the entries of a view of a map; their values may be views, too.
fn map_of(function: &str, view: &mut View) -> Result<Map, Thrown> {
    let level = view.level();
    level.try_cast::<Map>().ok_or_else(|| wrong(function, "it is a method of maps, and this is a list"))
}

/// `map.items()`: a list of `#{key, value}`, sorted by the keys.
fn items(native: &Native<'_>, map: &Map) -> Given {
    may_have_items(native, map.len())?;
    bounded::reserve(2 * size_of_entries(map) + map.len() * 3 * size_of::<Dynamic>())?;
    let items = map.iter().map(|(key, value)| {
        let item: Map = [("key".into(), key.as_str().into()), ("value".into(), value.flatten_clone())].into();
        item.into()
    });
    Ok(items.collect::<Array>().into())
}

/// `list.to_map()`: a map of pairs, which are lists of a key and a value, or maps with `key` and `value`. Of equal
/// keys, the last one counts.
fn to_map(native: &Native<'_>, pairs: &Array) -> Given {
    let mut map = Map::new();
    let mut work = WorkCounter::default();
    for pair in pairs {
        let pair_of_list =
            pair.as_array_ref().ok().filter(|pair| pair.len() == 2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let pair_of_map =
            || pair.as_map_ref().ok().and_then(|pair| Some((pair.get("key")?.clone(), pair.get("value")?.clone())));
        let (key, value) = pair_of_list.or_else(pair_of_map).ok_or_else(|| {
            wrong("to_map", format!("{} is neither `[key, value]` nor `#{{key, value}}`", shown(pair)))
        })?;
        let key = key
            .into_immutable_string()
            .map_err(|_| wrong("to_map", format!("the key in {} is no text", shown(pair))))?;
        work.spend(key.len() + size_of::<Dynamic>())?;
        let max = native.engine().max_map_size();
        if max > 0 && map.len() >= max && !map.contains_key(key.as_str()) {
            return Err(bounded::refused(Limit::MapSize));
        }
        bounded::reserve(key.len() + super::sizes::size(&value))?;
        map.insert(key.as_str().into(), value);
    }
    Ok(map.into())
}

/// `map.merge(other)`: both maps, deeply: of a key that both have, maps are merged again, and any other value is that
/// of the other map.
fn merge(native: &Native<'_>, map: &Map, other: &Dynamic) -> Given {
    let (first, second) = (plain("merge", &Dynamic::from(map.clone()))?, plain("merge", other)?);
    let (Some(mut merged), Some(second)) = (first.try_cast::<Map>(), second.try_cast::<Map>()) else {
        return Err(wrong("merge", format!("it needs a map, not {}", shown(other))));
    };
    bounded::reserve(size_of_entries(&second))?;
    merge_into(&mut merged, second);
    let max = native.engine().max_map_size();
    if max > 0 && merged.len() > max {
        return Err(bounded::refused(Limit::MapSize));
    }
    Ok(merged.into())
}

/// The nesting of both maps is limited.
fn merge_into(map: &mut Map, other: Map) {
    for (key, value) in other {
        match map.get_mut(&key) {
            Some(present) if present.is_map() && value.is_map() => {
                if let (Ok(mut present), Some(value)) = (present.as_map_mut(), value.try_cast::<Map>()) {
                    merge_into(&mut present, value);
                }
            }
            _ => drop(map.insert(key, value)),
        }
    }
}

/// `map.pick(keys)` and `map.omit(keys)`: the entries with these keys, or without them. Keys that the map does not have
/// are ignored.
fn chosen(function: &str, map: &Map, keys: &Dynamic, is_wanted: bool) -> Given {
    let keys = texts_of(function, "each key", keys)?;
    let keys: std::collections::HashSet<&str> = keys.iter().map(rhai::ImmutableString::as_str).collect();
    let mut kept = Map::new();
    for (key, value) in map.iter().filter(|(key, _)| keys.contains(key.as_str()) == is_wanted) {
        kept.insert(key.clone(), copy(value)?);
    }
    Ok(kept.into())
}
