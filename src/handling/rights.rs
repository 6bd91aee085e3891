//! The rights that an operator needs, where it needs them, and the rules of roles that grant exactly them.

use std::collections::{BTreeMap, BTreeSet};

/// Stands for all groups, resources, or verbs.
pub const EVERY: &str = "*";

/// The verbs in the order in which roles usually list them; others follow.
const ORDER: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Requests that an operator sends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The reason.
    pub purpose: Purpose,
    /// The namespaces.
    pub reach: Reach,
    /// The API group; `*` stands for all.
    pub group: String,
    /// The plural name, maybe with a subresource; `*` stands for all.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The names of the objects; `None` stands for all.
    pub names: Option<BTreeSet<String>>,
}

/// The reason why a right is needed, in the order in which roles list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To notice new kinds and namespaces.
    Discovery,
    /// To apply the definitions of the manifest.
    Definitions,
    /// To post Events.
    Events,
    /// To be paused by other operators.
    Peering,
    /// To let one of several replicas work.
    Election,
    /// To keep webhook configurations.
    Webhooks,
    /// To remember which ticks of schedules are done.
    Schedules,
    /// To verify the requests to hooks.
    Hooks,
    /// To connect to databases.
    Databases,
    /// To report trials of revisions at the operator's Deployment.
    Trials,
    /// To watch kinds, and to store the progress on their objects.
    Handling,
    /// To make handled objects owners that delay their deletion.
    Owners,
    /// To keep the children of reconciled objects.
    Children,
    /// Seen in scripts.
    Scripts,
    /// Declared under `allow.k8s`.
    Declared,
}

/// The namespaces that requests are sent to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// To objects without a namespace, or to all namespaces at once.
    Everywhere,
    /// To the namespaces that the operator serves.
    Served,
    /// To the namespace that it runs in.
    Home,
    /// To a certain namespace.
    Namespace(String),
}

/// The namespaces of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The namespaces that it serves; `None` stands for all.
    pub served: Option<BTreeSet<String>>,
    /// The namespace that it runs in.
    pub home: String,
}

/// The scope in which a right is granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantScope {
    /// In the whole cluster.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

/// One right: a verb on a resource, in a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The namespaces.
    pub scope: GrantScope,
    /// The API group.
    pub group: String,
    /// The resource, maybe with a subresource.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The name of the object; `None` stands for all.
    pub name: Option<String>,
}

/// A rule of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The reason.
    pub purpose: Purpose,
    /// The API group.
    pub group: String,
    /// The resources.
    pub resources: Vec<String>,
    /// The names of the objects; empty for all.
    pub names: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
}

/// A rule that the cluster grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The API groups.
    pub groups: Vec<String>,
    /// The resources.
    pub resources: Vec<String>,
    /// The names of the objects; empty for all.
    pub names: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
}

/// Rights with the reasons for which they are needed first.
pub type Rights = BTreeMap<Right, Purpose>;

/// Returns the rights for some needs, without those that another one includes.
pub fn rights(needs: &[Need], layout: &Layout) -> Rights {
    let mut rights = Rights::new();
    for need in needs {
        for scope in scopes(&need.reach, layout) {
            let names = need.names.iter().flatten().cloned().map(Some).chain(need.names.is_none().then_some(None));
            for name in names {
                let Need { group, resource, verb, .. } = need.clone();
                let purpose =
                    rights.entry(Right { scope: scope.clone(), group, resource, verb, name }).or_insert(need.purpose);
                *purpose = need.purpose.min(*purpose);
            }
        }
    }
    let all: Vec<Right> = rights.keys().cloned().collect();
    rights.retain(|right, _| !all.iter().any(|other| other != right && other.includes(right)));
    rights
}

