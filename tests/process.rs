//! The built binary, real connections, and the documents with outputs of commands.

mod apiserver_hostile;
mod check;
#[allow(dead_code, reason = "the suites on a real API server give processes an input")]
mod child;
mod connection;
mod dev;
mod documents;
mod http_recording;
mod init;
mod limits_operator;
mod mistakes;
mod packaging;
mod programs;
mod rbac;
mod run;
mod scenarios;
mod settings;
