//! The shared code of benchmarks: objects, a generated API server, measurements of processes, and tables.

#![allow(dead_code, reason = "each benchmark uses its own part")]

pub(crate) mod objects;
pub(crate) mod process;
pub(crate) mod ratios;
pub(crate) mod server;
pub(crate) mod table;
