//! The code reachable from a binding: its functions and closures, and their use of the values from the host.
//!
//! The walk starts with the arguments of the handler function, and follows calls to other functions of scripts with the
//! passed arguments, and closures with their captured variables. Each function is visited once per kind of caller.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use super::facts::{Argument, Step, To, Unit, Use, What};
use super::program::{Code, Module, Program};
use super::report::Report;
use super::settings;
use super::source::spot_of;
use super::suggest::did_you_mean;
use crate::kit::source::SourceSpan;
use crate::script::interface::declaration::BindingKind;
use crate::script::interface::problem::{Problem, Severity};
use crate::script::language::arguments;

/// The kind of code at the start of a walk, which decides what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CodeContext {
    /// A handler function, or an inline body.
    Function(BindingKind),
    /// An expression.
    Expression,
    /// The top level of a file.
    TopLevel,
    /// A transformation of a body.
    Transform,
}

impl CodeContext {
    fn title(self) -> &'static str {
        match self {
            Self::Function(BindingKind::Login) => "login functions",
            Self::Function(_) => "functions of this kind",
            Self::Expression => "expressions",
            Self::TopLevel => "the top level of a file",
            Self::Transform => "transformations",
        }
    }

    /// Returns an alternative for unavailable functions.
    fn advice(self) -> &'static str {
        match self {
            Self::Function(BindingKind::Login) => {
                "there is no connection yet: use `login::service_account()`, `login::kubeconfig()`, or `env(…)`"
            }
            Self::Function(_) => "do it in a handler",
            Self::Expression => "do it in a handler: an expression only looks at its arguments",
            Self::TopLevel => "do it in a function: the top level runs once, when the file is loaded",
            Self::Transform => {
                "do it before: a transformation only changes the body that it is given, and may run again"
            }
        }
    }

    /// Tells whether a kind of host function can be called.
    fn allows(self, effect: HostEffect) -> bool {
        match (self, effect) {
            (Self::Function(kind), HostEffect::Answer) => kind == BindingKind::Hook,
            (Self::Function(BindingKind::Change), _) => true,
            (Self::Function(BindingKind::Login), HostEffect::Cluster) | (Self::Expression | Self::TopLevel, _) => false,
            (Self::Function(_), effect) => effect != HostEffect::Subhandling,
            (Self::Transform, effect) => matches!(effect, HostEffect::Log | HostEffect::Rng),
        }
    }
}

/// An effect of a host function that is not allowed everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostEffect {
    Cluster,
    Wait,
    Log,
    Rng,
    Subhandling,
    Answer,
}

impl HostEffect {
    fn of_call(namespace: &[String], name: &str) -> Option<Self> {
        match (namespace.first().map(String::as_str), name) {
            (Some("k8s"), _) | (None, "touch") => Some(Self::Cluster),
            (Some("metric"), _) | (None, "print" | "debug") => Some(Self::Log),
            (Some("sql"), "ident" | "literal") => None,
            (Some("http" | "exec" | "file" | "sql"), _) | (None, "sleep" | "parallel") => Some(Self::Wait),
            (Some("random"), _) | (None, "now" | "random" | "uuid") => Some(Self::Rng),
            (None, "subhandler" | "execute") => Some(Self::Subhandling),
            (None, "respond") => Some(Self::Answer),
            _ => None,
        }
    }
}

/// The walk through all reachable code.
pub(super) struct Walk<'a> {
    program: &'a Program,
    indexes: &'a [String],
    report: &'a mut Report,
    visited: HashSet<Visit>,
}

/// A unit, by its position, name and number of parameters; the kind of caller; and the known types of its variables.
#[derive(PartialEq, Eq, Hash)]
struct Visit {
    place: (PathBuf, usize, usize),
    name: String,
    arity: usize,
    code_context: CodeContext,
    types: Vec<(String, String)>,
}

/// The known variables of a unit: which argument of the host they are.
type Types = BTreeMap<String, String>;

impl<'a> Walk<'a> {
    /// Returns a walk without visited code.
    pub(super) fn new(program: &'a Program, indexes: &'a [String], report: &'a mut Report) -> Self {
        Self { program, indexes, report, visited: HashSet::new() }
    }

