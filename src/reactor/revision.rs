//! The revisions of an operator: immutable values, of which the newest one is read once for each event. A revision on
//! trial serves a share of the objects beside it.
//!
//! Calls that are running keep the revision they began with. Nothing here loads files; see `reload`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use tracing::error;

use crate::handling::trial::Share;
use crate::handling::{Handler, Lifecycle, On, Policy};
use crate::object::{Resource, Selector};
use crate::persistence::Storages;

use super::cycle::Served;
use super::memory::Memories;
use super::worker_settings::WorkerSettings;

/// The part of a revision that the observer and the workers of one operator read.
pub struct Revision<W> {
    /// Its number, which grows; 0 for the revision that the operator starts with.
    pub number: u32,
    /// The digest of its files.
    pub digest: Arc<str>,
    /// The effects: they call the scripts of this revision.
    pub effects: Arc<W>,
    /// The handlers.
    pub handlers: Vec<Arc<Handler>>,
    /// The kinds of its webhooks.
    pub webhooks: Vec<Selector>,
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
    /// When it took effect.
    pub since: Timestamp,
}

impl<W> Revision<W> {
    /// Returns the revision with the settings of another one.
    #[must_use]
    pub fn with_settings_of(&self, other: &Self) -> Self {
        Self {
            number: self.number,
            digest: Arc::clone(&self.digest),
            effects: Arc::clone(&self.effects),
            handlers: self.handlers.clone(),
            webhooks: self.webhooks.clone(),
            storages: Arc::clone(&other.storages),
            lifecycle: other.lifecycle,
            default_backoff: other.default_backoff,
            sub_defaults: self.sub_defaults.clone(),
            settings: Arc::clone(&other.settings),
            since: self.since,
        }
    }
}

/// The newest revision of an operator, and one on trial.
pub struct Revisions<W> {
    serving: RwLock<InService<W>>,
    /// The number of changes, so that readers need not lock to see that nothing has changed.
    changes: AtomicU32,
}

/// The revisions that serve objects.
struct InService<W> {
    newest: Arc<Revision<W>>,
    trial: Option<(Arc<Revision<W>>, Share)>,
}

impl<W> Revisions<W> {
    /// Begins with a revision.
    pub fn new(first: Revision<W>) -> Self {
        Self { serving: RwLock::new(InService { newest: Arc::new(first), trial: None }), changes: AtomicU32::new(0) }
    }

    /// Returns the newest revision that has taken effect.
    pub fn newest(&self) -> Arc<Revision<W>> {
        Arc::clone(&self.serving.read().newest)
    }

    /// Lets a revision take effect: all events that are taken up from now on are processed by it. A trial ends.
    pub fn replace(&self, revision: Revision<W>) {
        self.change(|serving| *serving = InService { newest: Arc::new(revision), trial: None });
    }

    /// Lets a revision serve a share of the objects, in the place of an earlier one on trial.
    pub fn try_out(&self, revision: Revision<W>, share: Share) {
        self.change(|serving| serving.trial = Some((Arc::new(revision), share)));
    }

    /// Ends the trial: the newest revision serves all objects.
    pub fn withdraw(&self) {
        self.change(|serving| serving.trial = None);
    }

    fn change(&self, change: impl FnOnce(&mut InService<W>)) {
        let mut serving = self.serving.write();
        change(&mut serving);
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }
}

/// The part of a revision that the workers of one kind read.
pub struct Serving<W> {
    /// The number of the revision.
    pub revision: u32,
    /// The digest of its files.
    pub digest: Arc<str>,
    /// The effects.
    pub effects: Arc<W>,
    /// The kind and its handlers.
    pub served: Arc<Served>,
    /// The settings of workers.
    pub settings: Arc<WorkerSettings>,
    /// `None` for a revision that has taken effect.
    pub trial: Option<OnTrial<W>>,
}

/// The differences of a revision on trial from the newest one.
pub struct OnTrial<W> {
    /// The newest revision for the kind: it indexes all objects.
    pub newest: Arc<Serving<W>>,
    /// The ids of handlers of resumptions that the newest revision does not have: they are not for known objects.
    pub added_resumptions: BTreeSet<String>,
}

