//! The calls of the module `k8s`: where its functions are registered, and how they send their requests.

use std::sync::Arc;

use rhai::{Dynamic, EvalAltResult, FuncRegistration, Module, NativeCallContext};
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::object::patch::fields;
use crate::script::functions::options::{placed, text};
use crate::script::functions::targets::{self, Target};
use crate::script::interface::access::Function;
use crate::script::interface::call::SelfWrite;
use crate::script::interface::rights::{self, Wanted};
use crate::script::interface::subject::Subject;
use crate::script::outside::api::{Api, ApiError, ApiRequest, Operation};
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;

pub(super) type Thrown = Box<EvalAltResult>;
pub(super) type Native<'a> = NativeCallContext<'a>;

/// One call of a function of the module.
pub(super) struct Caller<'a> {
    /// The call of the interpreter.
    pub native: &'a Native<'a>,
    /// The name of the function, with its module.
    pub name: String,
    /// The context of the call.
    pub context: Context,
    /// The other cluster that is meant.
    other: Option<Arc<dyn Api>>,
}

pub(super) type HostFunction<const N: usize> = fn(&Caller<'_>, [Dynamic; N]) -> Result<Dynamic, Thrown>;

/// The module or the type that functions are registered for.
pub(super) trait Registry {
    /// Registers a function of one argument.
    fn one(&mut self, name: &str, function: HostFunction<1>);
    /// Registers a function of two arguments.
    fn two(&mut self, name: &str, function: HostFunction<2>);
    /// Registers a function of three arguments.
    fn three(&mut self, name: &str, function: HostFunction<3>);
    /// Registers a function of four arguments.
    fn four(&mut self, name: &str, function: HostFunction<4>);
    /// Registers a function of five arguments.
    fn five(&mut self, name: &str, function: HostFunction<5>);
}

/// The functions of `k8s::`, about the operator's own cluster.
pub(super) struct InModule<'a>(pub &'a mut Module);

/// Runs a function, on another cluster if there is one.
///
/// # Errors
/// Those of the function, with the position of the call.
pub(super) fn run<const N: usize>(
    native: &Native<'_>,
    other: Option<Arc<dyn Api>>,
    function: HostFunction<N>,
    given: [Dynamic; N],
) -> Result<Dynamic, Thrown> {
    let caller = Caller { native, name: format!("k8s::{}", native.fn_name()), context: Context::of(native)?, other };
    placed(native, function(&caller, given))
}

impl Registry for InModule<'_> {
    fn one(&mut self, name: &str, function: HostFunction<1>) {
        let call = move |native: Native<'_>, a: Dynamic| run(&native, None, function, [a]);
        FuncRegistration::new(name).set_into_module(self.0, call);
    }

    fn two(&mut self, name: &str, function: HostFunction<2>) {
        let call = move |native: Native<'_>, a: Dynamic, b: Dynamic| run(&native, None, function, [a, b]);
        FuncRegistration::new(name).set_into_module(self.0, call);
    }

    fn three(&mut self, name: &str, function: HostFunction<3>) {
        let call =
            move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic| run(&native, None, function, [a, b, c]);
        FuncRegistration::new(name).set_into_module(self.0, call);
    }

    fn four(&mut self, name: &str, function: HostFunction<4>) {
        let call = move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
            run(&native, None, function, [a, b, c, d])
        };
        FuncRegistration::new(name).set_into_module(self.0, call);
    }

    fn five(&mut self, name: &str, function: HostFunction<5>) {
        let call = move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic, e: Dynamic| {
            run(&native, None, function, [a, b, c, d, e])
        };
        FuncRegistration::new(name).set_into_module(self.0, call);
    }
}

/// Returns the error of a request that is not sent: it looks like that of the API server.
pub(super) fn refused(message: String, target: &rights::Target<'_>) -> Thrown {
    let rights::Target { resource, name, .. } = target;
    let details = json!({"group": resource.group, "kind": resource.plural, "name": name.unwrap_or_default()});
    let refused = Failure::host("forbidden", message);
    Failure { status: Some(403), reason: Some("Forbidden".to_owned()), details: Some(details), ..refused }.into()
}

