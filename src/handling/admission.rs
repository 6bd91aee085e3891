//! Admission reviews: which webhooks a request is for, what their verdicts mean, and the answer; and the webhook
//! configurations that make the API server call the operator's webhooks.
//!
//! The HTTP server and the calls are in `engines::admission`.

pub(crate) mod answer;
mod conditions;
pub mod configuration;
pub(crate) mod merge;
pub(crate) mod request;
pub(crate) mod select;
pub(crate) mod webhook;

pub use answer::{Judged, answer};
pub use configuration::ConfigurationKind;
pub use request::{BadReview, Review, ReviewedRequest};
pub use select::selected;
pub use webhook::{SideEffects, Webhook};
