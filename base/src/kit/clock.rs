//! The one source of time, so that tests and simulations can move it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock: the system's, or one that follows the runtime's (possibly paused) timer from a given time.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    System,
    Virtual { base: Timestamp, origin: Instant },
}

impl Clock {
    /// Returns the system clock.
    pub fn system() -> Self {
        Self { source: Source::System }
    }

    /// Returns a clock that starts at `base` and follows the runtime's timer.
    pub fn starting_at(base: Timestamp) -> Self {
        Self { source: Source::Virtual { base, origin: Instant::now() } }
    }

    /// Tells whether it follows the runtime's timer, which may be paused.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Virtual { .. })
    }

    /// Returns the current time.
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the system clock")]
    pub fn now(&self) -> Timestamp {
        match self.source {
            Source::System => Timestamp::now(),
            Source::Virtual { base, origin } => base + origin.elapsed(),
        }
    }

    /// Returns a time that only grows, and that also counts while the machine is suspended: the time since its start,
    /// or since that of a virtual clock.
    pub fn uptime(&self) -> Duration {
        match self.source {
            Source::System => uptime_of_system(),
            Source::Virtual { origin, .. } => origin.elapsed(),
        }
    }

    /// Waits until a time.
    pub async fn sleep_until(&self, moment: Timestamp) {
        let left = Duration::try_from(moment.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(left).await;
    }
}

/// The monotonic clock of Linux stands still while the machine is suspended, but not while the process is stopped.
fn uptime_of_system() -> Duration {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_follows_the_paused_timer() {
        let base: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(base);
        clock.sleep_until("2020-01-01T01:00:00Z".parse().unwrap()).await;
        assert_eq!(clock.now().to_string(), "2020-01-01T01:00:00Z");
        assert_eq!(clock.uptime(), Duration::from_hours(1));
    }

    #[test]
    fn the_uptime_of_the_system_grows_with_its_monotonic_clock() {
        let clock = Clock::system();
        let (began, uptime) = (std::time::Instant::now(), clock.uptime());
        std::thread::yield_now();
        let grown = clock.uptime().saturating_sub(uptime);
        assert!(!uptime.is_zero() && grown <= began.elapsed() + Duration::from_secs(1), "{uptime:?} {grown:?}");
    }
}
