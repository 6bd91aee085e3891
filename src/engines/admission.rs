//! Admission webhooks: the configurations that make the API server call the operator's webhooks.

pub mod configurations;
