//! The methods of `patch`.

use std::rc::Rc;

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map, NativeCallContext};
use serde_json::Value;

use crate::script::language::convert;
use crate::script::language::patch_handle::PatchHandle;
use crate::script::runtime::bounded;
use crate::script::values::json::{self, MAX_NESTING};
use crate::script::values::script_error::Failure;

/// Registers the methods of `patch`.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<PatchHandle>("Patch");
    pure!(get engine, PatchHandle::get);
    pure!(set engine, PatchHandle::set);
    pure!(engine, "contains", PatchHandle::contains);
    pure!(engine, "remove", PatchHandle::remove);
    pure!(engine, "push", PatchHandle::push);
    pure!(engine, "keys", |patch: &mut PatchHandle| patch
        .entries()
        .into_keys()
        .map(|key| key.as_str().into())
        .collect::<Array>());
    pure!(engine, "values", |patch: &mut PatchHandle| patch.entries().into_values().collect::<Array>());
    pure!(engine, "len", |patch: &mut PatchHandle| patch.entries().len() as i64);
    pure!(engine, "is_empty", |patch: &mut PatchHandle| patch.entries().is_empty());
    pure!(engine, "copy", |patch: &mut PatchHandle| convert::to_dynamic(&patch.snapshot()));
    for name in ["to_string", "to_debug", "to_json"] {
        pure!(engine, name, |patch: &mut PatchHandle| patch
            .look(|value| bounded::json_text(value.unwrap_or(&Value::Null))));
    }
    register_operators(engine);
}

fn register_operators(engine: &mut Engine) {
    pure!(engine, "==", |patch: &mut PatchHandle, (): ()| patch.is_missing());
    pure!(engine, "!=", |patch: &mut PatchHandle, (): ()| !patch.is_missing());
    pure!(engine, "==", |(): (), mut patch: PatchHandle| patch.is_missing());
    pure!(engine, "!=", |(): (), mut patch: PatchHandle| !patch.is_missing());
    let same =
        |patch: &mut PatchHandle, other: &Dynamic| convert::to_json(other).is_ok_and(|other| patch.snapshot() == other);
    pure!(engine, "==", move |patch: &mut PatchHandle, other: Dynamic| same(patch, &other));
    pure!(engine, "!=", move |patch: &mut PatchHandle, other: Dynamic| !same(patch, &other));
    for name in ["+", "-", "*", "/", "+=", "-=", "*=", "/="] {
        let fail = |native: NativeCallContext<'_>,
                    patch: &mut PatchHandle,
                    _: Dynamic|
         -> Result<Dynamic, Box<EvalAltResult>> { Err(patch.missing(native.fn_name())) };
        pure!(engine, name, fail);
    }
}

impl PatchHandle {
    pub(crate) fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        if !self.has_depth() {
            return Err(too_deep());
        }
        let child = self.below(key);
        let leaf = child.look(|value| match value {
            None | Some(Value::Object(_)) => None,
            Some(leaf) => Some(convert::to_dynamic(leaf)),
        });
        Ok(leaf.unwrap_or_else(|| Dynamic::from(child)))
    }

    pub(crate) fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let child = self.below(key);
        if let Some(written) = value.read_lock::<Self>()
            && Rc::ptr_eq(&written.patch, &self.patch)
            && written.place.as_ref().zip(child.place.as_ref()).is_some_and(|(written, place)| written.is(place))
        {
            // The interpreter writes the handle back after a step through it.
            return Ok(());
        }
        if !self.is_writable {
            let is_same = child
                .look(|present| convert::to_json(&value).is_ok_and(|value| present.unwrap_or(&Value::Null) == &value));
            return if is_same { Ok(()) } else { Err(read_only()) };
        }
        let refused = |error| Failure::argument(format!("cannot set {}: {error}", child.title()));
        let value = convert::to_json(&value).map_err(refused)?;
        child.write(value)
    }

    fn write(&self, value: Value) -> Result<(), Box<EvalAltResult>> {
        let keys = self.keys();
        if keys.len() + json::nesting(&value) > MAX_NESTING {
            return Err(too_deep());
        }
        let mut patch = self.patch.borrow_mut();
        if keys == ["status"] && value.is_null() {
            // Several clients may write the status: it is never deleted as a whole.
            patch.merge.remove("status");
            return Ok(());
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let refused = |error| Failure::argument(format!("cannot set {}: {error}", self.title()));
        Ok(patch.set(&keys, value).map_err(refused)?)
    }

    fn title(&self) -> String {
        std::iter::once("patch".to_owned()).chain(self.keys()).collect::<Vec<_>>().join(".")
    }

    fn is_missing(&mut self) -> bool {
        self.look(|value| value.is_none_or(Value::is_null))
    }

    fn contains(&mut self, key: ImmutableString) -> bool {
        self.below(key).look(|value| value.is_some())
    }

    fn remove(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        if !self.is_writable {
            return Err(read_only());
        }
        let child = self.below(key);
        let removed = convert::to_dynamic(&child.snapshot());
        let keys = child.keys();
        self.patch.borrow_mut().drop_field(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(removed)
    }

    fn entries(&mut self) -> Map {
        self.look(|value| value.map(convert::to_dynamic)).and_then(Dynamic::try_cast).unwrap_or_default()
    }

    fn push(&mut self, item: Dynamic) -> Result<(), Box<EvalAltResult>> {
        if !self.is_missing() {
            return Err(Failure::argument(format!("cannot push: {} is a map", self.title())).into());
        }
        if !self.is_writable {
            return Err(read_only());
        }
        let item = convert::to_json(&item)
            .map_err(|error| Failure::argument(format!("cannot push to {}: {error}", self.title())))?;
        self.write(Value::Array(vec![item]))
    }

    fn missing(&mut self, operator: &str) -> Box<EvalAltResult> {
        let place = self.title();
        Failure::argument(format!(
            "`{operator}` has nothing to work on: {place} is not a number, a text or a list in the patch; set it first"
        ))
        .into()
    }
}

fn too_deep() -> Box<EvalAltResult> {
    Failure::argument(format!("`patch` has at most {MAX_NESTING} levels")).into()
}

fn read_only() -> Box<EvalAltResult> {
    Failure::host("read-only", "`patch` is read-only in expressions").into()
}
