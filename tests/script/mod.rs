//! Scripts as handlers, through the host's public interface.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod arguments;
mod closures;
mod endings;
mod http;
mod indexes;
mod library;
mod modules;
mod subhandlers;
mod subjects;
mod values;
mod world;
