//! Decides about the records of a peering object whenever they change, or expire.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::keep_alive::{Orders, Written};
use super::object::{PeeringObject, log};
use super::report::Report;
use super::sink::Seen;
use super::terms::{Turn, Turns};
use crate::engines::pause::{Hold, Pause};
use crate::handling::peering::{Peer, Reaction, has_left, react};
use crate::kit::Stop;
use crate::persistence::peering::{self, Malformed};

/// The delay before an operator begins, in which its peers end running and queued handlers: after its start, peers with
/// a lower priority; after a pause, those that have removed their records. Peers do not announce the end. Python kopf
/// needed two and a half seconds with 200 retries at once on a busy machine.
const TAKEOVER: Duration = Duration::from_secs(5);

/// The reason why a replica is paused at the begin of its term.
const BEGINNING: &str = "its peers have to notice that this replica leads";

/// The reason why an operator is paused after its peers have ended.
const ENDING: &str = "the last handlers of a peer may still run";

/// The decisions about one peering object.
pub(super) struct Decisions {
    pub object: Arc<PeeringObject>,
    /// Whether this replica leads.
    pub turns: Turns,
    /// Whether the operator stays paused as long as the object does not exist.
    pub is_mandatory: bool,
    /// The newest state of the object.
    pub statuses: watch::Receiver<Seen>,
    /// The own keep-alives.
    pub written: watch::Receiver<Written>,
    /// Writes that the keep-alive task is asked for.
    pub orders: Arc<Orders>,
    pub pause: Pause,
    /// Held until the first decision.
    pub starting: Option<Hold>,
    /// When the operator begins, if that is later than the first decision.
    pub begins_at: Option<Instant>,
    /// Held in favour of peers.
    pub peers: Option<Hold>,
    /// The peers that pause the operator.
    pub pausing: Vec<Peer>,
    /// When the operator resumes, if that is later than the end of its peers.
    pub resumes_at: Option<Instant>,
    /// The malformed records that were logged.
    pub warned: BTreeSet<Malformed>,
    pub report: Report,
}

/// When to decide again, if nothing changes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Next {
    /// When the first of the peers that pause the operator expires.
    expiry: Option<Instant>,
    /// When the operator begins, after its start.
    begin: Option<Instant>,
    /// When the operator resumes, after the end of its peers.
    resumption: Option<Instant>,
}

