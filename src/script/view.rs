//! Objects as scripts see them: read-only, and without being converted. Only what is looked at becomes a value of the interpreter.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext, Position};
use serde_json::Value;

use super::convert;
use super::subject::LiveBody;
use super::throwing::Failure;
use crate::handling::Change;
use crate::object::equality;

/// What stands for a stanza that is not there.
static EMPTY: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(Value::Object(serde_json::Map::new())));

/// The functions of lists and maps that take a closure, or two values, and work on a view's children as on a native list.
const FORWARDED: [&str; 12] =
    ["map", "filter", "some", "all", "find", "find_map", "index_of", "for_each", "reduce", "reduce_rev", "zip", "extract"];

/// One map or list of an object.
#[derive(Clone)]
pub struct View {
    root: Root,
    node: Option<Rc<Node>>,
    /// Where newer states come from, for an argument of a call that outlives its event. What is taken out of it does not change.
    live: Option<Rc<Live>>,
}

/// A stanza of an object whose newest state is shown.
struct Live {
    body: Arc<LiveBody>,
    keys: &'static [&'static str],
}

/// Where a view's value is kept.
#[derive(Clone)]
enum Root {
    Value(Arc<Value>),
    Old(Arc<Change>),
    New(Arc<Change>),
}

/// A step from the root; those before it come through the parents.
struct Node {
    parent: Option<Rc<Node>>,
    step: Step,
}

enum Step {
    Key(ImmutableString),
    Index(usize),
}

impl Root {
    fn value(&self) -> &Value {
        match self {
            Self::Value(value) => value,
            Self::Old(change) => change.old.as_ref().unwrap_or(&Value::Null),
            Self::New(change) => change.new.as_ref().unwrap_or(&Value::Null),
        }
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.value(), other.value())
    }
}

impl Node {
    fn find<'a>(&self, root: &'a Value) -> &'a Value {
        let parent = self.parent.as_ref().map_or(root, |parent| parent.find(root));
        let found = match &self.step {
            Step::Key(key) => parent.get(key.as_str()),
            Step::Index(index) => parent.get(index),
        };
        found.unwrap_or(&Value::Null)
    }
}

impl View {
    /// Returns what scripts see of a value: a view of a map or list, else the value itself.
    pub fn of(value: Arc<Value>) -> Dynamic {
        Self { root: Root::Value(value), node: None, live: None }.or_leaf()
    }

    /// Returns what scripts see of a stanza: a view, an empty one if the stanza is not there.
    pub fn stanza(value: &Arc<Value>, keys: &[&'static str]) -> Dynamic {
        Self::of_stanza(value, keys).or_leaf()
    }

    fn of_stanza(value: &Arc<Value>, keys: &[&'static str]) -> Self {
        let mut view = Self { root: Root::Value(Arc::clone(value)), node: None, live: None };
        for key in keys {
            view = view.below(Step::Key((*key).into()));
        }
        if view.value().is_null() { Self { root: Root::Value(Arc::clone(&EMPTY)), node: None, live: None } } else { view }
    }

    /// Returns what scripts see of a stanza of an object whose newest state is shown at each access.
    pub fn live(body: &Arc<LiveBody>, keys: &'static [&'static str]) -> Dynamic {
        let live = Rc::new(Live { body: Arc::clone(body), keys });
        Self { live: Some(live), ..Self::of_stanza(&body.get().shared(), keys) }.or_leaf()
    }

    /// Returns the newest state, which does not change any more.
    pub fn newest(&self) -> Self {
        match &self.live {
            Some(live) => Self::of_stanza(&live.body.get().shared(), live.keys),
            None => self.clone(),
        }
    }

    /// Shows the newest state from here on.
    pub fn refresh(&mut self) {
        *self = Self { live: self.live.clone(), ..self.newest() };
    }

    /// Returns what scripts see of the last handled essence.
    pub fn last_handled(change: &Arc<Change>) -> Dynamic {
        Self { root: Root::Old(Arc::clone(change)), node: None, live: None }.or_leaf()
    }

    /// Returns what scripts see of the essence as it is.
    pub fn essence(change: &Arc<Change>) -> Dynamic {
        Self { root: Root::New(Arc::clone(change)), node: None, live: None }.or_leaf()
    }

    /// Returns the value that it shows.
    pub fn value(&self) -> &Value {
        let root = self.root.value();
        self.node.as_ref().map_or(root, |node| node.find(root))
    }

    fn below(&self, step: Step) -> Self {
        Self { root: self.root.clone(), node: Some(Rc::new(Node { parent: self.node.clone(), step })), live: None }
    }

    fn or_leaf(self) -> Dynamic {
        match self.value() {
            Value::Object(_) | Value::Array(_) => Dynamic::from(self),
            leaf => convert::to_dynamic(leaf),
        }
    }

    fn child(&self, value: &Value, step: impl FnOnce() -> Step) -> Dynamic {
        match value {
            Value::Object(_) | Value::Array(_) => Dynamic::from(self.below(step())),
            leaf => convert::to_dynamic(leaf),
        }
    }

    fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        match self.value() {
            Value::Object(map) => Ok(map.get(key.as_str()).map_or(Dynamic::UNIT, |value| self.child(value, || Step::Key(key.clone())))),
            _ => Err(Failure::argument(format!("a list has no `{key}`: its items are numbered")).into()),
        }
    }