fn scopes(reach: &Reach, layout: &Layout) -> Vec<GrantScope> {
    match (reach, &layout.served) {
        (Reach::Everywhere, _) | (Reach::Served, None) => vec![GrantScope::Cluster],
        (Reach::Served, Some(served)) => served.iter().cloned().map(GrantScope::Namespace).collect(),
        (Reach::Home, _) => vec![GrantScope::Namespace(layout.home.clone())],
        (Reach::Namespace(name), _) => vec![GrantScope::Namespace(name.clone())],
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    pattern == EVERY || pattern == text
}

/// Tells whether a resource of a role means another one. As in Kubernetes, `*` includes all subresources, and `*/scale`
/// those of all resources.
fn is_resource(pattern: &str, resource: &str) -> bool {
    fits(pattern, resource)
        || pattern.strip_prefix("*/").is_some_and(|sub| resource.split_once('/').is_some_and(|(_, own)| own == sub))
}

impl Right {
    /// Tells whether it includes another one.
    fn includes(&self, other: &Self) -> bool {
        (self.scope == GrantScope::Cluster || self.scope == other.scope)
            && fits(&self.group, &other.group)
            && is_resource(&self.resource, &other.resource)
            && fits(&self.verb, &other.verb)
            && (self.name.is_none() || self.name == other.name)
    }
}

impl Granted {
    /// Tells whether it grants a right, where it applies.
    pub fn grants(&self, right: &Right) -> bool {
        let has = |patterns: &[String], text: &str| patterns.iter().any(|pattern| fits(pattern, text));
        has(&self.groups, &right.group)
            && self.resources.iter().any(|pattern| is_resource(pattern, &right.resource))
            && has(&self.verbs, &right.verb)
            && (self.names.is_empty() || right.name.as_ref().is_some_and(|name| self.names.contains(name)))
    }
}

/// Returns the rules of the roles of each scope that grant exactly these rights.
pub fn rules(rights: &Rights) -> BTreeMap<GrantScope, Vec<Rule>> {
    // Of one resource: the verbs on all objects, and the verbs on each name.
    let mut verbs: BTreeMap<_, BTreeSet<(usize, String)>> = BTreeMap::new();
    for (right, purpose) in rights {
        let Right { scope, group, resource, verb, name } = right.clone();
        let order = ORDER.iter().position(|known| *known == verb).unwrap_or(ORDER.len());
        verbs.entry((scope, *purpose, group, resource, name)).or_default().insert((order, verb));
    }
    let mut names: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for ((scope, purpose, group, resource, name), verbs) in verbs {
        names.entry((scope, purpose, group, resource, name.is_some(), verbs)).or_default().extend(name);
    }
    let mut resources: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for ((scope, purpose, group, resource, _, verbs), names) in names {
        resources.entry((scope, purpose, group, names, verbs)).or_default().push(resource);
    }
    let mut rules: BTreeMap<GrantScope, Vec<Rule>> = BTreeMap::new();
    for ((scope, purpose, group, names, verbs), resources) in resources {
        let verbs = verbs.into_iter().map(|(_, verb)| verb).collect();
        rules.entry(scope).or_default().push(Rule {
            purpose,
            group,
            resources,
            names: names.into_iter().collect(),
            verbs,
        });
    }
    for rules in rules.values_mut() {
        rules.sort_by(|one, other| key(one).cmp(&key(other)));
    }
    rules
}

fn key(rule: &Rule) -> (Purpose, &str, &[String], &[String]) {
    (rule.purpose, &rule.group, &rule.resources, &rule.names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(reach: Reach, resource: &str, verb: &str, names: Option<&[&str]>) -> Need {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Need {
            purpose: Purpose::Scripts,
            reach,
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            names: names.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        }
    }

    fn layout(served: Option<&[&str]>) -> Layout {
        Layout {
            served: served.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            home: "home".to_owned(),
        }
    }

    fn shown(needs: &[Need], layout: &Layout) -> Vec<String> {
        let rules = rules(&rights(needs, layout));
        let line = |scope: &GrantScope, rule: &Rule| {
            let scope = match scope {
                GrantScope::Cluster => "everywhere",
                GrantScope::Namespace(name) => name,
            };
            format!(
                "{scope}: {:?} {} {} {}",
                rule.group,
                rule.resources.join(","),
                rule.names.join(","),
                rule.verbs.join(",")
            )
        };
        rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| line(scope, rule))).collect()
    }

    #[test]
    fn resources_with_the_same_verbs_share_a_rule_and_repeated_needs_count_once() {
        let of = |resource, verb| need(Reach::Served, resource, verb, None);
        let needs = [
            of("services", "patch"),
            of("services", "create"),
            of("pods", "create"),
            of("pods", "patch"),
            of("pods", "patch"),
            of("secrets", "get"),
            of("jobs.batch", "create"),
        ];
        assert_eq!(
            shown(&needs, &layout(None)),
            [
                "everywhere: \"\" pods,services  create,patch",
                "everywhere: \"\" secrets  get",
                "everywhere: \"batch\" jobs  create"
            ]
        );
    }

    #[test]
    fn names_are_granted_unless_all_objects_are() {
        let needs = [
            need(Reach::Served, "secrets", "get", Some(&["a", "b"])),
            need(Reach::Served, "secrets", "delete", Some(&["a"])),
            need(Reach::Served, "pods", "get", Some(&["a"])),
            need(Reach::Served, "pods", "get", None),
        ];
        assert_eq!(
            shown(&needs, &layout(None)),
            ["everywhere: \"\" pods  get", "everywhere: \"\" secrets a get,delete", "everywhere: \"\" secrets b get"]
        );
    }

    #[test]
    fn rights_are_granted_where_they_are_needed() {
        let needs = [
            need(Reach::Everywhere, "nodes", "list", None),
            need(Reach::Served, "pods", "list", None),
            need(Reach::Home, "pods", "list", None),
            need(Reach::Home, "configmaps", "get", None),
            need(Reach::Namespace("there".into()), "secrets", "get", None),
        ];
        assert_eq!(
            shown(&needs, &layout(None)),
            ["everywhere: \"\" nodes,pods  list", "home: \"\" configmaps  get", "there: \"\" secrets  get"]
        );
        assert_eq!(
            shown(&needs, &layout(Some(&["a", "b"]))),
            [
                "everywhere: \"\" nodes  list",
                "a: \"\" pods  list",
                "b: \"\" pods  list",
                "home: \"\" configmaps  get",
                "home: \"\" pods  list",
                "there: \"\" secrets  get"
            ]
        );
    }

    #[test]
    fn wildcards_include_what_they_stand_for() {
        let everything = Need { group: EVERY.into(), ..need(Reach::Everywhere, EVERY, "list", None) };
        let needs =
            [everything, need(Reach::Served, "pods", "list", None), need(Reach::Served, "pods/status", "patch", None)];
        assert_eq!(shown(&needs, &layout(None)), ["everywhere: \"\" pods/status  patch", "everywhere: \"*\" *  list"]);
    }

    #[test]
    fn a_granted_rule_is_read_as_the_api_server_reads_it() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let right = |resource: &str, name: Option<&str>| Right {
            scope: GrantScope::Cluster,
            group: "apps".into(),
            resource: resource.into(),
            verb: "patch".into(),
            name: name.map(str::to_owned),
        };
        let granted = |resources: &[&str], names: &[&str]| Granted {
            groups: texts(&["", "apps"]),
            resources: texts(resources),
            names: texts(names),
            verbs: texts(&["get", "patch"]),
        };
        assert!(granted(&["deployments"], &[]).grants(&right("deployments", Some("a"))));
        assert!(!granted(&["deployments"], &[]).grants(&right("deployments/scale", None)));
        assert!(granted(&["*/scale"], &[]).grants(&right("deployments/scale", None)));
        assert!(granted(&["*"], &["a"]).grants(&right("deployments", Some("a"))));
        assert!(!granted(&["*"], &["a"]).grants(&right("deployments", None)));
        assert!(!Granted { groups: texts(&["batch"]), ..granted(&["*"], &[]) }.grants(&right("deployments", None)));
    }
}
