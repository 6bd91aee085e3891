//! Host functions: what scripts can call besides the language itself.
//!
//! They return errors and never panic, take each number as integer or float, and wait through `context::wait_in` only.

mod adopting;
mod binary;
mod cryptography;
mod environment;
mod errors;
mod events;
mod finished;
mod hexadecimal;
mod hooks;
mod http;
mod k8s;
mod library;
mod login;
mod metrics;
pub(super) mod moments;
mod options;
mod outside;
mod parallel;
mod passwords;
pub(super) mod patterns;
mod random;
mod regexp;
mod searching;
mod sized;
pub(super) mod sleep;
mod sql;
mod subhandling;
mod support;
mod targets;
mod template_filters;
mod template_limits;
pub(super) mod templates;
mod text;

#[cfg(test)]
mod tests;

use rhai::Engine;

/// Registers all host functions.
pub(super) fn register(engine: &mut Engine) {
    for register in [
        sleep::register,
        subhandling::register,
        adopting::register,
        binary::register,
        cryptography::register,
        random::register,
        environment::register,
        errors::register,
        hexadecimal::register,
        hooks::register,
        http::register,
        k8s::register,
        library::register,
        login::register,
        metrics::register,
        moments::register,
        outside::register,
        parallel::register,
        passwords::register,
        regexp::register,
        sized::register,
        sql::register,
        templates::register,
        text::register,
    ] {
        register(engine);
    }
}
