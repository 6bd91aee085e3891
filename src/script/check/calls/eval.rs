//! The abstract evaluation of expressions.

use rhai::{BinaryExpr, Expr, FnCallExpr, OpAssignment, Position};

use super::value::{Fields, Function, Known, Values};
use super::walk::{Analysis, Frame};
use crate::script::check::facts::{self, closure_of};
use crate::script::check::flow;
use crate::script::sources::chain::{Link, flatten};

/// Methods that change their list or map, and how.
const ADDING: [&str; 4] = ["push", "insert", "append", "pad"];

/// Other methods that change their value in place.
const CHANGING: [&str; 16] = [
    "chop",
    "clear",
    "crop",
    "drain",
    "fill_with",
    "make_lower",
    "make_upper",
    "mixin",
    "remove",
    "replace",
    "set",
    "splice",
    "split_off",
    "trim",
    "truncate",
    "update",
];

/// Methods that return a part of their list, or the list in another order.
const SELECTING: [&str; 19] = [
    "copy",
    "dedup",
    "difference",
    "drain",
    "extract",
    "filter",
    "intersection",
    "order",
    "order_by",
    "order_desc",
    "retain",
    "rev",
    "reversed",
    "sorted",
    "sorted_by",
    "split_off",
    "to_array",
    "unique",
    "unique_by",
];

/// Methods that return an item of their list or map.
const PICKING: [&str; 8] = ["find", "first", "last", "max", "min", "pop", "remove", "shift"];

impl<'a> Analysis<'a> {
    /// Returns the possible values of an expression.
    pub(super) fn expression(&mut self, frame: &mut Frame<'a>, expression: &'a Expr) -> Values {
        if self.is_exhausted() && matches!(expression, Expr::InterpolatedString(..) | Expr::Array(..) | Expr::Map(..)) {
            self.inner(frame, expression);
            return Values::unknown();
        }
        if let Some(closure) = closure_of(expression) {
            return self.closure(frame, closure);
        }
        match expression {
            Expr::StringConstant(text, _) => Values::text(text.as_str()),
            Expr::CharConstant(c, _) => Values::text(c.to_string()),
            Expr::BoolConstant(..) | Expr::IntegerConstant(..) | Expr::FloatConstant(..) | Expr::Unit(_) => {
                Values::other()
            }
            Expr::InterpolatedString(parts, _) => {
                let parts: Vec<Values> = parts.iter().map(|part| self.expression(frame, part)).collect();
                parts.into_iter().fold(Values::text(""), |text, part| text.followed_by(&part))
            }
            Expr::Array(items, _) => {
                let mut all = Values::default();
                for item in items {
                    all.join(self.expression(frame, item));
                }
                Values::list(all)
            }
            Expr::Map(parts, _) => {
                let entries =
                    parts.0.iter().map(|(key, value)| (key.name.to_string(), self.expression(frame, value))).collect();
                Known::Map(Fields { entries, is_open: false }).into()
            }
            Expr::Variable(parts, ..) => {
                let namespace: Vec<&str> = parts.2.path.iter().map(|part| part.name.as_str()).collect();
                self.variable(frame, &namespace, &parts.1)
            }
            Expr::Stmt(block) => self.block(frame, block.statements()),
            Expr::FnCall(call, position) => self.function_call(frame, call, *position),
            Expr::Dot(..) | Expr::Index(..) => self.chain(frame, expression),
            Expr::And(parts, _) | Expr::Or(parts, _) => {
                for part in parts.iter() {
                    self.expression(frame, part);
                }
                Values::other()
            }
            Expr::Coalesce(parts, _) => {
                let mut value = Values::default();
                for part in parts.iter() {
                    // A value is passed over only if it is `()`.
                    value.known.remove(&Known::Other);
                    value.join(self.expression(frame, part));
                }
                value
            }
            Expr::Custom(custom, _) => {
                for input in &custom.inputs {
                    self.expression(frame, input);
                }
                Values::unknown()
            }
            _ => Values::unknown(),
        }
    }

    /// Evaluates the parts of an expression whose value is not needed.
    fn inner(&mut self, frame: &mut Frame<'a>, expression: &'a Expr) {
        match expression {
            Expr::InterpolatedString(parts, _) | Expr::Array(parts, _) => {
                for part in parts {
                    self.expression(frame, part);
                }
            }
            Expr::Map(parts, _) => {
                for (_, value) in &parts.0 {
                    self.expression(frame, value);
                }
            }
            _ => {}
        }
    }

