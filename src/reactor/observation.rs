//! Which kinds of a cluster are served, and for which purposes: decided again after each discovery.
//!
//! Discovery belongs to `cluster`; the owner of the [`Insights`] starts and stops watchers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::handling::{Handler, On};
use crate::object::{Resource, Selector};

/// The groups that the engine itself needs, independent of the handlers.
const OWN_GROUPS: [&str; 5] = ["", "apiextensions.k8s.io", "admissionregistration.k8s.io", "kopf.dev", "zalando.org"];

/// The selectors of all declarations, by purpose.
#[derive(Debug, Clone, Default)]
pub struct Purposes {
    /// Selectors of watched kinds: for indexes, events, daemons, timers, and changes.
    pub watched: Vec<Selector>,
    /// Selectors of kinds with state on objects: for daemons, timers, and changes.
    pub patched: Vec<Selector>,
    /// Selectors of kinds that must be listed completely before anything is handled: for indexes.
    pub indexed: Vec<Selector>,
    /// Selectors of admission handlers, whose kinds need not be watched.
    pub webhook: Vec<Selector>,
    /// Selectors of the peering resources, whose groups are always discovered.
    pub peering: Vec<Selector>,
}

impl Purposes {
    /// Returns the purposes of handlers of objects.
    pub fn of_handlers<'a>(handlers: impl IntoIterator<Item = &'a Handler>) -> Self {
        let mut purposes = Self::default();
        for handler in handlers {
            purposes.watched.extend(handler.selectors.iter().cloned());
            if handler.on.is_changing() || handler.on.is_spawning() {
                purposes.patched.extend(handler.selectors.iter().cloned());
            }
            if handler.on == On::Index {
                purposes.indexed.extend(handler.selectors.iter().cloned());
            }
        }
        purposes
    }

    /// Returns the purposes with the kinds of webhooks.
    #[must_use]
    pub fn with_webhooks(self, selectors: &[Selector]) -> Self {
        Self { webhook: selectors.to_vec(), ..self }
    }

    /// Returns the groups to discover; `None` means all, because some selector has no group.
    pub fn groups(&self) -> Option<BTreeSet<&str>> {
        let named: Option<BTreeSet<&str>> = self.all().map(|selector| selector.group.as_deref()).collect();
        named.map(|named| named.into_iter().chain(OWN_GROUPS).collect())
    }

    fn all(&self) -> impl Iterator<Item = &Selector> {
        self.watched.iter().chain(&self.webhook)
    }
}

/// Kinds that are not served for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// The warning about all of them.
    pub warning: String,
    /// The same about kinds that a selector names, not by a category or `everything`; `None` if there are none.
    pub named: Option<String>,
}

/// The served kinds, by purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Insights {
    /// Watched kinds.
    pub watched: BTreeSet<Arc<Resource>>,
    /// Indexed kinds; some of them may not be watchable.
    pub indexed: BTreeSet<Arc<Resource>>,
    /// Kinds of webhooks.
    pub webhook: BTreeSet<Arc<Resource>>,
    /// The peering resources.
    pub peering: BTreeSet<Arc<Resource>>,
}

impl Insights {
    /// Updates the kinds after a discovery of one group or of all groups, and returns the warnings about kinds that are
    /// not served.
    ///
    /// Kinds of other groups do not change.
    pub fn revise(&mut self, purposes: &Purposes, group: Option<&str>, discovered: &[Arc<Resource>]) -> Vec<Unserved> {
        renew(&mut self.indexed, &purposes.indexed, group, discovered);
        renew(&mut self.peering, &purposes.peering, group, discovered);
        renew(&mut self.webhook, &purposes.webhook, group, discovered);
        renew(&mut self.watched, &purposes.watched, group, discovered);
        let warnings = [
            self.drop_ambiguous(&purposes.watched),
            self.find_unresolved(&purposes.watched),
            self.drop_unwatchable(&purposes.watched),
            self.drop_unpatchable(&purposes.patched),
        ];
        warnings.into_iter().flatten().collect()
    }

