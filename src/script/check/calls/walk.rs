//! The abstract execution of statements: all branches, with the values that variables may have.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;

use rhai::{ASTFlags, Expr, Position, Stmt};

use super::value::{Function, Known, Part, Values};
use crate::script::check::facts::{Unit, What};
use crate::script::check::program::{Code, Module, Program};
use crate::script::check::source::spot_of;
use crate::script::interface::access::{Access, Calls};

/// Limit of rounds of a loop until the values of its variables are known, or given up.
const ROUNDS: usize = 4;

/// Limit of nested calls; deeper ones are analysed with unknown arguments.
const MAX_CALLS: usize = 24;

/// Limit of evaluated expressions of an operator. Beyond it, arguments are unknown, so that each function is analysed
/// once.
const MAX_STEPS: u64 = 1_000_000;

/// The analysis of one operator.
pub(super) struct Analysis<'a> {
    pub(super) program: &'a Program,
    pub(super) root: &'a Path,
    /// All code, by number.
    pub(super) codes: Vec<&'a Code>,
    /// The requests and effects that were found.
    pub(super) calls: Calls,
    /// The binding whose code is analysed.
    pub(super) binding: usize,
    /// Results of calls by their arguments; `None` while they run.
    results: HashMap<CallKey, Option<Values>>,
    /// The variables of top levels.
    globals: HashMap<usize, Rc<BTreeMap<String, Values>>>,
    depth: usize,
    steps: u64,
}

/// One function with its arguments.
#[derive(PartialEq, Eq, Hash)]
struct CallKey {
    binding: usize,
    code: usize,
    name: String,
    arguments: Vec<Values>,
}

/// One running function.
pub(super) struct Frame<'a> {
    /// The number of its code.
    pub code: usize,
    /// The function.
    pub unit: &'a Unit,
    /// Its variables; inner ones come last.
    pub variables: Vec<(String, Values)>,
    /// The possible values of its `return` statements.
    pub returned: Values,
}

impl Frame<'_> {
    /// Returns the value of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<&Values> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the place of a variable.
    pub(super) fn variable_mut(&mut self, name: &str) -> Option<&mut Values> {
        self.variables.iter_mut().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn join(&mut self, other: Vec<(String, Values)>) {
        for ((_, value), (_, other)) in self.variables.iter_mut().zip(other) {
            value.join(other);
        }
    }
}

impl<'a> Analysis<'a> {
    /// Returns an analysis without findings.
    pub(super) fn new(program: &'a Program, root: &'a Path, codes: Vec<&'a Code>) -> Self {
        Self {
            program,
            root,
            codes,
            calls: Calls::default(),
            binding: 0,
            results: HashMap::new(),
            globals: HashMap::new(),
            depth: 0,
            steps: 0,
        }
    }

    /// Returns the number of a code.
    pub(super) fn number_of(&self, code: &Code) -> Option<usize> {
        self.codes.iter().position(|known| std::ptr::eq(*known, code))
    }

    /// Analyses the function of a binding, whose parameters are arguments of the same names.
    pub(super) fn enter(&mut self, code: usize, unit: &'a Unit, param: &Values) {
        let arguments = unit.params.iter().map(|name| argument(name, param)).collect();
        self.call(code, unit, arguments);
    }

    /// Analyses code of the manifest, whose variables are arguments.
    pub(super) fn enter_inline(&mut self, code: usize, param: &Values) {
        let unit = &self.codes[code].top;
        let arguments = ["body", "meta", "namespace", "name", "event", "param"]
            .map(|name| (name.to_owned(), argument(name, param)));
        let mut frame = Frame { code, unit, variables: arguments.into(), returned: Values::default() };
        self.block(&mut frame, &unit.body);
    }

