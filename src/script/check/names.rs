//! Unknown variables, functions, methods, and modules, and calls with a wrong number of arguments.

use std::collections::BTreeSet;

use super::catalogue::Catalogue;
use super::facts::{Argument, Unit, Use, What};
use super::program::{Code, Module, Program};
use super::python;
use super::report::Report;
use super::source::spot_of;
use super::suggest::{closest, did_you_mean};
use crate::script::interface::problem::{Problem, Severity};
use crate::script::language::arguments;

/// The context in which the names of one text are looked up.
pub(super) struct Names<'a> {
    /// All files.
    pub program: &'a Program,
    /// The functions of the language and of the host.
    pub catalogue: &'a Catalogue,
    /// The keys of maps in all scripts, which may contain functions.
    pub keys: &'a BTreeSet<String>,
    /// The text.
    pub code: &'a Code,
    /// The arguments that the top level sees.
    pub arguments: &'a [String],
    /// The names of indexes.
    pub indexes: &'a [String],
}

impl Names<'_> {
    /// Reports every unknown name of the text.
    pub(super) fn check(&self, report: &mut Report) {
        for unit in std::iter::once(&self.code.top).chain(&self.code.units) {
            for usage in &unit.uses {
                self.check_use(unit, usage, report);
            }
        }
    }

    fn check_use(&self, unit: &Unit, usage: &Use, report: &mut Report) {
        let found = match &usage.what {
            What::Variable { namespace, name } if namespace.is_empty() => {
                self.variable(unit, name).map(|(text, hint)| (name, text, hint))
            }
            What::Variable { namespace, name } => {
                self.qualified_variable(unit, namespace, name).map(|(text, hint)| (name, text, hint))
            }
            What::Call { namespace, name, arguments, .. } if namespace.is_empty() => {
                self.call(unit, name, arguments).map(|(text, hint)| (name, text, hint))
            }
            What::Call { namespace, name, arguments, .. } => {
                self.qualified_call(unit, namespace, name, arguments.len()).map(|(text, hint)| (name, text, hint))
            }
            What::Method { name, arguments, .. } => {
                self.method(name, arguments.len()).map(|(text, hint)| (name, text, hint))
            }
            _ => None,
        };
        if let Some((name, message, hint)) = found {
            let place = self.code.source.place(spot_of(usage.position, 1));
            report.add(Problem { length: name.chars().count(), hint, ..Problem::at(Severity::Error, place, message) });
        }
    }

    fn outer(&self) -> Option<&Code> {
        self.program.outer(self.code)
    }

    fn codes(&self) -> impl Iterator<Item = &Code> {
        std::iter::once(self.code).chain(self.outer())
    }

    fn variable(&self, unit: &Unit, name: &str) -> Option<Finding> {
        let is_top = std::ptr::eq(unit, &raw const self.code.top);
        let is_known = unit.params.iter().any(|param| param == name)
            || (is_top && self.arguments.iter().any(|argument| argument == name))
            || self.codes().any(|code| code.has_constant(name) || code.functions(name).next().is_some());
        if is_known {
            return None;
        }
        let message = format!("unknown variable `{name}`");
        if let Some(hint) = python::of_name(name) {
            return Some((message, Some(hint.to_owned())));
        }
        if self.codes().any(|code| code.has_variable(name)) {
            return Some((
                message,
                Some(format!(
                    "functions do not see variables of the top level: write `const {name} = …`, or use `memo`"
                )),
            ));
        }
        let of_function = !is_top && !unit.is_closure();
        if of_function && (arguments::is_argument(name) || self.indexes.iter().any(|index| index == name)) {
            return Some((
                message,
                Some(format!("`{name}` is an argument: add it to the parameters of `{}`", unit.name)),
            ));
        }
        if is_top && arguments::is_argument(name) && !self.arguments.is_empty() {
            return Some((
                message,
                Some(format!("`{name}` is no argument here: there are {}", self.arguments.join(", "))),
            ));
        }
        // A closure captures the variables that exist at its creation, before the assignment.
        if let Some(function) = self.assigned_closure(unit, name) {
            let hint = format!(
                "a closure cannot call itself by the variable that it is assigned to: write `fn {name}({function}) {{ … }}`"
            );
            return Some((message, Some(hint)));
        }
        let arguments = if is_top { self.arguments } else { &[] };
        let own = unit.params.iter().chain(&unit.locals).chain(arguments).map(String::as_str);
        let constants = self.codes().flat_map(Code::constants);
        let hint = did_you_mean(name, own.chain(constants));
        let known = || match arguments {
            [] => format!("declare it by `let {name} = …`"),
            arguments => format!("there are {}", arguments.join(", ")),
        };
        Some((message, Some(hint.unwrap_or_else(known))))
    }

    /// Returns the parameters of a closure that uses the variable it is assigned to.
    fn assigned_closure(&self, unit: &Unit, name: &str) -> Option<String> {
        let assigned = unit.uses.windows(2).find_map(|pair| match (&pair[0].what, &pair[1].what) {
            (What::Closure { name: closure, captured, .. }, What::Declaration { name: declared, .. })
                if declared == name =>
            {
                Some((closure, captured))
            }
            _ => None,
        });
        let (closure, captured) = assigned.filter(|(_, captured)| captured.iter().any(|variable| variable == name))?;
        let unit = self.code.functions(closure).next()?;
        Some(unit.params.iter().skip(captured.len()).map(String::as_str).collect::<Vec<_>>().join(", "))
    }

    fn qualified_variable(&self, unit: &Unit, namespace: &[String], name: &str) -> Option<Finding> {
        let module = &namespace[0];
        if module == "global" {
            let is_known = self.codes().any(|code| code.has_constant(name));
            return (!is_known).then(|| {
                let meant = did_you_mean(name, self.codes().flat_map(Code::constants));
                let hint = meant.unwrap_or_else(|| format!("declare it at the top level: `const {name} = …;`"));
                (format!("unknown constant `global::{name}`"), Some(hint))
            });
        }
        match self.program.module(self.code, unit, module) {
            Module::File(file) if namespace.len() == 1 && !file.exports(name) => {
                let exported = || did_you_mean(name, file.constants().filter(|constant| file.exports(constant)));
                let meant = if file.has_constant(name) { None } else { exported() };
                let hint = meant.unwrap_or_else(|| format!("write `export const {name} = …;` in {}", file.name));
                Some((format!("the module `{module}` exports no `{name}`"), Some(hint)))
            }
            Module::Unknown if self.catalogue.module(module).is_some() => {
                let hint = format!("`{module}` has only functions, which are called by `{module}::name(…)`");
                Some((format!("there is no constant `{module}::{name}`"), Some(hint)))
            }
            Module::Unknown => Some(self.unknown_module(module)),
            Module::File(_) | Module::Unclear => None,
        }
    }

    fn call(&self, unit: &Unit, name: &str, given: &[Argument]) -> Option<Finding> {
        if name == "Fn" {
            return match given {
                [Argument::Text(target, _)] => self.pointer(target),
                _ => None,
            };
        }
        if Catalogue::is_open(name) {
            return None;
        }
        if name == "exit" && self.codes().all(|code| code.functions(name).next().is_none()) {
            return Some((
                "`exit` is not available".to_owned(),
                Some("end the function by `return`, or by `throw`".to_owned()),
            ));
        }
        let arity = given.len();
        let mut arities = BTreeSet::new();
        for code in self.codes() {
            arities.extend(code.functions(name).map(|function| function.params.len()));
        }
        arities.extend(self.catalogue.function(name).into_iter().flatten());
        if arities.contains(&arity) {
            return None;
        }
        if !arities.is_empty() {
            return Some(wrong_number(name, &arities, arity, self.codes().flat_map(|code| code.functions(name))));
        }
        let is_variable = unit.locals.contains(name) || unit.params.iter().any(|param| param == name);
        if is_variable {
            return Some((
                format!("`{name}` is a variable, not a function"),
                Some(format!("call what it holds by `{name}.call(…)`")),
            ));
        }
        if let Some(hint) = python::of_function(name) {
            return Some((format!("unknown function `{name}`"), Some(hint.to_owned())));
        }
        let functions = self.codes().flat_map(Code::function_names);
        let qualified = self
            .catalogue
            .modules()
            .find(|module| self.catalogue.module(module).is_some_and(|module| module.contains_key(name)));
        let hint = did_you_mean(name, functions.chain(self.catalogue.functions()));
        let hint = hint.or_else(|| qualified.map(|module| format!("did you mean `{module}::{name}`?")));
        let method = || {
            closest(name, self.catalogue.methods())
                .map(|method| format!("did you mean the method `value.{method}(…)`?"))
        };
        let hint = hint
            .or_else(method)
            .unwrap_or_else(|| format!("define it by `fn {name}(…) {{ … }}`, or import the file that has it"));
        Some((format!("unknown function `{name}`"), Some(hint)))
    }

    fn pointer(&self, target: &str) -> Option<Finding> {
        if self.codes().any(|code| code.functions(target).next().is_some()) || self.catalogue.function(target).is_some()
        {
            return None;
        }
        let hint = if target.contains("::") {
            "a function of another module cannot be passed by its name: wrap it in a closure".to_owned()
        } else {
            let meant = did_you_mean(target, self.codes().flat_map(Code::function_names));
            meant.unwrap_or_else(|| format!("define it by `fn {target}(…) {{ … }}`, or pass a closure: `|x| …`"))
        };
        Some((format!("`Fn` names an unknown function `{target}`"), Some(hint)))
    }

    fn qualified_call(&self, unit: &Unit, namespace: &[String], name: &str, arity: usize) -> Option<Finding> {
        let [module] = namespace else { return None };
        match self.program.module(self.code, unit, module) {
            Module::Unclear => return None,
            Module::File(file) => {
                let public = || file.functions(name).filter(|function| !function.is_private);
                let arities: BTreeSet<usize> = public().map(|function| function.params.len()).collect();
                return match arities.is_empty() {
                    false if arities.contains(&arity) => None,
                    false => Some(wrong_number(&format!("{module}::{name}"), &arities, arity, public())),
                    true if file.functions(name).next().is_some() => Some((
                        format!("the function `{name}` of the module `{module}` is private"),
                        Some(format!("remove `private` in {}", file.name)),
                    )),
                    true => {
                        let hint = did_you_mean(name, file.function_names());
                        let hint =
                            hint.unwrap_or_else(|| format!("define it by `fn {name}(…) {{ … }}` in {}", file.name));
                        Some((format!("unknown function `{module}::{name}`"), Some(hint)))
                    }
                };
            }
            Module::Unknown => {}
        }
        if module == "global" {
            return self.call(unit, name, &vec![Argument::Other; arity]);
        }
        let Some(functions) = self.catalogue.module(module) else { return Some(self.unknown_module(module)) };
        match functions.get(name) {
            Some(arities) if arities.contains(&arity) => None,
            Some(arities) => Some(wrong_number(&format!("{module}::{name}"), arities, arity, [])),
            None => {
                let hint = did_you_mean(name, functions.keys().map(String::as_str));
                let all = functions.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                Some((
                    format!("unknown function `{module}::{name}`"),
                    hint.or_else(|| Some(format!("`{module}` has {all}"))),
                ))
            }
        }
    }

    fn unknown_module(&self, module: &str) -> Finding {
        let imported = self.codes().flat_map(|code| &code.top.uses).filter_map(|usage| match &usage.what {
            What::Import { alias, .. } => Some(alias.as_str()),
            _ => None,
        });
        let hint = did_you_mean(module, imported.chain(self.catalogue.modules()));
        let hint =
            hint.unwrap_or_else(|| format!("import the file that has it: `import \"lib/{module}\" as {module};`"));
        (format!("unknown module `{module}`"), Some(hint))
    }

    /// A method is a function of the host whose first argument is the value, or a function of the script with the value
    /// as `this`. A function in a map can also be called like a method.
    fn method(&self, name: &str, arity: usize) -> Option<Finding> {
        if Catalogue::is_open(name) || self.keys.contains(name) {
            return None;
        }
        let mut arities: BTreeSet<usize> =
            self.catalogue.function(name).into_iter().flatten().filter_map(|arity| arity.checked_sub(1)).collect();
        for code in self.codes() {
            arities.extend(code.functions(name).map(|function| function.params.len()));
        }
        if arities.contains(&arity) {
            return None;
        }
        if arities.is_empty() {
            let functions = self.catalogue.methods().chain(self.codes().flat_map(Code::function_names));
            let hint = python::of_method(name).map(str::to_owned).or_else(|| did_you_mean(name, functions));
            let hint = hint.unwrap_or_else(|| {
                format!("define it by `fn {name}(…) {{ … }}`, in which `this` is the value before the dot")
            });
            return Some((format!("unknown method `{name}`"), Some(hint)));
        }
        Some(wrong_number(name, &arities, arity, self.codes().flat_map(|code| code.functions(name))))
    }
}

