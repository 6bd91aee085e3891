//! The nesting of a script's data. The interpreter clones, compares, prints and drops nested values recursively and without a limit, so a script
//! that nests a value again and again would overflow its stack.
//!
//! Nesting takes memory, and a script that nests a variable has to read it: whenever it has allocated some memory and reads a variable, the
//! variables of its function are looked at.

use std::collections::HashMap;
use std::ptr;

use rhai::{Dynamic, EvalAltResult, EvalContext, FnPtr};

use super::allocator;
use super::budget::{Budget, Ending, Overrun};
use super::declaration::Limit;
use super::fiber;

/// Limit of nested lists, maps and captured variables.
const MAX_LEVELS: usize = 200;

/// The memory that a script allocates between two looks. A level takes at least 40 bytes, so there are at most 200 more of them.
const BYTES_PER_LOOK: usize = 8 << 10;

/// Checks the nesting of all variables of the running function, if it has allocated memory since the last check.
///
/// # Errors
/// If one is nested too deeply. The script cannot catch it.
pub(super) fn check(context: &EvalContext<'_, '_, '_, '_, '_, '_>) -> Result<(), Box<EvalAltResult>> {
    let total = allocator::running().total;
    let is_due = fiber::with_budget(|budget| budget.is_look_at_data_due(context.call_level(), total, BYTES_PER_LOOK));
    if is_due != Some(true) {
        return Ok(());
    }
    let mut seen = HashMap::new();
    let this = context.this_ptr().into_iter();
    let is_deep = context.scope().iter_raw().map(|(_, _, value)| value).chain(this).any(|value| exceeds(value, MAX_LEVELS, &mut seen));
    if !is_deep {
        return Ok(());
    }
    let what = format!("{MAX_LEVELS} levels of nested lists, maps and closures");
    let end = |budget: &Budget| budget.end(Ending::Overrun(Overrun::fixed(Limit::Depth, &what)));
    Err(fiber::with_budget(end).expect("the check is due for a call"))
}

/// Tells whether a value has more levels. A captured variable is looked at again only if more levels lead to it. One that contains itself is a
/// cycle, through which nothing recurses.
fn exceeds(value: &Dynamic, levels: usize, seen: &mut HashMap<*const Dynamic, usize>) -> bool {
    if levels == 0 {
        return true;
    }
    if value.is_shared() {
        let Some(inner) = value.read_lock::<Dynamic>() else { return false };
        let variable = ptr::from_ref(&*inner);
        if seen.get(&variable).is_some_and(|known| *known <= levels) {
            return false;
        }
        // While it is looked at, no number of levels leads into it again.
        seen.insert(variable, 0);
        let is_deep = exceeds_inside(&inner, levels, seen);
        seen.insert(variable, levels);
        return is_deep;
    }
    exceeds_inside(value, levels, seen)
}

fn exceeds_inside(value: &Dynamic, levels: usize, seen: &mut HashMap<*const Dynamic, usize>) -> bool {
    if let Ok(items) = value.as_array_ref() {
        return items.iter().any(|item| exceeds(item, levels - 1, seen));
    }
    if let Ok(entries) = value.as_map_ref() {
        return entries.values().any(|item| exceeds(item, levels - 1, seen));
    }
    let Some(function) = value.read_lock::<FnPtr>() else { return false };
    function.curry().iter().any(|captured| exceeds(captured, levels - 1, seen))
}