/// The newest revision, and one on trial, as the workers of one kind follow them.
pub struct KindRevisions<W> {
    known: RwLock<Known<W>>,
    /// `None` if the revision never changes.
    revisions: Option<Arc<Revisions<W>>>,
    memories: Arc<Memories>,
}

struct Known<W> {
    /// The number of changes until then.
    change: u32,
    newest: Arc<Serving<W>>,
    /// `None` also if the revision on trial does not declare the kind.
    trial: Option<(Arc<Serving<W>>, Share)>,
}

impl<W> Clone for Known<W> {
    fn clone(&self) -> Self {
        let trial = self.trial.as_ref().map(|(serving, share)| (Arc::clone(serving), *share));
        Self { change: self.change, newest: Arc::clone(&self.newest), trial }
    }
}

impl<W> KindRevisions<W> {
    /// Returns a revision that never changes.
    pub fn fixed(serving: Serving<W>, memories: Arc<Memories>) -> Self {
        Self {
            known: RwLock::new(Known { change: 0, newest: Arc::new(serving), trial: None }),
            revisions: None,
            memories,
        }
    }

    /// Follows the revisions of an operator for a kind.
    pub fn following(revisions: Arc<Revisions<W>>, resource: Arc<Resource>, memories: Arc<Memories>) -> Self {
        let known = follow(&revisions, &resource, None, &memories);
        Self { known: RwLock::new(known), revisions: Some(revisions), memories }
    }

    /// Returns the revision for an event of an object that is taken up; `None` if it declares nothing for the kind.
    /// Then the state on objects stays as it is: without handlers, a cycle would remove the finalizer.
    pub fn take_up(&self, uid: &str) -> Option<Arc<Serving<W>>> {
        let serving = self.of(uid);
        (self.revisions.is_none() || !serving.served.handlers.is_empty()).then_some(serving)
    }

    /// Returns the newest revision that has taken effect.
    pub fn newest(&self) -> Arc<Serving<W>> {
        self.known().newest
    }

    /// Returns the revision that serves an object.
    pub fn of(&self, uid: &str) -> Arc<Serving<W>> {
        match self.known() {
            Known { trial: Some((serving, share)), .. } if share.holds(uid) => serving,
            Known { newest, .. } => newest,
        }
    }

    /// Returns the number of objects that each revision serves, by its digest.
    pub fn objects(&self) -> BTreeMap<String, usize> {
        let Known { newest, trial, .. } = self.known();
        let all = self.memories.len();
        let tried =
            trial.map(|(serving, share)| (serving.digest.to_string(), self.memories.count(|uid| share.holds(uid))));
        let of_trial = tried.as_ref().map(|(_, count)| *count).unwrap_or_default();
        [(newest.digest.to_string(), all.saturating_sub(of_trial))].into_iter().chain(tried).collect()
    }

    fn known(&self) -> Known<W> {
        let known = self.known.read().clone();
        let Some(revisions) = self.revisions.as_ref().filter(|revisions| revisions.changes() != known.change) else {
            return known;
        };
        let mut known = self.known.write();
        if known.change != revisions.changes() {
            *known = follow(revisions, &known.newest.served.resource, Some(&known.newest), &self.memories);
        }
        known.clone()
    }

    /// Returns the memories of the kind's objects.
    pub fn memories(&self) -> &Arc<Memories> {
        &self.memories
    }
}

/// Returns the current revisions of a kind. The newest one stays as it is known, if it is the same.
fn follow<W>(
    revisions: &Revisions<W>,
    resource: &Arc<Resource>,
    known: Option<&Arc<Serving<W>>>,
    memories: &Memories,
) -> Known<W> {
    let serving = revisions.serving.read();
    let change = revisions.changes();
    let is_same = |known: &&Arc<Serving<W>>| known.revision == serving.newest.number;
    let newest = known.filter(is_same).cloned().unwrap_or_else(|| {
        let newest = serve(&serving.newest, resource);
        memories.declare(newest.revision, resumptions(&newest.served));
        Arc::new(newest)
    });
    let trial = serving.trial.as_ref().map(|(revision, share)| {
        let tried = serve(revision, resource);
        let known: BTreeSet<&str> = resumptions(&newest.served).collect();
        let added_resumptions =
            resumptions(&tried.served).filter(|id| !known.contains(id)).map(str::to_owned).collect();
        let trial = Some(OnTrial { newest: Arc::clone(&newest), added_resumptions });
        (Arc::new(Serving { trial, ..tried }), *share)
    });
    let trial = trial.filter(|(serving, _)| !serving.served.handlers.is_empty());
    Known { change, newest, trial }
}

