//! The macros of Kubernetes that the crate lacks: two-variable comprehensions, and `sortBy`.

use ::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};
use ::cel::parser::{Macro, MacroExprHelper, ParseError};

use super::ast::RESULT;
use super::ast::operator::{ADD, AND, CONDITIONAL, MAP_INSERT, NOT_STRICTLY_FALSE, OR};

type Arguments<'a> = &'a mut Vec<IdedExpr>;
type Expansion = Result<Option<IdedExpr>, ParseError>;

/// The variable to which `sortBy` binds its list.
const SORTED: &str = "@__sortBy_input__";

/// Returns the macros.
pub(super) fn all() -> Vec<Macro> {
    let quantified = |name: &str, quantifier: Quantifier| {
        Macro::receiver(name, 3, move |helper, target, args| {
            loop_over(helper, target, args, |helper, arguments| quantifier.parts(helper, last(arguments)))
        })
    };
    let mut all = vec![
        quantified("all", Quantifier::All),
        quantified("exists", Quantifier::Exists),
        quantified("existsOne", Quantifier::One),
        quantified("exists_one", Quantifier::One),
        Macro::receiver("sortBy", 2, sort_by),
    ];
    for count in [3, 4] {
        all.push(Macro::receiver("transformList", count, |helper, target, args| loop_over(helper, target, args, list)));
        all.push(Macro::receiver("transformMap", count, |helper, target, args| loop_over(helper, target, args, map)));
        all.push(Macro::receiver("transformMapEntry", count, |helper, target, args| {
            loop_over(helper, target, args, map_entry)
        }));
    }
    all
}

/// The parts of a loop besides its two variables and its range.
struct Parts {
    start: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    One,
}

impl Quantifier {
    fn parts(self, helper: &mut MacroExprHelper<'_>, predicate: IdedExpr) -> Parts {
        let result = result(helper);
        match self {
            Self::All => {
                let condition = call(helper, NOT_STRICTLY_FALSE, vec![result.clone()]);
                Parts {
                    start: truth(helper, true),
                    condition,
                    step: call(helper, AND, vec![result.clone(), predicate]),
                    result,
                }
            }
            Self::Exists => {
                let not = call(helper, "!_", vec![result.clone()]);
                let condition = call(helper, NOT_STRICTLY_FALSE, vec![not]);
                Parts {
                    start: truth(helper, false),
                    condition,
                    step: call(helper, OR, vec![result.clone(), predicate]),
                    result,
                }
            }
            Self::One => {
                let one = number(helper, 1);
                let more = call(helper, ADD, vec![result.clone(), one.clone()]);
                let step = call(helper, CONDITIONAL, vec![predicate, more, result.clone()]);
                Parts {
                    start: number(helper, 0),
                    condition: truth(helper, true),
                    step,
                    result: call(helper, "_==_", vec![result, one]),
                }
            }
        }
    }
}

/// Expands a macro whose first two arguments are names.
fn loop_over(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: Arguments<'_>,
    parts: impl Fn(&mut MacroExprHelper<'_>, Arguments<'_>) -> Parts,
) -> Expansion {
    let (first, second) = (args.remove(0), args.remove(0));
    let (variable, other) = (name(helper, &first)?, name(helper, &second)?);
    if variable == other {
        return Err(helper.new_error(second.id, format!("duplicate variable name: {variable}")));
    }
    // `transformMap` inserts by the first variable.
    args.insert(0, helper.next_expr(Expr::Ident(variable.clone())));
    let parts = parts(helper, args);
    let range = target.take().unwrap_or_default();
    Ok(Some(comprehension(helper, range, (variable, Some(other)), RESULT, parts)))
}

fn list(helper: &mut MacroExprHelper<'_>, args: Arguments<'_>) -> Parts {
    let transform = last(args);
    let item = helper.next_expr(Expr::List(ListExpr::new(vec![transform])));
    let so_far = result(helper);
    let step = call(helper, ADD, vec![so_far, item]);
    let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    gather(helper, args, start, step)
}

