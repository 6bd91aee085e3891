//! What a script does, read off its syntax tree: one list of uses for each function, for each closure, and for the top level.
//!
//! Nothing here judges; the other files of this room look at the uses.

use std::collections::BTreeSet;

use rhai::{AST, ASTFlags, ASTNode, Expr, FnAccess, FnCallExpr, FnPtr, Module, Position, ScriptFuncDef, Shared, Stmt};

use crate::script::chain::{Link, flatten};

/// One function, closure, or top level.
#[derive(Debug, Clone, Default)]
pub struct Unit {
    /// The name of the function; made up by the interpreter for closures; empty for the top level.
    pub name: String,
    /// The names of the parameters; those that a closure captures come first.
    pub params: Vec<String>,
    /// Whether only the file itself may call it.
    pub is_private: bool,
    /// What it does, in the order of the text.
    pub uses: Vec<Use>,
    /// The names of variables that it declares.
    pub locals: BTreeSet<String>,
}

impl Unit {
    /// Tells whether it is a closure.
    pub fn is_closure(&self) -> bool {
        self.name.starts_with("anon$")
    }
}

/// One thing that a unit does.
#[derive(Debug, Clone)]
pub struct Use {
    /// Where.
    pub position: Position,
    /// What.
    pub what: What,
}

/// The kinds of uses.
#[derive(Debug, Clone)]
pub enum What {
    /// It reads a variable that the interpreter has not found in the unit.
    Variable {
        /// The modules before it.
        namespace: Vec<String>,
        /// The name.
        name: String,
    },
    /// It calls a function.
    Call {
        /// The modules before it.
        namespace: Vec<String>,
        /// The name.
        name: String,
        /// The arguments.
        arguments: Vec<Argument>,
        /// What becomes of its value.
        fate: Fate,
    },
    /// It calls a method.
    Method {
        /// The name.
        name: String,
        /// The arguments.
        arguments: Vec<Argument>,
    },
    /// It goes from a variable to properties, items, and methods.
    Chain {
        /// The variable.
        root: String,
        /// The way.
        steps: Vec<Step>,
    },
    /// It assigns to a variable, or to something that the variable leads to.
    Assignment {
        /// The variable.
        root: String,
        /// The way; empty for the variable itself.
        steps: Vec<Step>,
    },
    /// It imports a file.
    Import {
        /// The path, if it is a plain text.
        path: Option<String>,
        /// The name of the module.
        alias: String,
    },
    /// It makes a closure.
    Closure {
        /// The name that the interpreter gave it.
        name: String,
        /// The function or method that it is passed to.
        passed_to: Option<String>,
        /// The variables of the unit that it sees.
        captured: Vec<String>,
        /// The first one of them that is the variable of a loop around it.
        loop_variable: Option<String>,
    },
    /// It declares a variable or a constant.
    Declaration {
        /// The name.
        name: String,
        /// Whether it is a constant.
        is_constant: bool,
        /// Whether importers see it.
        is_exported: bool,
    },
    /// It makes other modules see a variable.
    Export {
        /// The name that they see.
        name: String,
    },
    /// It returns.
    Return(Value),
    /// It names a property of a map that it makes, or assigns.
    Key(String),
}

/// What is known of a value that is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// There is none.
    Nothing,
    /// It is `false`.
    False,
    /// It is something else.
    Something,
}

/// What becomes of the value of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Something is done with it.
    Used,
    /// It is the last value of the unit, which may be the unit's own.
    Last,
    /// The unit returns it.
    Returned,
    /// It is lost.
    Lost,
}

/// What is known of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A variable.
    Variable(String),
    /// A plain text, and where it stands.
    Text(String, Position),
    /// A closure.
    Closure(String),
    /// A function by its name: `Fn("name")`.
    Pointer(String),
    /// Anything else.
    Other,
}

/// One step of a way from a variable.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where.
    pub position: Position,
    /// Whether it is taken only if there is something before it.
    pub is_safe: bool,
    /// Where to.
    pub to: To,
}

/// Where a step leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// To a property, or to an item under a plain text.
    Property(String),
    /// To an item.
    Item,
    /// To what a method returns.
    Method(String, usize),
}

