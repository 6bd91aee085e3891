//! Warnings about allowed but probably unintended code: unused results, results of methods that return nothing, paths
//! that may be absent, and hidden functions.

use std::collections::BTreeSet;

use super::catalogue::Catalogue;
use super::facts::{Argument, To, Unit, Use, Value, ValueUse, What};
use super::loops;
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::kit::source::SourcePosition;
use crate::script::interface::declaration::BindingKind;
use crate::script::interface::problem::{Problem, Severity};
use crate::script::language::arguments;

/// Warns if a binding's function returns an unused value, or returns nothing although it is called for its result.
pub(super) fn check_returns(
    code: &Code,
    unit: &Unit,
    kind: BindingKind,
    place: &SourcePosition,
    binding: usize,
    report: &mut Report,
) {
    let returns = || {
        unit.uses.iter().filter_map(|usage| match usage.what {
            What::Return(value) => Some((usage.position, value)),
            _ => None,
        })
    };
    let warn = |place: SourcePosition, message: &str, hint: &str| Problem {
        hint: Some(hint.to_owned()),
        binding: Some(binding),
        ..Problem::at(Severity::Warning, place, message.to_owned())
    };
    match kind {
        BindingKind::Validate | BindingKind::Mutate => {
            for (position, _) in returns().filter(|(_, value)| *value == Value::False) {
                let spot = spot_of(position, "return".len());
                let hint = "deny a request by `throw reject(\"why\", 403)`";
                report.add(Problem {
                    length: spot.length,
                    ..warn(
                        code.source.place(spot),
                        "`return false` allows the request: results of webhooks are ignored",
                        hint,
                    )
                });
            }
        }
        BindingKind::Index | BindingKind::Reconcile | BindingKind::Map | BindingKind::Convert
            if !returns().any(|(_, value)| value != Value::Nothing) =>
        {
            let what = if unit.name.is_empty() { "this code".to_owned() } else { format!("`{}`", unit.name) };
            let message = format!("{what} never returns a value, and is called for nothing else");
            report.add(warn(
                place.clone(),
                &message,
                "a result needs an explicit `return value`: the last statement does not count",
            ));
        }
        _ => {}
    }
}

/// Warns about expressions that access a part of a possibly absent value.
pub(super) fn check_paths(code: &Code, has_value: bool, report: &mut Report) {
    let is_object = |root: &str| arguments::VIEWS.contains(&root) || (has_value && root == arguments::VALUE);
    for usage in &code.top.uses {
        let What::Chain { root, steps } = &usage.what else { continue };
        let unsafe_step = steps.iter().skip(1).find(|step| !step.is_safe && !matches!(step.to, To::Item));
        if let Some(step) = unsafe_step.filter(|_| is_object(root)) {
            let (name, shown) = match &step.to {
                To::Property(name) => (name, format!("?.{name}")),
                To::Method(name, _) => (name, format!("?.{name}(…)")),
                To::Item => continue,
            };
            let spot = spot_of(step.position, name.chars().count());
            let message = format!("`{name}` fails where there is nothing before it");
            let hint = format!("write `{shown}`, which is `()` then");
            report.add(code.source.problem(Severity::Warning, spot, message, Some(hint)));
        }
    }
}

/// Warns about functions that hide a host function, and about closures that all capture the same item of a loop.
pub(super) fn check_code(code: &Code, catalogue: &Catalogue, report: &mut Report) {
    for unit in code.units.iter().filter(|unit| !unit.is_closure() && catalogue.is_host(&unit.name, unit.params.len()))
    {
        let Some(&(spot, _)) = code.source.function(&unit.name, unit.params.len()) else { continue };
        let message = format!("`{}` hides a function of kopfd with the same name", unit.name);
        report.add(code.source.problem(Severity::Warning, spot, message, Some("choose another name".to_owned())));
    }
    loops::check(code, report);
    for usage in std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses) {
        if let What::Closure { loop_variable: Some(name), passed_to: Some(function), .. } = &usage.what
            && matches!(function.as_str(), "subhandler" | "transform" | "push")
        {
            let message = format!(
                "the closure sees `{name}` as the loop leaves it, the last item, whatever item it was made for"
            );
            let hint = match function.as_str() {
                "subhandler" => format!("pass the item by `#{{param: {name}}}`, and take `|param|`"),
                _ => format!("copy the item inside of the loop: `let item = {name};`"),
            };
            let problem = Problem::at(Severity::Warning, code.source.place(spot_of(usage.position, 1)), message);
            report.add(Problem { hint: Some(hint), ..problem });
        }
    }
}