fn resumptions(served: &Served) -> impl Iterator<Item = &str> {
    served.handlers.iter().filter(|handler| matches!(handler.on, On::Resume { .. })).map(|handler| handler.id.as_str())
}

fn serve<W>(revision: &Revision<W>, resource: &Arc<Resource>) -> Serving<W> {
    let handlers = without_clashes(&revision.handlers, resource);
    let (resource, storages) = (Arc::clone(resource), Arc::clone(&revision.storages));
    let served = Served::new(resource, &handlers, storages, revision.lifecycle, revision.default_backoff)
        .with_sub_defaults(revision.sub_defaults.clone());
    Serving {
        revision: revision.number,
        digest: Arc::clone(&revision.digest),
        effects: Arc::clone(&revision.effects),
        served: Arc::new(served),
        settings: Arc::clone(&revision.settings),
        trial: None,
    }
}

/// Two functions with one id would share one progress record. Within a block of the manifest that is a load error;
/// here, two blocks select the same kind.
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
    /// Returns the revision that indexes the objects of the kind: one on trial leaves that to the newest one, which
    /// fills the indexes of both.
    pub fn indexing(&self) -> &Self {
        self.trial.as_ref().map_or(self, |trial| &*trial.newest)
    }

    /// Returns the kind and its handlers for an object: without handlers of resumptions that were added after it was
    /// first seen.
    pub fn served_for(&self, uid: &str, memories: &Memories) -> Arc<Served> {
        let mut late = memories.late_resumptions(uid);
        late.extend(self.trial.iter().flat_map(|trial| trial.added_resumptions.iter().cloned()));
        if late.is_empty() {
            return Arc::clone(&self.served);
        }
        let mut served = (*self.served).clone();
        served.handlers.changing = served
            .handlers
            .changing
            .without(|handler| matches!(handler.on, On::Resume { .. }) && late.contains(&handler.id));
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
            effects: Arc::new(number),
            handlers: handlers.iter().map(|(id, on)| Arc::new(Handler::simple(id, *on))).collect(),
            webhooks: Vec::new(),
            storages: Arc::default(),
            lifecycle: Lifecycle::default(),
            default_backoff: Duration::ZERO,
            sub_defaults: Policy::default(),
            settings: Arc::default(),
            since: Timestamp::UNIX_EPOCH,
        }
    }

    fn ids(served: &Served) -> Vec<&str> {
        served.handlers.iter().map(|handler| handler.id.as_str()).collect()
    }

    const RESUME: On = On::Resume { deleted: false };

    #[test]
    fn a_replaced_revision_is_seen_by_all_kinds_at_once_and_stays_with_those_who_have_it() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kinds: Vec<_> =
            (0..2).map(|_| KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default())).collect();
        let before: Vec<_> = kinds.iter().map(|kind| kind.take_up("uid").unwrap()).collect();
        revisions.replace(revision(1, &[("b", On::Create)]));
        for (kind, before) in kinds.iter().zip(before) {
            let after = kind.take_up("uid").unwrap();
            assert_eq!((before.revision, ids(&before.served), *before.effects), (0, vec!["a"], 0));
            assert_eq!((after.revision, ids(&after.served), *after.effects), (1, vec!["b"], 1));
            assert!(Arc::ptr_eq(&after, &kind.newest()));
        }
    }

    #[test]
    fn nothing_is_taken_up_of_a_kind_that_is_not_declared_any_more() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        revisions.replace(revision(1, &[]));
        assert!(kind.take_up("uid").is_none());
        assert_eq!(kind.newest().revision, 1);
        revisions.replace(revision(2, &[("a", On::Create)]));
        assert!(kind.take_up("uid").is_some());
    }

    #[test]
    fn an_added_handler_of_resumptions_is_not_for_objects_that_were_known_before() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("old", RESUME), ("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        let memories = kind.memories();
        memories.notice("known", true, Arc::default);
        revisions.replace(revision(1, &[("old", RESUME), ("new", RESUME), ("new", On::Create)]));
        let serving = kind.take_up("uid").unwrap();
        memories.notice("seen later", true, Arc::default);
        let of = |uid| ids(&serving.served_for(uid, memories)).join(" ");
        assert_eq!(of("known"), "old new");
        assert_eq!(of("seen later"), "old new new");
        revisions.replace(revision(2, &[("new", RESUME)]));
        revisions.replace(revision(3, &[("new", RESUME), ("old", RESUME)]));
        let serving = kind.take_up("uid").unwrap();
        assert_eq!(
            ids(&serving.served_for("seen later", memories)),
            ["new", "old"],
            "nobody has seen the revision without it"
        );
    }

    #[test]
    fn a_revision_on_trial_serves_its_share_until_it_takes_effect_or_is_withdrawn() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        let uids: Vec<String> = (0..100).map(|number| format!("uid-{number}")).collect();
        for uid in &uids {
            kind.memories().notice(uid, true, Arc::default);
        }
        let share = Share::of_percent(30);
        let before = kind.newest();
        let numbers = || uids.iter().map(|uid| kind.take_up(uid).unwrap().revision).collect::<Vec<_>>();
        revisions.try_out(revision(1, &[("b", On::Create)]), share);
        assert_eq!(numbers(), uids.iter().map(|uid| u32::from(share.holds(uid))).collect::<Vec<_>>());
        assert!(Arc::ptr_eq(&kind.newest(), &before), "nothing has changed for the others");
        let held = uids.iter().find(|uid| share.holds(uid)).unwrap();
        assert_eq!(kind.of(held).indexing().revision, 0);
        revisions.withdraw();
        assert!(numbers().iter().all(|number| *number == 0) && Arc::ptr_eq(&kind.newest(), &before));
        revisions.try_out(revision(2, &[("b", On::Create)]), share);
        assert_eq!(kind.of(held).revision, 2);
        revisions.replace(revision(2, &[("b", On::Create)]));
        assert!(numbers().iter().all(|number| *number == 2) && kind.of(held).trial.is_none());
    }

    #[test]
    fn a_kind_that_a_revision_on_trial_does_not_declare_stays_with_the_newest_one() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        revisions.try_out(revision(1, &[]), Share::of_percent(99));
        assert!(
            (0..100).all(|number| kind.take_up(&format!("uid-{number}")).is_some_and(|serving| serving.revision == 0))
        );
    }

    #[test]
    fn handlers_of_resumptions_that_are_added_by_a_trial_are_not_for_known_objects() {
        let revisions = Arc::new(Revisions::new(revision(0, &[("old", RESUME), ("a", On::Create)])));
        let kind = KindRevisions::following(Arc::clone(&revisions), Arc::default(), Arc::default());
        let held = (0..100).map(|number| format!("uid-{number}")).find(|uid| Share::of_percent(50).holds(uid)).unwrap();
        kind.memories().notice(&held, true, Arc::default);
        revisions.try_out(revision(1, &[("new", RESUME), ("a", On::Create)]), Share::of_percent(50));
        let of = || ids(&kind.of(&held).served_for(&held, kind.memories())).join(" ");
        assert_eq!(of(), "a");
        revisions.withdraw();
        assert_eq!(of(), "old a", "its handler of resumptions was never away");
    }

    #[test]
    fn of_two_functions_with_one_id_the_first_one_is_run() {
        let resource = Resource::default();
        let handler =
            |function: &str, on| Arc::new(Handler { function: function.to_owned(), ..Handler::simple("same", on) });
        let handlers = [handler("a", On::Create), handler("a", On::Update), handler("b", On::Update)];
        let kept = without_clashes(&handlers, &resource);
        assert_eq!(kept.iter().map(|handler| handler.function.as_str()).collect::<Vec<_>>(), ["a", "a"]);
    }
}