/// Returns the top level of a tree, and its functions and closures.
pub fn read(ast: &AST) -> (Unit, Vec<Unit>) {
    let mut top = Walker::default();
    let count = ast.statements().len();
    for (index, statement) in ast.statements().iter().enumerate() {
        top.statement(statement, if index + 1 == count { Fate::Last } else { Fate::Lost });
    }
    let units = ast.iter_fn_def().map(|definition| {
        let mut walker = Walker::default();
        walker.body(definition);
        Unit {
            name: definition.name.to_string(),
            params: definition.params.iter().map(ToString::to_string).collect(),
            is_private: definition.access == FnAccess::Private,
            ..walker.finish()
        }
    });
    let units = units.collect();
    (top.finish(), units)
}

#[derive(Default)]
struct Walker {
    uses: Vec<Use>,
    locals: BTreeSet<String>,
    loop_variables: Vec<String>,
}

impl Walker {
    fn finish(self) -> Unit {
        Unit { uses: self.uses, locals: self.locals, ..Unit::default() }
    }

    /// The bodies of functions are not reachable but through the interpreter's own walk over a tree, here one with that function only.
    /// It visits each statement of the outermost level with a path of one node.
    fn body(&mut self, definition: &Shared<ScriptFuncDef>) {
        let mut module = Module::new();
        module.set_script_fn(Shared::clone(definition));
        let ast = AST::new_from_module(module);
        let mut count = 0;
        ast.walk(&mut |path| {
            count += usize::from(path.len() == 1);
            true
        });
        let mut index = 0;
        ast.walk(&mut |path| {
            if let [ASTNode::Stmt(statement)] = path {
                index += 1;
                self.statement(statement, if index == count { Fate::Last } else { Fate::Lost });
            }
            true
        });
    }

    fn note(&mut self, position: Position, what: What) {
        self.uses.push(Use { position, what });
    }

    fn block(&mut self, statements: &[Stmt], fate: Fate) {
        let count = statements.len();
        for (index, statement) in statements.iter().enumerate() {
            self.statement(statement, if index + 1 == count { fate } else { Fate::Lost });
        }
    }

    fn statement(&mut self, statement: &Stmt, fate: Fate) {
        match statement {
            Stmt::If(flow, _) => {
                self.expression(&flow.expr, Fate::Used);
                self.block(flow.body.statements(), fate);
                self.block(flow.branch.statements(), fate);
            }
            Stmt::Switch(parts, _) => {
                let (value, cases) = &**parts;
                self.expression(value, Fate::Used);
                for case in &cases.expressions {
                    self.expression(&case.lhs, Fate::Used);
                    self.expression(&case.rhs, fate);
                }
            }
            Stmt::While(flow, _) | Stmt::Do(flow, ..) => {
                self.expression(&flow.expr, Fate::Used);
                self.block(flow.body.statements(), Fate::Lost);
            }
            Stmt::For(parts, _) => {
                let (item, counter, flow) = &**parts;
                self.expression(&flow.expr, Fate::Used);
                let names = [Some(item), counter.as_ref()];
                let depth = self.loop_variables.len();
                for name in names.into_iter().flatten() {
                    self.locals.insert(name.name.to_string());
                    self.loop_variables.push(name.name.to_string());
                }
                self.block(flow.body.statements(), Fate::Lost);
                self.loop_variables.truncate(depth);
            }
            Stmt::Var(parts, flags, position) => {
                let (ident, value, _) = &**parts;
                self.expression(value, Fate::Used);
                self.locals.insert(ident.name.to_string());
                let is_constant = flags.contains(ASTFlags::CONSTANT);
                let is_exported = flags.contains(ASTFlags::EXPORTED);
                self.note(*position, What::Declaration { name: ident.name.to_string(), is_constant, is_exported });
            }
            Stmt::Assignment(parts) => {
                self.assignment(&parts.1.lhs, parts.0.position());
                self.expression(&parts.1.rhs, Fate::Used);
            }
            Stmt::FnCall(call, position) => self.call(call, *position, fate),
            Stmt::Block(block) => self.block(block.statements(), fate),
            Stmt::TryCatch(flow, _) => {
                self.block(flow.body.statements(), fate);
                if let Expr::Variable(parts, ..) = &flow.expr {
                    self.locals.insert(parts.1.to_string());
                }
                self.block(flow.branch.statements(), fate);
            }
            Stmt::Expr(expression) => self.expression(expression, fate),
            Stmt::BreakLoop(Some(value), ..) => self.expression(value, Fate::Used),
            Stmt::Return(value, flags, position) => {
                if let Some(value) = value {
                    let is_thrown = flags.contains(ASTFlags::BREAK);
                    self.expression(value, if is_thrown { Fate::Used } else { Fate::Returned });
                }
                if !flags.contains(ASTFlags::BREAK) {
                    self.note(*position, What::Return(known_value(value.as_deref())));
                }
            }
            Stmt::Import(parts, position) => {
                let (path, alias) = &**parts;
                let path = text_of(path);
                self.note(*position, What::Import { path, alias: alias.name.to_string() });
            }
            Stmt::Export(parts, position) => {
                let (name, alias) = &**parts;
                let seen = if alias.name.is_empty() { name } else { alias };
                self.note(*position, What::Export { name: seen.name.to_string() });
            }
            _ => {}
        }
    }

