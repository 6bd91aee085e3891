//! `adopt` and its family: objects in, changed objects out. Nothing is changed in place.
//!
//! The objects are one object or nested arrays of objects; `()` and empty ones stay unchanged. Without an owner in the
//! options, the owner is the handled object.

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};
use serde_json::Value;

use super::options::{Options, json};
use crate::object::Body;
use crate::object::hierarchy::{self, Adoption, Error, Nested, Reference};
use crate::script::language::convert;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Function = fn(&Context, Value, &Options) -> Result<Value, Thrown>;

/// The name, the options, and the function of each.
const FAMILY: [(&str, &[&str], Function); 6] = [
    ("adopt", &["forced", "nested", "owner", "strict"], adopt),
    ("append_owner", &["blockOwnerDeletion", "block_owner_deletion", "controller", "owner"], append_owner),
    ("remove_owner", &["owner"], remove_owner),
    ("label", &["forced", "labels", "nested"], label),
    ("harmonize_naming", &["forced", "name", "strict"], harmonize_naming),
    ("adjust_namespace", &["forced", "namespace"], adjust_namespace),
];

/// Registers the family, each function with and without options.
pub(super) fn register(engine: &mut Engine) {
    for (name, known, function) in FAMILY {
        engine.register_fn(name, move |native: NativeCallContext<'_>, objects: Dynamic| {
            call(&native, (name, known, function), &objects, None)
        });
        engine.register_fn(name, move |native: NativeCallContext<'_>, objects: Dynamic, options: Dynamic| {
            call(&native, (name, known, function), &objects, Some(&options))
        });
    }
}

fn call(
    native: &NativeCallContext<'_>,
    (name, known, function): (&'static str, &'static [&'static str], Function),
    objects: &Dynamic,
    options: Option<&Dynamic>,
) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    let options = Options::read(name, known, options)?;
    let changed = function(&context, json(name, objects)?, &options)?;
    Ok(convert::to_dynamic(&changed))
}

/// `adopt(objects, #{owner, forced, strict, nested})`: sets an owner reference, the owner's name (as `generateName`, or
/// with `strict` as the name), its namespace, and its labels, also in the `nested` paths. Without `forced`, existing
/// values are kept.
fn adopt(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    let adoption = Adoption {
        forced: options.switch("forced", false)?,
        strict: options.switch("strict", false)?,
        nested: nested(options)?,
    };
    owned(context, options, |owner| hierarchy::adopt(objects, owner, &adoption))
}

/// `append_owner(objects, #{owner, controller, blockOwnerDeletion})`: adds an owner reference, unless there is one with
/// the owner's uid. Both flags are `true` by default, and omitted if they are `()`. Kopf's name `block_owner_deletion`
/// is accepted, too.
fn append_owner(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    let flag = |key| match options.value(key) {
        None => Ok(Some(true)),
        Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(options.wrong(key, "a boolean")),
    };
    let blocks = match options.value("block_owner_deletion") {
        None => "blockOwnerDeletion",
        Some(_) if options.value("blockOwnerDeletion").is_some() => {
            return Err(Failure::argument(
                "`blockOwnerDeletion` and `block_owner_deletion` of `append_owner` are one option",
            )
            .into());
        }
        Some(_) => "block_owner_deletion",
    };
    let reference = Reference { controller: flag("controller")?, block_owner_deletion: flag(blocks)? };
    owned(context, options, |owner| hierarchy::append_owner_reference(objects, owner, &reference))
}

/// `remove_owner(objects, #{owner})`: removes all references to the owner.
fn remove_owner(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    owned(context, options, |owner| hierarchy::remove_owner_reference(objects, owner))
}

/// `label(objects, #{labels, forced, nested})`: sets labels, by default those of the handled object. Without `forced`,
/// existing labels are kept.
fn label(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    let labels = match options.value("labels") {
        None => hierarchy::labels_of(&*handled(context, "labels").map_err(thrown)?).map_err(thrown)?,
        Some(Value::Object(labels)) => labels.clone(),
        Some(_) => return Err(options.wrong("labels", "a map")),
    };
    hierarchy::label(objects, &labels, options.switch("forced", false)?, &nested(options)?).map_err(thrown)
}

/// `harmonize_naming(objects, #{name, forced, strict})`: sets a `generateName`, or with `strict` a name, if there is
/// none; by default that of the handled object.
fn harmonize_naming(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    let name = match options.value("name") {
        None => handled(context, "name").map_err(thrown)?["metadata"]["name"].clone(),
        Some(name) => name.clone(),
    };
    let name = match &name {
        Value::String(name) => name,
        Value::Null => return Err(thrown(Error::NoName)),
        _ => return Err(options.wrong("name", "a text")),
    };
    hierarchy::harmonize_naming(objects, name, options.switch("forced", false)?, options.switch("strict", false)?)
        .map_err(thrown)
}

/// `adjust_namespace(objects, #{namespace, forced})`: sets a namespace if there is none; by default that of the handled
/// object.
fn adjust_namespace(context: &Context, objects: Value, options: &Options) -> Result<Value, Thrown> {
    let namespace = match options.value("namespace") {
        None => handled(context, "namespace").map_err(thrown)?.namespace().map(str::to_owned),
        Some(_) => options.text("namespace")?.map(str::to_owned),
    };
    hierarchy::adjust_namespace(objects, namespace.as_deref(), options.switch("forced", false)?).map_err(thrown)
}

fn owned(
    context: &Context,
    options: &Options,
    change: impl FnOnce(&Value) -> Result<Value, Error>,
) -> Result<Value, Thrown> {
    let owner = match options.value("owner") {
        None | Some(Value::Null) => return change(&*handled(context, "owner").map_err(thrown)?).map_err(thrown),
        Some(owner) if owner.is_object() => owner,
        Some(_) => return Err(options.wrong("owner", "an object")),
    };
    change(owner).map_err(thrown)
}

fn handled(context: &Context, what: &'static str) -> Result<Body, Error> {
    context.body().ok_or(Error::NothingHandled(what))
}

fn nested(options: &Options) -> Result<Nested, Thrown> {
    options.value("nested").map_or_else(|| Ok(Nested::default()), |paths| Nested::parse(paths).map_err(thrown))
}

fn thrown(error: Error) -> Thrown {
    Failure::argument(error.to_string()).into()
}
