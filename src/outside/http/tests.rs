//! Tests of the client against real servers.
