//! Results that get lost: changed copies that are not used, and errors that nothing throws.

use std::collections::HashSet;

use rhai::{ASTNode, Expr, Position, Stmt};

use super::facts::{Argument, Unit, Use, ValueUse, What};
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::script::interface::problem::Severity;

/// Functions that return changed copies, and change nothing in place.
const RETURNING: &[&str] = &["adopt", "label", "append_owner", "remove_owner", "harmonize_naming", "adjust_namespace"];

/// Functions that create an error, which has no effect unless it is thrown.
const ERRORS: &[&str] = &["temporary", "permanent", "reject"];

/// Returns the closures and the functions that code hands to `subhandler`, by their names.
pub(super) fn subhandlers(code: &Code) -> Vec<String> {
    let uses = std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses);
    let named = |usage: &Use| match &usage.what {
        What::Closure { name, passed_to: Some(function), .. } if function == "subhandler" => vec![name.clone()],
        What::Call { namespace, name, arguments, .. } if namespace.is_empty() && name == "subhandler" => {
            let pointer = |argument: &Argument| match argument {
                Argument::Pointer(name) => Some(name.clone()),
                _ => None,
            };
            arguments.iter().filter_map(pointer).collect()
        }
        _ => Vec::new(),
    };
    uses.flat_map(named).collect()
}

/// Reports dropped results of functions without side effects, and errors that are created but not thrown.
pub(super) fn check(code: &Code, is_handler: impl Fn(&Unit) -> bool, report: &mut Report) {
    for unit in std::iter::once(&code.top).chain(&code.units) {
        let is_handler = is_handler(unit);
        for (variable, name, position) in unread_errors(unit) {
            if code.functions(&name).next().is_none() {
                let spot = spot_of(position, name.chars().count());
                let message = format!("`{name}` only makes an error, and `{variable}`, which holds it, is never read");
                report.add(code.source.problem(
                    Severity::Warning,
                    spot,
                    message,
                    Some(format!("write `throw {name}(…);`")),
                ));
            }
        }
        for usage in &unit.uses {
            let What::Call { namespace, name, value_use, .. } = &usage.what else { continue };
            let is_own = code.functions(name).next().is_some();
            let is_lost = *value_use == ValueUse::Lost || (*value_use == ValueUse::Last && is_handler);
            let is_unthrown = is_lost || (*value_use == ValueUse::Returned && is_handler);
            if namespace.is_empty() && is_unthrown && !is_own && ERRORS.contains(&name.as_str()) {
                let spot = spot_of(usage.position, name.chars().count());
                let message = format!("`{name}` only makes an error, and nothing throws it");
                report.add(code.source.problem(
                    Severity::Error,
                    spot,
                    message,
                    Some(format!("write `throw {name}(…);`")),
                ));
            }
            if namespace.is_empty() && is_lost && !is_own && RETURNING.contains(&name.as_str()) {
                let spot = spot_of(usage.position, name.chars().count());
                let message = format!(
                    "the result of `{name}` is not used: it returns the changed objects and changes nothing in place"
                );
                report.add(code.source.problem(
                    Severity::Error,
                    spot,
                    message,
                    Some(format!("write `let o = {name}(o);`")),
                ));
            }
        }
    }
}

/// Returns the variables that hold a new error and are read nowhere, each with the function that makes the error, and
/// its position.
fn unread_errors(unit: &Unit) -> Vec<(String, String, Position)> {
    let (mut held, mut read) = (Vec::new(), HashSet::new());
    for statement in &unit.body {
        statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
            match path.last() {
                Some(ASTNode::Stmt(Stmt::Var(parts, ..))) => {
                    if let Expr::FnCall(call, position) = &parts.1
                        && call.namespace.is_empty()
                        && ERRORS.contains(&call.name.as_str())
                    {
                        held.push((parts.0.name.to_string(), call.name.to_string(), *position));
                    }
                }
                Some(ASTNode::Expr(Expr::Variable(parts, ..))) => drop(read.insert(parts.1.to_string())),
                Some(ASTNode::Stmt(Stmt::Share(shared))) => {
                    read.extend(shared.iter().map(|(variable, _)| variable.name.to_string()));
                }
                Some(ASTNode::Stmt(Stmt::Export(parts, _))) => drop(read.insert(parts.0.name.to_string())),
                _ => {}
            }
            true
        });
    }
    held.retain(|(variable, ..)| !read.contains(variable));
    held
}
