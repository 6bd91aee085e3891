//! Memories of objects: plain data that all calls of an object share, as long as the process lives.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::RwLock;
use rhai::{Array, Dynamic, Engine, EvalAltResult, ImmutableString, Map};

use super::convert;
use super::throwing::Failure;

/// The name of the operator's own memory, which objects' memories begin as copies of.
pub const OPERATOR: &str = "";

/// The operator's memory as all script threads see it, in JSON.
pub type Shared = Arc<RwLock<Arc<serde_json::Value>>>;

/// The memories of the objects of one script thread. An object that never writes to its memory has none.
pub struct Memos {
    table: RefCell<HashMap<Arc<str>, Map>>,
    operator: Shared,
}

impl Memos {
    /// Returns an empty table beside the operator's memory.
    pub fn new(operator: Shared) -> Self {
        Self { table: RefCell::default(), operator }
    }

    /// Drops the memory of an object.
    pub fn forget(&self, name: &str) {
        let mut table = self.table.borrow_mut();
        table.remove(name);
        if table.is_empty() {
            table.shrink_to_fit();
        }
    }

    /// Returns the number of objects that have a memory here.
    pub fn len(&self) -> usize {
        self.table.borrow().len()
    }

    fn fresh(&self) -> Map {
        convert::to_dynamic(&self.operator.read().clone()).try_cast().unwrap_or_default()
    }

    fn read<T>(&self, name: &str, look: impl FnOnce(&Map) -> T) -> T {
        match self.table.borrow().get(name) {
            Some(map) => look(map),
            None => look(&self.fresh()),
        }
    }

    fn change<T>(&self, name: &Arc<str>, change: impl FnOnce(&mut Map) -> T) -> T {
        let mut table = self.table.borrow_mut();
        let map = table.entry(Arc::clone(name)).or_insert_with(|| self.fresh());
        let result = change(map);
        if &**name == OPERATOR
            && let Ok(json) = convert::to_json(&Dynamic::from(map.clone()))
        {
            *self.operator.write() = Arc::new(json);
        }
        result
    }
}

/// The `memo` of a call.
#[derive(Clone)]
pub struct Memo {
    memos: Rc<Memos>,
    name: Arc<str>,
    is_writable: bool,
}

impl Memo {
    /// Returns the memory of an object.
    pub fn new(memos: Rc<Memos>, name: Arc<str>, is_writable: bool) -> Self {
        Self { memos, name, is_writable }
    }

    /// Returns a copy of all of it.
    pub fn snapshot(&self) -> Dynamic {
        self.memos.read(&self.name, |map| map.clone().into())
    }

    fn get(&mut self, key: ImmutableString) -> Dynamic {
        self.memos.read(&self.name, |map| map.get(key.as_str()).cloned().unwrap_or_default())
    }

    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Box<EvalAltResult>> {
        let value = convert::to_plain(&value).map_err(|error| Failure::argument(format!("a memo holds plain data only: {error}")))?;
        if !self.is_writable {
            // After reading through a chain of calls, the interpreter writes what it has read back.
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

/// Registers what scripts can do with a memo.
pub fn register(engine: &mut Engine) {
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
