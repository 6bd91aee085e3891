//! The methods of `memo`.

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString};

use super::Memo;
use crate::script::convert;
use crate::script::script_error::Failure;

/// Registers the methods of `memo`.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Memo>("Memo");
    pure!(get engine, Memo::get);
    pure!(set engine, Memo::set);
    pure!(engine, "contains", Memo::contains);
    pure!(engine, "remove", Memo::remove);
    pure!(engine, "keys", Memo::keys);
    pure!(engine, "values", Memo::values);
    pure!(engine, "len", Memo::len);
    pure!(engine, "is_empty", |memo: &mut Memo| memo.len() == 0);
    pure!(engine, "copy", |memo: &mut Memo| memo.snapshot());
    pure!(engine, "to_string", |memo: &mut Memo| convert::shown(&memo.snapshot()));
    pure!(engine, "to_debug", |memo: &mut Memo| convert::shown(&memo.snapshot()));
    pure!(engine, "to_json", |memo: &mut Memo| convert::shown(&memo.snapshot()));
}

impl Memo {
    fn get(&mut self, key: ImmutableString) -> Dynamic {
        self.memos.read(&self.name, |map| map.get(key.as_str()).cloned().unwrap_or_default())
    }

    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let value = convert::to_plain(&value).map_err(|error| Failure::argument(format!("a memo holds plain data only: {error}")))?;
        if !self.is_writable {
            // After a chain of calls, the interpreter writes the read value back.
            let present = convert::to_json(&self.get(key)).ok();
            return if present == convert::to_json(&value).ok() { Ok(()) } else { Err(read_only()) };
        }
        self.memos.change(&self.name, |map| map.insert(key.as_str().into(), value));
        Ok(())
    }

    fn remove(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        if !self.is_writable {
            return Err(read_only());
        }
        if !self.contains(key.clone()) {
            return Ok(Dynamic::UNIT);
        }
        Ok(self.memos.change(&self.name, |map| map.remove(key.as_str()).unwrap_or_default()))
    }

    fn contains(&mut self, key: ImmutableString) -> bool {
        self.memos.read(&self.name, |map| map.contains_key(key.as_str()))
    }

    fn keys(&mut self) -> Array {
        self.memos.read(&self.name, |map| map.keys().map(|key| key.as_str().into()).collect())
    }

    fn values(&mut self) -> Array {
        self.memos.read(&self.name, |map| map.values().cloned().collect())
    }

    fn len(&mut self) -> i64 {
        self.memos.read(&self.name, |map| map.len() as i64)
    }
}

fn read_only() -> Box<EvalAltResult> {
    Failure::host("read-only", "`memo` is read-only in expressions").into()
}
