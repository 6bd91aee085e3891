//! Syntax of Go's standard library that fields of Kubernetes have.

mod pattern;
mod url;

pub(crate) use pattern::regex;
pub(crate) use url::Url;
