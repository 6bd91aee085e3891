//! The methods of `settings`.

use std::rc::Rc;

use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};
use serde_json::Value;

use crate::script::language::convert;
use crate::script::language::settings_handle::SettingsHandle;
use crate::script::values::script_error::Failure;

/// Registers the methods of `settings`.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<SettingsHandle>("Settings");
    pure!(get engine, SettingsHandle::get);
    pure!(set engine, SettingsHandle::set);
    for name in ["to_string", "to_debug", "to_json"] {
        pure!(engine, name, |settings: &mut SettingsHandle| settings.snapshot().to_string());
    }
}

impl SettingsHandle {
    fn below(&self, key: &str) -> Result<Self, Box<EvalAltResult>> {
        let child = Self { path: self.path.iter().cloned().chain([key.to_owned()]).collect(), ..self.clone() };
        let is_known = self.snapshot().get(key).is_some();
        if is_known {
            Ok(child)
        } else {
            Err(Failure::argument(format!("there is no setting `{}`", child.title())).into())
        }
    }

    fn title(&self) -> String {
        std::iter::once("settings").chain(self.path.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
    }

    fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        let child = self.below(&key)?;
        Ok(match child.snapshot() {
            Value::Object(_) => Dynamic::from(child),
            leaf => convert::to_dynamic(&leaf),
        })
    }

    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let child = self.below(&key)?;
        if value
            .read_lock::<Self>()
            .is_some_and(|written| Rc::ptr_eq(&written.tree, &self.tree) && written.path == child.path)
        {
            // The interpreter writes the handle back after a step through it.
            return Ok(());
        }
        let refused = |error| Failure::argument(format!("cannot set {}: {error}", child.title()));
        let value = convert::to_json(&value).map_err(refused)?;
        if child.snapshot() == value {
            return Ok(());
        }
        if !self.is_writable {
            return Err(Failure::host("read-only", "`settings` can be changed by startup activities only").into());
        }
        let mut tree = self.tree.borrow_mut();
        if let Some(place) = child.path.iter().try_fold(&mut *tree, |value, key| value.get_mut(key)) {
            *place = value;
        }
        Ok(())
    }
}
