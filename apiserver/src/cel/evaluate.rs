//! Evaluates checked expressions, and counts the cost.

use std::sync::Arc;

use super::ast::operator::{ADD, AND, CONDITIONAL, MAP_INSERT, NOT_STRICTLY_FALSE, OPTIONAL_SELECT, OR};
use super::ast::{Call, Element, Entry, Expr, Fold, Kind, RESULT, Select};
use super::cost;
use super::error::{Error, no_such_overload};
use super::function::Outcome;
use super::functions;
use super::value::checked::usable;
use super::value::{Key, Map, Value};

/// A running evaluation.
pub(super) struct Evaluation<'a> {
    /// The variables.
    variables: &'a [(&'static str, Value)],
    /// The loop variables, the innermost last.
    locals: Vec<(Arc<str>, Value)>,
    /// The cost so far.
    cost: u64,
    /// The cost limit.
    limit: u64,
}

/// Evaluates an expression. Returns the value, and its cost.
pub(super) fn evaluate(expression: &Expr, variables: &[(&'static str, Value)], limit: u64) -> (Outcome, u64) {
    let mut evaluation = Evaluation { variables, locals: Vec::new(), cost: 0, limit };
    let outcome = evaluation.evaluate(expression);
    (outcome, evaluation.cost)
}

impl Evaluation<'_> {
    fn pay(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::TooExpensive) } else { Ok(()) }
    }

    fn evaluate(&mut self, expression: &Expr) -> Outcome {
        match &expression.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => self.identifier(name),
            Kind::Select(select) => self.select(select),
            Kind::Call(call) => self.call(call),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name) => Err(Error::new(format!("unknown type: {name}"))),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn identifier(&mut self, name: &str) -> Outcome {
        self.pay(1)?;
        let local = self.locals.iter().rev().find(|(local, _)| **local == *name).map(|(_, value)| value);
        let value =
            local.or_else(|| self.variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value));
        match value {
            Some(value) => usable(value.clone()),
            // According to the type checker, a name that is not a variable is a type.
            None => Ok(Value::Type(name.into())),
        }
    }

    fn select(&mut self, select: &Select) -> Outcome {
        let operand = self.evaluate(&select.operand)?;
        if select.is_test {
            return has(&operand, &select.field).map(Value::Bool);
        }
        self.pay(1)?;
        match &operand {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => optional_member(value, &select.field),
            Value::Map(map) => {
                let found = map.member(&select.field).cloned();
                usable(found.ok_or_else(|| Error::new(format!("no such key: {}", select.field)))?)
            }
            _ => Err(no_such_overload()),
        }
    }

    fn call(&mut self, call: &Call) -> Outcome {
        match (&*call.function, call.arguments.as_slice()) {
            (AND, [one, other]) => return self.logical(one, other, false),
            (OR, [one, other]) => return self.logical(one, other, true),
            (CONDITIONAL, [condition, one, other]) => {
                return match self.evaluate(condition)? {
                    Value::Bool(true) => self.evaluate(one),
                    Value::Bool(false) => self.evaluate(other),
                    _ => Err(no_such_overload()),
                };
            }
            (NOT_STRICTLY_FALSE, [value]) => {
                return match self.evaluate(value) {
                    Err(Error::TooExpensive) => Err(Error::TooExpensive),
                    outcome => Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false))))),
                };
            }
            (OPTIONAL_SELECT, [operand, field]) => {
                let (operand, field) = (self.evaluate(operand)?, self.evaluate(field)?);
                self.pay(1)?;
                return optional_select(&operand, &field);
            }
            ("or" | "orValue", [alternative]) => return self.alternative(call, alternative),
            _ => {}
        }
        let mut arguments = Vec::with_capacity(call.arguments.len() + 1);
        for argument in call.target.as_deref().into_iter().chain(&call.arguments) {
            arguments.push(if arguments.is_empty() {
                self.first_argument(call, argument)?
            } else {
                self.evaluate(argument)?
            });
        }
        let Some(function) = functions::of_name(&call.function) else { return Err(no_such_overload()) };
        self.pay(cost::before_call(&call.function, &arguments))?;
        let value = if *call.function == *ADD || *call.function == *MAP_INSERT {
            functions::accumulate(&call.function, arguments)?
        } else {
            function(&arguments)?
        };
        self.pay(cost::after_call(&call.function, &value))?;
        Ok(value)
    }

    /// Takes the accumulated value of a loop out of its variable, so that it can grow in place.
    fn first_argument(&mut self, call: &Call, argument: &Expr) -> Outcome {
        if (*call.function == *ADD || *call.function == *MAP_INSERT)
            && matches!(&argument.kind, Kind::Ident(name) if **name == *RESULT)
            && let Some((_, value)) = self.locals.iter_mut().rev().find(|(name, _)| **name == *RESULT)
        {
            let value = std::mem::replace(value, Value::Null);
            self.pay(1)?;
            return usable(value);
        }
        self.evaluate(argument)
    }

    /// If one operand decides the result, an error of the other one is ignored.
    fn logical(&mut self, one: &Expr, other: &Expr, deciding: bool) -> Outcome {
        let first = self.evaluate(one);
        if matches!(first, Ok(Value::Bool(value)) if value == deciding) || matches!(first, Err(Error::TooExpensive)) {
            return first;
        }
        let second = self.evaluate(other);
        if matches!(second, Ok(Value::Bool(value)) if value == deciding) || matches!(second, Err(Error::TooExpensive)) {
            return second;
        }
        match (first?, second?) {
            (Value::Bool(_), Value::Bool(_)) => Ok(Value::Bool(!deciding)),
            _ => Err(no_such_overload()),
        }
    }

    fn alternative(&mut self, call: &Call, alternative: &Expr) -> Outcome {
        let Some(target) = &call.target else { return Err(no_such_overload()) };
        let Value::Optional(value) = self.evaluate(target)? else { return Err(no_such_overload()) };
        self.pay(1)?;
        match value {
            Some(value) if *call.function == *"or" => Ok(Value::Optional(Some(value))),
            Some(value) => Ok((*value).clone()),
            None => self.evaluate(alternative),
        }
    }

    fn list(&mut self, elements: &[Element]) -> Outcome {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            let value = self.evaluate(&element.value)?;
            match (element.is_optional, value) {
                (false, value) => items.push(value),
                (true, Value::Optional(value)) => items.extend(value.map(|value| (*value).clone())),
                (true, other) => {
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {other}"
                    )));
                }
            }
        }
        self.pay(cost::LIST)?;
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &[Entry]) -> Outcome {
        let mut map = Map::default();
        for entry in entries {
            let (key, value) = (self.evaluate(&entry.key)?, self.evaluate(&entry.value)?);
            let value = match (entry.is_optional, value) {
                (false, value) => value,
                (true, Value::Optional(Some(value))) => (*value).clone(),
                (true, Value::Optional(None)) => continue,
                (true, other) => {
                    return Err(Error::new(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {other}"
                    )));
                }
            };
            let key = Key::of(&key).ok_or_else(|| Error::new(format!("unsupported key type: {}", key.type_name())))?;
            if map.entries.insert(key.clone(), value).is_some() {
                return Err(Error::new(format!("Failed with repeated key: {}", key.value())));
            }
        }
        self.pay(cost::MAP)?;
        Ok(Value::Map(Arc::new(map)))
    }

    fn fold(&mut self, fold: &Fold) -> Outcome {
        let depth = self.locals.len();
        let outcome = self.loop_through(fold, depth);
        self.locals.truncate(depth);
        outcome
    }

    fn loop_through(&mut self, fold: &Fold, depth: usize) -> Outcome {
        let range = self.evaluate(&fold.range)?;
        let start = self.evaluate(&fold.start)?;
        self.locals.push((Arc::clone(&fold.accumulator), start));
        for (first, second) in steps(&range, fold.second_variable.is_some())? {
            self.locals.push((Arc::clone(&fold.variable), first));
            if let Some(name) = &fold.second_variable {
                self.locals.push((Arc::clone(name), second));
            }
            let goes_on = matches!(self.evaluate(&fold.condition)?, Value::Bool(true));
            let next = if goes_on { Some(self.evaluate(&fold.step)) } else { None };
            self.locals.truncate(depth + 1);
            match next {
                None => break,
                Some(Err(Error::TooExpensive)) => return Err(Error::TooExpensive),
                // A later item may still decide: the error is kept like a value.
                Some(Err(Error::Failed(text))) => self.locals[depth].1 = Value::Failed(text),
                Some(Ok(value)) => self.locals[depth].1 = value,
            }
        }
        self.evaluate(&fold.result)
    }
}