    fn expression(&mut self, expression: &Expr, fate: Fate) {
        if let Some(closure) = closure_of(expression) {
            return self.closure(closure, None);
        }
        match expression {
            Expr::InterpolatedString(parts, _) => parts.iter().for_each(|part| self.expression(part, Fate::Used)),
            Expr::Array(items, _) => items.iter().for_each(|item| self.expression(item, Fate::Used)),
            Expr::Map(parts, position) => {
                for (key, value) in &parts.0 {
                    self.note(*position, What::Key(key.name.to_string()));
                    self.expression(value, Fate::Used);
                }
            }
            Expr::Variable(parts, short, position) => {
                let namespace: Vec<String> = parts.2.path.iter().map(|part| part.name.to_string()).collect();
                if parts.0.is_none() && short.is_none() {
                    // The position of a qualified variable is that of its name, the message is about its module.
                    self.note(*position, What::Variable { namespace, name: parts.1.to_string() });
                }
            }
            Expr::Stmt(block) => self.block(block.statements(), fate),
            Expr::FnCall(call, position) => self.call(call, *position, fate),
            Expr::Dot(..) | Expr::Index(..) => self.chain(expression),
            Expr::And(parts, _) | Expr::Or(parts, _) | Expr::Coalesce(parts, _) => {
                parts.iter().for_each(|part| self.expression(part, Fate::Used));
            }
            Expr::Custom(custom, _) => custom.inputs.iter().for_each(|input| self.expression(input, Fate::Used)),
            _ => {}
        }
    }

    fn closure(&mut self, closure: Closure, passed_to: Option<&str>) {
        let Closure { name, captured, position } = closure;
        let loop_variable =
            captured.iter().find(|variable| self.loop_variables.contains(&variable.name)).map(|variable| variable.name.clone());
        for variable in captured.iter().filter(|variable| !variable.is_resolved) {
            self.note(variable.position, What::Variable { namespace: Vec::new(), name: variable.name.clone() });
        }
        let captured = captured.into_iter().map(|variable| variable.name).collect();
        self.note(position, What::Closure { name, passed_to: passed_to.map(str::to_owned), captured, loop_variable });
    }

    fn call(&mut self, call: &FnCallExpr, position: Position, fate: Fate) {
        let arguments = call.args.iter().map(argument_of).collect();
        if !call.is_operator_call() {
            let namespace = call.namespace.path.iter().map(|part| part.name.to_string()).collect();
            let name = call.name.to_string();
            self.note(position, What::Call { namespace, name, arguments, fate });
        }
        self.arguments(call);
    }

    fn arguments(&mut self, call: &FnCallExpr) {
        for argument in &call.args {
            match closure_of(argument) {
                Some(closure) => self.closure(closure, Some(&call.name)),
                None => self.expression(argument, Fate::Used),
            }
        }
    }

    fn assignment(&mut self, target: &Expr, position: Position) {
        match target {
            Expr::Variable(parts, short, place) => {
                if parts.0.is_none() && short.is_none() {
                    self.note(*place, What::Variable { namespace: Vec::new(), name: parts.1.to_string() });
                }
                self.note(*place, What::Assignment { root: parts.1.to_string(), steps: Vec::new() });
            }
            Expr::Dot(..) | Expr::Index(..) => {
                let (root, steps) = flatten(target);
                if let Expr::Variable(parts, _, place) = root {
                    let steps: Vec<Step> = steps.iter().map(|(step, is_safe)| step_of(step, *is_safe)).collect();
                    if let Some(Step { to: To::Property(name), .. }) = steps.last() {
                        self.note(*place, What::Key(name.clone()));
                    }
                    self.note(*place, What::Assignment { root: parts.1.to_string(), steps });
                }
                self.chain(target);
            }
            _ => self.note(position, What::Assignment { root: String::new(), steps: Vec::new() }),
        }
    }