/// Methods that change their value in place and return `()`, with their numbers of arguments, and what returns the
/// changed value.
const IN_PLACE: &[(&str, &[usize], &str)] = &[
    ("append", &[1], "`list + other`"),
    ("clear", &[0], "an empty value"),
    ("crop", &[1, 2], "`sub_string`"),
    ("dedup", &[0, 1], "`unique()`"),
    ("fill_with", &[1], "`other.merge(map)`"),
    ("insert", &[2], "a statement of its own"),
    ("make_lower", &[0], "`to_lower()`"),
    ("make_upper", &[0], "`to_upper()`"),
    ("mixin", &[1], "`map + other`, or `merge`"),
    ("pad", &[2], "`padded`"),
    ("push", &[1], "`list + [item]`"),
    ("replace", &[2], "`replaced`"),
    ("reverse", &[0], "`reversed()`"),
    ("sort", &[0, 1], "`sorted()`, or `sorted_by`"),
    ("sort_by", &[1], "`sorted_by`, whose function returns a key, or `order_by`"),
    ("sort_desc", &[0], "`order_desc()`"),
    ("trim", &[0], "`trimmed()`"),
    ("truncate", &[1], "`extract`, or `sub_string`"),
];

/// The functions that use the value of a closure.
const VALUED: [&str; 16] = [
    "all",
    "filter",
    "find",
    "find_map",
    "group_by",
    "index_of",
    "map",
    "order_by",
    "reduce",
    "reduce_rev",
    "some",
    "sort",
    "sort_by",
    "sorted_by",
    "unique_by",
    "zip",
];

/// Warns about used results of methods that return nothing, and about `reduce` without a start. The last value of an
/// expression is used.
pub(super) fn check_values(code: &Code, is_expression: bool, report: &mut Report) {
    let all = || std::iter::once(&code.top).chain(&code.units);
    let closures = all().flat_map(|unit| &unit.uses).filter_map(|usage| match &usage.what {
        What::Closure { name, passed_to: Some(function), .. } if VALUED.contains(&function.as_str()) => {
            Some(name.as_str())
        }
        _ => None,
    });
    let closures: BTreeSet<&str> = closures.collect();
    for unit in all() {
        let is_top = std::ptr::eq(unit, &raw const code.top);
        let uses_last = if is_top { is_expression } else { closures.contains(unit.name.as_str()) };
        for usage in &unit.uses {
            let (name, count, value_use) = match &usage.what {
                What::Method { name, arguments, value_use } => (name, arguments.len(), *value_use),
                What::Call { namespace, name, arguments, value_use }
                    if namespace.is_empty() && !arguments.is_empty() =>
                {
                    (name, arguments.len() - 1, *value_use)
                }
                _ => continue,
            };
            let is_used =
                matches!(value_use, ValueUse::Used | ValueUse::Returned) || (value_use == ValueUse::Last && uses_last);
            let found = IN_PLACE.iter().find(|(known, counts, _)| known == name && counts.contains(&count));
            if let Some((_, _, instead)) = found.filter(|_| is_used && code.functions(name).next().is_none()) {
                let message = format!("`{name}` changes its value in place and returns `()`, which is used here");
                let spot = spot_of(usage.position, name.chars().count());
                report.add(code.source.problem(
                    Severity::Warning,
                    spot,
                    message,
                    Some(format!("{instead} returns it")),
                ));
            }
            if let What::Method { name, arguments, .. } = &usage.what {
                check_start(code, name, arguments, usage, report);
            }
        }
    }
}

/// Without a start, the first value of a `reduce` is `()`.
fn check_start(code: &Code, name: &str, arguments: &[Argument], usage: &Use, report: &mut Report) {
    let ("reduce" | "reduce_rev", [Argument::Closure(closure)]) = (name, arguments) else { return };
    if code.functions(closure).next().is_none_or(|unit| unit.params.is_empty() || loops::considers_nothing(unit)) {
        return;
    }
    let message = format!("`{name}` without a start begins with `()`: a text gets nothing from it, and a sum fails");
    let spot = spot_of(usage.position, name.chars().count());
    let hint = format!("pass a start, as in `list.{name}(|all, x| …, \"\")`, or write `join`, or `sum`");
    report.add(code.source.problem(Severity::Warning, spot, message, Some(hint)));
}
