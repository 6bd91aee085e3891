//! The engine in this process and in virtual time: its layers, its manifests, its scripts, and whole life cycles of
//! objects.

mod closed_loop;
mod disturbances;
mod golden;
mod in_process;
mod indexing;
mod layering;
mod leading;
mod manifests;
mod observing;
mod posting;
mod reloading;
mod rights;
mod script;
mod webhook_certificates;
mod webhook_configurations;
mod webhook_definitions;
#[allow(dead_code, reason = "the golden cases use other parts of this module")]
mod world;