    fn chain(&mut self, expression: &Expr) {
        let (root, steps) = flatten(expression);
        self.expression(root, Fate::Used);
        let root_name = match root {
            Expr::Variable(parts, ..) if parts.2.is_empty() => Some(parts.1.to_string()),
            _ => None,
        };
        for (step, _) in &steps {
            match step {
                Link::Dot(Expr::MethodCall(call, position)) => {
                    let arguments = call.args.iter().map(argument_of).collect();
                    self.note(*position, What::Method { name: call.name.to_string(), arguments });
                    self.arguments(call);
                }
                Link::Dot(Expr::Property(..)) => {}
                Link::Dot(other) | Link::Index(other) => self.expression(other, Fate::Used),
            }
        }
        if let (Some(root_name), Expr::Variable(.., position)) = (root_name, root) {
            let steps = steps.iter().map(|(step, is_safe)| step_of(step, *is_safe)).collect();
            self.note(*position, What::Chain { root: root_name, steps });
        }
    }
}

fn step_of(link: &Link<'_>, is_safe: bool) -> Step {
    let (to, position) = match link {
        Link::Dot(Expr::Property(parts, position)) => (To::Property(parts.2.to_string()), *position),
        Link::Dot(Expr::MethodCall(call, position)) => (To::Method(call.name.to_string(), call.args.len()), *position),
        Link::Index(Expr::StringConstant(text, position)) => (To::Property(text.to_string()), *position),
        Link::Dot(other) | Link::Index(other) => (To::Item, other.position()),
    };
    Step { position, is_safe, to }
}

fn known_value(value: Option<&Expr>) -> Value {
    match value {
        None | Some(Expr::Unit(_)) => Value::Nothing,
        Some(Expr::BoolConstant(false, _)) => Value::False,
        Some(_) => Value::Something,
    }
}

fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::StringConstant(text, _) => Some(text.to_string()),
        _ => None,
    }
}

fn argument_of(expression: &Expr) -> Argument {
    if let Some(closure) = closure_of(expression) {
        return Argument::Closure(closure.name);
    }
    match expression {
        Expr::Variable(parts, ..) if parts.2.is_empty() => Argument::Variable(parts.1.to_string()),
        Expr::StringConstant(text, position) => Argument::Text(text.to_string(), *position),
        Expr::FnCall(call, _) if call.name == "Fn" && call.args.len() == 1 => {
            text_of(&call.args[0]).map_or(Argument::Other, Argument::Pointer)
        }
        _ => Argument::Other,
    }
}

struct Closure {
    name: String,
    captured: Vec<Captured>,
    position: Position,
}

struct Captured {
    name: String,
    is_resolved: bool,
    position: Position,
}

/// Returns what a closure is. One that captures something is a block that shares the variables, and then curries them.
fn closure_of(expression: &Expr) -> Option<Closure> {
    match expression {
        Expr::DynamicConstant(value, position) => {
            let pointer = value.read_lock::<FnPtr>()?;
            let name = pointer.fn_name();
            name.starts_with("anon$").then(|| Closure { name: name.to_owned(), captured: Vec::new(), position: *position })
        }
        Expr::FnCall(call, _) => curried(call),
        Expr::Stmt(block) => match block.statements() {
            [Stmt::Share(_), Stmt::Expr(last)] => closure_of(last),
            [Stmt::Share(_), Stmt::FnCall(call, _)] => curried(call),
            _ => None,
        },
        _ => None,
    }
}

fn curried(call: &FnCallExpr) -> Option<Closure> {
    if call.name != "curry" || !call.namespace.is_empty() {
        return None;
    }
    let (closure, variables) = call.args.split_first()?;
    let captured = variables.iter().map(|variable| match variable {
        Expr::Variable(parts, short, position) => {
            Some(Captured { name: parts.1.to_string(), is_resolved: parts.0.is_some() || short.is_some(), position: *position })
        }
        _ => None,
    });
    Some(Closure { captured: captured.collect::<Option<_>>()?, ..closure_of(closure)? })
}
