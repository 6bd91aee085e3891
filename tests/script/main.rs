//! Scripts as handlers, through the host's public face.

mod arguments;
mod endings;
mod subhandlers;
mod values;
mod world;
