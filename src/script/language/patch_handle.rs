//! `patch`: its content is sent to the object. Missing maps are created by writing to them.

use std::cell::RefCell;
use std::rc::Rc;

use rhai::ImmutableString;
use serde_json::Value;

use crate::object::Patch;
use crate::script::values::json::MAX_NESTING;

pub(crate) mod methods;

/// A path in the patch, which need not exist.
#[derive(Clone)]
pub(crate) struct PatchHandle {
    patch: Rc<RefCell<Patch>>,
    place: Option<Rc<Step>>,
    is_writable: bool,
}

struct Step {
    parent: Option<Rc<Step>>,
    key: ImmutableString,
    /// The number of steps to here.
    level: usize,
}

impl Step {
    fn find<'a>(&self, merge: &'a serde_json::Map<String, Value>) -> Option<&'a Value> {
        match &self.parent {
            None => merge.get(self.key.as_str()),
            Some(parent) => parent.find(merge)?.as_object()?.get(self.key.as_str()),
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.key == other.key
            && match (&self.parent, &other.parent) {
                (None, None) => true,
                (Some(parent), Some(other)) => Rc::ptr_eq(parent, other) || parent.is(other),
                _ => false,
            }
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = self.parent.as_ref().map_or_else(Vec::new, |parent| parent.keys());
        keys.push(self.key.to_string());
        keys
    }
}

impl PatchHandle {
    /// Returns the handle of a whole patch.
    pub(crate) fn new(patch: Rc<RefCell<Patch>>, is_writable: bool) -> Self {
        Self { patch, place: None, is_writable }
    }

    /// Returns a copy of the value.
    pub(crate) fn snapshot(&self) -> Value {
        self.look(|value| value.cloned().unwrap_or(Value::Null))
    }

    /// Returns the patch that it writes to.
    pub(crate) fn patch(&self) -> &Rc<RefCell<Patch>> {
        &self.patch
    }

    fn keys(&self) -> Vec<String> {
        self.place.as_ref().map_or_else(Vec::new, |place| place.keys())
    }

    fn below(&self, key: ImmutableString) -> Self {
        // `patch.meta` is accepted, since other arguments use the name `meta`.
        let key = if self.place.is_none() && key == "meta" { "metadata".into() } else { key };
        let level = self.place.as_ref().map_or(0, |place| place.level) + 1;
        let place = Rc::new(Step { parent: self.place.clone(), key, level });
        Self { patch: Rc::clone(&self.patch), place: Some(place), is_writable: self.is_writable }
    }

    /// Tells whether a step below it is allowed: all functions over paths and values recurse.
    fn has_depth(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.level < MAX_NESTING)
    }

    /// Calls a function with the value, if there is one.
    pub(crate) fn look<T>(&self, look: impl FnOnce(Option<&Value>) -> T) -> T {
        let patch = self.patch.borrow();
        match &self.place {
            Some(place) => look(place.find(&patch.merge)),
            None => look(Some(&Value::Object(patch.merge.clone()))),
        }
    }
}
