//! Converts the end of a call to the verdict of its handler.

use std::collections::BTreeMap;

use rhai::{Dynamic, EvalAltResult};
use serde_json::Value;

use crate::handling::Verdict;
use crate::script::language::convert;
use crate::script::language::trace::{self, Origin};
use crate::script::runtime::budget::{Budget, Ending, Overrun};
use crate::script::runtime::function::Function;
use crate::script::values::script_error::{Meaning, REJECTED};

/// Returns the verdict of a result; `()` means no result.
pub(super) fn of_result(result: &Dynamic) -> Verdict {
    match convert::to_json(result) {
        Ok(Value::Null) => Verdict::Returned(None),
        Ok(value) => Verdict::Returned(Some(value)),
        Err(error) => failed(format!("the result cannot be stored: {error}"), None),
    }
}

/// Returns the verdict of a function's error.
pub(super) fn of_error(
    error: Box<EvalAltResult>,
    function: &Function,
    origins: &BTreeMap<String, Origin>,
    budget: &Budget,
) -> Verdict {
    let source = function.global.source().unwrap_or_default();
    let report = trace::describe(error, &function.title, source, origins);
    budget.look_at_memory();
    // Even if the interpreter ignores the error, as in sorting, the call has ended.
    let ending = report.ending.map(|ending| match ending {
        // The error of the interpreter does not have the value of its limit.
        Ending::Overrun(Overrun { limit, .. }) => Ending::Overrun(budget.describe(limit)),
        other => other,
    });
    if let Some(ending) = budget.ending().or(ending) {
        return of_ending(ending, budget, Some(report.trace));
    }
    let Some(failure) = report.thrown else { return failed(report.text, Some(report.trace)) };
    match failure.meaning {
        Meaning::Temporary(delay) => {
            Verdict::Temporary { text: Some(failure.message).filter(|text| !text.is_empty()), delay }
        }
        Meaning::Permanent => Verdict::Permanent { text: failure.message },
        Meaning::Reject => Verdict::Rejected { text: failure.message, code: failure.status.unwrap_or(REJECTED) },
        Meaning::Host(_) => failed(failure.message, Some(report.trace)),
    }
}

/// Returns the verdict of a call that had to end.
pub(super) fn of_ending(ending: Ending, budget: &Budget, trace: Option<String>) -> Verdict {
    match ending {
        Ending::Unfinished(delay) => {
            budget.take_unfinished();
            Verdict::Unfinished { delay }
        }
        Ending::Overrun(overrun) => {
            budget.set_overrun(overrun.limit);
            failed(overrun.text, trace)
        }
        Ending::Cancelled => failed("the call was cancelled", None),
    }
}

/// Returns an arbitrary failure.
pub(super) fn failed(text: impl Into<String>, trace: Option<String>) -> Verdict {
    let text = text.into();
    let representation = if text.is_empty() { "an error without a text".to_owned() } else { text.clone() };
    Verdict::Failed { text, representation, trace }
}
