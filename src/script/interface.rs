//! The data that the owner of the host declares, passes and gets: code and its purposes, calls and their subjects, rights, and reported
//! problems.

pub mod access;
pub mod call;
pub mod declaration;
pub mod problem;
pub mod rights;
pub mod subject;