impl Caller<'_> {
    /// Sends one request, and waits for the answer.
    pub(super) fn send(&self, target: &Target, operation: Operation) -> Result<Value, Thrown> {
        let subresource = match &operation {
            Operation::Patch { subresource, .. } => subresource.as_deref(),
            _ => self.function().and_then(Function::subresource),
        };
        self.require(target, subresource)?;
        let api = self.api()?;
        let fields = self.written_fields(&operation);
        let request =
            ApiRequest { resource: Arc::clone(&target.resource), namespace: target.namespace.clone(), operation };
        // Log lines of the request belong to the handled object.
        let sent = async move { api.send(request).await }.instrument(self.context.span().clone());
        let answer = wait_in(&self.context, sent)?.map_err(|error| self.failed(target, error))?;
        if let Some(fields) = fields {
            self.note_self_write(&answer, fields);
        }
        Ok(answer)
    }

    /// Returns the cluster, and counts a request.
    pub(super) fn api(&self) -> Result<Arc<dyn Api>, Thrown> {
        // It may not be called everywhere, and counts, whichever cluster is meant.
        let own = self.context.api(&self.name)?;
        Ok(self.other.clone().unwrap_or(own))
    }

    /// Returns the target of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Result<Target, Thrown> {
        targets::of_kind(&self.context, self.other.clone(), &self.name, kind)
    }

    /// Returns the target of an object.
    pub(super) fn of_object(&self, object: &Value) -> Result<Target, Thrown> {
        targets::of_object(&self.context, self.other.clone(), &self.name, object)
    }

    pub(super) fn function(&self) -> Option<Function> {
        Function::of(self.name.trim_start_matches("k8s::"))
    }

    /// Refuses a request that is neither seen in the code nor declared. In another cluster its credentials decide.
    pub(super) fn require(&self, target: &Target, subresource: Option<&str>) -> Result<(), Thrown> {
        let Some(function) = self.function().filter(|_| self.other.is_none()) else { return Ok(()) };
        let handled = self.context.subject().and_then(Subject::resource).map(AsRef::as_ref);
        let (namespace, resource) = (target.namespace.as_deref(), &*target.resource);
        let wanted = Wanted {
            function,
            target: rights::Target { resource, subresource, name: target.name(), namespace },
            handled,
        };
        if self.context.permissions().permit(&wanted) {
            return Ok(());
        }
        let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
        let verbs = function.verbs().join(", ");
        let rule = format!(
            "{{verbs: [{verbs}], groups: [{:?}], resources: [{}{subresource}]}}",
            resource.group, resource.plural
        );
        let message = format!(
            "{} {target}: kopfd refuses the request before it is sent: it is neither seen in the scripts nor declared under `allow.k8s`, \
             as in `{rule}`",
            self.name
        );
        Err(refused(message, &wanted.target))
    }

    /// Returns the fields that a handler of changes or events writes; `None` for operations that write nothing.
    fn written_fields(&self, operation: &Operation) -> Option<Vec<String>> {
        let is_of_cycle = matches!(self.context.subject(), Some(Subject::Change { .. } | Subject::Event { .. }));
        match operation {
            _ if !is_of_cycle || self.other.is_some() => None,
            Operation::Patch { patch: Value::Object(patch), .. } => Some(fields(patch)),
            Operation::Patch { .. } | Operation::Update { .. } | Operation::Apply { .. } => {
                Some(vec![self.name.clone()])
            }
            Operation::Get { .. }
            | Operation::List { .. }
            | Operation::Create { .. }
            | Operation::CreateSubresource { .. }
            | Operation::Log { .. }
            | Operation::Delete { .. } => None,
        }
    }

    /// Notes the write if it has changed the handled object: its event is not a change by others.
    fn note_self_write(&self, answer: &Value, fields: Vec<String>) {
        let Some(body) = self.context.subject().and_then(Subject::body) else { return };
        let uid = answer.pointer("/metadata/uid").and_then(Value::as_str);
        let version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        if let Some(version) =
            version.filter(|version| uid.is_some() && uid == body.uid() && body.resource_version() != Some(version))
        {
            self.context.budget().note_self_write(SelfWrite { version: version.to_owned(), fields });
        }
    }

    /// Adds the attempted operation to the error.
    pub(super) fn failed(&self, target: &Target, error: ApiError) -> Thrown {
        let message = format!("{} {target}: {}", self.name, error.message);
        Failure::from(ApiError { message, ..error }).into()
    }

    pub(super) fn wrong(&self, message: &str) -> Thrown {
        Failure::argument(format!("`{}`: {message}", self.name)).into()
    }

    /// Returns the target of `kind, [namespace,] name`.
    pub(super) fn named(&self, given: &[Dynamic]) -> Result<(Target, String), Thrown> {
        let Some((kind, place)) = given.split_first() else { return Err(self.wrong("it takes a kind and a name")) };
        self.placed(&text(&self.name, "the kind", kind)?, place)
    }

    /// Returns the target of a list: a kind in one namespace, or in all.
    pub(super) fn of_list(&self, kind: &Dynamic, namespace: Option<&Dynamic>) -> Result<Target, Thrown> {
        let namespace = self.namespace(namespace)?;
        let target = self.of_kind(&text(&self.name, "the kind", kind)?)?;
        match namespace {
            Some(namespace) => target.within(&self.context, &self.name, Some(namespace)),
            None => Ok(target),
        }
    }

    /// Returns a namespace; `()` stands for none.
    fn namespace(&self, given: Option<&Dynamic>) -> Result<Option<String>, Thrown> {
        given.filter(|given| !given.is_unit()).map(|given| text(&self.name, "the namespace", given)).transpose()
    }

    /// Returns the target of `[namespace,] name`.
    pub(super) fn placed(&self, kind: &str, given: &[Dynamic]) -> Result<(Target, String), Thrown> {
        let (namespace, name) = match given {
            [name] => (None, name),
            [namespace, name] => (Some(namespace), name),
            _ => return Err(self.wrong("it takes a namespace and a name")),
        };
        let name = text(&self.name, "the name", name)?;
        if name.is_empty() {
            return Err(self.wrong("the name is empty"));
        }
        let namespace = self.namespace(namespace)?;
        let target = self.of_kind(kind)?;
        Ok((target.within(&self.context, &self.name, namespace)?.named(&name), name))
    }
}
