//! The objects that expectations are about.

use crate::manifest::suggest::nearest;
use crate::manifest::tree::SourceSpan;

use super::super::model::Target;
use super::super::timeline::Subject;
use super::difference::Difference;
use super::observations::Observations;

/// Returns a predicate for a named object. An unknown or ambiguous name matches nothing.
pub(super) fn is_about<'t, W: Observations>(
    observations: &W,
    target: &'t Target,
) -> impl Fn(&Subject) -> bool + use<'t, W> {
    let wanted = observations.object(target).ok().map(|observed| observed.subject);
    move |subject: &Subject| {
        let is_like = |wanted: &Subject| {
            wanted.group == subject.group && wanted.kind == subject.kind && wanted.name == subject.name
        };
        wanted.as_ref().is_some_and(is_like)
            && target.namespace.as_ref().is_none_or(|namespace| *namespace == subject.namespace)
    }
}

/// Checks the name in an expectation of nothing: such an expectation holds trivially if the name is ambiguous, or if
/// the object never existed.
pub(super) fn check_target(
    observations: &impl Observations,
    target: &Target,
    spot: SourceSpan,
    is_nothing: bool,
) -> Option<Difference> {
    let observed = match observations.object(target) {
        Ok(observed) => observed,
        Err(error) => return Some(Difference::new(spot, error)),
    };
    if !is_nothing || observed.value.is_some() || observations.has_existed(&observed, target.namespace.as_deref()) {
        return None;
    }
    let names = observations.names(&observed.subject);
    let suggestion = nearest(&target.name, names.iter().map(String::as_str));
    let suggestion = suggestion.map(|name| format!("; did you mean `{}/{name}`?", target.resource)).unwrap_or_default();
    Some(Difference::new(spot, format!("{target}: no such object ever existed{suggestion}")))
}
