//! Warnings about allowed but probably unintended code: unused results, paths that may be absent, and hidden functions.

use super::catalogue::Catalogue;
use super::facts::{To, Unit, Value, What};
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::kit::source::SourcePosition;
use crate::script::arguments;
use crate::script::declaration::BindingKind;
use crate::script::problem::{Problem, Severity};

/// Warns if a binding's function returns an unused value, or returns nothing although it is called for its result.
pub(super) fn check_returns(code: &Code, unit: &Unit, kind: BindingKind, place: &SourcePosition, binding: usize, report: &mut Report) {
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
                    ..warn(code.source.place(spot), "`return false` allows the request: results of webhooks are ignored", hint)
                });
            }
        }
        BindingKind::Index | BindingKind::Reconcile | BindingKind::Map | BindingKind::Convert
            if !returns().any(|(_, value)| value != Value::Nothing) =>
        {
            let what = if unit.name.is_empty() { "this code".to_owned() } else { format!("`{}`", unit.name) };
            let message = format!("{what} never returns a value, and is called for nothing else");
            report.add(warn(place.clone(), &message, "a result needs an explicit `return value`: the last statement does not count"));
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
            let problem = Problem::at(Severity::Warning, code.source.place(spot), message);
            report.add(Problem { length: spot.length, hint: Some(hint), ..problem });
        }
    }
}

/// Warns about functions that hide a host function, and about closures that all capture the same item of a loop.
pub(super) fn check_code(code: &Code, catalogue: &Catalogue, report: &mut Report) {
    for unit in code.units.iter().filter(|unit| !unit.is_closure() && catalogue.is_host(&unit.name, unit.params.len())) {
        let Some(&(spot, _)) = code.source.function(&unit.name, unit.params.len()) else { continue };
        let message = format!("`{}` hides a function of kopfd with the same name", unit.name);
        let problem = Problem::at(Severity::Warning, code.source.place(spot), message);
        report.add(Problem { length: spot.length, hint: Some("choose another name".to_owned()), ..problem });
    }
    for usage in std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses) {
        if let What::Closure { loop_variable: Some(name), passed_to: Some(function), .. } = &usage.what
            && matches!(function.as_str(), "subhandler" | "transform" | "push")
        {
            let message = format!("the closure sees `{name}` as the loop leaves it, the last item, whatever item it was made for");
            let hint = match function.as_str() {
                "subhandler" => format!("pass the item by `#{{param: {name}}}`, and take `|param|`"),
                _ => format!("copy the item inside of the loop: `let item = {name};`"),
            };
            let problem = Problem::at(Severity::Warning, code.source.place(spot_of(usage.position, 1)), message);
            report.add(Problem { hint: Some(hint), ..problem });
        }
    }
}
