//! The server as clients meet it: requests from the network, faults on demand, control, sockets.

pub mod bodies;
pub mod control;
pub mod socket;
