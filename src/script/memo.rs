//! Memories of objects: plain data that all calls of an object share during the life of the process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::RwLock;
use rhai::{Dynamic, Map};

use super::plain::Plain;

pub(super) mod methods;

/// The key of the operator's own memory; objects' memories begin as copies of it.
pub(super) const OPERATOR: &str = "";

/// The operator's memory, shared by all script threads.
pub(super) type Shared = Arc<RwLock<OperatorMemory>>;

/// The operator's memory, and how often it has changed.
#[derive(Debug, Default)]
pub(super) struct OperatorMemory {
    data: Plain,
    changes: u64,
}

/// The memories of the objects of one script thread. An object that never writes to its memory has none.
pub struct Memos {
    table: RefCell<HashMap<Arc<str>, Map>>,
    operator: Shared,
    /// The operator's memory as this thread has read it last, and the number of its changes then: every object without a memory of its own
    /// reads it.
    read: RefCell<Option<(u64, Map)>>,
}

impl Memos {
    /// Returns an empty table with the operator's memory.
    pub(super) fn new(operator: Shared) -> Self {
        Self { table: RefCell::default(), operator, read: RefCell::default() }
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

    /// Looks at the operator's memory.
    fn read_operator<T>(&self, look: impl FnOnce(&Map) -> T) -> T {
        let operator = self.operator.read();
        let mut read = self.read.borrow_mut();
        let is_current = read.as_ref().is_some_and(|(changes, _)| *changes == operator.changes);
        if !is_current {
            *read = Some((operator.changes, operator.data.to_dynamic().try_cast().unwrap_or_default()));
        }
        drop(operator);
        let (_, map) = read.as_ref().expect("it was just read");
        look(map)
    }

    fn read<T>(&self, name: &str, look: impl FnOnce(&Map) -> T) -> T {
        match self.table.borrow().get(name) {
            Some(map) => look(map),
            None => self.read_operator(look),
        }
    }

    fn change<T>(&self, name: &Arc<str>, change: impl FnOnce(&mut Map) -> T) -> T {
        let mut table = self.table.borrow_mut();
        let map = table.entry(Arc::clone(name)).or_insert_with(|| self.read_operator(Map::clone));
        let result = change(map);
        if &**name == OPERATOR
            && let Ok(data) = Plain::of(&Dynamic::from(map.clone()), |_| None)
        {
            let mut operator = self.operator.write();
            operator.data = data;
            operator.changes += 1;
        }
        result
    }
}

/// The `memo` of a call.
#[derive(Clone)]
pub(super) struct Memo {
    memos: Rc<Memos>,
    name: Arc<str>,
    is_writable: bool,
}

impl Memo {
    /// Returns the memory of an object.
    pub(super) fn new(memos: Rc<Memos>, name: Arc<str>, is_writable: bool) -> Self {
        Self { memos, name, is_writable }
    }

    /// Returns a copy of all of it.
    pub(super) fn snapshot(&self) -> Dynamic {
        self.memos.read(&self.name, |map| map.clone().into())
    }
}
