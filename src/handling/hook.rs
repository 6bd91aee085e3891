//! Declared hooks: functions that are called by HTTP requests from outside. The selection by path and method; `auth`
//! verifies credentials.

pub mod auth;

use std::borrow::Borrow;
use std::time::Duration;

use super::handler::Handler;
use auth::Check;

/// A function that answers HTTP requests.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The common part of all handlers.
    pub handler: Handler,
    /// The path, without the prefix of the server.
    pub path: String,
    /// The methods in capitals; at least one.
    pub methods: Vec<String>,
    /// The checks of a request, all of which must pass; empty only if the manifest says that the hook is open.
    pub checks: Vec<Check>,
    /// The maximum size of a body in bytes.
    pub max_body: usize,
    /// How many requests are answered at the same time.
    pub concurrency: usize,
    /// The time limit of an answer.
    pub timeout: Duration,
}

/// The hook of a request.
#[derive(Debug)]
pub enum Selected<'a, H> {
    /// There is one.
    Hook(&'a H),
    /// Hooks at this path have other methods: these.
    OtherMethods(Vec<&'a str>),
    /// There is no hook at this path.
    Unknown,
}

/// Selects the hook of a path and a method.
pub fn select<'a, H: Borrow<Hook>>(hooks: &'a [H], method: &str, path: &str) -> Selected<'a, H> {
    let at_path = || hooks.iter().filter(|hook| (*hook).borrow().path == path);
    if let Some(hook) = at_path().find(|hook| (*hook).borrow().methods.iter().any(|known| known == method)) {
        return Selected::Hook(hook);
    }
    let methods: Vec<&str> = at_path().flat_map(|hook| &hook.borrow().methods).map(String::as_str).collect();
    if methods.is_empty() { Selected::Unknown } else { Selected::OtherMethods(methods) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;

    fn hook(id: &str, path: &str, methods: &[&str]) -> Hook {
        Hook {
            handler: Handler::simple(id, On::Hook),
            path: path.to_owned(),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            checks: Vec::new(),
            max_body: 1 << 20,
            concurrency: 1,
            timeout: Duration::from_secs(10),
        }
    }

    #[test]
    fn hooks_are_selected_by_path_and_method() {
        let hooks = [hook("a", "/a", &["POST"]), hook("read", "/a", &["GET", "PUT"]), hook("b", "/b", &["POST"])];
        let selected = |method: &str, path: &str| match select(&hooks, method, path) {
            Selected::Hook(hook) => hook.handler.id.clone(),
            Selected::OtherMethods(methods) => methods.join(", "),
            Selected::Unknown => "unknown".to_owned(),
        };
        assert_eq!(selected("POST", "/a"), "a");
        assert_eq!(selected("PUT", "/a"), "read");
        assert_eq!(selected("DELETE", "/a"), "POST, GET, PUT");
        assert_eq!(selected("post", "/b"), "POST");
        for path in ["/", "/a/", "/A", "/a/b", ""] {
            assert_eq!(selected("POST", path), "unknown", "{path}");
        }
    }
}