    fn variable(&mut self, frame: &Frame<'a>, namespace: &[&str], name: &str) -> Values {
        match namespace {
            [] | ["global"] => {
                if let Some(value) = frame.variable(name).filter(|_| namespace.is_empty()) {
                    return value.clone();
                }
                let code = self.codes[frame.code];
                // The top level of code in the manifest is its body.
                let own = code.is_file().then_some(frame.code);
                let outer = self.program.outer(code).and_then(|outer| self.number_of(outer));
                let found = own.into_iter().chain(outer).find_map(|code| self.globals(code).get(name).cloned());
                found.unwrap_or_else(Values::unknown)
            }
            [alias] => {
                let exported = self.module(frame, alias).and_then(|code| self.globals(code).get(name).cloned());
                exported.unwrap_or_else(Values::unknown)
            }
            _ => Values::unknown(),
        }
    }

    /// Returns a closure with what its captured variables may be while it is called.
    fn closure(&mut self, frame: &Frame<'a>, closure: facts::Closure) -> Values {
        let captured = closure.captured.iter().map(|variable| {
            let code = self.codes[frame.code];
            let inner = code.functions(&closure.name).next();
            let is_shared = Self::is_assigned(frame.unit, &variable.name)
                || inner.is_some_and(|unit| Self::is_assigned(unit, &variable.name));
            match frame.variable(&variable.name) {
                // It may have another value when the closure is called.
                Some(_) if is_shared => Values::unknown(),
                Some(value) => value.clone(),
                None => Values::unknown(),
            }
        });
        Known::Function(Function { code: frame.code, name: closure.name.clone(), captured: captured.collect() }).into()
    }

    /// Evaluates the arguments of a call.
    pub(super) fn arguments(&mut self, frame: &mut Frame<'a>, call: &'a FnCallExpr) -> Vec<Values> {
        call.args.iter().map(|argument| self.expression(frame, argument)).collect()
    }

    /// Returns the possible values of a function call.
    pub(super) fn function_call(&mut self, frame: &mut Frame<'a>, call: &'a FnCallExpr, position: Position) -> Values {
        let arguments = self.arguments(frame, call);
        if call.is_operator_call() {
            return operator(&call.name, &arguments);
        }
        let namespace: Vec<String> = call.namespace.path.iter().map(|part| part.name.to_string()).collect();
        let code = self.codes[frame.code];
        if let Some((code, unit)) =
            flow::target(self.program, code, frame.unit, &namespace, &call.name, arguments.len())
            && let Some(number) = self.number_of(code)
        {
            return self.call(number, unit, arguments);
        }
        let namespace: Vec<&str> = namespace.iter().map(String::as_str).collect();
        self.host_call(frame, &namespace, &call.name, &arguments, position)
    }

    fn chain(&mut self, frame: &mut Frame<'a>, expression: &'a Expr) -> Values {
        let (root, links) = flatten(expression);
        let mut value = self.expression(frame, root);
        // The path from the variable, as long as it consists of properties.
        let mut path: Option<(&str, Vec<Option<String>>)> = match root {
            Expr::Variable(parts, ..) if parts.2.is_empty() => Some((parts.1.as_str(), Vec::new())),
            _ => None,
        };
        for (link, _) in links {
            match link {
                Link::Dot(Expr::Property(parts, _)) => {
                    value = value.property(&parts.2);
                    if let Some((_, path)) = &mut path {
                        path.push(Some(parts.2.to_string()));
                    }
                }
                Link::Dot(Expr::MethodCall(call, _)) => {
                    let arguments = self.arguments(frame, call);
                    let changed = self.changed(frame, &value, call, &arguments);
                    value = self.method(frame, &value, call, arguments);
                    if let Some((root, path)) = path.take()
                        && let Some(changed) = changed
                        && let Some(variable) = frame.variable_mut(root)
                    {
                        variable.set(&path.iter().map(Option::as_deref).collect::<Vec<_>>(), &changed);
                    }
                }
                Link::Dot(other) => {
                    self.expression(frame, other);
                    (value, path) = (Values::unknown(), None);
                }
                Link::Index(index) => {
                    let index = self.expression(frame, index);
                    if let Some((_, path)) = &mut path {
                        path.push(text_of(&index));
                    }
                    value = item(&value, &index);
                }
            }
        }
        value
    }

    /// Returns the new value of a receiver that a method changes in place; `None` if it changes nothing.
    fn changed(&self, frame: &Frame<'a>, value: &Values, call: &FnCallExpr, arguments: &[Values]) -> Option<Values> {
        let name = call.name.as_str();
        let is_own = self.codes[frame.code].function(name, arguments.len()).is_some();
        if is_own || CHANGING.contains(&name) {
            return Some(Values::unknown());
        }
        ADDING.contains(&name).then(|| {
            let mut items = value.items();
            for argument in arguments {
                // `append` takes a list, and the others an item.
                items.join(if name == "append" { argument.items() } else { argument.clone() });
            }
            let is_list = value.known.iter().all(|known| matches!(known, Known::List(_))) && !value.is_open;
            if is_list { Values::list(items) } else { Values::unknown() }
        })
    }

