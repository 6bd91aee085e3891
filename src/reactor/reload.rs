//! Lets a new revision of a running operator take effect, after it was loaded completely.
//!
//! ```text
//! load the scripts ──► compile them on all threads ──► fill added and changed indexes ──► take effect
//! ```
//!
//! An error in any step leaves the running revision as it is. See `docs/design/reload.md`.

mod error;
mod filling;
mod ground;
mod loaded;
mod preparing;
mod requests;
mod startup_settings;

use std::time::Duration;

use tracing::{info, warn};

use crate::kit::Clock;
use crate::manifest::Operator;
use crate::manifest::operator::Moment;
use crate::telemetry::OperatorMetrics;

pub use error::{ReloadError, Reloaded};
pub(super) use ground::Preparation;
pub(super) use loaded::Loaded;
pub(super) use preparing::{Prepared, webhook_kinds};
pub(super) use requests::Revising;
pub use requests::{Reloader, Reloads, channel};

/// The pause before a revision whose indexes could not be filled is tried again.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Logs that a revision has taken effect.
pub(super) fn report(operator: &str, before: &str, after: &str, metrics: &OperatorMetrics, clock: &Clock) {
    metrics.loaded(after, clock.now());
    info!(target: "kopfd::reload", revision = after, before, "Operator '{operator}' is reloaded: revision {after} has taken effect.");
}

/// Warns if login functions were added or removed: how an operator logs in is decided at its start.
pub(super) fn warn_of_login(operator: &Operator, had_login: bool) {
    let has_login = operator.activities.iter().any(|activity| activity.moment == Moment::Login);
    if has_login != had_login {
        let what = if has_login { "added" } else { "removed" };
        warn!(target: "kopfd::reload", "Login functions were {what}. Restart operator '{}' to log in by another way.", operator.name);
    }
}