    /// Returns the possible results of a function for some arguments.
    pub(super) fn call(&mut self, code: usize, unit: &'a Unit, mut arguments: Vec<Values>) -> Values {
        if self.depth >= MAX_CALLS || self.is_exhausted() {
            arguments = unit.params.iter().map(|_| Values::unknown()).collect();
        }
        arguments.resize(unit.params.len(), Values::unknown());
        let key = || CallKey {
            binding: self.binding,
            code,
            name: format!("{}/{}", unit.name, unit.params.len()),
            arguments: arguments.clone(),
        };
        if let Some(known) = self.results.get(&key()) {
            // A call of itself has no other results than those of its other branches.
            return known.clone().unwrap_or_else(Values::unknown);
        }
        let key = key();
        self.results.insert(CallKey { arguments: arguments.clone(), name: key.name.clone(), ..key }, None);
        let variables = unit.params.iter().cloned().zip(arguments.iter().cloned()).collect();
        let mut frame = Frame { code, unit, variables, returned: Values::default() };
        self.depth += 1;
        let last = self.block(&mut frame, &unit.body);
        self.depth -= 1;
        let result = frame.returned.or(last);
        let key =
            CallKey { binding: self.binding, code, name: format!("{}/{}", unit.name, unit.params.len()), arguments };
        self.results.insert(key, Some(result.clone()));
        result
    }

    /// Calls a function value. Missing arguments are unknown.
    pub(super) fn apply(&mut self, function: &Function, arguments: impl IntoIterator<Item = Values>) -> Values {
        let code = self.codes[function.code];
        let Some(unit) = code.units.iter().find(|unit| unit.name == function.name) else { return Values::unknown() };
        self.call(function.code, unit, function.captured.iter().cloned().chain(arguments).collect())
    }

    /// Calls the functions among some values with unknown arguments: other code may call them.
    pub(super) fn escape(&mut self, values: &[Values]) {
        for function in values.iter().flat_map(Values::functions) {
            self.apply(function, []);
        }
    }

    /// Counts a step. Returns whether there were too many.
    pub(super) fn is_exhausted(&mut self) -> bool {
        self.steps += 1;
        self.steps > MAX_STEPS
    }

    /// Adds a request.
    pub(super) fn found(&mut self, access: Access) {
        self.calls.accesses.push(access);
    }

    /// Returns the position of a use in a file, and the number of marked characters.
    pub(super) fn place(&self, code: usize, position: Position, length: usize) -> crate::kit::source::SourcePosition {
        self.codes[code].source.place(spot_of(position, length))
    }

    /// Returns the variables of the top level of a file.
    pub(super) fn globals(&mut self, code: usize) -> Rc<BTreeMap<String, Values>> {
        if let Some(known) = self.globals.get(&code) {
            return Rc::clone(known);
        }
        // A constant cannot use itself.
        self.globals.insert(code, Rc::default());
        let unit = &self.codes[code].top;
        let mut frame = Frame { code, unit, variables: Vec::new(), returned: Values::default() };
        for statement in &unit.body {
            self.statement(&mut frame, statement);
        }
        let globals = Rc::new(frame.variables.into_iter().collect());
        self.globals.insert(code, Rc::clone(&globals));
        globals
    }

    /// Returns the file of an alias.
    pub(super) fn module(&self, frame: &Frame<'_>, alias: &str) -> Option<usize> {
        match self.program.module(self.codes[frame.code], frame.unit, alias) {
            Module::File(file) => self.number_of(file),
            Module::Unknown | Module::Unclear => None,
        }
    }

    /// Executes statements with variables of their own, and returns the value of the last one.
    pub(super) fn block(&mut self, frame: &mut Frame<'a>, statements: &'a [Stmt]) -> Values {
        let outer = frame.variables.len();
        let mut last = Values::other();
        for statement in statements {
            last = self.statement(frame, statement);
        }
        frame.variables.truncate(outer);
        last
    }

