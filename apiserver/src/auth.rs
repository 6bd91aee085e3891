//! Users and their permissions.

pub mod access;
pub mod impersonation;
