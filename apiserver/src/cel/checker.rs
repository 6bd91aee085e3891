//! The type checker: resolves names, finds the signatures of calls, and reports type errors. The rules are those of
//! cel-go.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::operator::{AND, OPTIONAL_SELECT, OR};
use super::ast::{Call, Element, Entry, Expr, Fold, Kind, Select};
use super::overload::{self, LIBRARY, Overload};
use super::types::{Issue, Object, Substitutions, Type, more_general};
use super::value::Value;

/// The types and signatures of an expression's nodes, by their numbers.
#[derive(Debug)]
pub(super) struct Checked {
    /// The types.
    pub(super) types: Vec<Type>,
    /// The matching signatures of calls.
    pub(super) overloads: HashMap<usize, Vec<&'static Overload>>,
}

/// Checks an expression. Function names with dots are joined in the tree.
///
/// # Errors
/// All type errors.
pub(super) fn check(
    expression: &mut Expr,
    nodes: usize,
    variables: &[(&'static str, Type)],
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        variables,
        locals: Vec::new(),
        substitutions: Substitutions::default(),
        types: vec![Type::Error; nodes],
        overloads: HashMap::new(),
        issues: Vec::new(),
    };
    checker.check(expression);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|one| checker.substitutions.resolve(one, true)).collect();
    Ok(Checked { types, overloads: checker.overloads })
}