    /// Visits a unit whose parameters, or variables, are the arguments of the same names.
    pub(super) fn enter(&mut self, code: &Code, unit: &Unit, code_context: CodeContext, arguments: &[&str]) {
        let is_top = std::ptr::eq(unit, &raw const code.top);
        let is_seen = |name: &&&str| is_top || unit.params.iter().any(|param| param == **name);
        let types = arguments.iter().filter(is_seen).map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
        self.visit(code, unit, code_context, types);
    }

    fn visit(&mut self, code: &Code, unit: &Unit, code_context: CodeContext, types: Types) {
        let types: Types = types.into_iter().filter(|(name, _)| !unit.locals.contains(name)).collect();
        let origin = &code.source.origin;
        let visit = Visit {
            place: (origin.file.clone(), origin.line, origin.column),
            name: unit.name.clone(),
            arity: unit.params.len(),
            code_context,
            types: types.iter().map(|(name, kind)| (name.clone(), kind.clone())).collect(),
        };
        if !self.visited.insert(visit) {
            return;
        }
        for usage in &unit.uses {
            self.judge(code, usage, code_context, &types);
            self.follow(code, unit, usage, code_context, &types);
        }
    }

    fn judge(&mut self, code: &Code, usage: &Use, code_context: CodeContext, types: &Types) {
        match &usage.what {
            What::Call { namespace, name, .. } => {
                if let Some(effect) =
                    HostEffect::of_call(namespace, name).filter(|effect| !code_context.allows(*effect))
                {
                    let shown = namespace.iter().chain([name]).map(String::as_str).collect::<Vec<_>>().join("::");
                    self.refuse(code, usage, &shown, effect, code_context);
                }
            }
            What::Chain { root, steps } => {
                if let Some(kind) = types.get(root) {
                    self.judge_chain(code, kind, root, steps, code_context);
                }
            }
            What::Assignment { root, steps } => {
                if let Some(kind) = types.get(root) {
                    self.judge_assignment(code, usage, (root, kind), steps, code_context);
                }
            }
            _ => {}
        }
    }

    fn refuse(&mut self, code: &Code, usage: &Use, shown: &str, effect: HostEffect, code_context: CodeContext) {
        let (message, hint) = match (effect, code_context) {
            (HostEffect::Subhandling, CodeContext::Function(_)) => (
                format!("`{shown}` is for handlers of changes only"),
                Some("sub-handlers belong to create, update, delete, resume and field handlers"),
            ),
            (HostEffect::Answer, _) => {
                (format!("`{shown}` is for hooks only"), Some("a hook returns it: `return respond(202, body);`"))
            }
            (_, CodeContext::Expression) => (
                format!("`{shown}` is not available in expressions"),
                Some(
                    "an expression only looks at its arguments: it does not write, wait, log, or depend on time or chance",
                ),
            ),
            _ => (format!("`{shown}` is not available in {}", code_context.title()), Some(code_context.advice())),
        };
        let spot = spot_of(usage.position, shown.rsplit("::").next().unwrap_or(shown).chars().count());
        self.report.add(code.source.problem(Severity::Error, spot, message, hint.map(str::to_owned)));
    }

    fn judge_chain(&mut self, code: &Code, kind: &str, root: &str, steps: &[Step], code_context: CodeContext) {
        let Some(first) = steps.first() else { return };
        if kind == "settings" {
            let keys = steps.iter().map_while(|step| match &step.to {
                To::Property(name) => Some((name.as_str(), step)),
                _ => None,
            });
            return self.judge_settings(code, root, &keys.collect::<Vec<_>>());
        }
        let Some((properties, methods)) = members(kind) else { return };
        let (name, known, noun) = match &first.to {
            To::Property(name) => (name, properties, "property"),
            To::Method(name, _) => (name, methods, "method"),
            To::Item => return,
        };
        if !known.contains(&name.as_str()) {
            let hint = did_you_mean(name, methods.iter().chain(properties).copied());
            let all = methods
                .iter()
                .map(|method| format!("{method}()"))
                .chain(properties.iter().map(|name| (*name).to_owned()));
            let all = format!("`{root}` has {}", all.collect::<Vec<_>>().join(", "));
            self.error(code, first, name, format!("`{root}` has no {noun} `{name}`"), hint.or(Some(all)));
            return;
        }
        let effect = match kind {
            "logger" => HostEffect::Log,
            "stopped" if name == "wait" => HostEffect::Wait,
            _ => return,
        };
        if !code_context.allows(effect) {
            let usage = Use { position: first.position, what: What::Key(String::new()) };
            self.refuse(code, &usage, &format!("{root}.{name}"), effect, code_context);
        }
    }

