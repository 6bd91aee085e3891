//! Environments with the variables of expressions, and programs: expressions compiled for them.

use std::fmt::Write as _;

use super::ast::{Expr, Kind};
use super::cost::{self, Estimate, Sizes};
use super::error::Error;
use super::evaluate::evaluate;
use super::types::{Issue, Type};
use super::value::Value;
use super::{checker, literals, parse};

/// The variables of expressions, with their types.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    variables: Vec<(&'static str, Type)>,
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    expression: Expr,
    result: Type,
    cost: Estimate,
}

/// The reason why an expression cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    /// It is invalid.
    #[error("{0}")]
    Wrong(String),
    /// A part of it is constant, and fails.
    #[error("program instantiation failed: {0}")]
    Constant(Error),
    /// It may be valid, but uses features that this server does not support.
    #[error("{0}")]
    Unsupported(String),
}

impl Mistake {
    /// Returns the error with a prefix.
    pub(crate) fn after(self, lead: &str) -> Self {
        match self {
            Self::Wrong(text) => Self::Wrong(format!("{lead}{text}")),
            other => other,
        }
    }
}

/// Limit of reported errors of an expression.
const MAX_ISSUES: usize = 100;
/// Longer lines are not shown with errors.
const MAX_SNIPPET: usize = 16_384;

impl Environment {
    /// Returns an environment with these variables.
    pub(crate) fn new(variables: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        Self { variables: variables.into_iter().collect() }
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// All errors, with their positions.
    pub(crate) fn compile(&self, text: &str, sizes: &dyn Sizes) -> Result<Program, Mistake> {
        let mistake = |issues: Vec<Issue>| Mistake::Wrong(format_issues(text, issues));
        let (mut expression, nodes) = parse::parse(text).map_err(mistake)?;
        if expression.any(&mut |node| matches!(&node.kind, Kind::Message(name) if name.starts_with("google.protobuf.")))
        {
            return Err(Mistake::Unsupported("messages of protocol buffers are not supported".to_owned()));
        }
        let checked = checker::check(&mut expression, nodes, &self.variables).map_err(mistake)?;
        let issues = literals::check(&expression, &checked.types);
        if !issues.is_empty() {
            return Err(mistake(issues));
        }
        if let Some(error) = literals::conversion_error(&expression) {
            return Err(Mistake::Constant(error));
        }
        let cost = cost::estimate(&expression, &checked, sizes);
        Ok(Program { result: checked.types[expression.id].clone(), expression, cost })
    }
}

impl Program {
    /// Returns the type of the value.
    pub(crate) fn result(&self) -> &Type {
        &self.result
    }

    /// Returns the maximum cost of an evaluation.
    pub(crate) fn max_cost(&self) -> u64 {
        self.cost.max
    }

    /// Tells whether a variable is used.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.expression.any(&mut |expression| matches!(&expression.kind, Kind::Ident(name) if **name == *variable))
    }

    /// Returns the value, and its cost.
    pub(crate) fn evaluate(&self, variables: &[(&'static str, Value)], limit: u64) -> (Result<Value, Error>, u64) {
        evaluate(&self.expression, variables, limit)
    }
}

/// Formats errors like cel-go: sorted, each with its line and a marker.
fn format_issues(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| issue.offset);
    let shown: Vec<String> = issues.iter().take(MAX_ISSUES).map(|issue| format_issue(source, issue)).collect();
    shown.join("\n")
}

fn format_issue(source: &str, issue: &Issue) -> String {
    let before: String = source.chars().take(issue.offset).collect();
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let mut text = format!("ERROR: <input>:{}:{}: {}", line + 1, column + 1, issue.text);
    let snippet = source.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
    if snippet.len() <= MAX_SNIPPET {
        let is_wide = |c: Option<char>| c.is_some_and(|c| !c.is_ascii());
        let marks = snippet.chars().take(column).map(|c| if is_wide(Some(c)) { '\u{ff0e}' } else { '.' });
        let mark = if is_wide(snippet.chars().nth(column)) { '\u{ff3e}' } else { '^' };
        let _ = write!(text, "\n | {snippet}\n | {}{mark}", marks.collect::<String>());
    }
    text
}
