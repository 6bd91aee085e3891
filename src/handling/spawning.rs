//! The part that daemons and timers play in a cycle: whether they hold the object, and how long the cycle waits for them.

/// What the side business of daemons and timers has to say to a cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Companions {
    /// Whether any of them demands the finalizer.
    pub demand_finalizer: bool,
    /// The seconds until each of those that are to stop is looked at again.
    pub delays: Vec<f64>,
}