    fn judge_settings(&mut self, code: &Code, root: &str, keys: &[(&str, &Step)]) {
        let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
        if let Err(unknown) = settings::check(&names) {
            let (name, step) = keys[unknown.depth];
            let way = [&[root], &names[..=unknown.depth]].concat().join(".");
            let hint = did_you_mean(name, unknown.known.iter().copied());
            let hint = hint.unwrap_or_else(|| format!("there are {}", unknown.known.join(", ")));
            self.error(code, step, name, format!("there is no setting `{way}`"), Some(hint));
        }
    }

    fn judge_assignment(
        &mut self,
        code: &Code,
        usage: &Use,
        (root, kind): (&str, &str),
        steps: &[Step],
        code_context: CodeContext,
    ) {
        let is_view = arguments::VIEWS.contains(&kind);
        let is_handle = matches!(kind, "patch" | "memo" | "shared" | "settings" | "logger" | "stopped" | "warnings");
        let found = match steps.first() {
            None if is_handle || (is_view && !matches!(kind, "old" | "new")) => {
                let hint = match kind {
                    "patch" => "assign to its fields: `patch.status.state = …`".to_owned(),
                    "memo" => "assign to its keys: `memo.count = …`".to_owned(),
                    "shared" => "set its values: `shared.set(\"count\", …)`".to_owned(),
                    "settings" => "assign to its fields: `settings.posting.enabled = …`".to_owned(),
                    _ => "use another name for a variable of your own".to_owned(),
                };
                Some((format!("assigning to `{root}` only replaces the variable, and changes nothing else"), hint))
            }
            Some(_) if is_view => {
                Some((format!("`{root}` cannot be changed: the object is read-only"), view_hint(kind, steps)))
            }
            Some(_) if code_context == CodeContext::Expression && matches!(kind, "patch" | "memo") => {
                Some((format!("`{root}` is read-only in expressions"), "change it in a handler".to_owned()))
            }
            _ => None,
        };
        if let Some((message, hint)) = found {
            let spot = spot_of(usage.position, root.chars().count());
            self.report.add(code.source.problem(Severity::Error, spot, message, Some(hint)));
        }
    }

    fn error(&mut self, code: &Code, step: &Step, name: &str, message: String, hint: Option<String>) {
        let spot = spot_of(step.position, name.chars().count());
        self.report.add(code.source.problem(Severity::Error, spot, message, hint));
    }

    fn follow(&mut self, code: &Code, unit: &Unit, usage: &Use, code_context: CodeContext, types: &Types) {
        match &usage.what {
            What::Call { namespace, name, arguments, .. } => {
                if namespace.is_empty() && name == "subhandler" {
                    for argument in arguments {
                        self.check_subhandler(code, argument, usage);
                    }
                }
                let Some((target_code, target)) = target(self.program, code, unit, namespace, name, arguments.len())
                else {
                    return;
                };
                let passed = target.params.iter().zip(arguments).filter_map(|(param, argument)| match argument {
                    Argument::Variable(variable) => types.get(variable).map(|kind| (param.clone(), kind.clone())),
                    _ => None,
                });
                let passed = passed.collect();
                self.visit(target_code, target, code_context, passed);
            }
            What::Closure { name, passed_to, captured, .. } => {
                let Some(closure) = code.functions(name).next() else { return };
                let mut inner: Types = captured
                    .iter()
                    .filter_map(|variable| types.get(variable).map(|kind| (variable.clone(), kind.clone())))
                    .collect();
                if passed_to.as_deref() == Some("subhandler") {
                    let known = arguments::known(BindingKind::Change);
                    let own = closure.params.iter().skip(captured.len());
                    inner.extend(
                        own.filter(|param| known.contains(&param.as_str())).map(|param| (param.clone(), param.clone())),
                    );
                }
                let code_context =
                    if passed_to.as_deref() == Some("transform") { CodeContext::Transform } else { code_context };
                self.visit(code, closure, code_context, inner);
            }
            _ => {}
        }
    }

