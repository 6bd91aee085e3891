//! The requests that scripts send to the cluster, found by executing all code abstractly: from each binding through
//! functions, closures and imports, with all values that variables may have.
//!
//! A value that cannot be known is said to be unknown; it is never guessed. Names of kinds, of objects and of
//! namespaces are literal texts, constants, parts of the handled object, or come from templates.

use super::facts::{Step, To, Unit, Value, What};
use super::program::{Code, Program};
use super::source::Source;
use crate::script::interface::access::Calls;
use crate::script::interface::declaration::{Binding, BindingKind, Code as Declared, Declaration};
use crate::script::sources::program::name_of;

mod eval;
mod host;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod walk;

use value::Values;
use walk::Analysis;

/// Returns the requests and effects of a declaration's code. `inlines` has the compiled inline code of bindings, by
/// their numbers.
pub(super) fn find<'a>(declaration: &'a Declaration, program: &'a Program, inlines: &[(usize, &'a Code)]) -> Calls {
    let codes = program.files().chain(inlines.iter().map(|(_, code)| *code)).collect();
    let mut analysis = Analysis::new(program, &declaration.root, codes);
    for (index, binding) in declaration.bindings.iter().enumerate() {
        // There is no cluster yet.
        if binding.kind == BindingKind::Login {
            continue;
        }
        analysis.binding = index;
        let param = Values::of_json(&binding.param);
        match &binding.code {
            Declared::Function { file, name } => {
                let Some(code) = program.file(&name_of(file)) else { continue };
                let Some(number) = analysis.number_of(code) else { continue };
                for unit in code.functions(name) {
                    analysis.enter(number, unit, &param);
                    note_patches(&mut analysis, index, binding, unit, None);
                }
            }
            Declared::Inline { .. } => {
                let Some((_, code)) = inlines.iter().find(|(number, _)| *number == index) else { continue };
                let Some(number) = analysis.number_of(code) else { continue };
                analysis.enter_inline(number, &param);
                note_patches(&mut analysis, index, binding, &code.top, Some(&code.source));
            }
        }
    }
    let sets_posting = analysis.codes.iter().any(|code| sets_posting(code));
    let mut calls = Calls { sets_posting, ..analysis.calls };
    calls.accesses.sort();
    calls.accesses.dedup();
    calls
}

/// Tells whether code assigns to the settings of Events.
fn sets_posting(code: &Code) -> bool {
    let is_posting = |step: &Step| matches!(&step.to, To::Property(name) if name == "posting");
    let uses = std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses);
    uses.into_iter().any(|usage| matches!(&usage.what, What::Assignment { steps, .. } if steps.iter().any(is_posting)))
}

/// Notes a binding that may change its object: its function has a `patch`, or a result.
fn note_patches(analysis: &mut Analysis<'_>, index: usize, binding: &Binding, unit: &Unit, inline: Option<&Source>) {
    let uses = |name: &str| match inline {
        Some(source) => source.text.contains(name),
        None => unit.params.iter().any(|param| param == name),
    };
    let returns = unit.uses.iter().any(|usage| matches!(usage.what, What::Return(Value::False | Value::Something)));
    let of_operator =
        [BindingKind::Startup, BindingKind::Activity, BindingKind::Login, BindingKind::Schedule, BindingKind::Hook];
    let has_object = !of_operator.contains(&binding.kind);
    if has_object && (returns || uses("patch") || uses("kwargs")) {
        analysis.calls.patching.insert(index);
    }
}
