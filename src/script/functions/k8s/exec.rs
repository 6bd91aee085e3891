//! `k8s::exec`: commands in containers of pods, without a shell.

use std::time::Duration;

use rhai::{Dynamic, Map};
use tracing::Instrument as _;

use super::caller::{Caller, Registry, Thrown};
use crate::script::functions::finished::{self, Form};
use crate::script::functions::options::{Options, as_given};
use crate::script::functions::support::may_have_bytes;
use crate::script::interface::access::Function;
use crate::script::language::bytes::Bytes;
use crate::script::limits::allocator;
use crate::script::outside::api::{ExecError, ExecRequest};
use crate::script::outside::programs::{DEFAULT_OUTPUT, DEFAULT_TIME};
use crate::script::runtime::context::wait_in;
use crate::script::values::time;

const NAME: &str = "k8s::exec";

/// The options beside those that have no JSON form.
const OPTIONS: &[&str] = &["binary", "check", "container", "limit", "stdin", "timeout"];

/// Registers the function.
pub(super) fn register(to: &mut impl Registry) {
    to.two("exec", |call, given| exec(call, &given[..]));
    to.three("exec", |call, given| exec(call, &given[..]));
    to.four("exec", |call, given| exec(call, &given[..]));
}

/// `k8s::exec([namespace,] pod, arguments, [#{container, stdin, timeout, limit, check, binary}])`: runs a command to
/// its end, and returns a map with `code`, `stdout` and `stderr`.
fn exec(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let (place, arguments, options) = match given {
        [place @ .., arguments, options] if options.is_map() => (place, arguments, Some(options)),
        [place @ .., arguments] => (place, arguments, None),
        [] => return Err(call.wrong("it takes a pod and a list of arguments")),
    };
    let arguments = finished::arguments(NAME, arguments)?;
    if arguments.first().is_none_or(String::is_empty) {
        return Err(call.wrong("the list of arguments must begin with a program"));
    }
    let kind = Function::Exec.kind().expect("it is about pods");
    let (target, name) = call.placed(kind, place)?;
    let wanted = Wanted::read(call, options)?;
    call.require(&target, Function::Exec.subresource())?;
    let api = call.api()?;
    let pods = call.context.outside().pods.clone();
    let title = arguments[0].clone();
    // Copies, which another thread frees: what the call itself holds stays counted.
    let request = allocator::uncounted(|| ExecRequest {
        resource: target.resource.clone(),
        namespace: target.namespace.clone(),
        name,
        container: wanted.container.clone(),
        arguments: arguments.clone(),
        stdin: wanted.stdin.clone(),
        time: wanted.time,
        output: wanted.output,
    });
    let ran = async move {
        match pods {
            Some(pods) => pods.exec(request).await,
            None => api.exec(request).await,
        }
    };
    match wait_in(&call.context, ran.instrument(call.context.span().clone()))? {
        Ok(ended) => {
            let result = finished::returned(call.native, &format!("{title} in {target}"), &ended, wanted.form);
            // The call has copies of its own, and has never counted this.
            allocator::uncounted(|| drop(ended));
            result.map(Dynamic::from)
        }
        Err(ExecError::Api(error)) => Err(call.failed(&target, error)),
        Err(ExecError::Command(mut error)) => {
            error.message = format!("{NAME} {target}: {}", error.message);
            Err(finished::failed(error)?.into())
        }
    }
}

/// The options of a call.
struct Wanted {
    container: Option<String>,
    stdin: Option<Vec<u8>>,
    time: Duration,
    output: usize,
    form: Form,
}

impl Wanted {
    fn read(call: &Caller<'_>, given: Option<&Dynamic>) -> Result<Self, Thrown> {
        // Bytes have no JSON form.
        let (stdin, timeout) = (as_given(given, "stdin"), as_given(given, "timeout"));
        let plain = given.and_then(|given| given.as_map_ref().ok()).map(|given| {
            let is_plain = |key: &str| !matches!(key, "stdin" | "timeout");
            Dynamic::from(
                given
                    .iter()
                    .filter(|(key, _)| is_plain(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect::<Map>(),
            )
        });
        let options = Options::read(NAME, OPTIONS, plain.as_ref())?;
        let time = timeout.as_ref().map(time::duration).transpose()?.unwrap_or(DEFAULT_TIME);
        if time.is_zero() {
            return Err(call.wrong("the option `timeout` must be more than zero"));
        }
        let output = super::subresources::number(&options, "limit")?.unwrap_or(DEFAULT_OUTPUT);
        let output = usize::try_from(output).unwrap_or(usize::MAX);
        may_have_bytes(call.native, output)?;
        Ok(Self {
            container: options.text("container")?.map(str::to_owned),
            stdin: stdin
                .map(|stdin| Bytes::of(NAME, "the option `stdin`", &stdin).map(|bytes| bytes.0.to_vec()))
                .transpose()?,
            time,
            output,
            form: Form { check: options.switch("check", false)?, binary: options.switch("binary", false)? },
        })
    }
}
