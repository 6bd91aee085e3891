//! Options of peering, and the identity of this process among peers.

use std::os::unix::fs::MetadataExt as _;

use clap::Args;
use jiff::Timestamp;
use rand::RngExt as _;

use crate::engines::peering::{Overrides, ProcessPeering, ProcessPeers};
use crate::handling::peering::{IDENTITY_LETTERS, descriptive_host, operator_identity, personal_identity};

/// The priority of operators that are being developed: those on the cluster pause.
pub(super) const DEVELOPMENT_PRIORITY: i64 = 666;

/// The environment variables that have the name of the user, in the order of Python.
const USER_VARIABLES: [&str; 4] = ["LOGNAME", "USER", "LNAME", "USERNAME"];

/// Options of peering.
#[derive(Debug, Args)]
pub(super) struct PeeringOptions {
    /// Ignore other operators: no peering. `--standalone=false` overrides the setting of the manifest.
    #[arg(long, env = "KOPFD_STANDALONE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub standalone: Option<bool>,
    /// Pause the operators on the cluster: the same as `--priority=666`.
    #[arg(long, env = "KOPFD_DEV")]
    pub dev: bool,
    /// The name of the peering object, which must exist: without it nothing is handled.
    #[arg(long, short = 'P', env = "KOPFD_PEERING", value_name = "NAME")]
    pub peering: Option<String>,
    /// The priority among the operators of a peering: those with a lower one pause.
    #[arg(long, short = 'p', env = "KOPFD_PRIORITY", value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i64>,
}

impl PeeringOptions {
    /// Returns what this process, started at a time, says to its peers.
    pub(super) fn process(&self, started: Timestamp) -> ProcessPeering {
        let priority = if self.dev { Some(DEVELOPMENT_PRIORITY) } else { self.priority };
        let overrides = Overrides { standalone: self.standalone, name: self.peering.clone(), priority };
        ProcessPeering { identity: own_identity(started).into(), overrides, peers: ProcessPeers::default() }
    }
}

/// Returns the identity of this process: that of its pod, or a new one.
pub(super) fn own_identity(started: Timestamp) -> String {
    pod().unwrap_or_else(|| {
        let letters: String =
            (0..3).map(|_| char::from(IDENTITY_LETTERS[rand::rng().random_range(0..IDENTITY_LETTERS.len())])).collect();
        operator_identity(&user(), &host(), started, &letters)
    })
}

/// Returns the identity of the person who runs a command.
pub(super) fn own_personal_identity() -> String {
    pod().unwrap_or_else(|| personal_identity(&user(), &host()))
}

fn pod() -> Option<String> {
    std::env::var("POD_ID").ok()
}

fn user() -> String {
    let named = USER_VARIABLES.iter().find_map(|variable| std::env::var(variable).ok().filter(|name| !name.is_empty()));
    named.unwrap_or_else(|| {
        let id = std::fs::metadata("/proc/self").map(|process| process.uid().to_string()).unwrap_or_default();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        user_of(&users, &id).unwrap_or(id)
    })
}

/// Returns the name of the user with a number.
fn user_of(users: &str, id: &str) -> Option<String> {
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    entries.find(|fields| fields.get(2) == Some(&id)).map(|fields| fields[0].to_owned())
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).ok();
    let name = name
        .filter(|name| !name.is_empty())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_else(|| "localhost".to_owned());
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    descriptive_host(&name, &names_of(&hosts, &name))
}

/// Returns the names of a machine in a file of hosts, and its address last.
fn names_of(hosts: &str, name: &str) -> Vec<String> {
    let entries =
        hosts.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>());
    let found = entries.filter(|fields| fields.len() > 1).find(|fields| fields[1..].contains(&name));
    found
        .map(|fields| fields[1..].iter().chain(&fields[..1]).map(|field| (*field).to_owned()).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_machine_are_those_of_its_line_in_the_file_of_hosts() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.1 box\n10.0.0.2\tbox.example.com box # me\n";
        assert_eq!(names_of(hosts, "box"), ["box.example.com", "box", "10.0.0.2"]);
        assert!(names_of(hosts, "other").is_empty());
    }

    #[test]
    fn a_user_is_found_by_number() {
        assert_eq!(user_of("root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/:\n", "1000").as_deref(), Some("bob"));
        assert_eq!(user_of("root:x:0:0::/root:/bin/sh", "5"), None);
    }

    #[test]
    fn the_identity_of_a_process_has_the_time_of_its_start() {
        let started: Timestamp = "2024-01-31T12:00:00Z".parse().unwrap();
        let identity = own_identity(started);
        // In a pod, the identity is that of the pod.
        assert!(pod().is_some() || identity.contains("/20240131120000/"), "{identity}");
    }
}
