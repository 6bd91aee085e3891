//! Whether a call must end: checked at every operation, while it waits, and in long host functions.

use std::ptr;
use std::time::Duration;

use rhai::EvalAltResult;
use tokio::time::Instant;

use super::ending::{Ending, Overrun, Tick};
use super::state::{Budget, GRACE};
use crate::script::limits::{Limit, allocator};

/// The bytes that a running call may hold more or less than its process knows.
const BYTES_PER_REPORT: usize = 1 << 20;

impl Budget {
    /// Returns why the call must end, if it must.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    /// Ends the call. The first reason is kept.
    pub(crate) fn end(&self, ending: Ending) -> Box<EvalAltResult> {
        self.grace.set(0);
        self.decide(ending).into_error()
    }

    /// Decides why the call ends, unless it is decided.
    pub(super) fn decide(&self, ending: Ending) -> Ending {
        self.ending.borrow_mut().get_or_insert(ending).clone()
    }

    /// Ends the call because of a limit.
    pub(crate) fn overrun(&self, limit: Limit) -> Box<EvalAltResult> {
        self.end(Ending::Overrun(self.describe(limit)))
    }

    /// Revokes the ending if it concerns only sub-handlers: their parent continues.
    pub(crate) fn take_unfinished(&self) -> Option<Duration> {
        let mut ending = self.ending.borrow_mut();
        let Some(Ending::Unfinished(delay)) = *ending else { return None };
        *ending = None;
        Some(delay)
    }

    /// Describes the overrun of a limit.
    pub(crate) fn describe(&self, limit: Limit) -> Overrun {
        Overrun::among(&self.limits, limit)
    }

    /// Checks that the call may continue.
    ///
    /// # Errors
    /// If it must end.
    pub(crate) fn check(&self) -> Result<(), Box<EvalAltResult>> {
        self.look();
        self.ending().map_or(Ok(()), |ending| Err(ending.into_error()))
    }

    /// Ends the call if a stop was requested or the time is over.
    fn look(&self) {
        if self.ending.borrow().is_some() {
            return;
        }
        if self.is_abandoned.get() || self.stop.is_requested() {
            self.decide(Ending::Cancelled);
        } else if let Some(limit) = allocator::exceeded() {
            self.decide(Ending::Overrun(self.describe(limit)));
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.decide(self.late());
        }
    }

    fn late(&self) -> Ending {
        let Overrun { limit, text } = self.describe(Limit::Time);
        let waiting = self.waiting_for.borrow().as_ref().map(|describe| format!("; it was waiting for {}", describe()));
        Ending::Overrun(Overrun { limit, text: text + &waiting.unwrap_or_default() })
    }

    /// Waits until the call must end.
    pub(crate) async fn ended(&self) -> Box<EvalAltResult> {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let ending = tokio::select! {
            biased;
            () = self.abandoned() => Ending::Cancelled,
            () = self.stop.requested() => Ending::Cancelled,
            () = late => self.late(),
        };
        self.end(ending)
    }

    /// An abandoned call is polled immediately afterwards.
    async fn abandoned(&self) {
        std::future::poll_fn(|_| {
            if self.is_abandoned.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Returns why a script that reads a variable must end here. It can be caught once; then the interpreter ends the
    /// call.
    pub(crate) fn end_at_variable(&self, level: usize) -> Option<Box<EvalAltResult>> {
        if level > self.limits.depth {
            return Some(self.overrun(Limit::Depth));
        }
        let is_ending = self.grace.get() < GRACE;
        is_ending.then(|| self.ending())?.map(|ending| {
            self.grace.set(0);
            ending.into_error()
        })
    }

    /// Ends the call at one of its next operations.
    fn end_soon(&self, ending: Ending) -> Tick {
        let ending = self.decide(ending);
        match self.grace.get() {
            0 => Tick::End(ending),
            left => {
                self.grace.set(left - 1);
                Tick::GoOn
            }
        }
    }

    /// Counts one operation.
    pub(crate) fn tick(&self) -> Tick {
        let is_allowed = self.operations.count();
        let here = 0u8;
        if ptr::from_ref(&here).addr() < self.stack_floor.get() {
            return Tick::End(self.decide(Ending::Overrun(Overrun::fixed(Limit::Depth, "the stack of a call"))));
        }
        if !is_allowed {
            return self.end_soon(Ending::Overrun(self.describe(Limit::Operations)));
        }
        if let Some(limit) = allocator::exceeded() {
            return self.end_soon(Ending::Overrun(self.describe(limit)));
        }
        if !self.pace.is_look_due(self.operations.used.get()) && self.ending.borrow().is_none() {
            return Tick::GoOn;
        }
        match self.pause() {
            Tick::End(ending @ Ending::Overrun(_)) => self.end_soon(ending),
            tick => tick,
        }
    }

    /// Checks the clock and the stop signals, also in the middle of a long native function.
    pub(crate) fn pause(&self) -> Tick {
        let is_over = self.is_slice_over();
        allocator::settle();
        let live = allocator::running().live;
        if live.abs_diff(self.reported.get() as isize) >= BYTES_PER_REPORT {
            self.report(live);
        }
        self.look();
        match self.ending() {
            Some(ending) => Tick::End(ending),
            None if is_over => Tick::GiveWay,
            None => Tick::GoOn,
        }
    }

    /// Sets the next check of the clock, and returns whether the slice is over.
    pub(crate) fn is_slice_over(&self) -> bool {
        self.pace.is_over(self.operations.used.get())
    }
}
