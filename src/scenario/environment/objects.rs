//! The objects of an environment: the initial objects of the scenario, all objects that ever existed, and the final
//! objects.

use crate::apiserver::storage::resource::Resource;
use crate::apiserver::{ApiServer, bootstrap};
use crate::engines::peering::GROUPS;
use crate::manifest::tree::SourceSpan;

use super::super::compare::{self, FinalState};
use super::super::model::{Scenario, Seeds};
use super::super::peers;
use super::super::problem::Problem;
use super::super::timeline::{Event, Subject, Timeline};

/// Applies the objects of `given`.
///
/// # Errors
/// If the server refuses one: its position in the scenario and the reason.
pub(super) async fn apply_given(api: &ApiServer, scenario: &Scenario) -> Result<(), (SourceSpan, Problem)> {
    let of_peers = bootstrap::apply(api, peers::of_scenario(scenario)).await;
    of_peers
        .map_err(|refused| (SourceSpan::default(), Problem::from(format!("the definitions of peerings: {refused}"))))?;
    let objects = scenario.given.iter().map(|given| given.object.clone()).collect();
    match bootstrap::apply(api, objects).await {
        Ok(_) => Ok(()),
        Err(refused) => {
            let given = &scenario.given[refused.position];
            let file = given.file.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
            let problem = Problem::of_refusal(&refused, &file, &api.registry());
            Err((given.spot, problem))
        }
    }
}

/// Returns all objects of the server without the objects and fields that differ between runs.
pub(super) fn final_state(api: &ApiServer, seeds: &Seeds) -> FinalState {
    // The records of peers have the times of the run.
    let is_compared = |resource: &Resource| !GROUPS.contains(&resource.group.as_str());
    let objects: Vec<_> =
        api.resources().into_iter().filter(is_compared).map(|resource| (api.list(&resource, None), resource)).collect();
    let named = objects.into_iter().flat_map(|(objects, resource)| {
        let dot = if resource.group.is_empty() { "" } else { "." };
        let resource = format!("{}{dot}{}", resource.plural, resource.group);
        objects.into_iter().map(move |((namespace, name), stored)| ((resource.clone(), namespace, name), stored))
    });
    let compared = named.filter(|((resource, _, _), _)| !seeds.ignore_resources.contains(resource));
    compared.map(|(key, stored)| (key, compare::normalized(&stored.value, &seeds.ignore))).collect()
}

/// Returns the objects of a kind that exist, that the scenario applies, or that appear in the timeline.
pub(super) fn subjects(
    api: &ApiServer,
    scenario: &Scenario,
    timeline: &Timeline,
    like: &Subject,
) -> impl Iterator<Item = Subject> + use<> {
    let mut all: Vec<Subject> = scenario.applied_objects().into_iter().map(Subject::of).collect();
    timeline.with(|entries| {
        all.extend(entries.iter().filter_map(|(_, event)| {
            match event {
                Event::ObjectSeen { subject, .. } | Event::Called { subject, .. } => Some(subject.clone()),
                Event::Request(request) => {
                    Some(Subject { name: request.name.clone(), namespace: request.namespace.clone(), ..like.clone() })
                        .filter(|subject| !request.name.is_empty() && request.is_about(subject))
                }
                _ => None,
            }
        }));
    });
    let stored = api.resources().into_iter().flat_map(|resource| api.list(&resource, None));
    all.extend(stored.map(|(_, stored)| Subject::of(&stored.value)));
    all.retain(|subject| subject.group == like.group && subject.kind == like.kind);
    for subject in &mut all {
        // Objects written without a namespace are created in the default one.
        if subject.namespace.is_empty() && !like.namespace.is_empty() {
            "default".clone_into(&mut subject.namespace);
        }
    }
    all.into_iter()
}