    fn statement(&mut self, frame: &mut Frame<'a>, statement: &'a Stmt) -> Values {
        match statement {
            Stmt::If(flow, _) => {
                self.expression(frame, &flow.expr);
                self.branches(frame, &[flow.body.statements(), flow.branch.statements()])
            }
            Stmt::Switch(parts, _) => self.switch(frame, parts),
            Stmt::While(flow, _) | Stmt::Do(flow, ..) => {
                self.repeat(frame, |analysis, frame| {
                    analysis.expression(frame, &flow.expr);
                    analysis.block(frame, flow.body.statements());
                });
                Values::other()
            }
            Stmt::For(parts, _) => {
                let (item, counter, flow) = &**parts;
                let items = self.expression(frame, &flow.expr).items();
                self.repeat(frame, |analysis, frame| {
                    frame.variables.push((item.name.to_string(), items.clone()));
                    frame.variables.extend(counter.iter().map(|counter| (counter.name.to_string(), Values::other())));
                    analysis.block(frame, flow.body.statements());
                });
                Values::other()
            }
            Stmt::Var(parts, ..) => {
                let (ident, value, _) = &**parts;
                let value = self.expression(frame, value);
                frame.variables.push((ident.name.to_string(), value));
                Values::other()
            }
            Stmt::Assignment(parts) => {
                self.assign(frame, parts);
                Values::other()
            }
            Stmt::FnCall(call, position) => self.function_call(frame, call, *position),
            Stmt::Block(block) => self.block(frame, block.statements()),
            Stmt::TryCatch(flow, _) => {
                let before = frame.variables.clone();
                let value = self.block(frame, flow.body.statements());
                frame.join(before);
                let outer = frame.variables.len();
                if let Expr::Variable(parts, ..) = &flow.expr {
                    frame.variables.push((parts.1.to_string(), Values::unknown()));
                }
                let caught = self.block(frame, flow.branch.statements());
                frame.variables.truncate(outer);
                value.or(caught)
            }
            Stmt::Expr(expression) => self.expression(frame, expression),
            Stmt::BreakLoop(Some(value), ..) => self.expression(frame, value),
            Stmt::Return(value, flags, _) => {
                let value = value.as_ref().map_or_else(Values::other, |value| self.expression(frame, value));
                if !flags.contains(ASTFlags::BREAK) {
                    frame.returned.join(value);
                }
                Values::default()
            }
            _ => Values::other(),
        }
    }

    /// Executes blocks of which one is chosen.
    fn branches(&mut self, frame: &mut Frame<'a>, blocks: &[&'a [Stmt]]) -> Values {
        let before = frame.variables.clone();
        let (mut value, mut ends) = (Values::default(), Vec::new());
        for block in blocks {
            frame.variables.clone_from(&before);
            value.join(self.block(frame, block));
            ends.push(std::mem::take(&mut frame.variables));
        }
        frame.variables = ends.pop().unwrap_or(before);
        for end in ends {
            frame.join(end);
        }
        value
    }

    fn switch(&mut self, frame: &mut Frame<'a>, parts: &'a (Expr, rhai::SwitchCasesCollection)) -> Values {
        let (subject, cases) = parts;
        self.expression(frame, subject);
        let before = frame.variables.clone();
        let mut value = if cases.def_case.is_some() { Values::default() } else { Values::other() };
        for case in &cases.expressions {
            let mut after = std::mem::replace(&mut frame.variables, before.clone());
            self.expression(frame, &case.lhs);
            value.join(self.expression(frame, &case.rhs));
            std::mem::swap(&mut frame.variables, &mut after);
            frame.join(after);
        }
        value
    }

    /// Executes the body of a loop until the values of variables reach a fixed point.
    fn repeat(&mut self, frame: &mut Frame<'a>, mut body: impl FnMut(&mut Self, &mut Frame<'a>)) {
        let outer = frame.variables.len();
        for round in 0..=ROUNDS {
            let before = frame.variables.clone();
            body(self, frame);
            frame.variables.truncate(outer);
            frame.join(before.clone());
            if frame.variables == before {
                return;
            }
            if round + 1 == ROUNDS {
                for ((_, value), (_, before)) in frame.variables.iter_mut().zip(&before) {
                    if value != before {
                        *value = Values::unknown();
                    }
                }
            }
        }
    }

    /// Tells whether a unit assigns to a variable, or to a part of it.
    pub(super) fn is_assigned(unit: &Unit, variable: &str) -> bool {
        unit.uses.iter().any(|usage| matches!(&usage.what, What::Assignment { root, .. } if root == variable))
    }
}

/// Returns the known values of an argument of the host.
pub(super) fn argument(name: &str, param: &Values) -> Values {
    let part = match name {
        "body" => Part::Object,
        "meta" => Part::Metadata,
        "namespace" => Part::Namespace,
        "name" => Part::Name,
        "event" => Part::Event,
        "param" => return param.clone(),
        _ => return Values::unknown(),
    };
    Known::Part(part).into()
}
