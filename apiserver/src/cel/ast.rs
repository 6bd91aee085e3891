//! Expressions as trees with numbered nodes, so that properties of nodes can be kept in lists.

use std::sync::Arc;

use super::value::Value;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    /// The number of the node, unique in its expression.
    pub(super) id: usize,
    /// The character of the source at which errors of the node are reported.
    pub(super) offset: usize,
    /// Its kind.
    pub(super) kind: Kind,
}

/// The kinds of nodes.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Value),
    Ident(Arc<str>),
    Select(Select),
    Call(Call),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// A protocol buffer message, which Kubernetes does not support: its type.
    Message(String),
    Fold(Box<Fold>),
}

/// A member of an object, or a test of its presence.
#[derive(Debug, Clone)]
pub(super) struct Select {
    pub(super) operand: Box<Expr>,
    pub(super) field: Arc<str>,
    pub(super) is_test: bool,
}

/// A call of a function or operator.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: Arc<str>,
    pub(super) target: Option<Box<Expr>>,
    pub(super) arguments: Vec<Expr>,
}

/// An item of a list literal.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Expr,
    pub(super) is_optional: bool,
}

/// An entry of a map literal.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) is_optional: bool,
}

/// A loop over a list or map, which macros expand to.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Expr,
    pub(super) variable: Arc<str>,
    pub(super) second_variable: Option<Arc<str>>,
    pub(super) accumulator: Arc<str>,
    pub(super) start: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

/// Names of operators that several modules use.
pub(super) mod operator {
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
}

/// The variable in which macros accumulate their result.
pub(super) const RESULT: &str = "@result";

impl Expr {
    /// Returns `a.b.c` for a chain of plain members.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select(select) if !select.is_test => {
                Some(format!("{}.{}", select.operand.qualified_name()?, select.field))
            }
            _ => None,
        }
    }

    /// Returns the nodes directly below.
    pub(super) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Message(_) => Vec::new(),
            Kind::Select(select) => vec![&select.operand],
            Kind::Call(call) => call.target.as_deref().into_iter().chain(&call.arguments).collect(),
            Kind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Kind::Fold(fold) => vec![&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result],
        }
    }

    /// Tells whether the node or a descendant fulfils a condition.
    pub(super) fn any(&self, condition: &mut dyn FnMut(&Expr) -> bool) -> bool {
        condition(self) || self.children().into_iter().any(|child| child.any(condition))
    }
}

impl Fold {
    /// Tells whether this binds a name to a value instead of looping, as `optMap` and `sortBy` do.
    pub(super) fn is_binding(&self) -> bool {
        matches!(&self.range.kind, Kind::List(elements) if elements.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Value::Bool(false)))
            && *self.accumulator != *RESULT
    }
}