    fn method(
        &mut self,
        frame: &mut Frame<'a>,
        value: &Values,
        call: &'a FnCallExpr,
        arguments: Vec<Values>,
    ) -> Values {
        let name = call.name.as_str();
        if name == "call" {
            let mut result = Values { is_open: value.is_open, ..Values::default() };
            for function in value.functions() {
                result.join(self.apply(function, arguments.iter().cloned()));
            }
            return result;
        }
        if name == "curry" {
            return curried(value, &arguments);
        }
        let code = self.codes[frame.code];
        if let Some((code, unit)) = flow::target(self.program, code, frame.unit, &[], name, arguments.len())
            && let Some(number) = self.number_of(code)
        {
            return self.call(number, unit, arguments);
        }
        // A map may have a function under the name of the method.
        let held = value.property(name);
        for function in held.functions() {
            self.apply(function, arguments.iter().cloned());
        }
        let items = value.items();
        let mut results = Values::default();
        for function in arguments.iter().flat_map(Values::functions) {
            let given = match name {
                "reduce" | "reduce_rev" => vec![Values::unknown(), items.clone()],
                _ => vec![items.clone()],
            };
            results.join(self.apply(function, given));
        }
        match name {
            "keys" => value.keys(),
            "values" => Values::list(items),
            "map" => Values::list(results),
            "find_map" | "reduce" | "reduce_rev" => results.or(arguments.get(1).cloned().unwrap_or_else(Values::other)),
            // The path may lead to parts of parts.
            "get" if arguments.len() > 1 => Values::unknown(),
            "get" => match arguments.first().and_then(text_of) {
                Some(key) => value.property(&key),
                None => items.or(Values::other()),
            },
            "len" | "is_empty" | "contains" | "some" | "all" | "index_of" | "starts_with" | "ends_with" | "push"
            | "for_each" => Values::other(),
            "to_string" if value.known.iter().all(|known| matches!(known, Known::Text(_) | Known::Part(_))) => {
                value.clone()
            }
            _ if SELECTING.contains(&name) => value.clone(),
            _ if PICKING.contains(&name) => items.or(Values::other()),
            _ => Values::unknown(),
        }
    }

    /// Executes an assignment.
    pub(super) fn assign(&mut self, frame: &mut Frame<'a>, parts: &'a (OpAssignment, BinaryExpr)) {
        let (operation, sides) = parts;
        let mut value = self.expression(frame, &sides.rhs);
        let (root, links) = flatten(&sides.lhs);
        let mut path = Vec::new();
        for (link, _) in &links {
            path.push(match link {
                Link::Dot(Expr::Property(parts, _)) => Some(parts.2.to_string()),
                Link::Dot(other) | Link::Index(other) => text_of(&self.expression(frame, other)),
            });
        }
        let Expr::Variable(parts, ..) = root else { return };
        if operation.is_op_assignment() {
            let before = self.expression(frame, &sides.lhs);
            value = operator(operation.get_op_assignment_info().map_or("", |info| info.5), &[before, value]);
        }
        if let Some(variable) = frame.variable_mut(&parts.1) {
            variable.set(&path.iter().map(Option::as_deref).collect::<Vec<_>>(), &value);
        }
    }
}

/// Returns functions with further arguments.
fn curried(value: &Values, arguments: &[Values]) -> Values {
    let known = value.known.iter().map(|known| match known {
        Known::Function(function) => {
            let captured = function.captured.iter().chain(arguments).cloned().collect();
            Known::Function(Function { captured, ..function.clone() })
        }
        other => other.clone(),
    });
    Values { known: known.collect(), is_open: value.is_open }
}

/// Returns the result of an operator.
fn operator(name: &str, arguments: &[Values]) -> Values {
    let [first, second] = arguments else { return Values::other() };
    if name != "+" {
        return Values::other();
    }
    let is_list = |values: &Values| values.known.iter().any(|known| matches!(known, Known::List(_)));
    if is_list(first) {
        let added = if is_list(second) { second.items() } else { second.clone() };
        return Values::list(first.items().or(added));
    }
    let is_number = |values: &Values| !values.is_open && values.known.iter().all(|known| *known == Known::Other);
    if is_number(first) && is_number(second) { Values::other() } else { first.followed_by(second) }
}

/// Returns an item by its index or key.
fn item(value: &Values, index: &Values) -> Values {
    let mut found = Values { is_open: index.is_open && value.is_open, ..Values::default() };
    for known in &index.known {
        match known {
            Known::Text(key) => found.join(value.property(key)),
            _ => found.join(value.items()),
        }
    }
    if index.is_open {
        found.join(value.items());
    }
    found
}

/// Returns the only text that a value may be.
fn text_of(value: &Values) -> Option<String> {
    match value.known.iter().collect::<Vec<_>>()[..] {
        [Known::Text(text)] if !value.is_open => Some(text.clone()),
        _ => None,
    }
}
