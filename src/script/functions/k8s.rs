//! `k8s::`: reading and writing objects of the cluster.
//!
//! A kind is a selector of one kind, such as `"v1/services"`, `"deployments.apps"` or `"batch/v1/CronJob"`. The default
//! namespace, also for `()`, is the object's own, else that of the handled object. Objects are returned as ordinary
//! maps. Errors of the server are thrown with `status`, `reason` and `details`.

mod caller;
mod can;
mod condition;
mod exec;
mod objects;
mod other_cluster;
mod raw;
mod subresources;
mod watching;

use rhai::{Engine, Module};

use super::events;
use caller::{InModule, Registry};
use other_cluster::AsMethods;

/// Registers the module, and the methods of other clusters.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    of_every_cluster(&mut InModule(&mut module));
    of_every_cluster(&mut AsMethods(engine));
    raw::register(&mut InModule(&mut module));
    other_cluster::register(engine, &mut InModule(&mut module));
    events::register(&mut module);
    engine.register_static_module("k8s", module.into());
}

/// Registers the functions that other clusters have, too.
fn of_every_cluster(to: &mut impl Registry) {
    objects::register(to);
    watching::register(to);
    subresources::register(to);
    exec::register(to);
    can::register(to);
}
