//! The handle of a running observer that lets other revisions of its operator take effect.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::KnownObjects;
use crate::handling::trial::Share;
use crate::object::Resource;

use super::super::precedence::Precedence;
use super::super::revision::{Revision, Revisions};
use super::declared::Scope;

/// A request to follow a change of the revisions.
pub(super) struct Replacement {
    /// `None` if the newest revision is still the same.
    pub(super) newest: Option<(Precedence, Vec<Filled>)>,
    /// Answered when the watches have been started and stopped.
    pub(super) done: oneshot::Sender<()>,
}

/// A kind in a namespace, or in all, whose objects were listed for indexes before its watch begins.
#[derive(Debug)]
pub struct Filled {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespace; `None` stands for all.
    pub namespace: Option<String>,
    /// The listed objects: the first list of the watch reports those that have vanished meanwhile.
    pub known: KnownObjects,
}

/// Lets other revisions of an operator take effect.
pub struct Reviser<W> {
    pub(super) revisions: Arc<Revisions<W>>,
    pub(super) replacer: mpsc::Sender<Replacement>,
    pub(super) namespaces: watch::Receiver<BTreeSet<String>>,
    pub(super) scope: Scope,
}

impl<W> Reviser<W> {
    /// Returns the newest revision.
    pub fn newest(&self) -> Arc<Revision<W>> {
        self.revisions.newest()
    }

    /// Returns the namespaces in which objects of a kind are watched; `None` stands for all.
    pub fn namespaces_of(&self, resource: &Resource) -> Vec<Option<String>> {
        match &self.scope {
            Scope::Namespaces(_) if resource.namespaced => self.namespaces.borrow().iter().cloned().map(Some).collect(),
            _ => vec![None],
        }
    }

    /// Lets a revision take effect: for all events that are taken up from now on, and then for the watches. Known
    /// objects of the kinds that stay are handled once more.
    ///
    /// `earlier` has the operators of the process that come before this one.
    pub async fn replace(&self, revision: Revision<W>, earlier: Precedence, filled: Vec<Filled>) {
        self.revisions.replace(revision);
        self.follow(Some((earlier, filled))).await;
    }

    /// Lets a revision serve a share of the objects of the kinds that are served already. Known objects are handled
    /// once more.
    pub async fn try_out(&self, revision: Revision<W>, share: Share) {
        self.revisions.try_out(revision, share);
        self.follow(None).await;
    }

    /// Lets the newest revision serve all objects again. Known objects are handled once more.
    pub async fn withdraw(&self) {
        self.revisions.withdraw();
        self.follow(None).await;
    }

    async fn follow(&self, newest: Option<(Precedence, Vec<Filled>)>) {
        let (done, is_done) = oneshot::channel();
        // An observer that has ended has no watches.
        if self.replacer.send(Replacement { newest, done }).await.is_ok() {
            let _ = is_done.await;
        }
    }
}
