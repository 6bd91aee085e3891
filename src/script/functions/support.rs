//! The common parts of the modules of host functions: their registration, the limits of their results, and their
//! errors.

use rhai::{Dynamic, EvalAltResult, FnPtr, FuncRegistration, Module, NativeCallContext, Position};

use crate::script::functions::options::placed;
use crate::script::language::convert;
use crate::script::limits::Limit;
use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;

pub(super) type Thrown = Box<EvalAltResult>;
pub(super) type Native<'a> = NativeCallContext<'a>;
pub(super) type Given = Result<Dynamic, Thrown>;

/// The bytes of work between two checks of the clock.
const BYTES_PER_PAUSE: usize = 64 << 10;

/// Adds a function of one argument to a module.
pub(super) fn one(module: &mut Module, name: &str, function: fn(&Native<'_>, &Dynamic) -> Given) {
    let call = move |native: Native<'_>, a: Dynamic| placed(&native, function(&native, &a));
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Adds a function of two arguments to a module.
pub(super) fn two(module: &mut Module, name: &str, function: fn(&Native<'_>, &Dynamic, &Dynamic) -> Given) {
    let call = move |native: Native<'_>, a: Dynamic, b: Dynamic| placed(&native, function(&native, &a, &b));
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Adds a function of three arguments to a module.
pub(super) fn three(module: &mut Module, name: &str, function: fn(&Native<'_>, &Dynamic, &Dynamic, &Dynamic) -> Given) {
    let call =
        move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic| placed(&native, function(&native, &a, &b, &c));
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Adds a function of four arguments to a module.
pub(super) fn four(module: &mut Module, name: &str, function: fn(&Native<'_>, &[Dynamic; 4]) -> Given) {
    let call = move |native: Native<'_>, a: Dynamic, b: Dynamic, c: Dynamic, d: Dynamic| {
        placed(&native, function(&native, &[a, b, c, d]))
    };
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Counts the work of a long function, and lets other scripts run between pieces of it.
#[derive(Default)]
pub(super) struct WorkCounter(usize);

impl WorkCounter {
    /// Counts work, as a number of processed bytes.
    ///
    /// # Errors
    /// If the call must end.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Thrown> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 < BYTES_PER_PAUSE {
            return Ok(());
        }
        self.0 = 0;
        bounded::pause()
    }
}

/// Checks that a list may have this many items.
///
/// # Errors
/// If it may not. The script cannot catch it.
pub(super) fn may_have_items(native: &Native<'_>, count: usize) -> Result<(), Thrown> {
    let max = native.engine().max_array_size();
    if max > 0 && count > max { Err(bounded::refused(Limit::ArraySize)) } else { Ok(()) }
}

/// Checks that a text may have this many bytes, and that the call may hold them.
///
/// # Errors
/// If it may not. The script cannot catch it.
pub(super) fn may_have_bytes(native: &Native<'_>, count: usize) -> Result<(), Thrown> {
    let max = native.engine().max_string_size();
    if max > 0 && count > max { Err(bounded::refused(Limit::StringSize)) } else { bounded::reserve(count) }
}

/// Calls a function that a method was given. As for methods of the interpreter, its errors name the method among the
/// calls.
///
/// # Errors
/// Those of the function.
pub(super) fn call<const N: usize>(
    method: &str,
    native: &Native<'_>,
    function: &FnPtr,
    arguments: [Dynamic; N],
) -> Given {
    function.call_raw(native, None, arguments).map_err(|error| {
        let source = native.call_source().unwrap_or_default().to_owned();
        EvalAltResult::ErrorInFunctionCall(method.to_owned(), source, error, Position::NONE).into()
    })
}

/// Returns the error about an argument of a function.
pub(super) fn wrong(function: &str, what: impl std::fmt::Display) -> Thrown {
    Failure::argument(format!("`{function}`: {what}")).into()
}

/// Returns the error about a text that a function cannot read.
pub(super) fn unreadable(function: &str, what: impl std::fmt::Display) -> Thrown {
    Failure::host("parse", format!("`{function}`: {what}")).into()
}

/// Returns an integer argument that is not negative.
///
/// # Errors
/// If it has another type.
pub(super) fn count(function: &str, what: &str, value: &Dynamic) -> Result<usize, Thrown> {
    let number = value.as_int().ok().and_then(|number| usize::try_from(number).ok());
    number
        .ok_or_else(|| wrong(function, format!("{what} must be an integer that is not negative, not {}", shown(value))))
}

/// Returns the beginning of a value, for an error message.
pub(super) fn shown(value: &Dynamic) -> String {
    bounded::shortened(&convert::shown(value))
}
