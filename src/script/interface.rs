//! The data that the owner of the host declares, passes and gets: code and its purposes, calls and their subjects,
//! rights, and reported problems.

pub(crate) mod access;
pub(crate) mod call;
pub(crate) mod declaration;
pub(crate) mod problem;
pub(crate) mod rights;
pub mod subject;
