//! Stubs: the answers of a scenario in place of the world outside of the cluster. A call that no stub answers fails the
//! scenario.

mod counted;
mod declared;
mod http;
mod machine;
mod pods;
mod read;
mod read_machine;
mod read_pods;
mod read_sql;
mod recording;
mod sent;
mod sql;
mod unexpected;

pub use declared::{HttpStub, ProgramStub, Stubs};
pub(super) use http::HttpStubs;
pub(super) use machine::MachineStubs;
pub(super) use pods::PodStubs;
pub(super) use read::{is_stubbed_given, read};
pub(super) use sql::SqlStubs;
pub(super) use unexpected::UnexpectedCalls;
