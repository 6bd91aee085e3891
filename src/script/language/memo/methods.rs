//! The methods of `memo`.

use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString};

use crate::script::language::convert;
use crate::script::language::memo::Memo;
use crate::script::limits::Limit;
use crate::script::runtime::budget::Budget;
use crate::script::runtime::{bounded, fiber};
use crate::script::values::memo::{MemoOwner, TooLarge};
use crate::script::values::script_error::Failure;

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
        self.read(|content| content.get(&key)).unwrap_or_default()
    }

    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let not_plain = |error| Failure::argument(format!("a memo holds plain data only: {error}"));
        if !self.is_writable {
            let value = convert::to_json(&value).map_err(not_plain)?;
            // After a chain of calls, the interpreter writes the read value back.
            return if convert::to_json(&self.get(key)).is_ok_and(|present| present == value) {
                Ok(())
            } else {
                Err(read_only())
            };
        }
        // A memo outlives the calls that write to it, and so has a limit of its own.
        let limit = fiber::with_budget(Budget::memory).unwrap_or(usize::MAX);
        let inserted = match &self.owner {
            MemoOwner::Operator => {
                self.memos.insert_for_operator(&key, convert::to_data(&value).map_err(not_plain)?, limit)
            }
            MemoOwner::Object(memo) => {
                self.memos.insert_for_object(memo, &key, convert::to_plain(&value).map_err(not_plain)?, limit)
            }
        };
        inserted.map_err(|TooLarge| bounded::refused(Limit::Memory))
    }

    fn remove(&mut self, key: ImmutableString) -> Result<Dynamic, Box<EvalAltResult>> {
        if !self.is_writable {
            return Err(read_only());
        }
        let value = self.read(|content| content.get(&key));
        if value.is_some() {
            self.memos.remove(&self.owner, &key);
        }
        Ok(value.unwrap_or_default())
    }

    fn contains(&mut self, key: ImmutableString) -> bool {
        self.read(|content| content.contains(&key))
    }

    fn keys(&mut self) -> Array {
        self.read(|content| content.keys())
    }

    fn values(&mut self) -> Array {
        self.read(|content| content.to_map()).into_values().collect()
    }

    fn len(&mut self) -> i64 {
        self.read(|content| content.len() as i64)
    }
}

fn read_only() -> Box<EvalAltResult> {
    Failure::host("read-only", "`memo` is read-only in expressions").into()
}
