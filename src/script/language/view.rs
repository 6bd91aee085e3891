//! Read-only views of objects for scripts, without conversion. Only accessed parts become values of the interpreter.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rhai::{Array, Dynamic, EvalAltResult, ImmutableString, Map, Position};
use serde_json::Value;

use crate::handling::Change;
use crate::script::values::json;
use crate::script::values::live_body::LiveBody;
use crate::script::values::script_error::Failure;

pub(crate) mod methods;

/// The value of an absent section.
static EMPTY: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(Value::Object(serde_json::Map::new())));

/// One map or list of an object.
#[derive(Clone)]
pub(crate) struct View {
    root: Root,
    node: Option<Rc<Node>>,
}

/// A section of an object with live state.
struct Live {
    body: Arc<LiveBody>,
    keys: &'static [&'static str],
    /// The state at the first access. An argument that is not accessed holds no state: daemons wait for days.
    seen: OnceCell<Arc<Value>>,
}

/// The location of a view's value.
#[derive(Clone)]
enum Root {
    Value(Arc<Value>),
    Old(Arc<Change>),
    New(Arc<Change>),
    /// An argument of a call that outlives its event. Values taken out of it do not change.
    Live(Rc<Live>),
}

/// A step from the root; earlier steps are in the parents.
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
            Self::Live(live) => live.value(),
        }
    }
}

impl Live {
    fn new(body: &Arc<LiveBody>, keys: &'static [&'static str]) -> Rc<Self> {
        Rc::new(Self { body: Arc::clone(body), keys, seen: OnceCell::new() })
    }

    fn seen(&self) -> &Arc<Value> {
        self.seen.get_or_init(|| self.body.get().shared())
    }

    fn value(&self) -> &Value {
        let found = self.keys.iter().try_fold(&**self.seen(), |value, key| value.get(key));
        found.filter(|value| !value.is_null()).unwrap_or(&EMPTY)
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
    /// Returns the script value: a view of a map or list, else the value itself.
    pub(crate) fn of(value: Arc<Value>) -> Dynamic {
        Self { root: Root::Value(value), node: None }.or_leaf()
    }

    /// Returns the view of a section; an empty one if the section is absent.
    pub(crate) fn stanza(value: &Arc<Value>, keys: &[&'static str]) -> Dynamic {
        Self::of_stanza(value, keys).or_leaf()
    }

    fn of_stanza(value: &Arc<Value>, keys: &[&'static str]) -> Self {
        let mut view = Self { root: Root::Value(Arc::clone(value)), node: None };
        for key in keys {
            view = view.below(Step::Key((*key).into()));
        }
        if view.value().is_null() { Self { root: Root::Value(Arc::clone(&EMPTY)), node: None } } else { view }
    }

    /// Returns the view of a section of an object with live state: each access reads the newest state.
    pub(crate) fn live(body: &Arc<LiveBody>, keys: &'static [&'static str]) -> Dynamic {
        match Self::of_stanza(&body.get().shared(), keys).or_leaf() {
            view if view.is::<Self>() => Dynamic::from(Self { root: Root::Live(Live::new(body, keys)), node: None }),
            leaf => leaf,
        }
    }

    /// Returns a fixed view of the newest state.
    pub(crate) fn newest(&self) -> Self {
        match &self.root {
            Root::Live(live) => Self::of_stanza(&live.body.get().shared(), live.keys),
            _ => self.clone(),
        }
    }

    /// Updates the view to the newest state.
    pub(crate) fn refresh(&mut self) {
        if let Root::Live(live) = &self.root {
            self.root = Root::Live(Live::new(&live.body, live.keys));
        }
    }

    /// Returns the script value of the last handled essence.
    pub(crate) fn last_handled(change: &Arc<Change>) -> Dynamic {
        Self { root: Root::Old(Arc::clone(change)), node: None }.or_leaf()
    }

    /// Returns the script value of the current essence.
    pub(crate) fn essence(change: &Arc<Change>) -> Dynamic {
        Self { root: Root::New(Arc::clone(change)), node: None }.or_leaf()
    }

    /// Returns the value of the view.
    pub(crate) fn value(&self) -> &Value {
        let root = self.root.value();
        self.node.as_ref().map_or(root, |node| node.find(root))
    }

    fn below(&self, step: Step) -> Self {
        let Self { root, node } = match &self.root {
            Root::Live(live) => Self::of_stanza(live.seen(), live.keys),
            _ => self.clone(),
        };
        Self { root, node: Some(Rc::new(Node { parent: node, step })) }
    }

    fn or_leaf(self) -> Dynamic {
        match self.value() {
            Value::Object(_) | Value::Array(_) => Dynamic::from(self),
            leaf => json::to_dynamic(leaf),
        }
    }

    fn child(&self, value: &Value, step: impl FnOnce() -> Step) -> Dynamic {
        match value {
            Value::Object(_) | Value::Array(_) => Dynamic::from(self.below(step())),
            leaf => json::to_dynamic(leaf),
        }
    }

    /// Returns the value of a key; a view of it if it is a map or a list.
    ///
    /// # Errors
    /// If this is a list.
    pub(crate) fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        match self.value() {
            Value::Object(map) => {
                Ok(map.get(key.as_str()).map_or(Dynamic::UNIT, |value| self.child(value, || Step::Key(key.clone()))))
            }
            _ => Err(Failure::argument(format!("a list has no `{key}`: its items are numbered")).into()),
        }
    }

    /// Returns an item; negative numbers count from the end.
    ///
    /// # Errors
    /// If there is none, or this is a map.
    pub(crate) fn get_at(&mut self, index: i64) -> Result<Dynamic, Box<EvalAltResult>> {
        let Value::Array(items) = self.value() else {
            return Err(Failure::argument("a map has no numbered items: use its keys").into());
        };
        let length = items.len() as i64;
        let position = if index < 0 { length + index } else { index };
        let found = usize::try_from(position).ok().and_then(|position| Some((position, items.get(position)?)));
        let (position, value) =
            found.ok_or_else(|| Box::new(EvalAltResult::ErrorArrayBounds(items.len(), index, Position::NONE)))?;
        Ok(self.child(value, || Step::Index(position)))
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

    /// Returns the children as a native list; for a map, its values.
    fn values(&mut self) -> Array {
        match self.value() {
            Value::Object(map) => {
                map.iter().map(|(key, value)| self.child(value, || Step::Key(key.as_str().into()))).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, value)| self.child(value, || Step::Index(index))).collect()
            }
            _ => Array::new(),
        }
    }

    /// Returns one level of it as a native list or map, whose items are views.
    pub(crate) fn level(&mut self) -> Dynamic {
        match self.value() {
            Value::Object(map) => {
                let entries = map
                    .iter()
                    .map(|(key, value)| (key.as_str().into(), self.child(value, || Step::Key(key.as_str().into()))));
                entries.collect::<Map>().into()
            }
            _ => self.values().into(),
        }
    }

    /// Returns an ordinary, changeable copy.
    fn copy(&mut self) -> Dynamic {
        json::to_dynamic(self.value())
    }

    fn first(&mut self) -> Dynamic {
        self.get_at(0).unwrap_or_default()
    }

    fn last(&mut self) -> Dynamic {
        self.get_at(-1).unwrap_or_default()
    }
}

/// Iterates over the items of a list, or the keys of a map.
impl IntoIterator for View {
    type Item = Dynamic;
    type IntoIter = std::vec::IntoIter<Dynamic>;

    fn into_iter(mut self) -> Self::IntoIter {
        let items = if self.value().is_object() { self.keys().unwrap_or_default() } else { self.values() };
        items.into_iter()
    }
}
