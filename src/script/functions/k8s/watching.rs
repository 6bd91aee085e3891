//! `k8s::wait` and `k8s::watch_until`: waiting for states of objects. A watch reports changes; there is no polling.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rhai::{Array, Dynamic, FnPtr};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::caller::{Caller, Registry, Thrown};
use super::condition::Condition;
use crate::script::functions::library::nodes;
use crate::script::functions::options::{Options, text};
use crate::script::functions::support;
use crate::script::functions::targets::{self, Target};
use crate::script::language::convert;
use crate::script::outside::api::{ApiError, Change, WatchRequest};
use crate::script::runtime::context::wait_in;
use crate::script::values::script_error::Failure;
use crate::script::values::time;

/// How long is waited without a time limit, as by kubectl.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Registers the functions.
pub(super) fn register(to: &mut impl Registry) {
    to.three("wait", |call, given| wait(call, &given[..]));
    to.four("wait", |call, given| wait(call, &given[..]));
    to.five("wait", |call, given| wait(call, &given[..]));
    to.three("watch_until", |call, given| watch_until(call, &given[..]));
    to.four("watch_until", |call, given| watch_until(call, &given[..]));
    to.five("watch_until", |call, given| watch_until(call, &given[..]));
}

/// `k8s::wait(kind, [namespace,] name, condition, [timeout])`: the object that fulfils the condition, `()` if it is
/// gone as expected.
fn wait(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let has_timeout = given.len() > 3 && given.last().is_some_and(is_duration);
    let (timeout, rest) = if has_timeout {
        given.split_last().map_or((None, given), |(last, rest)| (Some(last), rest))
    } else {
        (None, given)
    };
    let Some((condition, place)) = rest.split_last() else {
        return Err(call.wrong("it takes a kind, a name, and a condition"));
    };
    let condition =
        Condition::parse(&text(&call.name, "the condition", condition)?).map_err(|error| call.wrong(&error))?;
    let (target, name) = call.named(place)?;
    let mut watch = Watch::of_name(call, target, &name, timeout)?;
    loop {
        let object = watch.next()?.into_iter().next();
        if condition.is_fulfilled(object.as_ref(), |path, object| nodes(&call.name, path, object))? {
            return Ok(object.map_or(Dynamic::UNIT, |object| convert::to_dynamic(&object)));
        }
        watch.expected = format!("`{condition}`{}", if object.is_none() { "; it does not exist" } else { "" });
    }
}

/// `k8s::watch_until(kind, [namespace,] name | #{labels, fields}, function, [timeout])`: the object, or the list of
/// objects, with which the function returns true. It is called with the first state, and after each change; an object
/// that does not exist is `()`.
fn watch_until(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let is_function = |value: &Dynamic| value.is::<FnPtr>();
    let position = given.iter().position(is_function).ok_or_else(|| call.wrong("it takes a function"))?;
    let (before, after) = given.split_at(position);
    let function = after[0].clone_cast::<FnPtr>();
    let timeout = match after {
        [_] => None,
        [_, timeout] => Some(timeout),
        _ => return Err(call.wrong("only a time limit may follow the function")),
    };
    let (mut watch, is_list) = match before {
        [kind, rest @ .., options] if options.is_map() => {
            let options = Options::read("k8s::watch_until", &["fields", "labels"], Some(options))?;
            let (labels, fields) = (targets::selector(&options, "labels")?, targets::selector(&options, "fields")?);
            (Watch::open(call, call.of_list(kind, rest.first())?, labels, fields, timeout)?, true)
        }
        place => {
            let (target, name) = call.named(place)?;
            (Watch::of_name(call, target, &name, timeout)?, false)
        }
    };
    loop {
        let objects = watch.next()?;
        let mut values = objects.iter().map(convert::to_dynamic);
        let state: Dynamic =
            if is_list { values.collect::<Array>().into() } else { values.next().unwrap_or(Dynamic::UNIT) };
        if convert::is_true(&support::call("k8s::watch_until", call.native, &function, [state.clone()])?) {
            return Ok(state);
        }
        "the function".clone_into(&mut watch.expected);
    }
}

/// Tells whether a value is a time limit and not a condition: a number, or a text that begins with a digit.
fn is_duration(value: &Dynamic) -> bool {
    value.is_int()
        || value.is_float()
        || value.as_immutable_string_ref().is_ok_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
}

/// A watch with the present state of its objects.
struct Watch<'a> {
    call: &'a Caller<'a>,
    target: Target,
    changes: BoxStream<'static, Result<Change, ApiError>>,
    deadline: Instant,
    timeout: Duration,
    /// The objects by their namespaces and names.
    present: BTreeMap<(String, String), Value>,
    /// Whether all objects that existed at the beginning are known.
    is_listed: bool,
    /// The text of the awaited condition, for the error.
    expected: String,
}

impl<'a> Watch<'a> {
    fn of_name(call: &'a Caller<'a>, target: Target, name: &str, timeout: Option<&Dynamic>) -> Result<Self, Thrown> {
        Self::open(call, target, None, Some(format!("metadata.name={name}")), timeout)
    }

    fn open(
        call: &'a Caller<'a>,
        target: Target,
        labels: Option<String>,
        fields: Option<String>,
        timeout: Option<&Dynamic>,
    ) -> Result<Self, Thrown> {
        let timeout = timeout.map(time::duration).transpose()?.unwrap_or(TIMEOUT);
        call.require(&target, None)?;
        let request =
            WatchRequest { resource: target.resource.clone(), namespace: target.namespace.clone(), labels, fields };
        let changes = call.api()?.watch(request);
        let (deadline, expected) = (Instant::now() + timeout, "an answer of the server".to_owned());
        Ok(Self { call, target, changes, deadline, timeout, present: BTreeMap::new(), is_listed: false, expected })
    }

    /// Waits for the first state, or the next one. After a list it is the newest that is known.
    fn next(&mut self) -> Result<Vec<Value>, Thrown> {
        loop {
            let span = self.call.context.span().clone();
            let seen = wait_in(&self.call.context, timeout_at(self.deadline, self.changes.next()).instrument(span))?;
            let Ok(seen) = seen else { return Err(self.timed_out()) };
            let change = seen.unwrap_or_else(|| Err(targets::unexpected("the watch has ended")));
            match change.map_err(|error| self.call.failed(&self.target, error))? {
                Change::Present(object) => drop(self.present.insert(key(&object), object)),
                Change::Gone(object) => drop(self.present.remove(&key(&object))),
                Change::Listed => self.is_listed = true,
            }
            if self.is_listed {
                return Ok(self.present.values().cloned().collect());
            }
        }
    }

    fn timed_out(&self) -> Thrown {
        let message =
            format!("{} {}: after {:?} still waiting for {}", self.call.name, self.target, self.timeout, self.expected);
        let details = json!({"kind": self.target.resource.plural, "name": self.target.name().unwrap_or_default()});
        Failure { details: Some(details), ..Failure::host("timeout", message) }.into()
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}
