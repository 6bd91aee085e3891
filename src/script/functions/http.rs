//! `http::`: requests to the hosts that `allow.http` lists.
//!
//! The answer is a map of `status`, `headers`, `body`, `json` and `url`; the status of an error is an answer, too,
//! unless the option `raise` asks for an error. A request without an answer throws an error of the kind `http`, whose
//! `reason` says what has failed.

mod answer;
mod auth;
mod body;
mod exchange;
mod given;
mod hosts;
mod oauth;
mod pages;
mod redirects;
mod request;
mod retries;
mod sigv4;
#[cfg(test)]
mod tests;

use rhai::{Dynamic, Engine, FuncRegistration, Module, NativeCallContext};

use self::auth::Auth;
use self::given::Given;
use self::hosts::Thrown;
use self::pages::Pages;
use self::request::{OPTIONS, Request};
use super::options::{placed, text};
use crate::script::runtime::context::Context;

type Native<'a> = NativeCallContext<'a>;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    for name in ["get", "delete"] {
        FuncRegistration::new(name).set_into_module(&mut module, move |native: Native<'_>, url: Dynamic| {
            placed(&native, call(&native, name, [&url, &Dynamic::UNIT], None))
        });
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, url: Dynamic, options: Dynamic| {
                placed(&native, call(&native, name, [&url, &Dynamic::UNIT], Some(&options)))
            },
        );
    }
    for name in ["post", "put", "patch"] {
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, url: Dynamic, body: Dynamic| {
                placed(&native, call(&native, name, [&url, &body], None))
            },
        );
        FuncRegistration::new(name).set_into_module(
            &mut module,
            move |native: Native<'_>, url: Dynamic, body: Dynamic, options: Dynamic| {
                placed(&native, call(&native, name, [&url, &body], Some(&options)))
            },
        );
    }
    FuncRegistration::new("request")
        .set_into_module(&mut module, |native: Native<'_>, method: Dynamic, url: Dynamic| {
            placed(&native, of_method(&native, &method, &url, None))
        });
    FuncRegistration::new("request").set_into_module(
        &mut module,
        |native: Native<'_>, method: Dynamic, url: Dynamic, options: Dynamic| {
            placed(&native, of_method(&native, &method, &url, Some(&options)))
        },
    );
    FuncRegistration::new("pages").set_into_module(&mut module, |native: Native<'_>, url: Dynamic| {
        placed(&native, all_pages(&native, &url, None))
    });
    FuncRegistration::new("pages")
        .set_into_module(&mut module, |native: Native<'_>, url: Dynamic, options: Dynamic| {
            placed(&native, all_pages(&native, &url, Some(&options)))
        });
    engine.register_static_module("http", module.into());
}

/// `http::get|delete(url, [options])`, `http::post|put|patch(url, body, [options])`: the answer.
fn call(
    native: &Native<'_>,
    name: &str,
    [url, body]: [&Dynamic; 2],
    options: Option<&Dynamic>,
) -> Result<Dynamic, Thrown> {
    answer(native, &format!("http::{name}"), name, [url, body], options)
}

/// `http::request(method, url, [options])`: the answer.
fn of_method(
    native: &Native<'_>,
    method: &Dynamic,
    url: &Dynamic,
    options: Option<&Dynamic>,
) -> Result<Dynamic, Thrown> {
    let method = text("http::request", "the method", method)?;
    answer(native, "http::request", &method, [url, &Dynamic::UNIT], options)
}

fn answer(
    native: &Native<'_>,
    function: &str,
    method: &str,
    [url, body]: [&Dynamic; 2],
    options: Option<&Dynamic>,
) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    context.acts(function)?;
    let options = Given::options(function, OPTIONS, options)?;
    let request =
        Request::read(&context, function, method, url, Some(body), &options, native.engine().max_string_size())?;
    let auth = Auth::read(&request, &options)?;
    let answered = auth::perform(&context, &request, &auth)?;
    answer::value(native, &request, answered)
}

/// `http::pages(url, [options])`: the items of all pages.
fn all_pages(native: &Native<'_>, url: &Dynamic, options: Option<&Dynamic>) -> Result<Dynamic, Thrown> {
    let (function, context) = ("http::pages", Context::of(native)?);
    context.acts(function)?;
    let known = [OPTIONS, &Pages::OPTIONS].concat();
    let options = Given::options(function, &known, options)?;
    let request = Request::read(&context, function, "GET", url, None, &options, native.engine().max_string_size())?;
    let auth = Auth::read(&request, &options)?;
    pages::collect(native, &context, request, &auth, &Pages::read(&options)?)
}
