//! Peering: whether an operator pauses in favour of its peers, when it decides again, and what it is called among them.
//!
//! Each operator has a record in a peering object, which is valid for the lifetime of the record. An operator pauses
//! while there are valid records of others with a higher priority, or with the same one: then both pause.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::message::Message;
use super::progress::{Moment, time_between};

/// The characters of the random part of identities; as in kopf, there is no `g`.
pub const IDENTITY_LETTERS: &[u8; 35] = b"abcdefhijklmnopqrstuvwxyz0123456789";

/// The seconds by which a keep-alive comes before the end of the lifetime: a random number of this range.
pub const HEAD_START: std::ops::RangeInclusive<u64> = 5..=10;

/// The last message of a pause.
const RESUMING: &str = "Resuming operations after the pause. Conflicting operators with the same priority are gone.";

/// An operator as its record describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The key of its record.
    pub identity: String,
    /// The peer with the highest priority is active.
    pub priority: i64,
    /// How many seconds the record is valid.
    pub lifetime: i64,
    /// When the record was written.
    pub last_seen: Moment,
    /// The record in the words of kopf's messages.
    pub shown: String,
}

impl Peer {
    /// Returns when the record becomes invalid.
    pub fn deadline(&self) -> Timestamp {
        let lifetime = SignedDuration::from_secs(self.lifetime);
        let limit = if self.lifetime < 0 { Timestamp::MIN } else { Timestamp::MAX };
        self.last_seen.at.checked_add(lifetime).unwrap_or(limit)
    }

    /// Tells whether the record is invalid.
    pub fn is_dead(&self, now: Timestamp) -> bool {
        self.deadline() <= now
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<Peer {}: {}>", self.identity, self.shown)
    }
}

/// The operator that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own<'a> {
    /// The key of its record.
    pub identity: &'a str,
    /// Its priority.
    pub priority: i64,
}

/// The decision about the records of a peering object.
#[derive(Debug, Clone, PartialEq)]
pub struct Reaction {
    /// The identities of the invalid records, which are removed.
    pub dead: Vec<String>,
    /// The messages, in their order.
    pub messages: Vec<Message>,
    /// The time until the first of the peers that pause the operator becomes invalid. If nothing changes until then,
    /// the operator writes its own record, so that all decide again.
    pub wait: Option<Duration>,
    /// The peers that pause the operator.
    pub pausing: Vec<Peer>,
    /// The other valid peers.
    pub relations: Relations,
}

/// Tells whether one of the peers that paused an operator has removed its valid record: then its last handlers may
/// still run, since kopf waits for them after that. The records of persons, who freeze operators, have no handlers, and
/// those of kopfd's replicas are never removed.
pub fn has_left(before: &[Peer], peers: &[Peer], now: Timestamp) -> bool {
    let is_there = |identity: &str| peers.iter().any(|peer| peer.identity == identity);
    before.iter().any(|peer| !peer.is_dead(now) && !is_person(&peer.identity) && !is_there(&peer.identity))
}

/// Tells whether an identity is that of a person on a machine: those of operators have the time of their start, or are
/// names of pods.
fn is_person(identity: &str) -> bool {
    identity.contains('@') && !identity.contains('/')
}

/// The number of other valid peers by their priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relations {
    /// Those with a higher priority.
    pub higher: usize,
    /// Those with the same priority.
    pub same: usize,
    /// Those with a lower priority.
    pub lower: usize,
}

/// Decides about the records of a peering object.
pub fn react(own: Own<'_>, peers: &[Peer], is_paused: bool, now: Timestamp) -> Reaction {
    let (dead, valid): (Vec<&Peer>, Vec<&Peer>) = peers.iter().partition(|peer| peer.is_dead(now));
    let others: Vec<&Peer> = valid.into_iter().filter(|peer| peer.identity != own.identity).collect();
    let of = |is_meant: fn(&i64, &i64) -> bool| -> Vec<&Peer> {
        others.iter().filter(|peer| is_meant(&peer.priority, &own.priority)).copied().collect()
    };
    let (higher, same) = (of(i64::gt), of(i64::eq));
    let mut messages = Vec::new();
    if !higher.is_empty() {
        if !is_paused {
            messages.push(Message::info(format!("Pausing operations in favour of {}.", list(&higher))));
        }
    } else if !same.is_empty() {
        messages
            .push(Message::warning(format!("Possibly conflicting operators with the same priority: {}.", list(&same))));
        if !is_paused {
            let all: Vec<&Peer> = peers.iter().collect();
            messages.push(Message::warning(format!("Pausing all operators, including self: {}", list(&all))));
        }
    } else if is_paused {
        messages.push(Message::info(RESUMING));
    }
    let relations =
        Relations { higher: higher.len(), same: same.len(), lower: others.len() - higher.len() - same.len() };
    Reaction {
        dead: dead.into_iter().map(|peer| peer.identity.clone()).collect(),
        messages,
        wait: higher.iter().chain(&same).map(|peer| time_between(now, peer.deadline())).min(),
        pausing: higher.into_iter().chain(same).cloned().collect(),
        relations,
    }
}

