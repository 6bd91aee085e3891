//! Estimates the cost of an expression from the maximum sizes of its values. The rules are those of cel-go.

use std::collections::HashMap;
use std::sync::Arc;

use super::calls::{self, Node};
use super::{Estimate, LIST, MAP, Size, Sizes};
use crate::cel::ast::operator::{AND, CONDITIONAL, OPTIONAL_SELECT, OR};
use crate::cel::ast::{Call, Expr, Fold, Kind, RESULT, Select};
use crate::cel::checker::Checked;
use crate::cel::overload::Overload;
use crate::cel::types::Type;
use crate::cel::value::Value;

/// Returns the cost of an expression.
pub(crate) fn estimate(expression: &Expr, checked: &Checked, sizes: &dyn Sizes) -> Estimate {
    let mut estimator = Estimator {
        checked,
        sizes,
        paths: HashMap::new(),
        locals: Vec::new(),
        known: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(expression)
}

type Path = Vec<Arc<str>>;

/// The sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Size,
    value: Size,
}

/// A loop variable.
struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<Size>,
    entries: Option<EntrySize>,
}

pub(super) struct Estimator<'a> {
    checked: &'a Checked,
    sizes: &'a dyn Sizes,
    /// The paths of nodes' values, by node number.
    paths: HashMap<usize, Path>,
    locals: Vec<Local>,
    known: HashMap<usize, Size>,
    entries: HashMap<usize, EntrySize>,
}