    fn get_at(&mut self, index: i64) -> Result<Dynamic, Box<EvalAltResult>> {
        let Value::Array(items) = self.value() else {
            return Err(Failure::argument("a map has no numbered items: use its keys").into());
        };
        let length = items.len() as i64;
        let position = if index < 0 { length + index } else { index };
        let found = usize::try_from(position).ok().and_then(|position| Some((position, items.get(position)?)));
        let (position, value) = found.ok_or_else(|| Box::new(EvalAltResult::ErrorArrayBounds(items.len(), index, Position::NONE)))?;
        Ok(self.child(value, || Step::Index(position)))
    }

    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let present = self.get(key.clone())?;
        // A null is written as a unit, too: telling it from an absent key would need a change, which is refused anyway.
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
            Value::Array(items) => convert::to_json(&wanted).is_ok_and(|wanted| items.iter().any(|item| equality::equal(item, &wanted))),
            _ => false,
        }
    }

    fn len(&mut self) -> i64 {
        match self.value() {
            Value::Object(map) => map.len() as i64,
            Value::Array(items) => items.len() as i64,
            _ => 0,
        }
    }

    fn keys(&mut self) -> Result<Array, Box<EvalAltResult>> {
        match self.value() {
            Value::Object(map) => Ok(map.keys().map(|key| key.as_str().into()).collect()),
            _ => Err(Failure::argument("a list has no keys").into()),
        }
    }

    /// Returns the children as a native list; those of a map are its values.
    fn values(&mut self) -> Array {
        match self.value() {
            Value::Object(map) => map.iter().map(|(key, value)| self.child(value, || Step::Key(key.as_str().into()))).collect(),
            Value::Array(items) => items.iter().enumerate().map(|(index, value)| self.child(value, || Step::Index(index))).collect(),
            _ => Array::new(),
        }
    }

    /// Returns one level of it as a native list or map, whose items are views.
    fn level(&mut self) -> Dynamic {
        match self.value() {
            Value::Object(map) => {
                let entries = map.iter().map(|(key, value)| (key.as_str().into(), self.child(value, || Step::Key(key.as_str().into()))));
                entries.collect::<Map>().into()
            }
            _ => self.values().into(),
        }
    }

    /// Returns an ordinary value that can be changed.
    fn copy(&mut self) -> Dynamic {
        convert::to_dynamic(self.value())
    }

    fn first(&mut self) -> Dynamic {
        self.get_at(0).unwrap_or_default()
    }

    fn last(&mut self) -> Dynamic {
        self.get_at(-1).unwrap_or_default()
    }

    fn equals(&mut self, other: &Dynamic) -> bool {
        other.read_lock::<Self>().map_or_else(
            || convert::to_json(other).is_ok_and(|other| equality::equal(self.value(), &other)),
            |other| equality::equal(self.value(), other.value()),
        )
    }
}

/// A loop goes over the items of a list, and over the keys of a map.
impl IntoIterator for View {
    type Item = Dynamic;
    type IntoIter = std::vec::IntoIter<Dynamic>;

    fn into_iter(mut self) -> Self::IntoIter {
        let items = if self.value().is_object() { self.keys().unwrap_or_default() } else { self.values() };
        items.into_iter()
    }
}

/// After a call in a chain, such as `meta.labels.keys()`, the interpreter writes back what it has read.
fn accept(present: &Dynamic, written: &Dynamic, place: &str) -> Result<(), Box<EvalAltResult>> {
    if same(present, written) { Ok(()) } else { Err(read_only(place)) }
}

fn read_only(place: &str) -> Box<EvalAltResult> {
    let advice = "assign to `patch` to change the object, or to a copy()";
    Failure::host("read-only", format!("cannot set {place}: the object is read-only; {advice}")).into()
}

fn same(present: &Dynamic, written: &Dynamic) -> bool {
    if let (Some(present), Some(written)) = (present.read_lock::<View>(), written.read_lock::<View>())
        && present.root.is(&written.root)
        && std::ptr::eq(present.value(), written.value())
    {
        return true;
    }
    match (convert::to_json(present), convert::to_json(written)) {
        (Ok(present), Ok(written)) => present == written,
        _ => false,
    }
}

/// Calls a native function of lists or maps with one level of the view in its place.
fn forward(native: &NativeCallContext<'_>, view: &mut View, rest: &mut [Dynamic]) -> Result<Dynamic, Box<EvalAltResult>> {
    let mut level = view.level();
    let mut arguments = vec![&mut level];
    arguments.extend(rest.iter_mut());
    native.call_native_fn_raw(native.fn_name(), true, &mut arguments)
}

/// Registers what scripts can do with a view.
pub fn register(engine: &mut Engine) {
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
        pure!(engine, name, |native: NativeCallContext<'_>, view: &mut View, one: Dynamic| forward(&native, view, &mut [one]));
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

/// Returns two maps or two lists together, as Rhai's own `+` does.
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
