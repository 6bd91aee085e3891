//! The handlers of one kind, grouped by their trigger. A decision takes the list of its group, so it cannot get
//! handlers of another one.

use std::marker::PhantomData;
use std::sync::Arc;

use super::handler::{Handler, On};

/// A group of handlers.
pub trait Group {
    /// Tells whether handlers of this sort belong to the group.
    fn includes(on: On) -> bool;
}

/// Handlers of changes.
#[derive(Debug, Clone, Copy)]
pub enum Changing {}

impl Group for Changing {
    fn includes(on: On) -> bool {
        on.is_changing()
    }
}

/// Handlers of raw events.
#[derive(Debug, Clone, Copy)]
pub enum Watching {}

impl Group for Watching {
    fn includes(on: On) -> bool {
        on == On::Event
    }
}

/// Handlers of indexes.
#[derive(Debug, Clone, Copy)]
pub enum Indexing {}

impl Group for Indexing {
    fn includes(on: On) -> bool {
        on == On::Index
    }
}

/// Daemons and timers.
#[derive(Debug, Clone, Copy)]
pub enum Spawning {}

impl Group for Spawning {
    fn includes(on: On) -> bool {
        on.is_spawning()
    }
}

/// The handlers of one group, in the order of their declaration.
#[derive(Debug, Clone)]
pub struct HandlerList<G> {
    handlers: Vec<Arc<Handler>>,
    group: PhantomData<G>,
}

/// The handlers of changes.
pub type ChangingHandlers = HandlerList<Changing>;
/// The handlers of raw events.
pub type WatchingHandlers = HandlerList<Watching>;
/// The handlers of indexes.
pub type IndexingHandlers = HandlerList<Indexing>;
/// Daemons and timers.
pub type SpawningHandlers = HandlerList<Spawning>;

impl<G: Group> HandlerList<G> {
    /// Returns the handlers that belong to the group.
    pub fn of(handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        Self { handlers: handlers.into_iter().filter(|handler| G::includes(handler.on)).collect(), group: PhantomData }
    }
}

impl<G> HandlerList<G> {
    /// Returns the handlers.
    pub fn iter(&self) -> impl Iterator<Item = &Handler> {
        self.handlers.iter().map(AsRef::as_ref)
    }

    /// Tells whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Returns the list without the handlers that are dropped.
    #[must_use]
    pub fn without(&self, is_dropped: impl Fn(&Handler) -> bool) -> Self {
        Self {
            handlers: self.handlers.iter().filter(|handler| !is_dropped(handler)).cloned().collect(),
            group: PhantomData,
        }
    }

    /// Returns a shared reference to a handler of the list.
    pub fn shared(&self, handler: &Handler) -> Option<Arc<Handler>> {
        self.handlers.iter().find(|known| std::ptr::eq(known.as_ref(), handler)).cloned()
    }
}

/// The handlers of one kind.
#[derive(Debug, Clone)]
pub struct Handlers {
    /// The handlers of changes.
    pub changing: ChangingHandlers,
    /// The handlers of raw events.
    pub watching: WatchingHandlers,
    /// The handlers of indexes.
    pub indexing: IndexingHandlers,
    /// Daemons and timers.
    pub spawning: SpawningHandlers,
}

impl Handlers {
    /// Returns the lists of these handlers.
    pub fn of(handlers: &[Arc<Handler>]) -> Self {
        let all = || handlers.iter().cloned();
        Self {
            changing: HandlerList::of(all()),
            watching: HandlerList::of(all()),
            indexing: HandlerList::of(all()),
            spawning: HandlerList::of(all()),
        }
    }

    /// Returns all handlers, list by list.
    pub fn iter(&self) -> impl Iterator<Item = &Handler> {
        self.indexing.iter().chain(self.watching.iter()).chain(self.spawning.iter()).chain(self.changing.iter())
    }

    /// Tells whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handler_is_in_exactly_one_list() {
        let all = [
            On::Create,
            On::Update,
            On::Delete { optional: false },
            On::Resume { deleted: true },
            On::Field,
            On::Sub { needs_change: false },
            On::Event,
            On::Index,
            On::Daemon,
            On::Timer,
        ];
        let handlers: Vec<_> = all.into_iter().map(|on| Arc::new(Handler::simple(&format!("{on:?}"), on))).collect();
        let lists = Handlers::of(&handlers);
        let counts = [
            lists.changing.iter().count(),
            lists.watching.iter().count(),
            lists.indexing.iter().count(),
            lists.spawning.iter().count(),
        ];
        assert_eq!(counts, [6, 1, 1, 2]);
        assert_eq!(lists.iter().count(), all.len());
    }

    #[test]
    fn a_handler_of_a_list_is_shared_and_a_copy_of_it_is_not() {
        let handler = Arc::new(Handler::simple("fn", On::Create));
        let lists = Handlers::of(&[Arc::clone(&handler)]);
        assert!(lists.changing.shared(&handler).is_some_and(|shared| Arc::ptr_eq(&shared, &handler)));
        assert!(lists.changing.shared(&Handler::simple("fn", On::Create)).is_none());
        assert!(lists.watching.shared(&handler).is_none());
        assert!(!lists.is_empty() && Handlers::of(&[]).is_empty());
    }
}
