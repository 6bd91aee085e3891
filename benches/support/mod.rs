//! The shared code of benchmarks: objects, a generated API server, measurements of processes, and tables.

#![allow(dead_code, reason = "each benchmark uses its own part")]

pub mod objects;
pub mod process;
pub mod ratios;
pub mod server;
pub mod table;