    /// Returns the groups of the named kinds that were not found; `None` stands for all groups.
    pub fn missing_groups(&self, purposes: &Purposes) -> BTreeSet<Option<String>> {
        let watched = purposes.watched.iter().map(|selector| (selector, &self.watched));
        let webhook = purposes.webhook.iter().map(|selector| (selector, &self.webhook));
        let missing = watched
            .chain(webhook)
            .filter(|(selector, found)| selector.is_specific() && select(selector, *found).is_empty());
        missing.map(|(selector, _)| selector.group.clone()).collect()
    }

    /// The selector is ambiguous, so none of the kinds is served.
    fn drop_ambiguous(&mut self, selectors: &[Selector]) -> Option<Unserved> {
        let mut ambiguous = BTreeSet::new();
        for selector in selectors.iter().filter(|selector| selector.is_specific()) {
            let selected = select(selector, &self.watched);
            if selected.len() > 1 {
                ambiguous.extend(selected);
            }
        }
        self.drop_all(&ambiguous, selectors, "Ambiguous resources will not be served (try specifying API groups)")
    }

    /// A missing kind is served as soon as it appears.
    fn find_unresolved(&self, selectors: &[Selector]) -> Option<Unserved> {
        let unresolved: BTreeMap<String, bool> = selectors
            .iter()
            .filter(|selector| select(selector, &self.watched).is_empty())
            .map(|selector| (selector.to_string(), selector.is_specific()))
            .collect();
        unserved("Unresolved resources cannot be served (try creating their CRDs)", unresolved)
    }

    fn drop_unwatchable(&mut self, selectors: &[Selector]) -> Option<Unserved> {
        let is_unwatchable = |resource: &&Arc<Resource>| !(resource.has_verb("list") && resource.has_verb("watch"));
        let unwatchable = self.watched.iter().filter(is_unwatchable).cloned().collect();
        self.drop_all(&unwatchable, selectors, "Non-watchable resources will not be served")
    }

    /// Without patches no state can be stored on objects. As in kopf, one such selector drops all kinds that cannot be
    /// patched.
    fn drop_unpatchable(&mut self, selectors: &[Selector]) -> Option<Unserved> {
        let unpatchable: BTreeSet<_> =
            self.watched.iter().filter(|resource| !resource.has_verb("patch")).cloned().collect();
        let is_needed = selectors.iter().any(|selector| !select(selector, &unpatchable).is_empty());
        is_needed
            .then(|| self.drop_all(&unpatchable, selectors, "Non-patchable resources will not be served"))
            .flatten()
    }

    fn drop_all(&mut self, dropped: &BTreeSet<Arc<Resource>>, selectors: &[Selector], text: &str) -> Option<Unserved> {
        self.watched.retain(|resource| !dropped.contains(resource));
        let named: BTreeSet<Arc<Resource>> = selectors
            .iter()
            .filter(|selector| selector.is_specific())
            .flat_map(|selector| select(selector, dropped))
            .collect();
        unserved(text, dropped.iter().map(|resource| (resource.to_string(), named.contains(resource))))
    }
}

/// Returns the kinds as one reason, each with whether a selector names it.
fn unserved(text: &str, kinds: impl IntoIterator<Item = (String, bool)>) -> Option<Unserved> {
    let kinds: Vec<(String, bool)> = kinds.into_iter().collect();
    let line = |names: Vec<&str>| (!names.is_empty()).then(|| format!("{text}: {}", names.join(", ")));
    let warning = line(kinds.iter().map(|(name, _)| name.as_str()).collect())?;
    let named = line(kinds.iter().filter(|(_, is_named)| *is_named).map(|(name, _)| name.as_str()).collect());
    Some(Unserved { warning, named })
}