    /// The parameters of a sub-handler are arguments, like those of the handler.
    fn check_subhandler(&mut self, code: &Code, argument: &Argument, usage: &Use) {
        let spots = match argument {
            Argument::Closure(_) => code.source.closure(spot_of(usage.position, 1)),
            Argument::Pointer(name) => {
                let unit = code.functions(name).next();
                let function = unit.and_then(|unit| code.source.function(name, unit.params.len()));
                function.map(|(_, spots)| spots.clone()).unwrap_or_default()
            }
            _ => return,
        };
        let known = arguments::known(BindingKind::Change);
        for (name, spot) in spots {
            check_parameter(code, BindingKind::Change, &name, spot, &known, self.indexes, None, self.report);
        }
    }
}

/// Returns the called function, if it is one of the scripts.
pub(super) fn target<'b>(
    program: &'b Program,
    code: &'b Code,
    unit: &Unit,
    namespace: &[String],
    name: &str,
    arity: usize,
) -> Option<(&'b Code, &'b Unit)> {
    match namespace {
        [] => {
            let codes = [Some(code), program.outer(code)];
            codes.into_iter().flatten().find_map(|code| code.function(name, arity).map(|unit| (code, unit)))
        }
        [alias] => match program.module(code, unit, alias) {
            Module::File(file) => file.function(name, arity).map(|unit| (file, unit)),
            Module::Unknown | Module::Unclear => None,
        },
        _ => None,
    }
}

/// Reports a parameter that is not an argument of the kind of binding.
#[expect(clippy::too_many_arguments, reason = "a parameter, its expected value, and the position of the report")]
pub(super) fn check_parameter(
    code: &Code,
    kind: BindingKind,
    name: &str,
    spot: SourceSpan,
    known: &[&str],
    indexes: &[String],
    binding: Option<usize>,
    report: &mut Report,
) {
    let is_known = known.contains(&name) || indexes.iter().any(|index| index == name);
    if is_known {
        return;
    }
    let all = || known.iter().copied().chain(indexes.iter().map(String::as_str));
    let hint = did_you_mean(name, all());
    let list = format!("there are {}", all().collect::<Vec<_>>().join(", "));
    let hint = hint.map_or_else(|| list.clone(), |hint| format!("{hint} {list}"));
    let message = format!("`{name}` is no argument of {}", title(kind));
    report.add(Problem { binding, ..code.source.problem(Severity::Error, spot, message, Some(hint)) });
}

fn title(kind: BindingKind) -> &'static str {
    match kind {
        BindingKind::Change => "change handlers",
        BindingKind::Event => "event handlers",
        BindingKind::Timer => "timers",
        BindingKind::Daemon => "daemons",
        BindingKind::Index => "indexes",
        BindingKind::Validate => "validations",
        BindingKind::Mutate => "mutations",
        BindingKind::Convert => "conversions",
        BindingKind::Startup => "startup functions",
        BindingKind::Activity => "activities",
        BindingKind::Login => "login functions",
        BindingKind::Schedule => "schedules",
        BindingKind::Hook => "hooks",
        BindingKind::Reconcile => "reconcile functions",
        BindingKind::Map => "map functions",
    }
}

/// The properties and methods of the host's handles.
fn members(kind: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    match kind {
        "logger" => Some((&[], &["debug", "info", "warning", "error"])),
        "stopped" => Some((&["reason"], &["is_set", "wait"])),
        "warnings" => Some((&[], &["push", "len", "is_empty"])),
        _ => None,
    }
}

fn view_hint(kind: &str, steps: &[Step]) -> String {
    let start = match kind {
        "body" => "patch",
        "spec" => "patch.spec",
        "status" => "patch.status",
        "meta" => "patch.metadata",
        "labels" => "patch.metadata.labels",
        "annotations" => "patch.metadata.annotations",
        _ => return "copy it first: `let changed = old.copy();`".replace("old", kind),
    };
    let names = steps.iter().map_while(|step| match &step.to {
        To::Property(name) => Some(name),
        _ => None,
    });
    let is_word = |name: &str| {
        name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric())
    };
    let way =
        names.fold(
            start.to_owned(),
            |way, name| if is_word(name) { format!("{way}.{name}") } else { format!("{way}[{name:?}]") },
        );
    format!("assign to `{way}`")
}
