//! The revisions of an operator: immutable values, of which the newest one is read once for each event.
//!
//! Calls that are running keep the revision they began with. Nothing here loads files; see `reload`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tracing::error;

use crate::handling::{Handler, Lifecycle, On, Policy};
use crate::object::Resource;
use crate::persistence::Storages;

use super::cycle::Served;
use super::memory::Memories;
use super::worker_settings::WorkerSettings;

/// What the observer and the workers of one operator follow of a revision.
pub struct Revision<W> {
    /// Its number, which grows; 0 for the revision that the operator starts with.
    pub number: u32,
    /// The digest of its files.
    pub digest: Arc<str>,
    /// The effects: they call the scripts of this revision.
    pub world: Arc<W>,
    /// The handlers.
    pub handlers: Vec<Arc<Handler>>,
    /// The storages of the operator's state.
    pub storages: Arc<Storages>,
    /// Which handlers run in one cycle.
    pub lifecycle: Lifecycle,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The default error policy of sub-handlers.
    pub sub_defaults: Policy,
    /// The settings of workers.
    pub settings: Arc<WorkerSettings>,
}

/// The newest revision of an operator.
pub struct Revisions<W> {
    newest: RwLock<Arc<Revision<W>>>,
    /// Its number, so that readers need not lock it to see that nothing has changed.
    number: AtomicU32,
}

impl<W> Revisions<W> {
    /// Begins with a revision.
    pub fn new(first: Revision<W>) -> Self {
        let number = AtomicU32::new(first.number);
        Self { newest: RwLock::new(Arc::new(first)), number }
    }

    /// Returns the newest revision.
    pub fn newest(&self) -> Arc<Revision<W>> {
        Arc::clone(&self.newest.read())
    }

    /// Lets a revision take effect: all events that are taken up from now on are processed by it.
    pub fn replace(&self, revision: Revision<W>) {
        let mut newest = self.newest.write();
        self.number.store(revision.number, Ordering::Release);
        *newest = Arc::new(revision);
    }
}

/// What the workers of one kind follow of a revision.
pub struct Serving<W> {
    /// The number of the revision.
    pub revision: u32,
    /// The digest of its files.
    pub digest: Arc<str>,
    /// The effects.
    pub world: Arc<W>,
    /// The kind and its handlers.
    pub served: Arc<Served>,
    /// The settings of workers.
    pub settings: Arc<WorkerSettings>,
}

/// The newest revision, as the workers of one kind follow it.
pub struct KindRevisions<W> {
    known: RwLock<Arc<Serving<W>>>,
    /// `None` if the revision never changes.
    revisions: Option<Arc<Revisions<W>>>,
    memories: Arc<Memories>,
}

impl<W> KindRevisions<W> {
    /// Returns a revision that never changes.
    pub fn fixed(serving: Serving<W>, memories: Arc<Memories>) -> Self {
        Self { known: RwLock::new(Arc::new(serving)), revisions: None, memories }
    }

    /// Follows the revisions of an operator for a kind.
    pub fn following(revisions: Arc<Revisions<W>>, resource: Arc<Resource>, memories: Arc<Memories>) -> Self {
        let serving = serve(&revisions.newest(), resource, &memories);
        Self { known: RwLock::new(Arc::new(serving)), revisions: Some(revisions), memories }
    }

    /// Returns the revision for an event that is taken up; `None` if it declares nothing for the kind. Then the state on objects stays as it
    /// is: without handlers, a cycle would remove the finalizer.
    pub fn take_up(&self) -> Option<Arc<Serving<W>>> {
        let serving = self.newest();
        (self.revisions.is_none() || !serving.served.handlers.is_empty()).then_some(serving)
    }

    /// Returns the newest revision.
    pub fn newest(&self) -> Arc<Serving<W>> {
        let known = Arc::clone(&self.known.read());
        let Some(revisions) = self.revisions.as_ref().filter(|newer| newer.number.load(Ordering::Acquire) != known.revision) else {
            return known;
        };
        let mut known = self.known.write();
        let newest = revisions.newest();
        if known.revision != newest.number {
            *known = Arc::new(serve(&newest, Arc::clone(&known.served.resource), &self.memories));
        }
        Arc::clone(&known)
    }

    /// Returns the memories of the kind's objects.
    pub fn memories(&self) -> &Arc<Memories> {
        &self.memories
    }
}

fn serve<W>(revision: &Revision<W>, resource: Arc<Resource>, memories: &Memories) -> Serving<W> {
    let handlers = without_clashes(&revision.handlers, &resource);
    let resuming = handlers.iter().filter(|handler| matches!(handler.on, On::Resume { .. }));
    memories.declare(revision.number, resuming.map(|handler| handler.id.as_str()));
    let served = Served::new(resource, &handlers, Arc::clone(&revision.storages), revision.lifecycle, revision.default_backoff)
        .with_sub_defaults(revision.sub_defaults.clone());
    Serving {
        revision: revision.number,
        digest: Arc::clone(&revision.digest),
        world: Arc::clone(&revision.world),
        served: Arc::new(served),
        settings: Arc::clone(&revision.settings),
    }
}

