//! The test harness: processes of a cluster, a client, operators, and a scene for each case.

#[allow(dead_code, reason = "the tests of the binary use all of it")]
#[path = "../../child.rs"]
pub(crate) mod child;
mod client;
mod cluster;
mod gate;
mod kind;
mod operator;
mod process;
mod runner;
mod scene;
mod twins;
mod wait;

pub(crate) use cluster::{Cluster, Controllers, GUEST_TOKEN, admin_token};
pub(crate) use kind::Kind;
pub(crate) use operator::{Engine, Launch, Operator};
pub(crate) use runner::{Case, Options, run};
pub(crate) use scene::{Call, Scene, Version, has_finalizer, is_handled, last_handled, progress};
pub(crate) use twins::Handler;
#[allow(unused_imports, reason = "the suite of the clients stands on these parts alone")]
pub(crate) use {
    client::Client,
    cluster::Tools,
    process::Process,
    runner::{caught, run_titled},
    wait::{PATIENCE, eventually},
};
