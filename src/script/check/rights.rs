//! Requests of scripts whose rights can neither be seen nor are declared: they would be refused.

use super::facts::What;
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use crate::script::interface::access::{Access, Calls, Kind};
use crate::script::interface::declaration::Declaration;
use crate::script::interface::problem::{Problem, Severity};

/// Warns of imports whose files are computed: their requests are not seen.
pub(super) fn check_imports<'a>(codes: impl Iterator<Item = &'a Code>, declaration: &Declaration, report: &mut Report) {
    if !declaration.allow.k8s.is_empty() {
        return;
    }
    for code in codes {
        for usage in std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses) {
            if let What::Import { path: None, .. } = &usage.what {
                let spot = spot_of(usage.position, "import".len());
                let message =
                    "the imported file is computed, so that its requests to the cluster are not seen, and refused"
                        .to_owned();
                let hint =
                    "import it by a plain text, or declare its requests in the manifest under `allow.k8s`".to_owned();
                report.add(code.source.problem(Severity::Warning, spot, message, Some(hint)));
            }
        }
    }
}

/// Reports the calls with a computed kind for which `allow.k8s` has no rule.
pub(super) fn check(calls: &Calls, declaration: &Declaration, report: &mut Report) {
    let declared = &declaration.allow.k8s;
    let is_declared =
        |access: &&Access| access.function.verbs().iter().all(|verb| declared.iter().any(|rule| rule.has_verb(verb)));
    for access in calls.accesses.iter().filter(|access| access.kind == Kind::Unknown && !is_declared(access)) {
        let name = access.function.name();
        let message = format!("the kind of this `k8s::{name}` is computed, so that its rights cannot be known");
        let verbs = access.function.verbs().join(", ");
        let subresource =
            access.function.subresource().map(|subresource| format!("/{subresource}")).unwrap_or_default();
        let hint = format!(
            "declare them in the manifest, with the kinds that may occur: `allow: {{k8s: [{{verbs: [{verbs}], resources: [configmaps{subresource}]}}]}}`"
        );
        let problem = Problem::at(Severity::Error, access.place.clone(), message);
        report.add(Problem { length: access.length, hint: Some(hint), ..problem });
    }
}
