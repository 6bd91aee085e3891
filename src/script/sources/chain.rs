//! Chains such as `spec.items[0].len()` in the syntax tree: their root, and their links in the order of the text.

use rhai::{ASTFlags, Expr};

/// One link of a chain: a dot or brackets with their content.
pub(crate) enum Link<'a> {
    /// A property or a method.
    Dot(&'a Expr),
    /// An index.
    Index(&'a Expr),
}

/// Returns the root of a chain and its links, each with whether it is optional (`?.`).
///
/// The interpreter nests chains to the right: the left side of the inner node is the next link, unless the node says
/// that the chain ends there.
pub(crate) fn flatten(expression: &Expr) -> (&Expr, Vec<(Link<'_>, bool)>) {
    let (Expr::Dot(parts, flags, _) | Expr::Index(parts, flags, _)) = expression else {
        return (expression, Vec::new());
    };
    let mut links = Vec::new();
    let mut is_dot = matches!(expression, Expr::Dot(..));
    let (mut flags, mut rest) = (*flags, &parts.rhs);
    loop {
        let is_safe = flags.contains(ASTFlags::NEGATED);
        let link = |part| if is_dot { Link::Dot(part) } else { Link::Index(part) };
        match rest {
            Expr::Dot(inner, inner_flags, _) | Expr::Index(inner, inner_flags, _)
                if !flags.contains(ASTFlags::BREAK) =>
            {
                links.push((link(&inner.lhs), is_safe));
                is_dot = matches!(rest, Expr::Dot(..));
                flags = *inner_flags;
                rest = &inner.rhs;
            }
            last => {
                links.push((link(last), is_safe));
                return (&parts.lhs, links);
            }
        }
    }
}

/// Tells whether an expression is a later link of its parent's chain.
pub(crate) fn continues(parent: &Expr, expression: &Expr) -> bool {
    match parent {
        Expr::Dot(parts, flags, _) | Expr::Index(parts, flags, _) => {
            !flags.contains(ASTFlags::BREAK) && std::ptr::eq(&raw const parts.rhs, expression)
        }
        _ => false,
    }
}
