//! Several operators of one process on one kind: if they would overwrite each other's records, only the first one
//! serves it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::manifest::Operator;
use crate::object::{Resource, Selector};
use crate::persistence::{Clash, Storages};

use super::observation::{Insights, Purposes};

/// The properties of an operator that matter to others.
#[derive(Debug, Clone)]
pub struct Other {
    name: Arc<str>,
    purposes: Purposes,
    storages: Arc<Storages>,
    insights: Insights,
}

/// A kind that is left to an earlier operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Yielded {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The operator that serves it.
    pub to: Arc<str>,
    /// The state that both would share.
    pub clashes: Vec<Clash>,
}

/// The operators of a process in their order, as seen by later operators.
#[derive(Debug, Clone, Default)]
pub struct Precedence(Vec<Other>);

impl Precedence {
    /// Returns the order of operators as their manifests were loaded.
    pub fn of(operators: &[Operator]) -> Self {
        let other = |operator: &Operator| Other {
            name: Arc::from(operator.name.as_str()),
            purposes: Purposes::of_handlers(operator.indexes.iter().chain(&operator.handlers)),
            storages: Arc::new(operator.settings.persistence.storages.clone()),
            insights: Insights::default(),
        };
        Self(operators.iter().map(other).collect())
    }

    /// Returns the operators that come before one.
    pub fn before(&self, name: &str) -> Self {
        Self(self.0.iter().take_while(|other| *other.name != *name).cloned().collect())
    }

    /// Returns the groups to discover for the operators and `own`; `None` means all.
    pub fn groups<'a>(&'a self, own: Option<BTreeSet<&'a str>>) -> Option<BTreeSet<&'a str>> {
        let mut all = own?;
        for other in &self.0 {
            all.extend(other.purposes.groups()?);
        }
        Some(all)
    }

    /// Updates the kinds after a discovery of one group or of all groups.
    pub fn revise(&mut self, group: Option<&str>, discovered: &[Arc<Resource>]) {
        for other in &mut self.0 {
            // The other operator reports its own unserved kinds.
            let _ = other.insights.revise(&other.purposes, group, discovered);
        }
    }

    /// Removes the kinds that an earlier operator serves with clashing storages.
    pub fn apply(&self, purposes: &Purposes, storages: &Storages, insights: &mut Insights) -> BTreeSet<Yielded> {
        let mut serving: Vec<(&Other, BTreeSet<Arc<Resource>>)> = Vec::new();
        for other in &self.0 {
            let mut watched = other.insights.watched.clone();
            let yielded = yielded(&serving, &other.purposes.patched, &other.storages, &watched);
            watched.retain(|resource| !yielded.iter().any(|yielded| yielded.resource == *resource));
            serving.push((other, watched));
        }
        let yielded = yielded(&serving, &purposes.patched, storages, &insights.watched);
        insights.watched.retain(|resource| !yielded.iter().any(|yielded| yielded.resource == *resource));
        yielded
    }
}

fn yielded(
    serving: &[(&Other, BTreeSet<Arc<Resource>>)],
    patched: &[Selector],
    storages: &Storages,
    watched: &BTreeSet<Arc<Resource>>,
) -> BTreeSet<Yielded> {
    let mut yielded = BTreeSet::new();
    for resource in kept_on(patched, watched) {
        let first = serving.iter().find_map(|(other, served)| {
            // All versions of a kind are the same objects.
            let is_same = |one: &Arc<Resource>| (&one.group, &one.plural) == (&resource.group, &resource.plural);
            kept_on(&other.purposes.patched, served).iter().any(is_same).then_some(())?;
            let clashes = other.storages.clashes(storages);
            (!clashes.is_empty()).then(|| Yielded {
                resource: Arc::clone(&resource),
                to: Arc::clone(&other.name),
                clashes,
            })
        });
        yielded.extend(first);
    }
    yielded
}