/// Returns the steps of a loop: the items, the keys, or pairs of both.
fn steps(range: &Value, in_pairs: bool) -> Result<Vec<(Value, Value)>, Error> {
    let index = |index: usize| Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
    match range {
        Value::List(list) if in_pairs => {
            Ok(list.items.iter().enumerate().map(|(at, item)| (index(at), item.clone())).collect())
        }
        Value::List(list) => Ok(list.items.iter().map(|item| (item.clone(), Value::Null)).collect()),
        Value::Map(map) => Ok(map.entries.iter().map(|(key, value)| (key.value(), value.clone())).collect()),
        other => Err(Error::new(format!("unsupported comprehension range type: {}", other.type_name()))),
    }
}

fn has(operand: &Value, field: &Arc<str>) -> Result<bool, Error> {
    match operand {
        Value::Map(map) => Ok(map.member(field).is_some()),
        Value::Optional(value) => value.as_ref().map_or(Ok(false), |value| has(value, field)),
        _ => Err(no_such_overload()),
    }
}

fn optional_select(operand: &Value, field: &Value) -> Outcome {
    let Value::String(field) = field else { return Err(no_such_overload()) };
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(value)) => optional_member(value, field),
        value => optional_member(value, field),
    }
}

fn optional_member(value: &Value, field: &Arc<str>) -> Outcome {
    match value {
        Value::Map(map) => map.member(field).cloned().map(usable).transpose().map(Value::optional),
        _ => Err(no_such_overload()),
    }
}
