//! Compiles scripts, so that callbacks may use the variables on which methods are called: these variables are renamed
//! to receivers.

use std::collections::HashSet;

use rhai::{AST, ASTNode, Engine, Expr, ParseError, Position, Scope};

use super::engine;
use crate::script::language::receivers::MARK;
use crate::script::sources::chain::{self, Link, flatten};

/// The methods of lists and maps that take functions.
const WITH_CALLBACKS: [&str; 21] = [
    "all",
    "dedup",
    "drain",
    "filter",
    "find",
    "find_map",
    "for_each",
    "group_by",
    "index_of",
    "map",
    "order",
    "order_by",
    "reduce",
    "reduce_rev",
    "retain",
    "some",
    "sort",
    "sort_by",
    "sorted_by",
    "unique_by",
    "zip",
];

/// Compiles a script, so that callbacks may use the variables on which methods are called.
///
/// # Errors
/// If it cannot be parsed.
pub(crate) fn compile(engine: &Engine, scope: &Scope<'_>, text: &str) -> Result<AST, ParseError> {
    compile_with(engine, |engine| engine.compile_with_scope(scope, text))
}

/// Compiles an expression, in the same way.
///
/// # Errors
/// If it cannot be parsed.
pub(crate) fn compile_expression(engine: &Engine, scope: &Scope<'_>, text: &str) -> Result<AST, ParseError> {
    compile_with(engine, |engine| engine.compile_expression_with_scope(scope, text))
}

/// The first syntax tree gives the positions of the variables; the second one has their new names.
fn compile_with(engine: &Engine, parse: impl Fn(&Engine) -> Result<AST, ParseError>) -> Result<AST, ParseError> {
    let ast = parse(engine)?;
    let positions = positions(&ast);
    if positions.is_empty() {
        return Ok(ast);
    }
    let rename = move |name: &str, position: Position| positions.contains(&position).then(|| format!("{name}{MARK}"));
    parse(&engine::parser(engine, rename))
}

/// Returns the positions of the variables at the beginning of chains with callbacks.
fn positions(ast: &AST) -> HashSet<Position> {
    let own: HashSet<&str> = ast.iter_fn_def().map(|definition| definition.name.as_str()).collect();
    let mut positions = HashSet::new();
    ast.walk(&mut |path: &[ASTNode<'_>]| {
        let is_inner =
            |expression| matches!(path, [.., ASTNode::Expr(parent), _] if chain::continues(parent, expression));
        if let Some(ASTNode::Expr(expression @ (Expr::Dot(..) | Expr::Index(..)))) = path.last()
            && !is_inner(expression)
            && let (Expr::Variable(parts, _, position), links) = flatten(expression)
            && parts.2.is_empty()
            && has_callback(&links, &own)
        {
            positions.insert(*position);
        }
        true
    });
    positions
}

fn has_callback(links: &[(Link<'_>, bool)], own: &HashSet<&str>) -> bool {
    links.iter().any(|(link, _)| match link {
        Link::Dot(Expr::MethodCall(call, _)) => {
            let name = call.name.as_str();
            let is_callable =
                |argument: &Expr| !argument.is_constant() || matches!(argument, Expr::DynamicConstant(..));
            WITH_CALLBACKS.contains(&name) && !own.contains(name) && call.args.iter().any(is_callable)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::collections::BTreeSet;

    use rhai::{Array, FnPtr, Map};

    use super::super::engine::{Sizes, build};
    use super::*;
    use crate::script::limits::Limits;

    #[test]
    fn all_methods_with_callbacks_are_known() {
        let containers = [TypeId::of::<Array>(), TypeId::of::<Map>()];
        let found = build(Sizes::of(&Limits::default())).collect_fn_metadata(
            None,
            |info| {
                let (first, rest) = info.metadata.param_types.split_first()?;
                let is_it = containers.contains(first) && rest.contains(&TypeId::of::<FnPtr>());
                is_it.then(|| info.metadata.name.to_string())
            },
            true,
        );
        let found: BTreeSet<String> = found.into_iter().collect();
        assert_eq!(found, WITH_CALLBACKS.iter().map(ToString::to_string).collect());
    }

    #[test]
    fn only_the_beginnings_of_chains_with_callbacks_get_other_names() {
        let engine = build(Sizes::of(&Limits::default()));
        let columns = |text: &str| {
            let ast = engine.compile(text).unwrap();
            let mut columns: Vec<usize> = positions(&ast).iter().filter_map(|position| position.position()).collect();
            columns.sort_unstable();
            columns
        };
        assert_eq!(columns("l.filter(f)"), [1]);
        assert_eq!(columns("m[k].x.filter(f)"), [1]);
        assert_eq!(columns("m[l.filter(f)].len()"), [3]);
        assert_eq!(columns("fn f(l) { `${l.keys().map(|x| l.some(|y| x))}` }"), [14, 31]);
        for text in [
            "l.len()",
            "l.extract(1)",
            "l.index_of(\"x\")",
            "[1].filter(f)",
            "x(l).filter(f)",
            "fn filter(x) {} l.filter(f)",
        ] {
            assert_eq!(columns(text), [0; 0], "{text}");
        }
    }
}
