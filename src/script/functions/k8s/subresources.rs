//! `k8s::logs`, `k8s::evict` and `k8s::token`: requests for subresources of pods and service accounts.

use rhai::Dynamic;
use serde_json::{Value, json};

use super::caller::{Caller, Registry, Thrown};
use super::objects;
use crate::script::functions::options::Options;
use crate::script::functions::support::may_have_bytes;
use crate::script::functions::targets::{self, Target};
use crate::script::interface::access::Function;
use crate::script::language::convert;
use crate::script::outside::api::{LogPart, LogRequest, Operation};
use crate::script::runtime::context::wait_in;
use crate::script::values::time;

/// The bytes of a log without a limit of its own.
const LOG_LIMIT: u64 = 1 << 20;

/// Registers the functions.
pub(super) fn register(to: &mut impl Registry) {
    to.one("logs", |call, given| logs(call, &given[..]));
    to.two("logs", |call, given| logs(call, &given[..]));
    to.three("logs", |call, given| logs(call, &given[..]));
    to.one("evict", |call, given| evict(call, &given[..]));
    to.two("evict", |call, given| evict(call, &given[..]));
    to.three("evict", |call, given| evict(call, &given[..]));
    to.one("token", |call, given| token(call, &given[..]));
    to.two("token", |call, given| token(call, &given[..]));
    to.three("token", |call, given| token(call, &given[..]));
}

/// Splits `[namespace,] name, [options]`.
fn split<'g>(call: &Caller<'_>, given: &'g [Dynamic]) -> Result<(Target, String, Option<&'g Dynamic>), Thrown> {
    let (place, options) = match given.split_last() {
        Some((options, place)) if options.is_map() => (place, Some(options)),
        _ => (given, None),
    };
    let kind = call.function().and_then(Function::kind).ok_or_else(|| call.wrong("it has no kind"))?;
    let (target, name) = call.placed(kind, place)?;
    Ok((target, name, options))
}

/// `k8s::logs([namespace,] pod, [#{container, tail, since, previous, timestamps, limit}])`: the log as a text, by
/// default its first MiB.
fn logs(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (target, name, options) = split(call, given)?;
    let known = &["container", "limit", "previous", "since", "tail", "timestamps"];
    let options = Options::read("k8s::logs", known, options)?;
    let limit = number(&options, "limit")?.unwrap_or(LOG_LIMIT);
    may_have_bytes(call.native, usize::try_from(limit).unwrap_or(usize::MAX))?;
    let part = LogPart {
        container: options.text("container")?.map(str::to_owned),
        tail: number(&options, "tail")?,
        since: options
            .value("since")
            .filter(|since| !since.is_null())
            .map(|since| time::duration(&convert::to_dynamic(since)))
            .transpose()?,
        is_previous: options.switch("previous", false)?,
        has_timestamps: options.switch("timestamps", false)?,
        limit,
    };
    let Some(pods) = call.context.outside().pods.clone() else {
        return Ok(convert::to_dynamic(&call.send(&target, Operation::Log { name, part })?));
    };
    call.require(&target, Function::Logs.subresource())?;
    call.context.api(&call.name)?;
    let request = LogRequest { namespace: target.namespace.clone(), name, part };
    let answer =
        wait_in(&call.context, async move { pods.log(request).await })?.map_err(|error| call.failed(&target, error))?;
    may_have_bytes(call.native, answer.len())?;
    Ok(answer.into())
}

pub(super) fn number(options: &Options, key: &str) -> Result<Option<u64>, Thrown> {
    match options.value(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| options.wrong(key, "an integer that is not negative")),
    }
}

/// `k8s::evict([namespace,] pod, [#{grace}])`: `true`; `false` if there is no such pod. A disruption budget that
/// forbids it is an error with `status` 429.
fn evict(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (target, name, options) = split(call, given)?;
    let options = Options::read("k8s::evict", &["grace"], options)?;
    let mut eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": target.namespace}, "deleteOptions": {},
    });
    if let Some(grace) = objects::grace(&options)? {
        eviction["deleteOptions"]["gracePeriodSeconds"] = json!(grace);
    }
    let operation = Operation::CreateSubresource { name, subresource: "eviction", object: eviction };
    Ok((call.send(&target, operation)? != Value::Null).into())
}

/// `k8s::token([namespace,] account, [#{audiences, expiration}])`: a token of a service account, as `#{token,
/// expires}`.
fn token(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (target, name, options) = split(call, given)?;
    let options = Options::read("k8s::token", &["audiences", "expiration"], options)?;
    let mut spec = json!({});
    match options.value("audiences") {
        None | Some(Value::Null) => {}
        Some(Value::String(one)) => spec["audiences"] = json!([one]),
        Some(Value::Array(several)) if several.iter().all(Value::is_string) => spec["audiences"] = json!(several),
        Some(_) => return Err(options.wrong("audiences", "a text, or a list of texts")),
    }
    if let Some(expiration) = options.value("expiration").filter(|given| !given.is_null()) {
        spec["expirationSeconds"] = json!(time::duration(&convert::to_dynamic(expiration))?.as_secs());
    }
    let object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let answer = call.send(&target, Operation::CreateSubresource { name, subresource: "token", object })?;
    match answer.pointer("/status/token").and_then(Value::as_str) {
        Some(token) => {
            let expires = answer.pointer("/status/expirationTimestamp").cloned().unwrap_or_default();
            Ok(convert::to_dynamic(&json!({"token": token, "expires": expires})))
        }
        None => Err(call.failed(&target, targets::unexpected("the answer has no token"))),
    }
}