/// Two functions with one id would share one progress record. Within a block of the manifest that is a load error; here, two blocks select
/// the same kind.
fn without_clashes(handlers: &[Arc<Handler>], resource: &Resource) -> Vec<Arc<Handler>> {
    let mut kept: Vec<Arc<Handler>> = Vec::new();
    for handler in handlers.iter().filter(|handler| handler.concerns(resource)) {
        // Indexes have no records on objects, and ids of their own.
        let is_clash = |earlier: &Handler| {
            let is_same_group = (earlier.on == On::Index) == (handler.on == On::Index);
            is_same_group && earlier.id == handler.id && earlier.function != handler.function
        };
        match kept.iter().find(|earlier| is_clash(earlier)) {
            None => kept.push(Arc::clone(handler)),
            Some(earlier) => error!(
                target: "kopfd::reactor",
                "Handler '{}' of {} is not run for {resource}: {} has the same id. Give one of them another id.",
                handler.id, handler.function, earlier.function
            ),
        }
    }
    kept
}

impl<W> Serving<W> {
    /// Returns the kind and its handlers for an object: without handlers of resumptions that were added after it was first seen.
    pub fn served_for(&self, uid: &str, memories: &Memories) -> Arc<Served> {
        let late = memories.late_resumptions(uid);
        if late.is_empty() {
            return Arc::clone(&self.served);
        }
        let mut served = (*self.served).clone();
        served.handlers.changing =
            served.handlers.changing.without(|handler| matches!(handler.on, On::Resume { .. }) && late.contains(&handler.id));
        Arc::new(served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u32, handlers: &[(&str, On)]) -> Revision<u32> {
        Revision {
            number,
            digest: Arc::default(),
            world: Arc::new(number),
            handlers: handlers.iter().map(|(id, on)| Arc::new(Handler::simple(id, *on))).collect(),
            storages: Arc::default(),
            lifecycle: Lifecycle::default(),
            default_backoff: Duration::ZERO,
            sub_defaults: Policy::default(),
            settings: Arc::default(),
        }
    }

    fn ids(served: &Served) -> Vec<&str> {
        served.handlers.iter().map(|handler| handler.id.as_str()).collect()
    }

    const RESUME: On = On::Resume { deleted: false };

    #[test]
    fn a_replaced_revision_is_seen_by_all_kinds_at_once_and_stays_with_those_who_have_it() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kinds: Vec<_> = (0..2).map(|_| KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default())).collect();
        let before: Vec<_> = kinds.iter().map(|kind| kind.take_up().unwrap()).collect();
        revisions.replace(revision(1, &[("b", On::Create)]));
        for (kind, before) in kinds.iter().zip(before) {
            let after = kind.take_up().unwrap();
            assert_eq!((before.revision, ids(&before.served), *before.world), (0, vec!["a"], 0));
            assert_eq!((after.revision, ids(&after.served), *after.world), (1, vec!["b"], 1));
            assert!(Arc::ptr_eq(&after, &kind.newest()));
        }
    }

    #[test]
    fn nothing_is_taken_up_of_a_kind_that_is_not_declared_any_more() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        revisions.replace(revision(1, &[]));
        assert!(kind.take_up().is_none());
        assert_eq!(kind.newest().revision, 1);
        revisions.replace(revision(2, &[("a", On::Create)]));
        assert!(kind.take_up().is_some());
    }

    #[test]
    fn an_added_handler_of_resumptions_is_not_for_objects_that_were_known_before() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("old", RESUME), ("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        let memories = kind.memories();
        memories.notice("known", true, Arc::default);
        revisions.replace(revision(1, &[("old", RESUME), ("new", RESUME), ("new", On::Create)]));
        let serving = kind.take_up().unwrap();
        memories.notice("seen later", true, Arc::default);
        let of = |uid| ids(&serving.served_for(uid, memories)).join(" ");
        assert_eq!(of("known"), "old new");
        assert_eq!(of("seen later"), "old new new");
        revisions.replace(revision(2, &[("new", RESUME)]));
        revisions.replace(revision(3, &[("new", RESUME), ("old", RESUME)]));
        let serving = kind.take_up().unwrap();
        assert_eq!(ids(&serving.served_for("seen later", memories)), ["new", "old"], "nobody has seen the revision without it");
    }

    #[test]
    fn of_two_functions_with_one_id_the_first_one_is_run() {
        let resource = Resource::default();
        let handler = |function: &str, on| Arc::new(Handler { function: function.to_owned(), ..Handler::simple("same", on) });
        let handlers = [handler("a", On::Create), handler("a", On::Update), handler("b", On::Update)];
        let kept = without_clashes(&handlers, &resource);
        assert_eq!(kept.iter().map(|handler| handler.function.as_str()).collect::<Vec<_>>(), ["a", "a"]);
    }
}
