//! Loops that change their variable and never read it: it is a copy of the item.

use rhai::{ASTNode, BinaryExpr, Expr, OpAssignment, Stmt};

use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::script::interface::problem::Severity;
use crate::script::sources::chain::{Link, flatten};

/// Methods that change their value in place. Others may read the variable.
const CHANGING: [&str; 13] = [
    "append",
    "clear",
    "crop",
    "insert",
    "make_lower",
    "make_upper",
    "mixin",
    "push",
    "replace",
    "reverse",
    "set",
    "sort",
    "trim",
];

/// Warns about loops that change a copy of each item.
pub(super) fn check(code: &Code, report: &mut Report) {
    for unit in std::iter::once(&code.top).chain(&code.units) {
        for statement in &unit.body {
            statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
                if let Some(ASTNode::Stmt(Stmt::For(parts, _))) = path.last() {
                    let (item, _, flow) = &**parts;
                    if let Some(position) = changed_only(&item.name, flow.body.statements()) {
                        warn(code, &item.name, position, report);
                    }
                }
                true
            });
        }
    }
}

fn warn(code: &Code, name: &str, position: rhai::Position, report: &mut Report) {
    let spot = spot_of(position, name.chars().count());
    let message =
        format!("`{name}` is a copy of the item, which is changed here and never read: the list stays as it is");
    let hint = format!(
        "write `for ({name}, i) in list {{ list[i].… = …; }}`, or `list.map(|{name}| {{ {name}.… = …; {name} }})`"
    );
    report.add(code.source.problem(Severity::Warning, spot, message, Some(hint)));
}

/// Returns the position of the first change of a variable, if the statements change a part of it and never read it.
fn changed_only(name: &str, statements: &[Stmt]) -> Option<rhai::Position> {
    let (mut changes, mut reads, mut is_hidden) = (Vec::new(), Vec::new(), false);
    for statement in statements {
        statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
            match path.last() {
                Some(ASTNode::Stmt(Stmt::Assignment(parts))) => changes.extend(assigned(name, parts)),
                Some(ASTNode::Stmt(Stmt::Expr(expression))) => changes.extend(called(name, expression)),
                Some(ASTNode::Stmt(Stmt::Var(parts, ..))) => is_hidden |= parts.0.name.as_str() == name,
                Some(ASTNode::Stmt(Stmt::Share(_))) => is_hidden |= shares(name, path),
                Some(ASTNode::Expr(expression @ Expr::Variable(parts, ..))) if parts.1.as_str() == name => {
                    reads.push(std::ptr::from_ref::<Expr>(expression));
                }
                _ => {}
            }
            true
        });
    }
    let is_read = reads.iter().any(|read| !changes.iter().any(|(change, _)| change == read));
    changes.first().filter(|_| !is_read && !is_hidden).map(|(_, position)| *position)
}

/// Tells whether a closure captures the variable.
fn shares(name: &str, path: &[ASTNode<'_>]) -> bool {
    matches!(path.last(), Some(ASTNode::Stmt(Stmt::Share(shared))) if shared.iter().any(|(variable, _)| variable.name.as_str() == name))
}

type Change = (*const Expr, rhai::Position);

/// Returns the variable whose part is assigned.
fn assigned(name: &str, parts: &(OpAssignment, BinaryExpr)) -> Option<Change> {
    let (root, links) = flatten(&parts.1.lhs);
    if links.is_empty() { None } else { named(name, root) }
}

/// Returns the variable whose part is changed by a method, as a statement.
fn called(name: &str, expression: &Expr) -> Option<Change> {
    let (root, links) = flatten(expression);
    match links.last() {
        Some((Link::Dot(Expr::MethodCall(call, _)), _)) if CHANGING.contains(&call.name.as_str()) => named(name, root),
        _ => None,
    }
}

fn named(name: &str, root: &Expr) -> Option<Change> {
    match root {
        Expr::Variable(parts, _, position) if parts.2.is_empty() && parts.1.as_str() == name => {
            Some((std::ptr::from_ref(root), *position))
        }
        _ => None,
    }
}

/// Tells whether a closure may treat `()` in a way of its own.
pub(super) fn considers_nothing(unit: &super::facts::Unit) -> bool {
    let mut is_considered = false;
    for statement in &unit.body {
        statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
            is_considered |= match path.last() {
                Some(ASTNode::Expr(Expr::Unit(_) | Expr::Coalesce(..))) => true,
                Some(ASTNode::Expr(Expr::FnCall(call, _) | Expr::MethodCall(call, _))) => call.name == "type_of",
                _ => false,
            };
            true
        });
    }
    is_considered
}
