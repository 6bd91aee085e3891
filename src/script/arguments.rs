//! The names of the arguments that functions and expressions may see, for each kind of binding.

use super::declaration::BindingKind;

/// The views of the object, and what identifies it.
const OBJECT: &[&str] = &["annotations", "body", "labels", "meta", "name", "namespace", "resource", "spec", "status", "uid"];
/// What every call has.
const COMMON: &[&str] = &["logger", "memo"];
/// What every function has, and no expression.
const ATTEMPT: &[&str] = &["param", "retry", "runtime", "started"];
const CHANGES: &[&str] = &["diff", "new", "old"];
const REQUEST: &[&str] = &["dryrun", "headers", "operation", "sslpeer", "subresource", "userinfo", "warnings"];

/// The parameter that gets a map of everything.
pub const EVERYTHING: &str = "kwargs";

/// The variable of an expression inside of a matcher.
pub const VALUE: &str = "value";

/// The argument names that are plain copies or handles of the object, which cannot be assigned to.
pub const VIEWS: &[&str] = &["annotations", "body", "labels", "meta", "new", "old", "spec", "status"];

/// Returns the names that a function of this kind may have as parameters, without those of indexes.
pub fn of_functions(kind: BindingKind) -> Vec<&'static str> {
    let parts: &[&[&'static str]] = match kind {
        BindingKind::Change => &[OBJECT, COMMON, ATTEMPT, CHANGES, &["patch", "reason"]],
        BindingKind::Event => &[OBJECT, COMMON, ATTEMPT, &["event", "patch", "type"]],
        BindingKind::Timer | BindingKind::Daemon => &[OBJECT, COMMON, ATTEMPT, &["patch", "stopped"]],
        BindingKind::Index | BindingKind::Map => &[OBJECT, COMMON, ATTEMPT],
        BindingKind::Validate | BindingKind::Mutate => &[OBJECT, COMMON, ATTEMPT, CHANGES, REQUEST, &["patch"]],
        BindingKind::Convert => &[&["body", "logger", "name", "namespace", "param", "resource", "uid", "version"]],
        BindingKind::Startup | BindingKind::Activity | BindingKind::Login => &[COMMON, ATTEMPT, &["activity", "settings"]],
        BindingKind::Schedule => &[COMMON, ATTEMPT, &["scheduled_at", "settings"]],
        BindingKind::Reconcile => &[OBJECT, COMMON, ATTEMPT, &["children", "patch", "related", "stopped"]],
    };
    let mut names: Vec<&'static str> = parts.concat();
    names.sort_unstable();
    names
}

/// Returns the names that an expression sees which filters a binding of this kind, without those of indexes and the `value`.
pub fn of_expressions(kind: BindingKind) -> Vec<&'static str> {
    of_functions(kind).into_iter().filter(|name| !ATTEMPT.contains(name)).collect()
}

/// Tells whether some kind of binding has an argument of this name, so that an index cannot have it.
pub fn is_argument(name: &str) -> bool {
    let rest = ["activity", "children", "event", "patch", "reason", "related", "scheduled_at", "settings", "stopped", "type", "version"];
    name == EVERYTHING
        || name == VALUE
        || rest.contains(&name)
        || [OBJECT, COMMON, ATTEMPT, CHANGES, REQUEST].iter().any(|part| part.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_see_no_attempt() {
        let names = of_expressions(BindingKind::Change);
        assert!(names.contains(&"old") && names.contains(&"memo") && !names.contains(&"retry") && !names.contains(&"stopped"));
    }

    #[test]
    fn every_name_of_every_kind_is_an_argument() {
        use BindingKind::{
            Activity, Change, Convert, Daemon, Event, Index, Login, Map, Mutate, Reconcile, Schedule, Startup, Timer, Validate,
        };
        let kinds = [Activity, Change, Convert, Daemon, Event, Index, Login, Map, Mutate, Reconcile, Schedule, Startup, Timer, Validate];
        for name in kinds.into_iter().flat_map(of_functions) {
            assert!(is_argument(name), "{name}");
        }
        assert!(!is_argument("by_team"));
    }
}