fn map(helper: &mut MacroExprHelper<'_>, args: Arguments<'_>) -> Parts {
    let (transform, key) = (last(args), args[0].clone());
    insert(helper, args, vec![key, transform])
}

fn map_entry(helper: &mut MacroExprHelper<'_>, args: Arguments<'_>) -> Parts {
    let transform = last(args);
    insert(helper, args, vec![transform])
}

fn insert(helper: &mut MacroExprHelper<'_>, args: Arguments<'_>, inserted: Vec<IdedExpr>) -> Parts {
    let mut all = vec![result(helper)];
    all.extend(inserted);
    let step = call(helper, MAP_INSERT, all);
    let start = helper.next_expr(Expr::Map(MapExpr::default()));
    gather(helper, args, start, step)
}

/// Accumulates the values that pass the optional filter.
fn gather(helper: &mut MacroExprHelper<'_>, args: Arguments<'_>, start: IdedExpr, step: IdedExpr) -> Parts {
    let result = result(helper);
    let step = if args.len() > 1 {
        let filter = last(args);
        call(helper, CONDITIONAL, vec![filter, step, result.clone()])
    } else {
        step
    };
    Parts { start, condition: truth(helper, true), step, result }
}

/// `list.sortBy(e, key)` sorts the list by the keys of its items.
fn sort_by(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: Arguments<'_>) -> Expansion {
    let variable = name(helper, &args[0])?;
    let input = helper.next_expr(Expr::Ident(SORTED.to_owned()));
    let key = last(args);
    let keys = {
        let item = helper.next_expr(Expr::List(ListExpr::new(vec![key])));
        let so_far = result(helper);
        let step = call(helper, ADD, vec![so_far, item]);
        let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
        let parts = Parts { start, condition: truth(helper, true), step, result: result(helper) };
        comprehension(helper, input.clone(), (variable, None), RESULT, parts)
    };
    let sorted = member_call(helper, "@sortByAssociatedKeys", input, vec![keys]);
    let list = target.take().unwrap_or_default();
    Ok(Some(bind(helper, SORTED, list, sorted)))
}

/// Binds a name to a value, as a loop that is never entered.
fn bind(helper: &mut MacroExprHelper<'_>, name: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
    let range = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let step = helper.next_expr(Expr::Ident(name.to_owned()));
    let parts = Parts { start: value, condition: truth(helper, false), step, result: body };
    comprehension(helper, range, ("#unused".to_owned(), None), name, parts)
}

fn comprehension(
    helper: &mut MacroExprHelper<'_>,
    iter_range: IdedExpr,
    (iter_var, iter_var2): (String, Option<String>),
    accumulator: &str,
    parts: Parts,
) -> IdedExpr {
    helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range,
        iter_var,
        iter_var2,
        accu_var: accumulator.to_owned(),
        accu_init: parts.start,
        loop_cond: parts.condition,
        loop_step: parts.step,
        result: parts.result,
    })))
}

fn call(helper: &mut MacroExprHelper<'_>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }))
}

fn member_call(helper: &mut MacroExprHelper<'_>, function: &str, target: IdedExpr, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: function.to_owned(), target: Some(Box::new(target)), args }))
}

fn result(helper: &mut MacroExprHelper<'_>) -> IdedExpr {
    helper.next_expr(Expr::Ident(RESULT.to_owned()))
}

fn truth(helper: &mut MacroExprHelper<'_>, value: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn number(helper: &mut MacroExprHelper<'_>, value: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
}

/// The arity of the macro guarantees an argument.
fn last(args: Arguments<'_>) -> IdedExpr {
    args.pop().unwrap_or_default()
}

fn name(helper: &MacroExprHelper<'_>, expression: &IdedExpr) -> Result<String, ParseError> {
    match &expression.expr {
        Expr::Ident(name) if name != RESULT => Ok(name.clone()),
        _ => Err(helper.new_error(expression.id, "argument must be a simple name")),
    }
}
