//! `warnings`: the warnings of a review for the user, besides its verdict.

use std::cell::RefCell;
use std::rc::Rc;

use rhai::{Dynamic, Engine};

use super::convert;

/// The warnings of one call.
#[derive(Debug, Clone)]
pub(crate) struct Warnings(Rc<RefCell<Vec<String>>>);

impl Warnings {
    /// Returns the handle of a list.
    pub(crate) fn new(list: Rc<RefCell<Vec<String>>>) -> Self {
        Self(list)
    }
}

/// Registers its methods. Any value can be pushed, and becomes a text.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Warnings>("Warnings");
    pure!(engine, "push", |warnings: &mut Warnings, text: Dynamic| warnings.0.borrow_mut().push(convert::shown(&text)));
    pure!(engine, "len", |warnings: &mut Warnings| warnings.0.borrow().len() as i64);
    pure!(engine, "is_empty", |warnings: &mut Warnings| warnings.0.borrow().is_empty());
}
