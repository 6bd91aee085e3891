//! The used part of a call's budget: operations, calls of the API, output, and memory.

use rhai::EvalAltResult;

use super::ending::Ending;
use super::state::Budget;
use crate::script::limits::Limit;
use crate::script::limits::allocator::{self, Account};

impl Budget {
    /// Returns the operations of the whole call so far.
    pub(crate) fn used_operations(&self) -> u64 {
        self.earlier_operations.get().saturating_add(self.operations.used.get())
    }

    /// Counts a call of the API.
    ///
    /// # Errors
    /// If there were too many.
    pub(crate) fn count_api_call(&self) -> Result<(), Box<EvalAltResult>> {
        if !self.api_calls.count() {
            return Err(self.overrun(Limit::ApiCalls));
        }
        let is_allowed = self.call_rate.as_ref().is_none_or(|rate| rate.count(self.limits.api_calls_per_minute));
        if is_allowed { Ok(()) } else { Err(self.overrun(Limit::ApiCallsPerMinute)) }
    }

    /// Counts the bytes of a logged text.
    ///
    /// # Errors
    /// If there were too many.
    pub(crate) fn count_output(&self, bytes: usize) -> Result<(), Box<EvalAltResult>> {
        if self.output.add(bytes as u64) {
            return Ok(());
        }
        Err(self.overrun(Limit::Output))
    }

    /// Records that the script goes on after others have run.
    pub(crate) fn begin_slice(&self) {
        self.pace.begin(self.operations.used.get());
    }

    /// Resets the counts after a sleep, if the budget is refilled by waits.
    pub(crate) fn refill(&self) {
        if !self.is_refilled_by_waits {
            return;
        }
        self.earlier_operations.set(self.used_operations());
        for counter in [&self.operations, &self.api_calls, &self.output] {
            counter.used.set(0);
        }
        self.begin_slice();
        allocator::allow(isize::try_from(self.limits.memory / 2).unwrap_or(isize::MAX));
    }

    /// Returns the limit of the call's memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        usize::try_from(self.limits.memory).unwrap_or(usize::MAX)
    }

    /// Returns the account of the call's memory.
    pub(crate) fn account(&self) -> Account {
        Account::limited(self.limits.memory)
    }

    /// Records how much the call holds.
    pub(crate) fn report(&self, live: isize) {
        let now = usize::try_from(live).unwrap_or_default();
        let before = self.reported.replace(now);
        if let Some(memory) = self.process_memory.as_ref().filter(|_| before != now) {
            memory.change(before, now);
        }
    }

    /// Ends the call if it holds more than it may, or a function has refused its work for that reason.
    pub(crate) fn look_at_memory(&self) {
        if let Some(limit) = allocator::exceeded() {
            self.decide(Ending::Overrun(self.describe(limit)));
        }
    }

    /// Tells whether the variables of a level of calls were last looked at before so many bytes were allocated, and
    /// counts from here.
    pub(crate) fn is_look_at_data_due(&self, level: usize, total: usize, bytes: usize) -> bool {
        let mut looked = self.looked_at_data.borrow_mut();
        if looked.len() <= level {
            looked.resize(level + 1, 0);
        }
        let is_due = total.wrapping_sub(looked[level]) >= bytes;
        if is_due {
            looked[level] = total;
        }
        is_due
    }

    /// Records that the call has ended because of an overrun.
    pub(crate) fn set_overrun(&self, limit: Limit) {
        self.overrun.set(Some(limit));
    }

    /// Returns the budget whose overrun has ended the call, if one has.
    pub(crate) fn overrun_limit(&self) -> Option<Limit> {
        self.overrun.get()
    }
}
