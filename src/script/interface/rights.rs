//! The requests that the scripts of an operator may send: those that the check finds in the code, and those that
//! `allow.k8s` declares.
//!
//! The same list makes the roles of the operator; here it is enforced, before a request is sent.

use std::collections::BTreeSet;

use super::access::{Access, Calls, Function, Kind, Namespace};
use crate::kit::source::SourcePosition;
use crate::object::{Resource, Selector};

/// The verbs of all requests.
const EVERY: &str = "*";

/// A rule of `allow.k8s`: the permissions of scripts beyond those derived from the code.
#[derive(Debug, Clone)]
pub struct AllowedRule {
    /// The verbs; `*` stands for all.
    pub verbs: Vec<String>,
    /// The kinds.
    pub resources: Vec<AllowedResource>,
    /// The names of objects; empty for all.
    pub names: Vec<String>,
    /// The namespaces; empty for all.
    pub namespaces: Vec<String>,
    /// The position of the rule.
    pub place: SourcePosition,
}

/// A kind in a rule.
#[derive(Debug, Clone)]
pub struct AllowedResource {
    /// The kind.
    pub kind: AllowedKind,
    /// The subresource, such as `status`; `*` stands for all.
    pub subresource: Option<String>,
}

/// The kinds of a rule.
#[derive(Debug, Clone)]
pub enum AllowedKind {
    /// By a selector.
    Selected(Selector),
    /// As in roles: by the group and the plural name; `*` stands for all.
    Plural {
        /// The group.
        group: String,
        /// The plural name.
        plural: String,
    },
}

impl PartialEq for AllowedRule {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for AllowedRule {}

impl AllowedKind {
    fn matches(&self, resource: &Resource) -> bool {
        match self {
            Self::Selected(selector) => selector.matches(resource),
            Self::Plural { group, plural } => fits(group, &resource.group) && fits(plural, &resource.plural),
        }
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    pattern == EVERY || pattern == text
}

impl AllowedRule {
    /// Tells whether it has a verb, for some kind.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|allowed| fits(allowed, verb))
    }

    fn permits(&self, target: &Target<'_>, verb: &str) -> bool {
        let is_kind = |allowed: &AllowedResource| {
            let is_subresource = match (&allowed.subresource, target.subresource) {
                (None, None) => true,
                (Some(allowed), Some(wanted)) => fits(allowed, wanted),
                // As in roles, `*` stands for all resources with their subresources.
                (None, Some(_)) => matches!(&allowed.kind, AllowedKind::Plural { plural, .. } if plural == EVERY),
                (Some(_), None) => false,
            };
            is_subresource && allowed.kind.matches(target.resource)
        };
        let is_listed = |listed: &[String], one: Option<&str>| {
            listed.is_empty() || one.is_some_and(|one| listed.iter().any(|each| each == one))
        };
        // The server chooses among no names for creations and lists.
        let has_name = matches!(verb, "create" | "list") || is_listed(&self.names, target.name);
        self.has_verb(verb)
            && self.resources.iter().any(is_kind)
            && has_name
            && is_listed(&self.namespaces, target.namespace)
    }
}

/// A request of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The function.
    pub function: Function,
    /// The objects that it is about.
    pub target: Target<'a>,
    /// The kind of the handled object.
    pub handled: Option<&'a Resource>,
}

/// The objects of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The kind.
    pub resource: &'a Resource,
    /// The subresource.
    pub subresource: Option<&'a str>,
    /// The name, if there is one yet.
    pub name: Option<&'a str>,
    /// The namespace.
    pub namespace: Option<&'a str>,
}

/// The permissions of the scripts of one operator.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    seen: Vec<Seen>,
    declared: Vec<AllowedRule>,
}

/// A request that was seen in the code.
#[derive(Debug, Clone)]
struct Seen {
    function: Function,
    /// `None` for the kind of the handled object.
    selector: Option<Selector>,
    names: Option<BTreeSet<String>>,
    namespace: Option<String>,
}

impl Permissions {
    /// Returns the permissions of derived and declared requests.
    pub(crate) fn of(calls: &Calls, declared: &[AllowedRule]) -> Self {
        let seen = calls.accesses.iter().filter_map(|access| {
            let Access { function, kind, names, namespace, .. } = access;
            let selector = match kind {
                Kind::Unknown => return None,
                Kind::Handled(_) => None,
                Kind::Text(text) => Some(Selector::parse(text).ok()?),
            };
            let namespace = match namespace {
                Namespace::Named(name) => Some(name.clone()),
                // The API server knows which namespaces the operator serves.
                Namespace::Own | Namespace::All | Namespace::Computed => None,
            };
            Some(Seen { function: *function, selector, names: names.clone(), namespace })
        });
        Self { seen: seen.collect(), declared: declared.to_vec() }
    }

    /// Returns the permissions to do everything.
    #[cfg(test)]
    pub(crate) fn everything() -> Self {
        let every = || vec![EVERY.to_owned()];
        let kind = AllowedKind::Plural { group: EVERY.to_owned(), plural: EVERY.to_owned() };
        let resources = vec![AllowedResource { kind, subresource: None }];
        let rule = AllowedRule {
            verbs: every(),
            resources,
            names: Vec::new(),
            namespaces: Vec::new(),
            place: SourcePosition::default(),
        };
        Self { seen: Vec::new(), declared: vec![rule] }
    }

