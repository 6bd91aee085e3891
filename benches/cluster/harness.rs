//! The parts of the end-to-end harness that benchmarks need.

#![allow(dead_code, unused_imports, reason = "the suite uses more of it")]

#[path = "../../tests/child.rs"]
mod child;
#[path = "../../tests/cluster/harness/client.rs"]
mod client;
#[path = "../../tests/cluster/harness/cluster.rs"]
mod cluster;
#[path = "../../tests/cluster/harness/kind.rs"]
mod kind;
#[path = "../../tests/cluster/harness/process.rs"]
mod process;
#[path = "../../tests/cluster/harness/wait.rs"]
mod wait;

pub(crate) use client::Client;
pub(crate) use cluster::{Cluster, Controllers, Tools};
pub(crate) use kind::Kind;
pub(crate) use wait::{TIMEOUT, eventually};
