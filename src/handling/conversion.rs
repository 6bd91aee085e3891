//! Conversions of objects between the versions of their definition: the review, the versions that one object passes,
//! and the part of the definition that makes the API server call the operator.
//!
//! The HTTP server and the calls are in `engines::admission`.

pub(crate) mod chain;
pub(crate) mod definition;
pub(crate) mod review;

pub(crate) use chain::Chain;
pub(crate) use review::{ConversionRequest, is_conversion, is_converted};
