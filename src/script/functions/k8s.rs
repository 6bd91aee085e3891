//! `k8s::`: reading and writing objects of the cluster.
//!
//! A kind is a selector of one kind, such as `"v1/services"`, `"deployments.apps"` or `"batch/v1/CronJob"`. The default namespace, also
//! for `()`, is the object's own, else that of the handled object. Objects are returned as ordinary maps. Errors of the server are thrown
//! with `status`, `reason` and `details`.

use std::sync::Arc;

use rhai::{Array, Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};
use serde_json::{Value, json};
use tracing::Instrument as _;

use super::events;
use super::options::{Options, json, placed, text};
use super::targets::{self, Target};
use crate::object::patch::fields;
use crate::script::access::Function;
use crate::script::api::{ApiError, ApiRequest, Operation};
use crate::script::call::SelfWrite;
use crate::script::context::{Context, wait_in};
use crate::script::convert;
use crate::script::rights::Wanted;
use crate::script::script_error::Failure;
use crate::script::subject::Subject;
use crate::script::time;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    let m = &mut module;
    of_two(m, "get", |call, given| get(call, &given[..]));
    of_three(m, "get", |call, given| get(call, &given[..]));
    of_two(m, "exists", |call, given| exists(call, &given[..]));
    of_three(m, "exists", |call, given| exists(call, &given[..]));
    of_one(m, "list", |call, given| list(call, &given[..]));
    of_two(m, "list", |call, given| list(call, &given[..]));
    of_three(m, "list", |call, given| list(call, &given[..]));
    of_one(m, "create", |call, [object]| write(call, &object, Write::Create));
    of_one(m, "update", |call, [object]| write(call, &object, Write::Update));
    of_one(m, "apply", |call, [object]| write(call, &object, Write::Apply { force: true }));
    of_two(m, "apply", |call, [object, options]| {
        let force = Options::read("k8s::apply", &["force"], Some(&options))?.switch("force", true)?;
        write(call, &object, Write::Apply { force })
    });
    of_three(m, "patch", |call, given| patch(call, &given[..], None));
    of_four(m, "patch", |call, given| patch(call, &given[..], None));
    of_three(m, "patch_status", |call, given| patch(call, &given[..], Some("status")));
    of_four(m, "patch_status", |call, given| patch(call, &given[..], Some("status")));
    of_one(m, "delete", |call, given| delete(call, &given[..]));
    of_two(m, "delete", |call, given| delete(call, &given[..]));
    of_three(m, "delete", |call, given| delete(call, &given[..]));
    of_four(m, "delete", |call, given| delete(call, &given[..]));
    of_three(m, "scale", |call, given| scale(call, &given[..]));
    of_four(m, "scale", |call, given| scale(call, &given[..]));
    events::register(m);
    engine.register_static_module("k8s", module.into());
}

/// One call of a function of the module.
struct Caller {
    name: String,
    context: Context,
}

type HostFunction<const N: usize> = fn(&Caller, [Dynamic; N]) -> Result<Dynamic, Thrown>;

fn run<const N: usize>(native: &Native<'_>, function: HostFunction<N>, given: [Dynamic; N]) -> Result<Dynamic, Thrown> {
    let caller = Caller { name: format!("k8s::{}", native.fn_name()), context: Context::of(native)? };
    placed(native, function(&caller, given))
}

