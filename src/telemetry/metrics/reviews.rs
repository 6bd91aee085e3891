//! The metrics of admission and conversion reviews.

use std::time::Duration;

use super::{OperatorMetrics, labels, table};

/// The outcome of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied,
    /// The objects are converted.
    Converted,
    /// The review could not be answered, or an object cannot be converted.
    Failed,
}

impl ReviewOutcome {
    /// Returns the value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Converted => "converted",
            Self::Failed => "failed",
        }
    }
}

impl OperatorMetrics {
    /// Counts a review, and observes its duration.
    pub fn review(&self, webhook: &str, outcome: ReviewOutcome, duration: Duration) {
        let families = &self.metrics.0;
        let of_reviews = || labels(table::REVIEWS, [&self.operator, webhook, outcome.as_str()]);
        let of_seconds = || labels(table::REVIEW_SECONDS, [&*self.operator, webhook]);
        self.kept.reviews.count(webhook, |series| {
            series.reviews[outcome as usize]
                .get_or_insert_with(|| families.reviews.get_or_create_owned(&of_reviews()))
                .inc();
            series
                .seconds
                .get_or_insert_with(|| families.review_seconds.get_or_create_owned(&of_seconds()))
                .observe(duration.as_secs_f64());
        });
    }
}
