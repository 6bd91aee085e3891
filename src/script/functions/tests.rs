//! Host functions, as scripts see them.
