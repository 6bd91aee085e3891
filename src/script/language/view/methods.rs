//! The methods of views.

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext};
use serde_json::Value;

use crate::object::equality;
use crate::script::language::convert;
use crate::script::language::view::View;
use crate::script::values::script_error::Failure;

/// The functions of lists and maps with a closure or two values, which treat a view's children like a native list.
const FORWARDED: [&str; 12] = [
    "map",
    "filter",
    "some",
    "all",
    "find",
    "find_map",
    "index_of",
    "for_each",
    "reduce",
    "reduce_rev",
    "zip",
    "extract",
];

/// Registers the methods of views.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<View>("Object");
    pure!(get engine, View::get);
    pure!(set engine, View::set);
    pure!(get engine, View::get_at);
    pure!(set engine, View::set_at);
    engine.register_iterator::<View>();
    pure!(engine, "contains", View::contains);
    pure!(engine, "len", View::len);
    pure!(engine, "is_empty", |view: &mut View| view.len() == 0);
    pure!(engine, "keys", View::keys);
    pure!(engine, "values", View::values);
    pure!(engine, "get", View::get);
    pure!(engine, "get", View::get_at);
    pure!(engine, "copy", View::copy);
    pure!(engine, "first", View::first);
    pure!(engine, "last", View::last);
    for name in ["to_string", "to_debug", "to_json"] {
        pure!(engine, name, |view: &mut View| view.value().to_string());
    }
    register_operators(engine);
    for name in FORWARDED {
        pure!(engine, name, |native: NativeCallContext<'_>, view: &mut View, one: Dynamic| forward(
            &native,
            view,
            &mut [one]
        ));
        pure!(engine, name, |native: NativeCallContext<'_>, view: &mut View, one: Dynamic, two: Dynamic| {
            forward(&native, view, &mut [one, two])
        });
    }
}

fn register_operators(engine: &mut Engine) {
    pure!(engine, "==", |a: &mut View, b: View| equality::equal(a.value(), b.value()));
    pure!(engine, "!=", |a: &mut View, b: View| !equality::equal(a.value(), b.value()));
    pure!(engine, "==", |a: &mut View, b: Dynamic| a.equals(&b));
    pure!(engine, "!=", |a: &mut View, b: Dynamic| !a.equals(&b));
    pure!(engine, "==", |a: Map, mut b: View| b.equals(&a.into()));
    pure!(engine, "!=", |a: Map, mut b: View| !b.equals(&a.into()));
    pure!(engine, "==", |a: Array, mut b: View| b.equals(&a.into()));
    pure!(engine, "!=", |a: Array, mut b: View| !b.equals(&a.into()));
    pure!(engine, "+", |a: &mut View, b: Dynamic| sum(&a.copy(), &b));
    pure!(engine, "+", |a: Map, mut b: View| sum(&a.into(), &b.copy()));
    pure!(engine, "+", |a: Array, mut b: View| sum(&a.into(), &b.copy()));
}

impl View {
    pub(crate) fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let present = self.get(key.clone())?;
        // Null is also written as `()`: distinguishing it from an absent key would need a change, which is refused
        // anyway.
        let is_new = matches!(self.value(), Value::Object(map) if !map.contains_key(key.as_str()));
        if is_new && !value.is_unit() {
            return Err(read_only(&format!("`{key}`")));
        }
        accept(&present, &value, &format!("`{key}`"))
    }

    fn set_at(&mut self, index: i64, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let present = self.get_at(index)?;
        accept(&present, &value, &format!("item {index}"))
    }

    fn contains(&mut self, wanted: Dynamic) -> bool {
        match self.value() {
            Value::Object(map) => convert::key_of(&wanted).is_some_and(|key| map.contains_key(key.as_str())),
            Value::Array(items) => {
                convert::to_json(&wanted).is_ok_and(|wanted| items.iter().any(|item| equality::equal(item, &wanted)))
            }
            _ => false,
        }
    }

    fn equals(&mut self, other: &Dynamic) -> bool {
        other.read_lock::<Self>().map_or_else(
            || convert::to_json(other).is_ok_and(|other| equality::equal(self.value(), &other)),
            |other| equality::equal(self.value(), other.value()),
        )
    }
}

/// After a call in a chain, such as `meta.labels.keys()`, the interpreter writes the read value back.
fn accept(present: &Dynamic, written: &Dynamic, place: &str) -> Result<(), Box<EvalAltResult>> {
    if same(present, written) { Ok(()) } else { Err(read_only(place)) }
}

fn read_only(place: &str) -> Box<EvalAltResult> {
    let advice = "assign to `patch` to change the object, or to a copy()";
    Failure::host("read-only", format!("cannot set {place}: the object is read-only; {advice}")).into()
}

/// Tells whether two values are the same: the same part of one object, or equal values.
pub(crate) fn same(present: &Dynamic, written: &Dynamic) -> bool {
    if let (Some(present), Some(written)) = (present.read_lock::<View>(), written.read_lock::<View>())
        && std::ptr::eq(present.value(), written.value())
    {
        return true;
    }
    match (convert::to_json(present), convert::to_json(written)) {
        (Ok(present), Ok(written)) => present == written,
        _ => false,
    }
}

/// Calls a native function of lists or maps with one level of the view as its value.
fn forward(
    native: &NativeCallContext<'_>,
    view: &mut View,
    rest: &mut [Dynamic],
) -> Result<Dynamic, Box<EvalAltResult>> {
    let mut level = view.level();
    let mut arguments = vec![&mut level];
    arguments.extend(rest.iter_mut());
    native.call_native_fn_raw(native.fn_name(), true, &mut arguments)
}

/// Returns the sum of two maps or two lists, as Rhai's own `+` does.
fn sum(a: &Dynamic, b: &Dynamic) -> Result<Dynamic, Box<EvalAltResult>> {
    let plain = |value: &Dynamic| convert::to_plain(value).unwrap_or_else(|_| value.clone());
    let (a, b) = (plain(a), plain(b));
    if let (Some(mut map), Some(more)) = (a.clone().try_cast::<Map>(), b.clone().try_cast::<Map>()) {
        map.extend(more);
        return Ok(map.into());
    }
    if let (Some(mut list), Some(more)) = (a.try_cast::<Array>(), b.try_cast::<Array>()) {
        list.extend(more);
        return Ok(list.into());
    }
    Err(Failure::argument("`+` adds a map to a map, and a list to a list").into())
}