struct Checker<'a> {
    variables: &'a [(&'static str, Type)],
    locals: Vec<(Arc<str>, Type)>,
    substitutions: Substitutions,
    types: Vec<Type>,
    overloads: HashMap<usize, Vec<&'static Overload>>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn check(&mut self, expression: &mut Expr) -> Type {
        let (id, offset) = (expression.id, expression.offset);
        let found = if let Some(named) = self.qualified_variable(expression) {
            named
        } else {
            match &mut expression.kind {
                Kind::Literal(value) => literal_type(value),
                Kind::Ident(name) => {
                    let name = Arc::clone(name);
                    self.variable(&name).unwrap_or_else(|| self.undeclared(offset, &name))
                }
                Kind::Select(select) => self.select(offset, select),
                Kind::Call(call) => self.call(id, offset, call),
                Kind::List(elements) => self.list(elements),
                Kind::Map(entries) => self.map(entries),
                Kind::Message(name) => {
                    let name = name.clone();
                    self.undeclared(offset, &name)
                }
                Kind::Fold(fold) => self.fold(fold),
            }
        };
        self.types[id] = found.clone();
        found
    }

    fn report(&mut self, offset: usize, text: String) {
        self.issues.push(Issue { offset, text });
    }

    fn undeclared(&mut self, offset: usize, name: &str) -> Type {
        self.report(offset, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, offset: usize, expected: &Type, found: &Type) {
        self.report(offset, format!("expected type '{expected}' but found '{found}'"));
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let local = self.locals.iter().rev().find(|(local, _)| **local == *name).map(|(_, found)| found);
        let variable = || self.variables.iter().find(|(variable, _)| *variable == name).map(|(_, found)| found);
        local.or_else(variable).cloned().or_else(|| named_type(name))
    }

    /// Names of variables and types may have dots: such a chain is joined to one name.
    fn qualified_variable(&self, expression: &mut Expr) -> Option<Type> {
        let Kind::Select(_) = &expression.kind else { return None };
        let name = expression.qualified_name()?;
        let variable = || self.variables.iter().find(|(variable, _)| *variable == name).map(|(_, found)| found.clone());
        let found = variable().or_else(|| named_type(&name))?;
        expression.kind = Kind::Ident(name.into());
        Some(found)
    }

    fn select(&mut self, offset: usize, select: &mut Select) -> Type {
        let found = self.field(offset, &mut select.operand, &mut select.field, false);
        if select.is_test { Type::Bool } else { self.substitutions.resolve(&found, false) }
    }

    /// Returns the type of a member. A reserved word is replaced by the escaped name of its declaration.
    fn field(&mut self, offset: usize, operand: &mut Expr, field: &mut Arc<str>, is_optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.substitutions.resolve(&operand, false);
        let (target, was_optional) = match &operand {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let found = match &target {
            Type::Map(inner) => inner.1.clone(),
            Type::Object(object) => {
                let escaped = format!("__{field}__");
                if !object.fields.contains_key(&**field) && object.fields.contains_key(&escaped) {
                    *field = escaped.into();
                }
                self.object_field(offset, object, field)
            }
            Type::Variable(_) => {
                self.substitutions.fit(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Library(name) if !name.starts_with("net.") => {
                self.report(offset, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            other => {
                if !other.is_open() {
                    self.report(offset, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || is_optional { Type::optional(found) } else { found }
    }

    fn object_field(&mut self, offset: usize, object: &Object, field: &str) -> Type {
        object.fields.get(field).cloned().unwrap_or_else(|| {
            self.report(offset, format!("undefined field '{field}'"));
            Type::Error
        })
    }

    fn call(&mut self, id: usize, offset: usize, call: &mut Call) -> Type {
        if *call.function == *OPTIONAL_SELECT
            && let [operand, Expr { kind: Kind::Literal(Value::String(field)), .. }] = call.arguments.as_mut_slice()
        {
            let found = self.field(offset, operand, field, true);
            return self.substitutions.resolve(&found, false);
        }
        let arguments: Vec<Type> = call.arguments.iter_mut().map(|argument| self.check(argument)).collect();
        let mut types = Vec::new();
        if let Some(target) = &mut call.target {
            if let Some(name) = target.qualified_name().map(|prefix| format!("{prefix}.{}", call.function))
                && overload::of(&name).is_some()
            {
                call.function = name.into();
                call.target = None;
            } else {
                types.push(self.check(target));
            }
        }
        types.extend(arguments);
        let Some(overloads) = overload::of(&call.function) else {
            let name = Arc::clone(&call.function);
            return self.undeclared(offset, &name);
        };
        if *call.function == *AND || *call.function == *OR {
            self.overloads.insert(id, overloads.iter().collect());
            return self.logical(call, &types);
        }
        self.resolve(id, offset, call, overloads, &types)
    }

    /// The operands of logical operators are checked individually, so that each error has its position.
    fn logical(&mut self, call: &Call, types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (argument, found) in call.arguments.iter().zip(types) {
            if !self.substitutions.fit(found, &Type::Bool) {
                self.mismatch(argument.offset, &Type::Bool, &found.clone());
                result = Type::Error;
            }
        }
        result
    }

    fn resolve(
        &mut self,
        id: usize,
        offset: usize,
        call: &Call,
        overloads: &'static [Overload],
        types: &[Type],
    ) -> Type {
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.is_member == call.target.is_some()) {
            let (wanted, returned) = overload.instantiate(|| self.substitutions.fresh());
            if wanted.len() != types.len() || !self.substitutions.fit_all(types.iter().zip(&wanted)) {
                continue;
            }
            fitting.push(overload);
            let returned = self.substitutions.resolve(&returned, false);
            result = Some(match result {
                None => returned,
                Some(Type::Dyn) => Type::Dyn,
                Some(earlier) if earlier == returned => earlier,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> =
                types.iter().map(|one| self.substitutions.resolve(one, true).to_string()).collect();
            let signature = match (&call.target, shown.as_slice()) {
                (Some(_), [receiver, arguments @ ..]) => format!("{receiver}.({})", arguments.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            self.report(offset, format!("found no matching overload for '{}' applied to '{signature}'", call.function));
            return Type::Error;
        };
        self.overloads.insert(id, fitting);
        result
    }

    fn list(&mut self, elements: &mut [Element]) -> Type {
        let mut joined = None;
        for element in elements {
            let found = self.check(&mut element.value);
            let found = if element.is_optional { self.unwrapped(element.value.offset, found) } else { found };
            joined = Some(self.join(joined, found));
        }
        let items = joined.unwrap_or_else(|| self.substitutions.fresh());
        Type::list(items)
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&mut entry.key);
            keys = Some(self.join(keys, key));
            let value = self.check(&mut entry.value);
            let value = if entry.is_optional { self.unwrapped(entry.value.offset, value) } else { value };
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.substitutions.fresh());
        let values = values.unwrap_or_else(|| self.substitutions.fresh());
        Type::map(keys, values)
    }

    fn unwrapped(&mut self, offset: usize, found: Type) -> Type {
        match found {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => {
                self.mismatch(offset, &Type::optional(other.clone()), &other);
                other
            }
        }
    }

    /// Different types become `dyn` here; [`super::literals`] refuses them where necessary.
    fn join(&mut self, earlier: Option<Type>, found: Type) -> Type {
        match earlier {
            None => found,
            Some(earlier) if self.substitutions.fit(&earlier, &found) => more_general(&earlier, &found),
            Some(_) => Type::Dyn,
        }
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.check(&mut fold.range);
        let start = self.check(&mut fold.start);
        let range = self.substitutions.resolve(&range, false);
        let depth = self.locals.len();
        self.locals.push((Arc::clone(&fold.accumulator), start.clone()));
        let (first, second) = match &range {
            Type::List(items) if fold.second_variable.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Error),
            Type::Map(inner) => inner.as_ref().clone(),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.substitutions.fit(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.offset, text);
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((Arc::clone(&fold.variable), first));
        if let Some(name) = &fold.second_variable {
            self.locals.push((Arc::clone(name), second));
        }
        self.expect(&mut fold.condition, &Type::Bool);
        self.expect(&mut fold.step, &start);
        self.locals.truncate(depth + 1);
        let result = self.check(&mut fold.result);
        self.locals.truncate(depth);
        self.substitutions.resolve(&result, false)
    }

    fn expect(&mut self, expression: &mut Expr, expected: &Type) {
        let found = self.check(expression);
        if !self.substitutions.fit(expected, &found) {
            self.mismatch(expression.offset, expected, &found);
        }
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}

/// Returns the type with a name.
fn named_type(name: &str) -> Option<Type> {
    let named = match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "string" => Type::String,
        "uint" => Type::Uint,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        "type" => return Some(Type::Type(Some(Type::Type(None).into()))),
        "net.IP" | "net.CIDR" => Type::Library(LIBRARY.into_iter().find(|known| *known == name)?),
        _ => return None,
    };
    Some(Type::Type(Some(named.into())))
}