impl Decisions {
    /// Decides until the stop is requested. After that, the operator is not held.
    pub(super) async fn run(mut self, stop: Stop) {
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = self.decide_endlessly() => {}
        }
    }

    async fn decide_endlessly(&mut self) {
        // The own record comes first, so that peers with a lower priority pause before this operator begins. The sender
        // is not dropped.
        if !self.orders.is_idle() {
            let _ = self.written.wait_for(|written| written.attempts > 0).await;
        }
        loop {
            let seen = self.statuses.borrow_and_update().clone();
            let next = self.decide(&seen);
            self.wait(next).await;
        }
    }

    /// Waits until a decision is due.
    async fn wait(&mut self, mut next: Next) {
        loop {
            tokio::select! {
                biased;
                changed = self.statuses.changed() => match changed {
                    Ok(()) => return,
                    // There is no watch.
                    Err(_) => std::future::pending().await,
                },
                turn = self.turns.next() => {
                    self.follow(turn).await;
                    return;
                }
                () = until(next.begin) => {
                    self.starting = None;
                    next.begin = None;
                }
                () = until(next.resumption) => {
                    self.peers = None;
                    self.resumes_at = None;
                    next.resumption = None;
                }
                // As in kopf, the event of the own keep-alive lets all peers decide again.
                () = until(next.expiry) => {
                    next.expiry = None;
                    // A replica that stands by writes nothing, and decides by the clock.
                    if self.orders.is_idle() || self.is_absent_after_keep_alive().await {
                        return;
                    }
                }
            }
        }
    }

    /// Begins or ends a term of this replica.
    async fn follow(&mut self, turn: Turn) {
        let Turn::Lead(_written) = turn else {
            self.orders.write_regularly(false);
            return;
        };
        let is_known = match &*self.statuses.borrow() {
            Seen::Present(status) => {
                self.own_record(&peering::read(status.as_ref(), self.object.clock.now()).peers).is_some()
            }
            Seen::Unknown | Seen::Unavailable | Seen::Absent => true,
        };
        if !is_known && self.starting.is_none() {
            // Peers with a lower priority may have begun meanwhile: it is as at a start.
            self.starting = Some(self.pause.hold_briefly(BEGINNING));
            self.begins_at = None;
        }
        let before = self.written.borrow_and_update().attempts;
        self.orders.write_regularly(true);
        // The sender is not dropped.
        let _ = self.written.wait_for(|written| written.attempts > before).await;
    }

    /// Returns the own record if it is valid.
    fn own_record<'a>(&self, peers: &'a [Peer]) -> Option<&'a Peer> {
        let now = self.object.clock.now();
        peers.iter().find(|peer| *peer.identity == *self.object.peer.identity && !peer.is_dead(now))
    }

    /// Tells whether the record that this replica shares with others is not what it has to be: another one has left it
    /// behind.
    fn lacks_record(&self, peers: &[Peer]) -> bool {
        let peer = &self.object.peer;
        let has_replicas = peer.election.is_some() && !self.orders.is_idle();
        let is_left = |record: &Peer| record.lifetime == peer.last_lifetime() && record.lifetime != peer.lifetime;
        has_replicas && self.own_record(peers).is_none_or(is_left)
    }

    /// Writes a keep-alive. Returns whether the object does not exist: then there is no event, and the last records
    /// count. Otherwise it waits for that event.
    async fn is_absent_after_keep_alive(&mut self) -> bool {
        let before = self.written.borrow_and_update().attempts;
        self.orders.keep_alive();
        tokio::select! {
            biased;
            changed = self.statuses.changed() => {
                if changed.is_ok() {
                    self.statuses.mark_changed();
                }
                false
            }
            written = self.written.wait_for(|written| written.attempts > before && written.is_absent) => written.is_ok(),
        }
    }

    fn decide(&mut self, seen: &Seen) -> Next {
        let undecided = Next { resumption: self.resumes_at, ..Next::default() };
        match seen {
            Seen::Unknown => undecided,
            // As kopf, an operator works alone where it may not know its peers, unless the peering is mandatory.
            Seen::Unavailable => {
                if !self.is_mandatory {
                    let title = self.object.title();
                    warn!(target: "kopfd::peering", "The operator works without knowing its peers, since {title} cannot be listed.");
                    self.starting = None;
                }
                undecided
            }
            Seen::Absent => {
                if !self.is_mandatory {
                    self.starting = None;
                }
                let peers = self.records(None);
                self.react(&peers)
            }
            Seen::Present(status) => {
                let peers = self.records(status.as_ref());
                // The object was created meanwhile.
                if self.written.borrow().is_absent || self.lacks_record(&peers) {
                    self.orders.keep_alive();
                }
                self.react(&peers)
            }
        }
    }

    /// Returns the well-formed records of a status, and logs a warning about the others.
    fn records(&mut self, status: Option<&Value>) -> Vec<Peer> {
        let records = peering::read(status, self.object.clock.now());
        self.warn_of(records.malformed);
        records.peers
    }

    fn react(&mut self, peers: &[Peer]) -> Next {
        let now = self.object.clock.now();
        let is_absent = *self.statuses.borrow() == Seen::Absent;
        // A mandatory peering begins with a pause.
        let is_beginning = self.starting.is_some() && self.begins_at.is_none();
        let was_paused =
            (self.peers.is_some() && self.resumes_at.is_none()) || (self.is_mandatory && is_beginning && !is_absent);
        let Reaction { pausing, dead, messages, wait, relations } =
            react(self.object.peer.own(), peers, was_paused, now);
        messages.iter().for_each(log);
        let is_paused = !pausing.is_empty();
        let before = std::mem::replace(&mut self.pausing, pausing);
        if is_paused {
            self.resumes_at = None;
            if before.is_empty() {
                self.peers = Some(self.pause.hold(self.object.title()));
            }
        }
        if !dead.is_empty() && !self.orders.is_idle() {
            self.orders.remove(dead);
        }
        self.report.set(relations);
        let begins_at = self.begin(is_paused, relations.lower > 0, is_absent);
        if !is_paused && self.resumes_at.is_none() {
            let is_early = self.peers.is_some() && has_left(&before, peers, now);
            self.peers = is_early.then(|| self.pause.hold_briefly(ENDING));
            self.resumes_at = is_early.then(|| Instant::now() + TAKEOVER);
        }
        Next { expiry: wait.map(|wait| Instant::now() + wait), begin: begins_at, resumption: self.resumes_at }
    }

    /// Ends the hold of the start after the first decision: at once, or later in favour of peers that have to notice
    /// this operator.
    fn begin(&mut self, is_paused: bool, has_lower_peers: bool, is_absent: bool) -> Option<Instant> {
        if self.starting.is_none() || (is_absent && self.is_mandatory) {
            return None;
        }
        if has_lower_peers && !is_paused {
            return Some(*self.begins_at.get_or_insert_with(|| Instant::now() + TAKEOVER));
        }
        self.starting = None;
        None
    }

    fn warn_of(&mut self, malformed: Vec<Malformed>) {
        let malformed: BTreeSet<Malformed> = malformed.into_iter().collect();
        for Malformed { identity, reason } in malformed.difference(&self.warned) {
            let title = self.object.title();
            warn!(target: "kopfd::peering", "Ignoring the record of '{identity}' in {title}, since {reason}.");
        }
        self.warned = malformed;
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
