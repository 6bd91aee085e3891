//! The expressions of Kubernetes (CEL): compiled with static types, estimated, and evaluated within a budget.
//!
//! The parser is the crate `cel`; types, functions and costs are those of Kubernetes 1.36. Independent of schemas and
//! requests.

mod ast;
mod checker;
mod cost;
mod environment;
mod error;
mod evaluate;
mod function;
mod functions;
mod literals;
mod macros;
mod overload;
mod parse;
mod types;
mod value;

pub(crate) use cost::{Size, Sizes};
pub(crate) use environment::{Environment, Mistake, Program};
pub(crate) use error::Error;
pub(crate) use functions::time::{date, duration, moment};
pub(crate) use types::{Object, Type};
pub(crate) use value::access::{Authorizer, Check, Decide};
pub(crate) use value::{Items, Key, List, Map, Value};

#[cfg(test)]
mod tests;
