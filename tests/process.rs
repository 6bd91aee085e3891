//! The built binary as its users run it, real connections, and the documents that show what it says.

mod check;
mod child;
mod connection;
mod dev;
mod documents;
mod init;
mod mistakes;
mod run;
mod scenarios;
