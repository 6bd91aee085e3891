//! Users and their rights.

pub mod access;
pub mod impersonation;