fn of_one(module: &mut Module, name: &str, function: HostFunction<1>) {
    FuncRegistration::new(name).set_into_module(module, move |native: Native<'_>, a: Dynamic| run(&native, function, [a]));
}

fn of_two(module: &mut Module, name: &str, function: HostFunction<2>) {
    FuncRegistration::new(name).set_into_module(module, move |native: Native<'_>, a: Dynamic, b: Dynamic| run(&native, function, [a, b]));
}

fn of_three(module: &mut Module, name: &str, function: HostFunction<3>) {
    FuncRegistration::new(name)
        .set_into_module(module, move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic| run(&native, function, [a, b, c]));
}

fn of_four(module: &mut Module, name: &str, function: HostFunction<4>) {
    FuncRegistration::new(name).set_into_module(module, move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
        run(&native, function, [a, b, c, d])
    });
}

impl Caller {
    /// Sends one request, and waits for the answer.
    fn send(&self, target: &Target, operation: Operation) -> Result<Value, Thrown> {
        self.require(target, &operation)?;
        let api = self.context.api(&self.name)?;
        let fields = self.written_fields(&operation);
        let request = ApiRequest { resource: Arc::clone(&target.resource), namespace: target.namespace.clone(), operation };
        // Log lines of the request belong to the handled object.
        let sent = async move { api.send(request).await }.instrument(self.context.span().clone());
        let answer = wait_in(&self.context, sent)?.map_err(|error| self.failed(target, error))?;
        if let Some(fields) = fields {
            self.note_self_write(&answer, fields);
        }
        Ok(answer)
    }

    /// Refuses a request that is neither seen in the code nor declared.
    fn require(&self, target: &Target, operation: &Operation) -> Result<(), Thrown> {
        let Some(function) = Function::of(self.name.trim_start_matches("k8s::")) else { return Ok(()) };
        let subresource = match operation {
            Operation::Patch { subresource, .. } => subresource.as_deref(),
            _ => None,
        };
        let handled = self.context.subject().and_then(Subject::resource).map(AsRef::as_ref);
        let (namespace, resource) = (target.namespace.as_deref(), &*target.resource);
        let wanted = Wanted { function, resource, subresource, name: target.name(), namespace, handled };
        if self.context.permissions().permit(&wanted) {
            return Ok(());
        }
        let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
        let verbs = function.verbs().join(", ");
        let rule = format!("{{verbs: [{verbs}], groups: [{:?}], resources: [{}{subresource}]}}", resource.group, resource.plural);
        let message = format!(
            "{} {target}: kopfd refuses the request before it is sent: it is neither seen in the scripts nor declared under `allow.k8s`, \
             as in `{rule}`",
            self.name
        );
        let details = json!({"group": resource.group, "kind": resource.plural, "name": target.name().unwrap_or_default()});
        let refused = Failure::host("forbidden", message);
        Err(Failure { status: Some(403), reason: Some("Forbidden".to_owned()), details: Some(details), ..refused }.into())
    }

    /// Returns the fields that a handler of changes or events writes; `None` for operations that write nothing.
    fn written_fields(&self, operation: &Operation) -> Option<Vec<String>> {
        let is_of_cycle = matches!(self.context.subject(), Some(Subject::Change { .. } | Subject::Event { .. }));
        match operation {
            _ if !is_of_cycle => None,
            Operation::Patch { patch: Value::Object(patch), .. } => Some(fields(patch)),
            Operation::Patch { .. } | Operation::Update { .. } | Operation::Apply { .. } => Some(vec![self.name.clone()]),
            Operation::Get { .. } | Operation::List { .. } | Operation::Create { .. } | Operation::Delete { .. } => None,
        }
    }

    /// Notes the write if it has changed the handled object: its event is not a change by others.
    fn note_self_write(&self, answer: &Value, fields: Vec<String>) {
        let Some(body) = self.context.subject().and_then(Subject::body) else { return };
        let uid = answer.pointer("/metadata/uid").and_then(Value::as_str);
        let version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        if let Some(version) = version.filter(|version| uid.is_some() && uid == body.uid() && body.resource_version() != Some(version)) {
            self.context.budget().note_self_write(SelfWrite { version: version.to_owned(), fields });
        }
    }

    /// Adds the attempted operation to the error.
    fn failed(&self, target: &Target, error: ApiError) -> Thrown {
        let message = format!("{} {target}: {}", self.name, error.message);
        Failure::from(ApiError { message, ..error }).into()
    }

    fn wrong(&self, message: &str) -> Thrown {
        Failure::argument(format!("`{}`: {message}", self.name)).into()
    }

    /// Returns the target of `kind, [namespace,] name`.
    fn named(&self, given: &[Dynamic]) -> Result<(Target, String), Thrown> {
        let (kind, namespace, name) = match given {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => return Err(self.wrong("it takes a kind, a namespace, and a name")),
        };
        let name = text(&self.name, "the name", name)?;
        if name.is_empty() {
            return Err(self.wrong("the name is empty"));
        }
        let namespace = namespace.filter(|namespace| !namespace.is_unit());
        let namespace = namespace.map(|namespace| text(&self.name, "the namespace", namespace)).transpose()?;
        let target = targets::of_kind(&self.context, &self.name, &text(&self.name, "the kind", kind)?)?;
        Ok((target.within(&self.context, &self.name, namespace)?.named(&name), name))
    }
}

/// `k8s::get(kind, [namespace,] name)`: the object; `()` if it does not exist.
fn get(call: &Caller, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    Ok(find(call, given)?.map_or(Dynamic::UNIT, |object| convert::to_dynamic(&object)))
}

/// `k8s::exists(kind, [namespace,] name)`: whether there is such an object.
fn exists(call: &Caller, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    Ok(find(call, given)?.is_some().into())
}

fn find(call: &Caller, given: &[Dynamic]) -> Result<Option<Value>, Thrown> {
    let (target, name) = call.named(given)?;
    Ok(Some(call.send(&target, Operation::Get { name })?).filter(|object| !object.is_null()))
}

/// `k8s::list(kind, [namespace,] [#{labels, fields}])`: an array of the objects; without a namespace, or with `()`, of all namespaces.
/// The selectors are texts in the form of kubectl, or maps of required values.
fn list(call: &Caller, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (kind, namespace, options) = match given {
        [kind] => (kind, None, None),
        [kind, options] if !options.is_string() && !options.is_unit() => (kind, None, Some(options)),
        [kind, namespace] => (kind, Some(namespace), None),
        [kind, namespace, options] => (kind, Some(namespace), Some(options)),
        _ => return Err(call.wrong("it takes a kind, a namespace, and options")),
    };
    let options = Options::read("k8s::list", &["fields", "labels"], options)?;
    let operation = Operation::List { labels: targets::selector(&options, "labels")?, fields: targets::selector(&options, "fields")? };
    let namespace = namespace.filter(|namespace| !namespace.is_unit());
    let namespace = namespace.map(|namespace| text(&call.name, "the namespace", namespace)).transpose()?;
    let target = targets::of_kind(&call.context, &call.name, &text(&call.name, "the kind", kind)?)?;
    let target = match namespace {
        Some(namespace) => target.within(&call.context, &call.name, Some(namespace))?,
        None => target,
    };
    match call.send(&target, operation)? {
        Value::Array(objects) => Ok(objects.iter().map(convert::to_dynamic).collect::<Array>().into()),
        _ => Err(call.failed(&target, targets::unexpected("the answer is not a list of objects"))),
    }
}

/// How objects are written.
#[derive(Clone, Copy)]
enum Write {
    Create,
    Update,
    Apply { force: bool },
}

/// `k8s::create(object)`, `k8s::update(object)`, `k8s::apply(object, [#{force}])`: the object as the server has stored it.
///
/// Arrays, also nested ones, are written in their order, and give an array; the first failure ends the call. `update` needs the whole
/// object, and fails with 409 if its `resourceVersion` is not the newest. `apply` is server-side, with the operator as the field manager;
/// it takes fields over from other managers, unless `force` is `false`: then it throws 409 with the conflicts in `details`.
fn write(call: &Caller, given: &Dynamic, how: Write) -> Result<Dynamic, Thrown> {
    let written = write_all(call, json(&call.name, given)?, how)?;
    Ok(convert::to_dynamic(&written))
}

fn write_all(call: &Caller, objects: Value, how: Write) -> Result<Value, Thrown> {
    match objects {
        Value::Array(objects) => objects.into_iter().map(|object| write_all(call, object, how)).collect::<Result<_, _>>().map(Value::Array),
        Value::Object(_) => write_one(call, objects, how),
        Value::Null => Err(call.wrong("the object is ()")),
        _ => Err(call.wrong("an object must be a map")),
    }
}

fn write_one(call: &Caller, mut object: Value, how: Write) -> Result<Value, Thrown> {
    let target = targets::of_object(&call.context, &call.name, &object)?;
    target.place(&mut object);
    let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    let named = || name.clone().ok_or_else(|| call.wrong(&format!("the {} has no metadata.name", target.resource.kind)));
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
/// A map is a merge patch, in which `()` deletes a key; an array is a JSON patch. The map of `patch_status` is the content of `status`.
fn patch(call: &Caller, given: &[Dynamic], subresource: Option<&str>) -> Result<Dynamic, Thrown> {
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

/// `k8s::delete(kind, [namespace,] name, [#{propagation, grace}])`, `k8s::delete(object)`: `true`; `false` if it did not exist.
///
/// `propagation` is `Background`, `Foreground` or `Orphan`; `grace` is seconds, or a duration. The object may exist for a while after the
/// call.
fn delete(call: &Caller, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
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
            (targets::of_object(&call.context, &call.name, &object)?.named(&name), name)
        }
        what => call.named(what)?,
    };
    let operation = Operation::Delete { name, propagation: propagation(&options)?, grace: grace(&options)? };
    Ok((call.send(&target, operation)? == true).into())
}

fn propagation(options: &Options) -> Result<Option<String>, Thrown> {
    let Some(given) = options.text("propagation")? else { return Ok(None) };
    let known = ["Background", "Foreground", "Orphan"].into_iter().find(|known| known.eq_ignore_ascii_case(given));
    known.map(|known| Some(known.to_owned())).ok_or_else(|| options.wrong("propagation", "Background, Foreground, or Orphan"))
}

fn grace(options: &Options) -> Result<Option<i64>, Thrown> {
    let given = options.value("grace").filter(|given| !given.is_null());
    let grace = given.map(|given| time::duration(&convert::to_dynamic(given))).transpose()?;
    Ok(grace.map(|grace| grace.as_secs_f64().ceil() as i64))
}

/// `k8s::scale(kind, [namespace,] name, replicas)`: sets the number of replicas, and returns the scale.
fn scale(call: &Caller, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let Some((replicas, rest)) = given.split_last() else { return Err(call.wrong("it takes a number of replicas")) };
    let replicas = replicas.as_int().ok().filter(|replicas| *replicas >= 0);
    let replicas = replicas.ok_or_else(|| call.wrong("the number of replicas must be an integer, and not negative"))?;
    let (target, name) = call.named(rest)?;
    let patch = json!({ "spec": { "replicas": replicas } });
    let operation = Operation::Patch { name, subresource: Some("scale".to_owned()), patch };
    Ok(convert::to_dynamic(&call.send(&target, operation)?))
}