impl Estimator<'_> {
    fn cost(&mut self, expression: &Expr) -> Estimate {
        match &expression.kind {
            Kind::Literal(_) | Kind::Message(_) => Estimate::exactly(0),
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![Arc::clone(name)], |local| local.path.clone());
                self.paths.insert(expression.id, path);
                Estimate::exactly(1)
            }
            Kind::Select(select) => self.select(expression, select),
            Kind::Call(call) => self.call(expression, call),
            Kind::List(elements) => {
                let values = elements.iter().map(|element| &element.value);
                let (cost, value) = self.aggregate(values);
                self.entries.insert(expression.id, EntrySize { is_list: true, key: Size::exactly(1), value });
                cost.plus(Estimate::exactly(LIST))
            }
            Kind::Map(entries) => {
                let (keys_cost, key) = self.aggregate(entries.iter().map(|entry| &entry.key));
                let (values_cost, value) = self.aggregate(entries.iter().map(|entry| &entry.value));
                self.entries.insert(expression.id, EntrySize { is_list: false, key, value });
                keys_cost.plus(values_cost).plus(Estimate::exactly(MAP))
            }
            Kind::Fold(fold) if fold.is_binding() => self.binding(expression, fold),
            Kind::Fold(fold) => self.fold(expression, fold),
        }
    }

    /// Returns the cost of some nodes, and their combined size.
    fn aggregate<'e>(&mut self, nodes: impl Iterator<Item = &'e Expr>) -> (Estimate, Size) {
        let (mut cost, mut size) = (Estimate::exactly(0), None::<Size>);
        for node in nodes {
            cost = cost.plus(self.cost(node));
            let found = self.size_or_unknown(node);
            size = Some(size.map_or(found, |size| size.or(found)));
        }
        (cost, size.unwrap_or(Size::exactly(0)))
    }

    fn select(&mut self, expression: &Expr, select: &Select) -> Estimate {
        let mut cost = self.cost(&select.operand);
        if select.is_test {
            return cost;
        }
        if matches!(self.type_of(&select.operand), Type::Map(_) | Type::Object(_) | Type::Library(_)) {
            cost = cost.plus(Estimate::exactly(1));
        }
        self.extend_path(expression, &select.operand, &select.field);
        cost
    }

    fn extend_path(&mut self, expression: &Expr, operand: &Expr, step: &str) {
        let mut path = self.path(operand);
        path.push(step.into());
        self.paths.insert(expression.id, path);
    }

    fn call(&mut self, expression: &Expr, call: &Call) -> Estimate {
        if let ("dyn", [argument]) = (&*call.function, call.arguments.as_slice()) {
            let cost = self.cost(argument);
            self.copy_sizes(expression, argument);
            return cost.plus(Estimate::exactly(1));
        }
        let costs: Vec<Estimate> = call.arguments.iter().map(|argument| self.cost(argument)).collect();
        let arguments: Vec<Node<'_>> = call.arguments.iter().map(|argument| self.node(argument)).collect();
        let target_cost = call.target.as_ref().map(|target| self.cost(target));
        let target = call.target.as_ref().map(|target| self.node(target));
        let overloads = self.checked.overloads.get(&expression.id).map_or(&[][..], Vec::as_slice);
        let all = costs.iter().fold(Estimate::exactly(0), |sum, cost| sum.plus(*cost));
        let mut cost: Option<Estimate> = (*call.function == *OPTIONAL_SELECT).then(|| all.plus(Estimate::exactly(1)));
        let mut size = None;
        for overload in overloads {
            let (found, found_size) = self.overload(expression, call, overload, target.as_ref(), &arguments, &costs);
            cost = Some(cost.map_or(found, |cost| cost.or(found)));
            size = match (size, found_size) {
                (Some(size), Some(found)) => Some(Size::or(size, found)),
                (size, found) => size.or(found),
            };
            if let ("_[_]", [operand, _], Some(Type::List(_) | Type::Map(_))) =
                (&*call.function, call.arguments.as_slice(), overload.arguments.first())
            {
                size = self.entry_size(operand).map(|entries| entries.value);
                let step = if matches!(overload.arguments.first(), Some(Type::List(_))) { "@items" } else { "@values" };
                self.extend_path(expression, operand, step);
            }
            size = size.or_else(|| self.size(expression));
        }
        if let Some(size) = size {
            self.known.insert(expression.id, size);
        }
        cost.unwrap_or(Estimate::exactly(0)).plus(target_cost.unwrap_or(Estimate::exactly(0)))
    }

    /// Returns the cost of a call with its arguments, and the size of the result.
    fn overload(
        &mut self,
        expression: &Expr,
        call: &Call,
        overload: &Overload,
        target: Option<&Node<'_>>,
        arguments: &[Node<'_>],
        costs: &[Estimate],
    ) -> (Estimate, Option<Size>) {
        let all = costs.iter().fold(Estimate::exactly(0), |sum, cost| sum.plus(*cost));
        match (&*call.function, costs) {
            (AND | OR, [one, other]) => (Estimate { min: one.min, max: one.plus(*other).max }, None),
            (CONDITIONAL, [condition, one, other]) => {
                let size = arguments[1].size.unwrap_or(Size::UNKNOWN).or(arguments[2].size.unwrap_or(Size::UNKNOWN));
                self.join_entries(expression, &call.arguments[1], &call.arguments[2]);
                (condition.plus(one.or(*other)), Some(size))
            }
            ("_+_", [_, _]) if matches!(overload.arguments[0], Type::String | Type::Bytes | Type::List(_)) => {
                let size = arguments[0].size.unwrap_or(Size::UNKNOWN).plus(arguments[1].size.unwrap_or(Size::UNKNOWN));
                self.join_entries(expression, &call.arguments[0], &call.arguments[1]);
                let is_list = matches!(overload.arguments[0], Type::List(_));
                let cost = if is_list { Estimate::exactly(1) } else { size.by(super::TEXT) };
                (cost.plus(all), Some(size))
            }
            _ => {
                let items = target.map(|target| self.items_size(target));
                let (cost, size) = calls::estimate(&call.function, overload, target, items.as_ref(), arguments);
                (cost.plus(all), size)
            }
        }
    }

    /// Returns the sizes of the items of a list, if known.
    fn items_size(&self, list: &Node<'_>) -> Size {
        let mut path: Vec<&str> = list.path.iter().map(|step| &**step).collect();
        if path.is_empty() {
            return Size::UNKNOWN;
        }
        path.push("@items");
        self.sizes.size(&path).unwrap_or(Size::UNKNOWN)
    }

    fn join_entries(&mut self, expression: &Expr, one: &Expr, other: &Expr) {
        if let (Some(one), Some(other)) = (self.entry_size(one), self.entry_size(other)) {
            let joined =
                EntrySize { is_list: one.is_list, key: one.key.or(other.key), value: one.value.or(other.value) };
            self.entries.insert(expression.id, joined);
        }
    }

    fn binding(&mut self, expression: &Expr, fold: &Fold) -> Estimate {
        let cost = self.cost(&fold.range).plus(self.cost(&fold.start));
        self.push_value(&fold.accumulator, &fold.start);
        let cost = cost.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expression, &fold.result);
        cost
    }

    fn fold(&mut self, expression: &Expr, fold: &Fold) -> Estimate {
        let cost = self.cost(&fold.range).plus(self.cost(&fold.start));
        self.push_value(&fold.accumulator, &fold.start);
        let depth = self.locals.len();
        let is_list = match self.entry_size(&fold.range) {
            Some(entries) => entries.is_list,
            None => matches!(self.type_of(&fold.range), Type::List(_)),
        };
        if let Some(second) = &fold.second_variable {
            self.push_entry(&fold.variable, &fold.range, true, if is_list { "@indices" } else { "@keys" });
            self.push_entry(second, &fold.range, false, if is_list { "@items" } else { "@values" });
        } else {
            self.push_entry(&fold.variable, &fold.range, !is_list, if is_list { "@items" } else { "@keys" });
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(depth);
        let cost = cost.plus(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        match &fold.start.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&fold.start) {
                    self.known.insert(expression.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.known.insert(expression.id, count);
                if let Some(entries) = self.entry_size(&fold.step) {
                    self.entries.insert(expression.id, entries);
                }
            }
            _ => {}
        }
        cost.plus(count.times(each))
    }

    fn push_value(&mut self, name: &Arc<str>, value: &Expr) {
        let local = Local {
            name: Arc::clone(name),
            path: self.path(value),
            size: self.size(value),
            entries: self.entry_size(value),
        };
        self.locals.push(local);
    }

    fn push_entry(&mut self, name: &Arc<str>, range: &Expr, is_key: bool, step: &str) {
        let size = self.entry_size(range).map(|entries| if is_key { entries.key } else { entries.value });
        let mut path = self.path(range);
        path.push(step.into());
        self.locals.push(Local { name: Arc::clone(name), path, size, entries: None });
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn node<'e>(&mut self, expression: &'e Expr) -> Node<'e> {
        let mut path = self.path(expression);
        // The accumulated value of a loop has no path.
        if path.first().is_some_and(|first| **first == *RESULT) {
            path.clear();
        }
        Node { expression, path, size: self.size(expression), kind: self.type_of(expression).clone() }
    }

    fn type_of(&self, expression: &Expr) -> &Type {
        &self.checked.types[expression.id]
    }

    fn path(&self, expression: &Expr) -> Path {
        if let Kind::Ident(name) = &expression.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.known.insert(to.id, size);
        }
        if let Some(entries) = self.entry_size(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn size_or_unknown(&mut self, expression: &Expr) -> Size {
        self.size(expression).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, expression: &Expr) -> Option<Size> {
        if let Some(size) = self.known.get(&expression.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expression) {
            return Some(size);
        }
        let path = self.path(expression);
        let path: Vec<&str> = path.iter().map(|step| &**step).collect();
        if let Some(size) = self.sizes.size(&path).filter(|_| !path.is_empty()) {
            self.known.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(self.type_of(expression)) {
            return Some(Size::exactly(1));
        }
        match &expression.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry_size(&self, expression: &Expr) -> Option<EntrySize> {
        let found = self.entries.get(&expression.id).copied();
        found.or_else(|| match &expression.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        })
    }
}

fn literal_size(expression: &Expr) -> Option<Size> {
    Some(Size::exactly(match &expression.kind {
        Kind::Literal(Value::String(text)) => text.chars().count() as u64,
        Kind::Literal(Value::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    }))
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