type Finding = (String, Option<String>);

/// Returns the message about a wrong number of arguments. `functions` are those of scripts that may have been meant.
fn wrong_number<'a>(
    name: &str,
    arities: &BTreeSet<usize>,
    given: usize,
    functions: impl IntoIterator<Item = &'a Unit>,
) -> Finding {
    let known: Vec<String> = arities.iter().map(usize::to_string).collect();
    let known = match known.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    let noun = if known == "1" { "argument" } else { "arguments" };
    let declared = functions
        .into_iter()
        .next()
        .map(|unit| format!("it is declared as `fn {}({})`", unit.name, unit.params.join(", ")));
    let hint = declared.unwrap_or_else(|| way_to(arities, given));
    (format!("`{name}` takes {known} {noun}, {given} given"), Some(hint))
}

/// Returns the hint on the arguments to add or to leave out, given the accepted numbers of arguments.
fn way_to(arities: &BTreeSet<usize>, given: usize) -> String {
    let fewer = arities.range(..given).next_back();
    match (fewer, arities.range(given..).next()) {
        (Some(fewer), None) if *fewer == 0 => "leave the arguments out".to_owned(),
        (Some(fewer), None) if given - fewer == 1 => "leave the last argument out".to_owned(),
        (Some(fewer), None) => format!("leave the last {} arguments out", given - fewer),
        (_, Some(more)) if more - given == 1 => "add the missing argument".to_owned(),
        (_, Some(more)) => format!("add the {} missing arguments", more - given),
        (None, None) => "call it in another way".to_owned(),
    }
}
