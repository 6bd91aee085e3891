//! Syntax of Go's standard library in fields of Kubernetes.

mod duration;
mod pattern;
mod url;

pub(crate) use duration::duration;
pub(crate) use pattern::regex;
pub(crate) use url::Url;
