//! Warnings about functions of a file that are called in place of methods of values: `map.get("a")` calls a function
//! `get(key)` of the file, with the map as `this`.

use std::collections::BTreeSet;

use rhai::{ASTNode, Expr, Stmt};

use super::catalogue::Catalogue;
use super::facts::{To, Unit, What};
use super::program::Code;
use super::report::Report;
use crate::script::interface::problem::Severity;

/// Warns about functions with the name and the number of arguments of a method that the file calls. A function that
/// uses `this` is meant as a method.
pub(super) fn check(code: &Code, catalogue: &Catalogue, report: &mut Report) {
    let called: BTreeSet<(&str, usize)> = std::iter::once(&code.top).chain(&code.units).flat_map(methods).collect();
    for unit in code.units.iter().filter(|unit| !unit.is_closure()) {
        let (name, count) = (unit.name.as_str(), unit.params.len());
        // The receiver counts as an argument of a method.
        let is_method = catalogue.function(name).is_some_and(|arities| arities.contains(&(count + 1)));
        if !is_method || !called.contains(&(name, count)) || unit.body.iter().any(uses_this) {
            continue;
        }
        let Some(&(spot, _)) = code.source.function(name, count) else { continue };
        let message = format!(
            "`{name}` is also called where this file calls the method `{name}` of a value, as in `value.{name}(…)`"
        );
        report.add(code.source.problem(Severity::Warning, spot, message, Some("choose another name".to_owned())));
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
