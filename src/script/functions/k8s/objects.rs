//! `k8s::get` and its family: reading and writing objects.

use rhai::{Array, Dynamic};
use serde_json::{Value, json};

use super::caller::{Caller, Registry, Thrown};
use crate::script::functions::options::{Options, json};
use crate::script::functions::targets;
use crate::script::language::convert;
use crate::script::outside::api::Operation;
use crate::script::values::time;

/// Registers the functions.
pub(super) fn register(to: &mut impl Registry) {
    to.two("get", |call, given| get(call, &given[..]));
    to.three("get", |call, given| get(call, &given[..]));
    to.two("exists", |call, given| exists(call, &given[..]));
    to.three("exists", |call, given| exists(call, &given[..]));
    to.one("list", |call, given| list(call, &given[..]));
    to.two("list", |call, given| list(call, &given[..]));
    to.three("list", |call, given| list(call, &given[..]));
    to.one("create", |call, [object]| write(call, &object, Write::Create));
    to.one("update", |call, [object]| write(call, &object, Write::Update));
    to.one("apply", |call, [object]| write(call, &object, Write::Apply { force: true }));
    to.two("apply", |call, [object, options]| {
        let force = Options::read("k8s::apply", &["force"], Some(&options))?.switch("force", true)?;
        write(call, &object, Write::Apply { force })
    });
    to.three("patch", |call, given| patch(call, &given[..], None));
    to.four("patch", |call, given| patch(call, &given[..], None));
    to.three("patch_status", |call, given| patch(call, &given[..], Some("status")));
    to.four("patch_status", |call, given| patch(call, &given[..], Some("status")));
    to.one("delete", |call, given| delete(call, &given[..]));
    to.two("delete", |call, given| delete(call, &given[..]));
    to.three("delete", |call, given| delete(call, &given[..]));
    to.four("delete", |call, given| delete(call, &given[..]));
    to.three("scale", |call, given| scale(call, &given[..]));
    to.four("scale", |call, given| scale(call, &given[..]));
}

/// `k8s::get(kind, [namespace,] name)`: the object; `()` if it does not exist.
fn get(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    Ok(find(call, given)?.map_or(Dynamic::UNIT, |object| convert::to_dynamic(&object)))
}

/// `k8s::exists(kind, [namespace,] name)`: whether there is such an object.
fn exists(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    Ok(find(call, given)?.is_some().into())
}

fn find(call: &Caller<'_>, given: &[Dynamic]) -> Result<Option<Value>, Thrown> {
    let (target, name) = call.named(given)?;
    Ok(Some(call.send(&target, Operation::Get { name })?).filter(|object| !object.is_null()))
}

/// `k8s::list(kind, [namespace,] [#{labels, fields}])`: an array of the objects; without a namespace, or with `()`, of
/// all namespaces. The selectors are texts in the form of kubectl, or maps of required values.
fn list(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (kind, namespace, options) = match given {
        [kind] => (kind, None, None),
        [kind, options] if !options.is_string() && !options.is_unit() => (kind, None, Some(options)),
        [kind, namespace] => (kind, Some(namespace), None),
        [kind, namespace, options] => (kind, Some(namespace), Some(options)),
        _ => return Err(call.wrong("it takes a kind, a namespace, and options")),
    };
    let options = Options::read("k8s::list", &["fields", "labels"], options)?;
    let operation = Operation::List {
        labels: targets::selector(&options, "labels")?,
        fields: targets::selector(&options, "fields")?,
    };
    let target = call.of_list(kind, namespace)?;
    match call.send(&target, operation)? {
        Value::Array(objects) => Ok(objects.iter().map(convert::to_dynamic).collect::<Array>().into()),
        _ => Err(call.failed(&target, targets::unexpected("the answer is not a list of objects"))),
    }
}

/// The kind of a write.
#[derive(Clone, Copy)]
enum Write {
    Create,
    Update,
    Apply { force: bool },
}

/// `k8s::create(object)`, `k8s::update(object)`, `k8s::apply(object, [#{force}])`: the object as the server has stored
/// it.
///
/// Arrays, also nested ones, are written in their order, and give an array; the first failure ends the call. `update`
/// needs the whole object, and fails with 409 if its `resourceVersion` is not the newest. `apply` is server-side, with
/// the operator as the field manager; it takes fields over from other managers, unless `force` is `false`: then it
/// throws 409 with the conflicts in `details`.
fn write(call: &Caller<'_>, given: &Dynamic, how: Write) -> Result<Dynamic, Thrown> {
    let written = write_all(call, json(&call.name, given)?, how)?;
    Ok(convert::to_dynamic(&written))
}

