//! Syntax of Go's standard library in fields of Kubernetes.

mod pattern;
mod url;

pub(crate) use pattern::regex;
pub(crate) use url::Url;
