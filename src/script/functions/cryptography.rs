//! `crypto::`, `x509::` and `jwt::`: digests, passwords, ciphers, keys, certificates and tokens.
//!
//! Private keys are bytes, whose text shows only their length: they appear in no log, and in an object's `data` they
//! are base64 already.

mod aside;
mod certificates;
mod ciphers;
mod hashes;
mod keys;
mod passwords;
mod tokens;
mod values;

use rhai::{Engine, Module};

/// Registers the modules.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    hashes::add(&mut module);
    passwords::add(&mut module);
    ciphers::add(&mut module);
    keys::add(&mut module);
    engine.register_static_module("crypto", module.into());
    certificates::register(engine);
    tokens::register(engine);
}
