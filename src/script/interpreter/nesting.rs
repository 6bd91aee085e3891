//! The nesting of a script's data. The interpreter clones, compares, prints and drops nested values recursively and
//! without a limit, so a script that nests a value again and again would overflow its stack. The sizes of maps are
//! checked together with it.
//!
//! Nesting takes memory, and a script that nests a variable has to read it: whenever it has allocated some memory and
//! reads a variable, the variables of its function are checked.

use std::collections::HashMap;
use std::ptr;

use rhai::{Dynamic, EvalAltResult, EvalContext, FnPtr};

use crate::script::limits::Limit;
use crate::script::limits::allocator;
use crate::script::runtime::budget::{Budget, Ending, Overrun};
use crate::script::runtime::fiber;

/// Limit of nested lists, maps and captured variables.
const MAX_LEVELS: usize = 200;

/// The memory that a script allocates between two looks. A level takes at least 40 bytes, so there are at most 200 more
/// of them.
const BYTES_PER_LOOK: usize = 8 << 10;

/// Checks the nesting of all variables of the running function, and the sizes of their maps, if it has allocated memory
/// since the last check. The interpreter itself does not see that a map grows by an assignment to one of its keys.
///
/// # Errors
/// If one is nested too deeply, or too large. The script cannot catch it.
pub(crate) fn check(context: &EvalContext<'_, '_, '_, '_, '_, '_>) -> Result<(), Box<EvalAltResult>> {
    let total = allocator::running().total;
    let is_due = fiber::with_budget(|budget| budget.is_look_at_data_due(context.call_level(), total, BYTES_PER_LOOK));
    if is_due != Some(true) {
        return Ok(());
    }
    let mut look = Look { seen: HashMap::new(), max_entries: context.engine().max_map_size() };
    let this = context.this_ptr().into_iter();
    let mut values = context.scope().iter_raw().map(|(_, _, value)| value).chain(this);
    let Some(limit) = values.find_map(|value| look.exceeded(value, MAX_LEVELS, &mut 0)) else { return Ok(()) };
    let end = |budget: &Budget| match limit {
        Limit::Depth => {
            let what = format!("{MAX_LEVELS} levels of nested lists, maps and closures");
            budget.end(Ending::Overrun(Overrun::fixed(limit, &what)))
        }
        _ => budget.overrun(limit),
    };
    Err(fiber::with_budget(end).expect("the check is due for a call"))
}

/// A check of the variables of a function.
struct Look {
    /// The captured variables with the levels that were checked. One is checked again only if more levels lead to it.
    /// One that contains itself is a cycle, through which nothing recurses.
    seen: HashMap<*const Dynamic, usize>,
    /// Limit of the entries of a map, with those of the maps in it; 0 means no limit.
    max_entries: usize,
}

impl Look {
    /// Returns the limit that a value exceeds: of its levels, or of the entries of its maps, which are counted.
    fn exceeded(&mut self, value: &Dynamic, levels: usize, entries: &mut usize) -> Option<Limit> {
        if levels == 0 {
            return Some(Limit::Depth);
        }
        if value.is_shared() {
            let inner = value.read_lock::<Dynamic>()?;
            let variable = ptr::from_ref(&*inner);
            if self.seen.get(&variable).is_some_and(|known| *known <= levels) {
                return None;
            }
            // While it is checked, no number of levels leads into it again.
            self.seen.insert(variable, 0);
            let exceeded = self.exceeded_inside(&inner, levels, &mut 0);
            self.seen.insert(variable, levels);
            return exceeded;
        }
        self.exceeded_inside(value, levels, entries)
    }

    fn exceeded_inside(&mut self, value: &Dynamic, levels: usize, entries: &mut usize) -> Option<Limit> {
        if let Ok(items) = value.as_array_ref() {
            return items.iter().find_map(|item| self.exceeded(item, levels - 1, entries));
        }
        if let Ok(map) = value.as_map_ref() {
            *entries += map.len();
            if self.max_entries > 0 && *entries > self.max_entries {
                return Some(Limit::MapSize);
            }
            return map.values().find_map(|item| self.exceeded(item, levels - 1, entries));
        }
        let function = value.read_lock::<FnPtr>()?;
        function.curry().iter().find_map(|captured| self.exceeded(captured, levels - 1, entries))
    }
}