fn write_all(call: &Caller<'_>, objects: Value, how: Write) -> Result<Value, Thrown> {
    match objects {
        Value::Array(objects) => {
            objects.into_iter().map(|object| write_all(call, object, how)).collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Object(_) => write_one(call, objects, how),
        Value::Null => Err(call.wrong("the object is ()")),
        _ => Err(call.wrong("an object must be a map")),
    }
}

fn write_one(call: &Caller<'_>, mut object: Value, how: Write) -> Result<Value, Thrown> {
    let target = call.of_object(&object)?;
    target.place(&mut object);
    let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let named =
        || name.clone().ok_or_else(|| call.wrong(&format!("the {} has no metadata.name", target.resource.kind)));
    let operation = match how {
        Write::Create => Operation::Create { object },
        Write::Update => Operation::Update { name: named()?, object },
        Write::Apply { force } => Operation::Apply { name: named()?, object, force },
    };
    let target = target.named(name.as_deref().unwrap_or_default());
    call.send(&target, operation)
}

/// `k8s::patch(kind, [namespace,] name, patch)`, `k8s::patch_status(…)`: the object after the change.
///
/// A map is a merge patch, in which `()` deletes a key; an array is a JSON patch. The map of `patch_status` is the
/// content of `status`.
fn patch(call: &Caller<'_>, given: &[Dynamic], subresource: Option<&str>) -> Result<Dynamic, Thrown> {
    let Some((patch, rest)) = given.split_last() else { return Err(call.wrong("it takes a patch")) };
    let patch = match (json(&call.name, patch)?, subresource) {
        (patch @ Value::Object(_), Some("status")) => json!({ "status": patch }),
        (patch @ (Value::Object(_) | Value::Array(_)), _) => patch,
        _ => return Err(call.wrong("the patch must be a map (a merge patch) or an array (a JSON patch)")),
    };
    let (target, name) = call.named(rest)?;
    // A kind without the subresource has its status in the object itself.
    let subresource = subresource.filter(|subresource| target.resource.has_subresource(subresource)).map(str::to_owned);
    Ok(convert::to_dynamic(&call.send(&target, Operation::Patch { name, subresource, patch })?))
}

/// `k8s::delete(kind, [namespace,] name, [#{propagation, grace}])`, `k8s::delete(object)`: `true`; `false` if it did
/// not exist.
///
/// `propagation` is `Background`, `Foreground` or `Orphan`; `grace` is seconds, or a duration. The object may exist for
/// a while after the call.
fn delete(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (what, options) = match given.split_last() {
        Some((options, what)) if !what.is_empty() && !options.is_string() => (what, Some(options)),
        _ => (given, None),
    };
    let options = Options::read("k8s::delete", &["grace", "propagation"], options)?;
    let (target, name) = match what {
        [object] => {
            let object = json(&call.name, object)?;
            let name = object["metadata"]["name"].as_str().map(str::to_owned);
            let name = name.ok_or_else(|| call.wrong("it takes an object with a name, or a kind and a name"))?;
            (call.of_object(&object)?.named(&name), name)
        }
        what => call.named(what)?,
    };
    let operation = Operation::Delete { name, propagation: propagation(&options)?, grace: grace(&options)? };
    Ok((call.send(&target, operation)? == true).into())
}

fn propagation(options: &Options) -> Result<Option<String>, Thrown> {
    let Some(given) = options.text("propagation")? else { return Ok(None) };
    let known = ["Background", "Foreground", "Orphan"].into_iter().find(|known| known.eq_ignore_ascii_case(given));
    known
        .map(|known| Some(known.to_owned()))
        .ok_or_else(|| options.wrong("propagation", "Background, Foreground, or Orphan"))
}

/// Returns the option `grace` in seconds.
///
/// # Errors
/// If it is no duration.
pub(super) fn grace(options: &Options) -> Result<Option<i64>, Thrown> {
    let given = options.value("grace").filter(|given| !given.is_null());
    let grace = given.map(|given| time::duration(&convert::to_dynamic(given))).transpose()?;
    Ok(grace.map(|grace| grace.as_secs_f64().ceil() as i64))
}

/// `k8s::scale(kind, [namespace,] name, replicas)`: sets the number of replicas, and returns the scale.
fn scale(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let Some((replicas, rest)) = given.split_last() else { return Err(call.wrong("it takes a number of replicas")) };
    let replicas = replicas.as_int().ok().filter(|replicas| *replicas >= 0);
    let replicas = replicas.ok_or_else(|| call.wrong("the number of replicas must be an integer, and not negative"))?;
    let (target, name) = call.named(rest)?;
    let patch = json!({ "spec": { "replicas": replicas } });
    let operation = Operation::Patch { name, subresource: Some("scale".to_owned()), patch };
    Ok(convert::to_dynamic(&call.send(&target, operation)?))
}
