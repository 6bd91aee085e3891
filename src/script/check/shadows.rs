//! Warnings about functions of a file that stand for something else: `map.get("a")` calls a function `get(key)` of the file, with the map as
//! `this`; and a closure sees a function of the file where a variable around it has the same name.

use std::collections::BTreeSet;

use rhai::{ASTNode, Expr, Position, Stmt};

use super::catalogue::Catalogue;
use super::facts::{To, Unit, Use, What};
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::script::problem::{Problem, Severity};

/// Warns about them.
pub(super) fn check(code: &Code, catalogue: &Catalogue, report: &mut Report) {
    methods_of_values(code, catalogue, report);
    for unit in code.units.iter().filter(|unit| !unit.is_closure()) {
        variables_around_closures(code, unit, unit, report);
    }
}

/// Warns about the variables of a function that its closures do not see. The unit is the function, or one of its closures.
fn variables_around_closures(code: &Code, function: &Unit, unit: &Unit, report: &mut Report) {
    for usage in &unit.uses {
        let What::Closure { name, .. } = &usage.what else { continue };
        let Some(closure) = code.units.iter().find(|unit| unit.name == *name) else { continue };
        for (name, position) in closure.uses.iter().filter_map(read) {
            let is_around = |unit: &Unit| unit.locals.contains(name) || unit.params.iter().any(|param| param == name);
            let is_function = code.units.iter().any(|unit| unit.name == name);
            if is_function && !is_around(closure) && (is_around(function) || is_around(unit)) {
                let message = format!("in this closure, `{name}` is the function of this file, and not the variable around it");
                let spot = spot_of(position, name.chars().count());
                let problem = Problem::at(Severity::Warning, code.source.place(spot), message);
                report.add(Problem { length: spot.length, hint: Some("choose another name for one of them".to_owned()), ..problem });
            }
        }
        variables_around_closures(code, function, closure, report);
    }
}

/// Returns the variable that a use reads.
fn read(usage: &Use) -> Option<(&str, Position)> {
    let name = match &usage.what {
        What::Variable { namespace, name } if namespace.is_empty() => name,
        What::Chain { root, .. } => root,
        _ => return None,
    };
    Some((name, usage.position))
}

/// Warns about functions with the name and the number of arguments of a method that the file calls. A function that uses `this` is meant as a
/// method.
fn methods_of_values(code: &Code, catalogue: &Catalogue, report: &mut Report) {
    let called: BTreeSet<(&str, usize)> = std::iter::once(&code.top).chain(&code.units).flat_map(methods).collect();
    for unit in code.units.iter().filter(|unit| !unit.is_closure()) {
        let (name, count) = (unit.name.as_str(), unit.params.len());
        // The receiver counts as an argument of a method.
        let is_method = catalogue.function(name).is_some_and(|arities| arities.contains(&(count + 1)));
        if !is_method || !called.contains(&(name, count)) || unit.body.iter().any(uses_this) {
            continue;
        }
        let Some(&(spot, _)) = code.source.function(name, count) else { continue };
        let message = format!("`{name}` is also called where this file calls the method `{name}` of a value, as in `value.{name}(…)`");
        let problem = Problem::at(Severity::Warning, code.source.place(spot), message);
        report.add(Problem { length: spot.length, hint: Some("choose another name".to_owned()), ..problem });
    }
}

/// Returns the names and the numbers of arguments of the methods that a unit calls.
fn methods(unit: &Unit) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for usage in &unit.uses {
        match &usage.what {
            What::Method { name, arguments, .. } => found.push((name.as_str(), arguments.len())),
            What::Chain { steps, .. } | What::Assignment { steps, .. } => {
                found.extend(steps.iter().filter_map(|step| match &step.to {
                    To::Method(name, count) => Some((name.as_str(), *count)),
                    To::Property(_) | To::Item => None,
                }));
            }
            _ => {}
        }
    }
    found
}

fn uses_this(statement: &Stmt) -> bool {
    let mut found = false;
    statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
        found |= matches!(path.last(), Some(ASTNode::Expr(Expr::ThisPtr(..))));
        !found
    });
    found
}
