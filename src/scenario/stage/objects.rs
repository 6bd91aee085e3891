//! The objects on a stage: those that are given, those that were ever there, and those in the end.

use crate::apiserver::bootstrap;
use crate::apiserver::storage::resource::Resource;
use crate::manifest::tree::Spot;

use super::super::compare::{self, Ending};
use super::super::problem::Problem;
use super::super::timeline::{Event, Subject};
use super::Stage;

impl Stage {
    /// Brings what is given.
    ///
    /// # Errors
    /// If the server does not accept it: where the refused object is written, and why.
    pub async fn furnish(&self) -> Result<(), (Spot, Problem)> {
        let objects = self.scenario.given.iter().map(|given| given.object.clone()).collect();
        match bootstrap::apply(&self.api, objects).await {
            Ok(_) => Ok(()),
            Err(refused) => {
                let given = &self.scenario.given[refused.position];
                let file = given.file.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
                let problem = Problem::of_refusal(&refused, &file, &self.api.registry());
                Err((given.spot, problem))
            }
        }
    }

    /// Returns all objects as they are in the end.
    pub fn ending(&self, ignored: &[String]) -> Ending {
        let objects = self.api.with(|state| {
            let resources: Vec<_> = state.store.resources().cloned().collect();
            let listed = resources.into_iter().map(|resource| {
                let objects = state.store.list(&resource, None);
                (resource, objects)
            });
            listed.collect::<Vec<_>>()
        });
        let named = objects.into_iter().flat_map(|(resource, objects)| {
            let dot = if resource.group.is_empty() { "" } else { "." };
            let resource = format!("{}{dot}{}", resource.plural, resource.group);
            objects.into_iter().map(move |((namespace, name), stored)| ((resource.clone(), namespace, name), stored))
        });
        named.map(|(key, stored)| (key, compare::essence(&stored.value, ignored))).collect()
    }

    /// Returns the objects of the same kind that are there, that the scenario brings, or that something has happened to.
    pub(super) fn subjects(&self, like: &Subject) -> impl Iterator<Item = Subject> + use<> {
        let mut all: Vec<Subject> = self.scenario.brought().into_iter().map(Subject::of).collect();
        self.timeline.with(|entries| {
            all.extend(entries.iter().filter_map(|(_, event)| {
                match event {
                    Event::Sighted { subject, .. } | Event::Called { subject, .. } => Some(subject.clone()),
                    Event::Request(request) => {
                        Some(Subject { name: request.name.clone(), namespace: request.namespace.clone(), ..like.clone() })
                            .filter(|subject| !request.name.is_empty() && request.is_about(subject))
                    }
                    _ => None,
                }
            }));
        });
        all.extend(self.api.with(|state| {
            let resources: Vec<Resource> = state.store.resources().cloned().collect();
            let stored = resources.iter().flat_map(|resource| state.store.list(resource, None));
            stored.map(|(_, stored)| Subject::of(&stored.value)).collect::<Vec<_>>()
        }));
        all.retain(|subject| subject.group == like.group && subject.kind == like.kind);
        for subject in &mut all {
            // What is written without a namespace comes into the default one.
            if subject.namespace.is_empty() && !like.namespace.is_empty() {
                "default".clone_into(&mut subject.namespace);
            }
        }
        all.into_iter()
    }
}
