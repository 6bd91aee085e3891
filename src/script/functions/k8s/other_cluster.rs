//! `k8s::cluster`: the same functions about another cluster, whose kubeconfig is in a Secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Dynamic, Engine};
use serde_json::Value;

use super::caller::{Caller, HostFunction, Native, Registry, Thrown, run};
use crate::script::functions::options::text;
use crate::script::functions::targets::unexpected;
use crate::script::interface::access::Function;
use crate::script::language::other_cluster::OtherCluster;
use crate::script::outside::api::{ApiError, Operation};
use crate::script::outside::clusters::{AllowedClusters, ServerRule};
use crate::script::runtime::context::wait_in;
use crate::script::values::script_error::Failure;

/// The keys under which kubeconfigs are kept: the usual ones, and that of Cluster API.
const KEYS: [&str; 3] = ["kubeconfig", "value", "config"];

/// Registers the function and its result.
pub(super) fn register(engine: &mut Engine, to: &mut impl Registry) {
    engine.register_type_with_name::<OtherCluster>("cluster");
    to.one("cluster", |call, given| cluster(call, &given[..]));
    to.two("cluster", |call, given| cluster(call, &given[..]));
    to.three("cluster", |call, given| cluster(call, &given[..]));
}

/// `k8s::cluster([namespace,] secret)`, `k8s::cluster(namespace, secret, key)`: the cluster of the kubeconfig in a
/// Secret.
fn cluster(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let allowed = call.context.allow().clusters.clone();
    if allowed == AllowedClusters::Nothing {
        let message =
            format!("`{}` needs `clusters: true`, or a list of hosts, under `allow` in the manifest", call.name);
        return Err(Failure::host("forbidden", message).into());
    }
    let addresses = call.context.outside().addresses.clone();
    let addresses = addresses
        .ok_or_else(|| Failure::host("unavailable", format!("`{}` cannot reach other clusters here", call.name)))?;
    let rule = ServerRule::new(allowed, addresses);
    let (place, key) = match given {
        [namespace, name, key] => (vec![namespace.clone(), name.clone()], Some(text(&call.name, "the key", key)?)),
        place => (place.to_vec(), None),
    };
    let kind = Function::Cluster.kind().expect("it reads Secrets");
    let (target, name) = call.placed(kind, &place)?;
    let secret = call.send(&target, Operation::Get { name })?;
    if secret.is_null() {
        let missing = ApiError {
            status: Some(404),
            reason: Some("NotFound".to_owned()),
            ..unexpected("there is no such Secret")
        };
        return Err(call.failed(&target, missing));
    }
    let keys: Vec<&str> = key.as_deref().map_or_else(|| KEYS.to_vec(), |key| vec![key]);
    let found = keys.iter().find_map(|key| secret["data"].get(key).and_then(Value::as_str));
    let found =
        found.ok_or_else(|| call.failed(&target, unexpected(&format!("the Secret has no key {}", keys.join(", ")))))?;
    let kubeconfig = STANDARD.decode(found).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let kubeconfig = kubeconfig.ok_or_else(|| call.failed(&target, unexpected("its kubeconfig is not a text")))?;
    let api = call.context.cluster(&call.name)?;
    let other = wait_in(&call.context, async move { api.other_cluster(&kubeconfig, rule).await })?;
    other.map(|api| Dynamic::from(OtherCluster(api))).map_err(|error| call.failed(&target, error))
}

/// The functions as methods of another cluster.
pub(super) struct AsMethods<'a>(pub &'a mut Engine);

impl Registry for AsMethods<'_> {
    fn one(&mut self, name: &str, function: HostFunction<1>) {
        self.0.register_fn(name, move |native: Native<'_>, cluster: &mut OtherCluster, a: Dynamic| {
            run(&native, Some(Arc::clone(&cluster.0)), function, [a])
        });
    }

    fn two(&mut self, name: &str, function: HostFunction<2>) {
        self.0.register_fn(name, move |native: Native<'_>, cluster: &mut OtherCluster, a: Dynamic, b: Dynamic| {
            run(&native, Some(Arc::clone(&cluster.0)), function, [a, b])
        });
    }

    fn three(&mut self, name: &str, function: HostFunction<3>) {
        self.0.register_fn(
            name,
            move |native: Native<'_>, cluster: &mut OtherCluster, a: Dynamic, b: Dynamic, c: Dynamic| {
                run(&native, Some(Arc::clone(&cluster.0)), function, [a, b, c])
            },
        );
    }

    fn four(&mut self, name: &str, function: HostFunction<4>) {
        self.0.register_fn(
            name,
            move |native: Native<'_>, cluster: &mut OtherCluster, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
                run(&native, Some(Arc::clone(&cluster.0)), function, [a, b, c, d])
            },
        );
    }

    fn five(&mut self, name: &str, function: HostFunction<5>) {
        let call =
            move |native: Native<'_>,
                  cluster: &mut OtherCluster,
                  a: Dynamic,
                  b: Dynamic,
                  c: Dynamic,
                  d: Dynamic,
                  e: Dynamic| { run(&native, Some(Arc::clone(&cluster.0)), function, [a, b, c, d, e]) };
        self.0.register_fn(name, call);
    }
}
