//! `random::`: passwords, tokens and bytes of the operating system's generator. Not available in expressions;
//! simulations can seed it.

use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};

use super::options::{placed, text};
use crate::script::language::bytes::Bytes;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;

/// Limit of the characters of one password.
const MAX_LENGTH: usize = 4_096;

/// The characters of passwords if none are given: letters and digits.
const LETTERS_AND_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The characters of tokens, which need no escapes in addresses and in YAML.
const OF_TOKENS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    FuncRegistration::new("password").set_into_module(&mut module, |native: Native<'_>, length: Dynamic| {
        placed(&native, drawn(&native, "random::password", &length, LETTERS_AND_DIGITS))
    });
    FuncRegistration::new("password").set_into_module(
        &mut module,
        |native: Native<'_>, length: Dynamic, alphabet: Dynamic| {
            placed(
                &native,
                text("random::password", "the alphabet", &alphabet)
                    .and_then(|alphabet| drawn(&native, "random::password", &length, &alphabet)),
            )
        },
    );
    FuncRegistration::new("token").set_into_module(&mut module, |native: Native<'_>, length: Dynamic| {
        placed(&native, drawn(&native, "random::token", &length, OF_TOKENS))
    });
    FuncRegistration::new("bytes")
        .set_into_module(&mut module, |native: Native<'_>, count: Dynamic| placed(&native, bytes(&native, &count)));
    engine.register_static_module("random", module.into());
}

fn count(function: &str, value: &Dynamic) -> Result<usize, Thrown> {
    let number = value
        .as_int()
        .ok()
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| (1..=MAX_LENGTH).contains(number));
    number.ok_or_else(|| {
        Failure::argument(format!("`{function}`: the length is an integer from 1 to {MAX_LENGTH}")).into()
    })
}

/// `random::password(length, alphabet)` and `random::token(length)`: characters of an alphabet, each with the same
/// probability.
fn drawn(native: &Native<'_>, function: &str, length: &Dynamic, alphabet: &str) -> Result<String, Thrown> {
    let context = Context::of(native)?;
    context.varies(function)?;
    let length = count(function, length)?;
    // A character that is written twice would be drawn more often.
    let signs: Vec<char> = alphabet
        .chars()
        .take(usize::from(u8::MAX) + 2)
        .collect::<std::collections::BTreeSet<char>>()
        .into_iter()
        .collect();
    if !(2..=usize::from(u8::MAX) + 1).contains(&signs.len()) || alphabet.chars().count() > usize::from(u8::MAX) + 1 {
        return Err(Failure::argument(format!("`{function}`: the alphabet must have from 2 to 256 characters")).into());
    }
    // Bytes above the last multiple of the number of characters would make the first ones more probable.
    let end = 256 - 256 % signs.len();
    let mut drawn = String::new();
    let mut left = length;
    while left > 0 {
        let mut pool = [0; 64];
        context.environment().rng.fill(&mut pool)?;
        for byte in pool.into_iter().map(usize::from).filter(|byte| *byte < end).take(left) {
            drawn.push(signs[byte % signs.len()]);
            left -= 1;
        }
    }
    Ok(drawn)
}

/// `random::bytes(count)`: bytes.
fn bytes(native: &Native<'_>, given: &Dynamic) -> Result<Bytes, Thrown> {
    let context = Context::of(native)?;
    context.varies("random::bytes")?;
    let mut bytes = vec![0; count("random::bytes", given)?];
    context.environment().rng.fill(&mut bytes)?;
    Ok(bytes.into())
}
