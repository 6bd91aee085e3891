//! `memo`, as scripts hold it.

use std::rc::Rc;

use rhai::Dynamic;

use crate::script::values::memo::{Content, MemoOwner, Memos};

pub(crate) mod methods;

/// The `memo` of a call.
#[derive(Clone)]
pub(crate) struct Memo {
    memos: Rc<Memos>,
    owner: MemoOwner,
    is_writable: bool,
}

impl Memo {
    /// Returns the memo of an object, or of the operator.
    pub(crate) fn new(memos: Rc<Memos>, owner: MemoOwner, is_writable: bool) -> Self {
        Self { memos, owner, is_writable }
    }

    /// Returns a copy of all of it.
    pub(crate) fn snapshot(&self) -> Dynamic {
        self.read(|content| content.to_map()).into()
    }

    fn read<T>(&self, look: impl FnOnce(Content<'_>) -> T) -> T {
        self.memos.read(&self.owner, look)
    }
}