fn renew(set: &mut BTreeSet<Arc<Resource>>, selectors: &[Selector], group: Option<&str>, discovered: &[Arc<Resource>]) {
    set.retain(|resource| group.is_some_and(|group| resource.group != group));
    set.extend(selectors.iter().flat_map(|selector| select(selector, discovered)));
}

/// Returns the resources of a selector.
pub fn select<'a>(selector: &Selector, resources: impl IntoIterator<Item = &'a Arc<Resource>>) -> Vec<Arc<Resource>> {
    let resources: Vec<&Arc<Resource>> = resources.into_iter().collect();
    let selected: BTreeSet<&Resource> = selector.select(resources.iter().map(AsRef::as_ref)).into_iter().collect();
    resources
        .iter()
        .filter(|resource| selected.contains(resource.as_ref()))
        .map(|resource| Arc::clone(resource))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str, verbs: &[&str]) -> Arc<Resource> {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        Arc::new(Resource {
            group: group.into(),
            version: "v1".into(),
            plural: plural.into(),
            preferred: true,
            verbs,
            ..Resource::default()
        })
    }

    const ALL: [&str; 3] = ["list", "watch", "patch"];

    fn purposes(names: &[&str]) -> Purposes {
        let selectors: Vec<Selector> = names.iter().map(|name| Selector::parse(name).unwrap()).collect();
        Purposes { watched: selectors.clone(), patched: selectors, ..Purposes::default() }
    }

    fn watched(insights: &Insights) -> Vec<String> {
        insights.watched.iter().map(ToString::to_string).collect()
    }

    fn texts(unserved: &[Unserved]) -> Vec<&str> {
        unserved.iter().map(|one| one.warning.as_str()).collect()
    }

    #[test]
    fn a_kind_that_appears_later_is_served_then() {
        let (purposes, mut insights) = (purposes(&["things.a.io"]), Insights::default());
        let warnings = insights.revise(&purposes, None, &[]);
        assert_eq!(texts(&warnings), ["Unresolved resources cannot be served (try creating their CRDs): a.io/things"]);
        assert_eq!(insights.revise(&purposes, Some("a.io"), &[resource("a.io", "things", &ALL)]), []);
        assert_eq!(watched(&insights), ["things.v1.a.io"]);
        insights.revise(&purposes, Some("a.io"), &[]);
        assert!(insights.watched.is_empty());
    }

    #[test]
    fn ambiguous_kinds_are_not_served_unless_one_is_of_the_core_group() {
        let (purposes, mut insights) = (purposes(&["things"]), Insights::default());
        insights.revise(&purposes, None, &[resource("a.io", "things", &ALL), resource("b.io", "things", &ALL)]);
        assert!(insights.watched.is_empty());
        insights.revise(&purposes, None, &[resource("a.io", "things", &ALL), resource("", "things", &ALL)]);
        assert_eq!(watched(&insights), ["things.v1"]);
    }

    #[test]
    fn a_kind_that_cannot_be_watched_matters_to_those_who_name_it() {
        let discovered = [resource("a.io", "things", &ALL), resource("a.io", "reviews", &["create"])];
        let everything = Purposes { watched: vec![Selector::parse("everything").unwrap()], ..Purposes::default() };
        let warnings = Insights::default().revise(&everything, None, &discovered);
        let warning = "Non-watchable resources will not be served: reviews.v1.a.io";
        assert_eq!(warnings, [Unserved { warning: warning.to_owned(), named: None }]);
        let warnings = Insights::default().revise(&purposes(&["reviews.a.io"]), None, &discovered);
        assert_eq!(warnings, [Unserved { warning: warning.to_owned(), named: Some(warning.to_owned()) }]);
    }

    #[test]
    fn only_named_groups_are_discovered_unless_a_selector_has_no_group() {
        assert_eq!(purposes(&["things"]).groups(), None);
        assert!(purposes(&["things.a.io"]).groups().unwrap().contains("a.io"));
    }
}