fn list(peers: &[&Peer]) -> String {
    let shown: Vec<String> = peers.iter().map(ToString::to_string).collect();
    format!("[{}]", shown.join(", "))
}

/// Returns the time between two keep-alives. `head_start` is one of [`HEAD_START`].
pub fn keep_alive_period(lifetime: Duration, head_start: u64) -> Duration {
    let (second, early) = (Duration::from_secs(1), Duration::from_secs(head_start));
    lifetime.saturating_sub(early).max(second).min(lifetime).max(second)
}

/// Returns the message about a keep-alive.
pub fn keep_alive_message(name: &str, namespace: Option<&str>, is_found: bool) -> Message {
    let place = namespace.map_or_else(|| "cluster-wide".to_owned(), |namespace| format!("in '{namespace}'"));
    let result = if is_found { "ok" } else { "not found" };
    Message::debug(format!("Keep-alive in '{name}' {place}: {result}."))
}

/// Returns the identity of a person on a machine, for `freeze` and `resume`.
pub fn personal_identity(user: &str, host: &str) -> String {
    format!("{user}@{host}")
}

/// Returns the identity of an operator that was started at a time.
pub fn operator_identity(user: &str, host: &str, started: Timestamp, random: &str) -> String {
    format!("{}/{}/{random}", personal_identity(user, host), started.strftime("%Y%m%d%H%M%S"))
}

/// Returns the name of all replicas of a process: they are one peer, whichever of them leads. It has the names of the
/// Leases of its operators, which are those of the operators unless another one is given.
pub fn replicas_name<'a>(lease: Option<&'a str>, operators: impl IntoIterator<Item = &'a str>) -> String {
    let mut leases: Vec<&str> = operators.into_iter().map(|operator| lease.unwrap_or(operator)).collect();
    leases.sort_unstable();
    leases.join("+")
}

/// Returns the identity of the replicas with a name, whose Leases are in a namespace.
pub fn replicas_identity(name: &str, namespace: &str) -> String {
    format!("{name}@{namespace}")
}

/// Returns the most descriptive name of a machine: a name with a domain if there is one, never an address. `known` are
/// the names and addresses that its name service knows for it.
pub fn descriptive_host(hostname: &str, known: &[String]) -> String {
    let is_name =
        |name: &&String| name.rsplit_once('.').is_none_or(|(_, domain)| domain != "arpa") && !is_address(name);
    let names = || known.iter().filter(is_name).map(String::as_str);
    let found = names().find(|name| name.contains('.')).or_else(|| names().find(|name| *name != "localhost"));
    let mut host = found.unwrap_or(hostname);
    while let Some(shorter) = host.strip_suffix(".local").or_else(|| host.strip_suffix(".localdomain")) {
        host = shorter;
    }
    host.to_owned()
}

