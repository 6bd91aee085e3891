//! `login::`: the credentials of the built-in logins, for login functions.

use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};

use super::options::{placed, text};
use crate::script::language::convert;
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    FuncRegistration::new("service_account")
        .set_into_module(&mut module, |native: NativeCallContext<'_>| placed(&native, service_account(&native)));
    FuncRegistration::new("kubeconfig")
        .set_into_module(&mut module, |native: NativeCallContext<'_>| placed(&native, kubeconfig(&native, None)));
    FuncRegistration::new("kubeconfig")
        .set_into_module(&mut module, |native: NativeCallContext<'_>, context: Dynamic| {
            placed(&native, kubeconfig(&native, Some(&context)))
        });
    engine.register_static_module("login", module.into());
}

/// `login::service_account()`: the credentials of the service account; `()` outside of a container.
fn service_account(native: &NativeCallContext<'_>) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    let credentials = context.credentials("login::service_account")?;
    let found = wait_in(&context, async move { credentials.service_account().await })?;
    found
        .map(|found| convert::to_dynamic(&found.unwrap_or_default()))
        .map_err(|error| failed("login::service_account", &error))
}

/// `login::kubeconfig([context])`: the credentials of the kubeconfig in a context, by default the current one; `()`
/// without a kubeconfig.
fn kubeconfig(native: &NativeCallContext<'_>, wanted: Option<&Dynamic>) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    let credentials = context.credentials("login::kubeconfig")?;
    let wanted = wanted
        .filter(|wanted| !wanted.is_unit())
        .map(|wanted| text("login::kubeconfig", "the context", wanted))
        .transpose()?;
    let found = wait_in(&context, async move { credentials.kubeconfig(wanted).await })?;
    found
        .map(|found| convert::to_dynamic(&found.unwrap_or_default()))
        .map_err(|error| failed("login::kubeconfig", &error))
}

fn failed(function: &str, error: &str) -> Thrown {
    Failure::host("login", format!("`{function}`: {error}")).into()
}
