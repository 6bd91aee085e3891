//! What the owner of the host declares and passes: code and its purposes, calls and their subjects, rights, and the problems it is told.

pub mod access;
pub mod call;
pub mod declaration;
pub mod problem;
pub mod rights;
pub mod subject;