/// Tells whether a text is an address of IP: names have no colons, and do not consist of four numbers.
fn is_address(text: &str) -> bool {
    text.contains(':') || (text.split('.').count() == 4 && text.split('.').all(|part| part.parse::<u8>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2020-01-01T00:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn peer(identity: &str, priority: i64, lifetime: i64) -> Peer {
        Peer {
            identity: identity.to_owned(),
            priority,
            lifetime,
            last_seen: Moment::utc(now()),
            shown: format!("priority={priority}"),
        }
    }

    /// Returns the messages, and what else was decided, in one line each.
    fn decided(peers: &[Peer], is_paused: bool, seconds: i64) -> String {
        let own = Own { identity: "me", priority: 0 };
        let reaction = react(own, peers, is_paused, now() + SignedDuration::from_secs(seconds));
        let lines = reaction.messages.iter().map(|message| format!("{} {message}\n", message.level.as_str()));
        let Reaction { pausing, dead, wait, relations: Relations { higher, same, lower }, .. } = &reaction;
        assert_eq!(pausing.len(), higher + same);
        let state = if pausing.is_empty() { "running" } else { "paused" };
        format!("{}{state}, wait {wait:?}, dead {dead:?}, peers {higher}/{same}/{lower}\n", lines.collect::<String>())
    }

    #[test]
    fn an_operator_pauses_for_a_higher_peer_until_that_is_gone_or_invalid() {
        let peers = [peer("me", 0, 60), peer("high", 5, 60), peer("low", -1, 60)];
        assert_eq!(
            decided(&peers, false, 0),
            "INFO Pausing operations in favour of [<Peer high: priority=5>].\npaused, wait Some(60s), dead [], peers 1/0/1\n"
        );
        assert_eq!(decided(&peers, true, 59), "paused, wait Some(1s), dead [], peers 1/0/1\n");
        let resuming =
            "INFO Resuming operations after the pause. Conflicting operators with the same priority are gone.";
        let after = "running, wait None, dead [\"me\", \"high\", \"low\"], peers 0/0/0";
        assert_eq!(decided(&peers, true, 60), format!("{resuming}\n{after}\n"));
    }

    #[test]
    fn a_peer_has_left_if_its_valid_record_is_gone_and_it_was_no_person() {
        let own = Own { identity: "me", priority: 0 };
        let operator = "user@host/20200101000000/abc";
        let all =
            [peer("me", 0, 60), peer(operator, 5, 60), peer("pod-1", 0, 60), peer("low", -1, 60), peer("dead", 5, 0)];
        let before = react(own, &all, false, now()).pausing;
        assert_eq!(before.iter().map(|peer| &*peer.identity).collect::<Vec<_>>(), [operator, "pod-1"]);
        let (later, expired) = (now() + SignedDuration::from_secs(59), now() + SignedDuration::from_secs(60));
        assert!(has_left(&before, &all[..2], later), "the pod is gone");
        assert!(!has_left(&before, &all, later) && !has_left(&before, &[], expired));
        // One that has a lower priority now, or no valid record, is still there.
        assert!(!has_left(&before, &[peer(operator, -5, 60), peer("pod-1", 0, -1)], later));
        let persons = [peer("person@desk", 100, 60), peer("demo@ops", 100, 60)];
        assert!(!has_left(&persons, &[], later), "neither a freeze nor replicas have handlers that still run");
    }

    #[test]
    fn operators_with_the_same_priority_all_pause() {
        let peers = [peer("me", 0, 60), peer("same", 0, 30)];
        let lines = [
            "WARNING Possibly conflicting operators with the same priority: [<Peer same: priority=0>].",
            "WARNING Pausing all operators, including self: [<Peer me: priority=0>, <Peer same: priority=0>]",
            "paused, wait Some(30s), dead [], peers 0/1/0\n",
        ];
        assert_eq!(decided(&peers, false, 0), lines.join("\n"));
    }

    #[test]
    fn a_record_without_a_lifetime_or_with_an_immense_one_has_a_deadline() {
        assert!(
            peer("a", 0, 0).is_dead(now()) && peer("a", 0, i64::MIN).is_dead(now()) && peer("a", 0, -1).is_dead(now())
        );
        assert!(!peer("a", 0, i64::MAX).is_dead(now()));
    }

    #[test]
    fn keep_alives_come_before_the_end_of_the_lifetime_but_not_more_than_once_a_second() {
        let period = |lifetime, head_start| keep_alive_period(Duration::from_secs(lifetime), head_start).as_secs();
        assert_eq!(
            [period(60, 5), period(60, 10), period(10, 5), period(10, 10), period(3, 5), period(0, 5)],
            [55, 50, 5, 1, 1, 1]
        );
    }

    #[test]
    fn a_machine_is_called_by_its_name_with_a_domain() {
        let host = |known: &[&str]| {
            descriptive_host("short", &known.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(host(&[]), "short");
        assert_eq!(host(&["localhost", "10.0.0.1", "::1"]), "short");
        assert_eq!(host(&["other", "10.0.0.1"]), "other");
        assert_eq!(host(&["1.0.0.10.in-addr.arpa", "other", "other.example.com"]), "other.example.com");
        assert_eq!(host(&["box.local.localdomain"]), "box");
    }
}
