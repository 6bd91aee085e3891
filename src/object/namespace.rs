//! Patterns of namespaces: which ones an operator serves.