    /// Tells whether a request may be sent.
    pub(crate) fn permit(&self, wanted: &Wanted<'_>) -> bool {
        let target = &wanted.target;
        let is_seen = |seen: &Seen| {
            let is_kind = match &seen.selector {
                Some(selector) => selector.matches(target.resource),
                None => wanted.handled == Some(target.resource),
            };
            let has_verbs = seen.function.subresource() == wanted.function.subresource()
                && wanted.function.verbs().iter().all(|verb| seen.function.verbs().contains(verb));
            let has_name = seen.names.as_ref().is_none_or(|names| target.name.is_some_and(|name| names.contains(name)));
            let has_namespace = seen.namespace.as_ref().is_none_or(|namespace| target.namespace == Some(namespace));
            has_verbs && is_kind && has_name && (has_namespace || !target.resource.namespaced)
        };
        self.seen.iter().any(is_seen) || wanted.function.verbs().iter().all(|verb| self.declares(target, verb))
    }

    /// Tells whether a request is declared.
    pub(crate) fn declares(&self, target: &Target<'_>, verb: &str) -> bool {
        self.declared.iter().any(|rule| rule.permits(target, verb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str, kind: &str) -> Resource {
        let text = |text: &str| text.to_owned();
        Resource {
            group: text(group),
            version: "v1".into(),
            plural: text(plural),
            kind: text(kind),
            namespaced: true,
            preferred: true,
            ..Resource::default()
        }
    }

    fn access(function: Function, kind: Kind, names: Option<&[&str]>, namespace: Namespace) -> Access {
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Access { place: SourcePosition::default(), length: 1, function, kind, names, namespace }
    }

    fn wanted<'a>(function: Function, resource: &'a Resource, name: &'a str, namespace: &'a str) -> Wanted<'a> {
        let (name, namespace) = (Some(name), Some(namespace));
        Wanted {
            function,
            target: Target { resource, subresource: function.subresource(), name, namespace },
            handled: None,
        }
    }

    #[test]
    fn only_seen_functions_kinds_names_and_namespaces_are_permitted() {
        let text = |text: &str| Kind::Text(text.to_owned());
        let accesses = vec![
            access(Function::Get, text("v1/Secret"), Some(&["a"]), Namespace::Named("n".into())),
            access(Function::Apply, text("deployments.apps"), None, Namespace::Own),
            access(Function::Delete, Kind::Handled(0), None, Namespace::Own),
            access(Function::List, Kind::Unknown, None, Namespace::All),
        ];
        let permissions = Permissions::of(&Calls { accesses, ..Calls::default() }, &[]);
        let (secret, deployment) = (resource("", "secrets", "Secret"), resource("apps", "deployments", "Deployment"));
        let may = |function, resource: &Resource, name: &str, namespace: &str| {
            permissions.permit(&wanted(function, resource, name, namespace))
        };
        assert!(may(Function::Get, &secret, "a", "n") && may(Function::Exists, &secret, "a", "n"));
        assert!(
            !may(Function::Get, &secret, "b", "n")
                && !may(Function::Get, &secret, "a", "m")
                && !may(Function::List, &secret, "a", "n")
        );
        assert!(may(Function::Apply, &deployment, "x", "y") && may(Function::Create, &deployment, "x", "y"));
        assert!(may(Function::Patch, &deployment, "x", "y") && !may(Function::Scale, &deployment, "x", "y"));
        assert!(!may(Function::Delete, &deployment, "x", "y"));
        assert!(
            permissions
                .permit(&Wanted { handled: Some(&deployment), ..wanted(Function::Delete, &deployment, "x", "y") })
        );
    }

    #[test]
    fn declared_rules_permit_their_verbs_kinds_names_and_namespaces() {
        let rule =
            |verbs: &[&str], kind: AllowedKind, subresource: Option<&str>, names: &[&str], namespaces: &[&str]| {
                AllowedRule {
                    verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                    resources: vec![AllowedResource { kind, subresource: subresource.map(str::to_owned) }],
                    names: names.iter().map(|name| (*name).to_owned()).collect(),
                    namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
                    place: SourcePosition::default(),
                }
            };
        let selected = |text: &str| AllowedKind::Selected(Selector::parse(text).unwrap());
        let plural = |group: &str, plural: &str| AllowedKind::Plural { group: group.into(), plural: plural.into() };
        let rules = [
            rule(&["get", "create"], selected("secrets"), None, &["a"], &["n"]),
            rule(&["create", "patch"], plural("apps", "*"), None, &[], &[]),
            rule(&["*"], plural("batch", "jobs"), Some("status"), &[], &[]),
        ];
        let permissions = Permissions::of(&Calls::default(), &rules);
        let (secret, deployment, job) = (
            resource("", "secrets", "Secret"),
            resource("apps", "deployments", "Deployment"),
            resource("batch", "jobs", "Job"),
        );
        let may = |function, resource: &Resource, name: &str, namespace: &str| {
            permissions.permit(&wanted(function, resource, name, namespace))
        };
        assert!(may(Function::Get, &secret, "a", "n") && may(Function::Create, &secret, "b", "n"));
        assert!(
            !may(Function::Get, &secret, "b", "n")
                && !may(Function::Get, &secret, "a", "m")
                && !may(Function::Apply, &secret, "a", "n")
        );
        assert!(may(Function::Apply, &deployment, "x", "y") && may(Function::Scale, &deployment, "x", "y"));
        assert!(may(Function::PatchStatus, &job, "x", "y") && !may(Function::Patch, &job, "x", "y"));
    }
}