/// Returns the kinds with state on their objects.
fn kept_on(patched: &[Selector], watched: &BTreeSet<Arc<Resource>>) -> BTreeSet<Arc<Resource>> {
    patched.iter().flat_map(|selector| super::observation::select(selector, watched)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::{DiffbaseAnnotations, DiffbaseStorage, ProgressAnnotations, ProgressStorage};

    fn resource(plural: &str, kind: &str) -> Arc<Resource> {
        let text = |text: &str| text.to_owned();
        let verbs = ["list", "watch", "patch"].map(str::to_owned).to_vec();
        Arc::new(Resource {
            group: text("example.com"),
            version: text("v1"),
            plural: text(plural),
            kind: text(kind),
            preferred: true,
            verbs,
            ..Resource::default()
        })
    }

    fn purposes(name: &str) -> Purposes {
        let selectors = vec![Selector::parse(name).unwrap()];
        Purposes { watched: selectors.clone(), patched: selectors, ..Purposes::default() }
    }

    fn other(name: &str, selector: &str, finalizer: &str) -> Other {
        let storages = Storages { finalizer: finalizer.to_owned(), ..Storages::default() };
        Other {
            name: Arc::from(name),
            purposes: purposes(selector),
            storages: Arc::new(storages),
            insights: Insights::default(),
        }
    }

    fn apply(others: Vec<Other>, selector: &str, discovered: &[Arc<Resource>]) -> (Vec<String>, Vec<String>) {
        let (mut precedence, purposes, mut insights) = (Precedence(others), purposes(selector), Insights::default());
        precedence.revise(None, discovered);
        insights.revise(&purposes, None, discovered);
        let yielded = precedence.apply(&purposes, &Storages::default(), &mut insights);
        let yielded = yielded.iter().map(|yielded| format!("{} to {}", yielded.resource, yielded.to)).collect();
        (insights.watched.iter().map(ToString::to_string).collect(), yielded)
    }

    #[test]
    fn a_kind_selected_by_another_name_belongs_to_the_first_operator() {
        let discovered = [resource("demos", "Demo"), resource("others", "Other")];
        let (watched, yielded) = apply(vec![other("first", "demos.example.com", "a/b")], "Demo", &discovered);
        assert_eq!((watched, yielded), (vec![], vec!["demos.v1.example.com to first".to_owned()]));
        let (watched, _) = apply(vec![other("first", "others.example.com", "a/b")], "Demo", &discovered);
        assert_eq!(watched, ["demos.v1.example.com"]);
    }

    #[test]
    fn an_operator_that_yields_itself_is_not_yielded_to() {
        let discovered = [resource("demos", "Demo")];
        // The second yields to the first, so it stores nothing on the objects; the third still clashes with the first.
        let others = vec![other("first", "demos.example.com", "a/b"), other("second", "Demo", "a/b")];
        let (_, yielded) = apply(others, "demos", &discovered);
        assert_eq!(yielded, ["demos.v1.example.com to first"]);
    }

    #[test]
    fn the_kind_is_served_when_the_first_operator_does_not_serve_it_any_more() {
        let (mut precedence, purposes) =
            (Precedence(vec![other("first", "demos.example.com", "a/b")]), purposes("Demo"));
        let demos = [resource("demos", "Demo")];
        precedence.revise(None, &demos);
        let mut insights = Insights::default();
        insights.revise(&purposes, None, &demos);
        assert_eq!(precedence.apply(&purposes, &Storages::default(), &mut insights).len(), 1);
        precedence.revise(Some("example.com"), &[]);
        insights.revise(&purposes, Some("example.com"), &demos);
        assert!(precedence.apply(&purposes, &Storages::default(), &mut insights).is_empty());
        assert_eq!(insights.watched.len(), 1);
    }

    #[test]
    fn a_kind_that_an_operator_yields_is_not_its_own_for_later_ones() {
        let in_annotations = |prefix: &str| {
            let progress = ProgressAnnotations { prefix: prefix.to_owned(), ..ProgressAnnotations::default() };
            let diffbase = DiffbaseAnnotations { prefix: prefix.to_owned(), ..DiffbaseAnnotations::default() };
            (ProgressStorage::Annotations(progress), DiffbaseStorage::Annotations(diffbase))
        };
        let (progress, diffbase) = in_annotations("first.dev");
        let storages = Storages { finalizer: "shared".to_owned(), progress, diffbase, ..Storages::default() };
        let first = Other { storages: Arc::new(storages), ..other("first", "demos", "") };
        // It clashes with the first by the finalizer, and with the last one by the rest.
        let second = other("second", "demos", "shared");
        let (watched, yielded) = apply(vec![first, second], "demos", &[resource("demos", "Demo")]);
        assert_eq!((watched, yielded), (vec!["demos.v1.example.com".to_owned()], vec![]));
    }

    #[test]
    fn all_groups_are_asked_for_unless_every_operator_names_its_own() {
        let groups = |selectors: &[&str], own: Option<BTreeSet<&'static str>>| {
            let precedence = Precedence(selectors.iter().map(|selector| other("o", selector, "a/b")).collect());
            precedence.groups(own).map(|groups| groups.into_iter().map(str::to_owned).collect::<BTreeSet<_>>())
        };
        let named = groups(&["demos.example.com"], Some(BTreeSet::from(["own.dev"]))).unwrap();
        assert!(
            named.contains("own.dev") && named.contains("example.com") && !named.contains("other.dev"),
            "{named:?}"
        );
        assert_eq!(groups(&["demos.example.com", "demos"], Some(BTreeSet::new())), None);
        assert_eq!(groups(&["demos.example.com"], None), None);
    }
}
