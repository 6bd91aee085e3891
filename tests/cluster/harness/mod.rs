//! The test harness: processes of a cluster, a client, operators, and a scene for each case.

#[allow(dead_code, reason = "the tests of the binary use all of it")]
#[path = "../../child.rs"]
pub(crate) mod child;
mod client;
mod cluster;
mod context;
mod kind;
mod operator;
mod process;
mod runner;
mod twins;
mod wait;
mod write_proxy;

pub(crate) use cluster::{Cluster, Controllers, GUEST_TOKEN, admin_token};
#[allow(unused_imports, reason = "the client suite starts no processes beside a cluster")]
pub(crate) use cluster::{free_port, kubeconfig};
pub(crate) use context::{Call, Record, TestContext, Version, has_finalizer, is_handled, last_handled, progress};
pub(crate) use context::{account_token, create_account, rbac_options};
pub(crate) use kind::Kind;
pub(crate) use operator::{Engine, LIVENESS, Launch, Operator};
pub(crate) use runner::{Case, Options, run};
pub(crate) use twins::Handler;
#[allow(unused_imports, reason = "the client suite uses only these parts")]
pub(crate) use {
    client::{Client, Watch},
    cluster::Tools,
    process::Process,
    runner::{caught, heavy_turn, run_titled, running_cases},
    wait::{TIMEOUT, eventually},
    write_proxy::{Write, WriteProxy},
};
