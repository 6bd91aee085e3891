//! Turns of objects: between two waits of a call, no other call of the same object runs, even when the thread switches
//! to other objects.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::budget::Budget;
use super::fiber::Fiber;

/// The objects with calls, by the keys of their memories.
#[derive(Default)]
pub(crate) struct ObjectTurns {
    table: RefCell<HashMap<Arc<str>, Weak<Turn>>>,
}

/// The current turn of one object.
#[derive(Default)]
struct Turn {
    is_taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Turn {
    fn give_up(&self) {
        self.is_taken.set(false);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl ObjectTurns {
    /// Returns a fiber that takes turns with the others of an object.
    pub(crate) fn take_turns<T>(
        self: &Rc<Self>,
        name: &Arc<str>,
        budget: Rc<Budget>,
        fiber: Fiber<T>,
    ) -> TakingTurns<T> {
        let mut table = self.table.borrow_mut();
        let turn = table.get(name).and_then(Weak::upgrade).unwrap_or_default();
        table.insert(Arc::clone(name), Rc::downgrade(&turn));
        TakingTurns {
            fiber: Some(fiber),
            budget,
            turn: Some(turn),
            is_mine: false,
            turns: Rc::clone(self),
            name: Arc::clone(name),
        }
    }
}

/// A fiber that keeps its turn while it is suspended without waiting for anything.
pub(crate) struct TakingTurns<T: 'static> {
    fiber: Option<Fiber<T>>,
    budget: Rc<Budget>,
    turn: Option<Rc<Turn>>,
    is_mine: bool,
    turns: Rc<ObjectTurns>,
    name: Arc<str>,
}

impl<T> Future for TakingTurns<T> {
    type Output = <Fiber<T> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (Some(turn), Some(fiber)) = (&this.turn, &mut this.fiber) else { return Poll::Pending };
        if turn.is_taken.get() && !this.is_mine {
            turn.waiting.borrow_mut().push(context.waker().clone());
            return Poll::Pending;
        }
        turn.is_taken.set(true);
        this.is_mine = true;
        let polled = Pin::new(fiber).poll(context);
        if polled.is_ready() || !this.budget.is_preempted() {
            this.is_mine = false;
            turn.give_up();
        }
        polled
    }
}

impl<T> Drop for TakingTurns<T> {
    fn drop(&mut self) {
        // The script may run to its end here.
        self.fiber = None;
        if let Some(turn) = self.turn.take() {
            if self.is_mine {
                turn.give_up();
            }
            if Rc::strong_count(&turn) == 1 {
                self.turns.table.borrow_mut().remove(&self.name);
            }
        }
    }
}
