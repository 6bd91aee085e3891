//! What the benchmarks share: objects, a generated API server, looks at processes, and tables.

#![allow(dead_code, reason = "each benchmark uses its own part")]

pub mod objects;
pub mod process;
pub mod ratios;
pub mod server;
pub mod table;
