//! The operators of one process: under one name of a peering they are one peer, which has one record.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::manifest::settings;

/// The data of a process in the peering records of its operators.
#[derive(Debug, Clone)]
pub struct ProcessPeering {
    /// The key of its records.
    pub identity: Arc<str>,
    /// The options of the command line.
    pub overrides: Overrides,
    /// Its operators.
    pub peers: ProcessPeers,
}

impl ProcessPeering {
    /// Returns a process with an identity, without options.
    pub fn of(identity: impl Into<Arc<str>>) -> Self {
        Self { identity: identity.into(), overrides: Overrides::default(), peers: ProcessPeers::default() }
    }
}

/// Options that replace settings of all operators; startup functions may change them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Whether peers are ignored.
    pub standalone: Option<bool>,
    /// The name of the peering, which is then mandatory.
    pub name: Option<String>,
    /// The priority.
    pub priority: Option<i64>,
}

impl Overrides {
    /// Changes the settings of an operator. Without a setting, its scope decides whether the peering is cluster-wide.
    pub fn apply(&self, peering: &mut settings::Peering, is_scope_clusterwide: bool) {
        peering.clusterwide.get_or_insert(is_scope_clusterwide);
        if let Some(name) = &self.name {
            peering.name.clone_from(name);
            peering.mandatory = true;
        }
        peering.standalone = self.standalone.unwrap_or(peering.standalone);
        peering.priority = self.priority.unwrap_or(peering.priority);
    }
}

/// The operators of a process as peers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ProcessPeers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The operators, with the name of their peering and their settings.
    operators: BTreeMap<String, settings::Peering>,
    /// How many operators write each peering object.
    writers: BTreeMap<String, usize>,
}

/// Two operators of a process cannot be one peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the operators '{operator}' and '{other}' are one peer in the peering '{name}', with different priorities or lifetimes: make \
     `settings.peering.priority` and `lifetime` equal, or the names different"
)]
pub struct Conflict {
    operator: String,
    other: String,
    name: String,
}

/// An operator among those of its process, until it is dropped.
#[derive(Debug)]
pub struct Membership {
    process: ProcessPeers,
    operator: String,
}

/// A writer of a peering object.
#[derive(Debug)]
pub(super) struct Writer {
    process: ProcessPeers,
    object: String,
    has_left: bool,
}

impl ProcessPeers {
    /// Adds an operator.
    ///
    /// # Errors
    /// If another one is the same peer with another priority or lifetime.
    pub fn join(&self, operator: &str, peering: &settings::Peering) -> Result<Membership, Conflict> {
        let mut state = self.0.lock();
        let is_same =
            |other: &settings::Peering| !other.standalone && !peering.standalone && other.name == peering.name;
        let differs =
            |other: &settings::Peering| (other.priority, other.lifetime) != (peering.priority, peering.lifetime);
        let conflicting = state.operators.iter().find(|(_, other)| is_same(other) && differs(other));
        if let Some((other, _)) = conflicting {
            return Err(Conflict { operator: operator.to_owned(), other: other.clone(), name: peering.name.clone() });
        }
        state.operators.insert(operator.to_owned(), peering.clone());
        Ok(Membership { process: self.clone(), operator: operator.to_owned() })
    }

    /// Adds a writer of a peering object.
    pub(super) fn enter(&self, object: &str) -> Writer {
        *self.0.lock().writers.entry(object.to_owned()).or_default() += 1;
        Writer { process: self.clone(), object: object.to_owned(), has_left: false }
    }
}

impl Writer {
    /// Ends the writing. Returns whether no other operator of the process writes the object: only then the record is
    /// removed.
    pub(super) fn leave(mut self) -> bool {
        self.has_left = true;
        self.end()
    }

    fn end(&self) -> bool {
        let mut state = self.process.0.lock();
        let Some(count) = state.writers.get_mut(&self.object) else { return true };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            state.writers.remove(&self.object);
        }
        is_last
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.has_left {
            self.end();
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.process.0.lock().operators.remove(&self.operator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_a_process_with_one_peering_need_the_same_priority() {
        let process = ProcessPeers::default();
        let of = |priority, name: &str| settings::Peering {
            priority,
            name: name.to_owned(),
            ..settings::Peering::default()
        };
        let first = process.join("a", &of(0, "default")).unwrap();
        let _other = process.join("b", &of(5, "other")).unwrap();
        let _alone = process.join("c", &settings::Peering { standalone: true, ..of(9, "default") }).unwrap();
        let refused = process.join("d", &of(1, "default")).unwrap_err().to_string();
        assert!(refused.starts_with("the operators 'd' and 'a' are one peer in the peering 'default'"), "{refused}");
        let _same = process.join("d", &of(0, "default")).unwrap();
        drop(first);
        assert!(process.join("a", &of(1, "default")).is_err(), "`d` is still there");
    }

    #[test]
    fn options_replace_settings_and_a_named_peering_is_mandatory() {
        let applied = |overrides: &Overrides, mut peering: settings::Peering, is_scope_clusterwide| {
            overrides.apply(&mut peering, is_scope_clusterwide);
            peering
        };
        let declared = || settings::Peering { standalone: true, priority: 5, ..settings::Peering::default() };
        let unchanged = settings::Peering { clusterwide: Some(false), ..declared() };
        assert_eq!(applied(&Overrides::default(), declared(), false), unchanged);
        let all = Overrides { standalone: Some(false), name: Some("mine".to_owned()), priority: Some(7) };
        let expected = settings::Peering {
            name: "mine".to_owned(),
            priority: 7,
            mandatory: true,
            standalone: false,
            clusterwide: Some(true),
            ..settings::Peering::default()
        };
        assert_eq!(applied(&all, declared(), true), expected);
        let clusterwide = settings::Peering { clusterwide: Some(true), ..declared() };
        assert_eq!(
            applied(&Overrides::default(), clusterwide.clone(), false),
            clusterwide,
            "a setting comes before the scope"
        );
    }

    #[test]
    fn the_last_writer_of_an_object_removes_the_record() {
        let process = ProcessPeers::default();
        let (first, second, other) = (process.enter("x"), process.enter("x"), process.enter("y"));
        assert!(!first.leave());
        let dropped = process.enter("x");
        drop(dropped);
        assert!(second.leave() && other.leave());
    }
}
