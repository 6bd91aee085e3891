//! `settings`: the operator's settings, which startup activities may change.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

pub(crate) mod methods;

/// A path in the settings.
#[derive(Debug, Clone)]
pub(crate) struct SettingsHandle {
    tree: Rc<RefCell<Value>>,
    path: Vec<String>,
    is_writable: bool,
}

impl SettingsHandle {
    /// Returns the handle of all settings.
    pub(crate) fn new(tree: Rc<RefCell<Value>>, is_writable: bool) -> Self {
        Self { tree, path: Vec::new(), is_writable }
    }

    /// Returns a copy of the value.
    pub(crate) fn snapshot(&self) -> Value {
        let tree = self.tree.borrow();
        self.path.iter().try_fold(&*tree, |value, key| value.get(key)).cloned().unwrap_or_default()
    }
}
