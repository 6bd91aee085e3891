//! The plain library: functions of lists, maps, texts, versions, addresses and other formats. They depend on nothing but their arguments, so
//! that expressions may call them, too.

mod addresses;
mod cleaning;
mod comparing;
mod dates;
mod lists;
mod maps;
mod numbers;
mod paths;
mod sizes;
mod texts;
mod toml_text;
mod urls;
mod versions;

use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};

pub(super) use urls::RESERVED;

use super::options::placed;
use crate::script::bounded;
use crate::script::declaration::Limit;
use crate::script::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;
type Given = Result<Dynamic, Thrown>;

/// The bytes of work between two checks of the clock.
const BYTES_PER_PAUSE: usize = 64 << 10;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    for register in [
        addresses::register,
        cleaning::register,
        dates::register,
        lists::register,
        maps::register,
        numbers::register,
        paths::register,
        texts::register,
        toml_text::register,
        urls::register,
        versions::register,
    ] {
        register(engine);
    }
}

/// Adds a function of one argument to a module.
fn one(module: &mut Module, name: &str, function: fn(&Native<'_>, &Dynamic) -> Given) {
    let call = move |native: Native<'_>, a: Dynamic| placed(&native, function(&native, &a));
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Adds a function of two arguments to a module.
fn two(module: &mut Module, name: &str, function: fn(&Native<'_>, &Dynamic, &Dynamic) -> Given) {
    let call = move |native: Native<'_>, a: Dynamic, b: Dynamic| placed(&native, function(&native, &a, &b));
    FuncRegistration::new(name).set_into_module(module, call);
}

/// Counts the work of a long function, and lets other scripts run between pieces of it.
#[derive(Default)]
struct Pace(usize);

impl Pace {
    /// Counts work, as bytes that are looked at.
    ///
    /// # Errors
    /// If the call must end.
    fn spend(&mut self, bytes: usize) -> Result<(), Thrown> {
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
fn may_have_items(native: &Native<'_>, count: usize) -> Result<(), Thrown> {
    let max = native.engine().max_array_size();
    if max > 0 && count > max { Err(bounded::refused(Limit::ArraySize)) } else { Ok(()) }
}

/// Checks that a text may have this many bytes, and that the call may hold them.
///
/// # Errors
/// If it may not. The script cannot catch it.
fn may_have_bytes(native: &Native<'_>, count: usize) -> Result<(), Thrown> {
    let max = native.engine().max_string_size();
    if max > 0 && count > max { Err(bounded::refused(Limit::StringSize)) } else { bounded::reserve(count) }
}

/// Returns the error about an argument of a function.
fn wrong(function: &str, what: impl std::fmt::Display) -> Thrown {
    Failure::argument(format!("`{function}`: {what}")).into()
}

/// Returns the error about a text that a function cannot read.
fn unreadable(function: &str, what: impl std::fmt::Display) -> Thrown {
    Failure::host("parse", format!("`{function}`: {what}")).into()
}

/// Returns an integer argument that is not negative.
///
/// # Errors
/// If it is something else.
fn count(function: &str, what: &str, value: &Dynamic) -> Result<usize, Thrown> {
    let number = value.as_int().ok().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| wrong(function, format!("{what} must be an integer that is not negative, not {}", shown(value))))
}

/// Returns the beginning of a value, for an error message.
fn shown(value: &Dynamic) -> String {
    bounded::shortened(&crate::script::convert::shown(value))
}
