//! The rights that an operator needs in the cluster: by its manifest, by the code of its scripts, and by `allow.k8s`.
//!
//! Every request of the engine has its place here; `docs/permissions.md` lists them for users.

use std::collections::BTreeSet;

use crate::handling::hook::auth::Check;
use crate::handling::rights::{EVERY, Need, Purpose, Reach};
use crate::handling::{Handler, On};
use crate::kit::source::SourcePosition;
use crate::object::selector::Criterion;
use crate::object::{Resource, Selector};
use crate::persistence::schedule::config_map;
use crate::script::interface::access::{Access, Kind, Namespace};
use crate::script::interface::rights::{AllowedKind, AllowedResource, AllowedRule};

use super::diagnostic::{Diagnostic, Severity};
use super::operator::Operator;
use super::{known_kinds, scripts};

pub mod roles;

/// The options at an operator's start that its rights depend on.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Whether it serves some namespaces, and not all.
    pub is_namespaced: bool,
    /// Which peering objects it uses.
    pub peering: PeeringUse,
    /// The name of the Lease by which one of its replicas is chosen.
    pub lease: Option<String>,
    /// Whether it applies the definitions in `spec.crds` at its start.
    pub applies_definitions: bool,
}

/// Which peering objects an operator uses.
#[derive(Debug, Clone, Default)]
pub enum PeeringUse {
    /// Those of its settings, if they exist.
    #[default]
    IfThere,
    /// Those of this name.
    Named(String),
    /// None: it ignores its peers.
    Never,
}

/// The needs of an operator.
#[derive(Debug, Default)]
pub struct Needs {
    /// The rights that are known.
    pub needs: Vec<Need>,
    /// Kinds whose plural names are unknown, with their positions.
    pub unresolved: Vec<Diagnostic>,
}

/// Returns the rights that an operator needs. `known` has the kinds of the cluster, as far as they are known.
pub fn needs(operator: &Operator, known: &[Resource], circumstances: &Circumstances) -> Needs {
    let mut collector = Collector { operator, known, found: Needs::default(), told: BTreeSet::new() };
    collector.engine(circumstances);
    collector.definitions(circumstances);
    collector.handlers();
    collector.reconciles();
    collector.owners();
    operator.calls.accesses.iter().for_each(|access| collector.access(access));
    operator.declaration.allow.k8s.iter().for_each(|rule| collector.declared(rule));
    collector.found
}

/// A kind as roles name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    group: String,
    plural: String,
    is_namespaced: bool,
    /// Whether it has the subresource `status`; `None` if that is unknown.
    has_status: Option<bool>,
}

impl Named {
    fn of(resource: &Resource) -> Self {
        let Resource { group, plural, namespaced, .. } = resource;
        let (group, plural) = (group.clone(), plural.clone());
        Self { group, plural, is_namespaced: *namespaced, has_status: Some(resource.has_subresource("status")) }
    }

    fn everything(group: Option<&String>) -> Self {
        Self {
            group: group.map_or_else(|| EVERY.to_owned(), Clone::clone),
            plural: EVERY.to_owned(),
            is_namespaced: false,
            has_status: None,
        }
    }

    fn reach(&self) -> Reach {
        if self.is_namespaced { Reach::Served } else { Reach::Everywhere }
    }
}

struct Collector<'a> {
    operator: &'a Operator,
    known: &'a [Resource],
    found: Needs,
    told: BTreeSet<String>,
}

impl Collector<'_> {
    fn need(
        &mut self,
        purpose: Purpose,
        reach: Reach,
        (group, resource): (&str, &str),
        verbs: &[&str],
        names: Option<&BTreeSet<String>>,
    ) {
        let of = |verb: &str| Need {
            purpose,
            reach: reach.clone(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            // Creations and lists have no names that rules could name.
            names: names.filter(|_| !matches!(verb, "create" | "list" | "watch" | "deletecollection")).cloned(),
        };
        self.found.needs.extend(verbs.iter().map(|verb| of(verb)));
    }

    /// The requests of the engine beyond those for handled objects.
    fn engine(&mut self, circumstances: &Circumstances) {
        let settings = &self.operator.settings;
        let name = |name: &str| Some(BTreeSet::from([name.to_owned()]));
        if !settings.scanning.disabled {
            let definitions = ("apiextensions.k8s.io", "customresourcedefinitions");
            self.need(Purpose::Discovery, Reach::Everywhere, definitions, &["list", "watch"], None);
            if circumstances.is_namespaced {
                self.need(Purpose::Discovery, Reach::Everywhere, ("", "namespaces"), &["list", "watch"], None);
            }
        }
        let (posting, calls) = (&settings.posting, &self.operator.calls);
        let has_trials = settings.reload.canary.is_some();
        let is_enabled = posting.enabled || calls.sets_posting;
        if is_enabled && (calls.posts_events || calls.sets_posting || posting.loggers || has_trials) {
            let verbs: &[&str] =
                if posting.aggregated || calls.sets_posting { &["create", "patch"] } else { &["create"] };
            self.need(Purpose::Events, Reach::Served, ("", "events"), verbs, None);
            // Events about objects without a namespace are posted in that of the operator.
            self.need(Purpose::Events, Reach::Home, ("", "events"), verbs, None);
        }
        let peering = &settings.peering;
        let used = match &circumstances.peering {
            PeeringUse::Named(name) => Some(name),
            PeeringUse::IfThere => (!peering.standalone).then_some(&peering.name),
            PeeringUse::Never => None,
        };
        if let Some(used) = used {
            let is_namespaced = circumstances.is_namespaced && peering.clusterwide != Some(true);
            let (plural, reach) = if is_namespaced {
                ("kopfpeerings", Reach::Served)
            } else {
                ("clusterkopfpeerings", Reach::Everywhere)
            };
            for group in ["kopf.dev", "zalando.org"] {
                let verbs = ["list", "watch", "patch"];
                self.need(Purpose::Peering, reach.clone(), (group, plural), &verbs, name(used).as_ref());
            }
        }
        if let Some(lease) = &circumstances.lease {
            let leases = ("coordination.k8s.io", "leases");
            self.need(
                Purpose::Election,
                Reach::Home,
                leases,
                &["get", "watch", "create", "update"],
                name(lease).as_ref(),
            );
        }
        if let Some(managed) = &settings.admission.managed {
            for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
                let verbs = ["get", "list", "watch", "create", "patch"];
                self.need(
                    Purpose::Webhooks,
                    Reach::Everywhere,
                    ("admissionregistration.k8s.io", plural),
                    &verbs,
                    name(managed).as_ref(),
                );
            }
        }
        if let Some(secret) = settings.admission.server.as_ref().and_then(|server| server.secret.as_ref()) {
            let reach = secret.namespace.clone().map_or(Reach::Home, Reach::Namespace);
            self.need(
                Purpose::Webhooks,
                reach,
                ("", "secrets"),
                &["get", "create", "update"],
                name(&secret.name).as_ref(),
            );
        }
        if self.operator.schedules.iter().any(|schedule| schedule.schedule.catches_up) {
            let map = name(&config_map(&self.operator.name));
            self.need(Purpose::Schedules, Reach::Home, ("", "configmaps"), &["get", "create", "patch"], map.as_ref());
        }
        for secret in self.operator.hooks.iter().flat_map(|hook| &hook.checks).filter_map(Check::secret) {
            let reach = secret.namespace.clone().map_or(Reach::Home, Reach::Namespace);
            self.need(Purpose::Hooks, reach, ("", "secrets"), &["get"], name(&secret.name).as_ref());
        }
        for database in self.operator.declaration.allow.connections.values() {
            for secret in database.secrets() {
                let reach = secret.namespace.clone().map_or(Reach::Home, Reach::Namespace);
                self.need(Purpose::Databases, reach, ("", "secrets"), &["get"], name(&secret.name).as_ref());
            }
        }
        if has_trials {
            for (group, plural) in [("", "pods"), ("apps", "replicasets"), ("apps", "deployments")] {
                self.need(Purpose::Trials, Reach::Home, (group, plural), &["get"], None);
            }
        }
    }

    fn definitions(&mut self, circumstances: &Circumstances) {
        if circumstances.applies_definitions {
            let defined = known_kinds::defined_by(std::slice::from_ref(self.operator));
            let names: BTreeSet<String> =
                defined.iter().map(|kind| format!("{}.{}", kind.plural, kind.group)).collect();
            let definitions = ("apiextensions.k8s.io", "customresourcedefinitions");
            self.need(Purpose::Definitions, Reach::Everywhere, definitions, &["get", "create", "patch"], Some(&names));
        }
    }

    /// Watches, and the progress that is stored on objects.
    fn handlers(&mut self) {
        let operator = self.operator;
        for handler in operator.indexes.iter().chain(operator.object_handlers()) {
            let is_patched = handler.on.is_changing()
                || handler.on.is_spawning()
                || (handler.on == On::Event && operator.calls.patching.contains(&handler.target));
            for selector in &handler.selectors {
                for kind in self.declared_kinds(selector) {
                    self.need(Purpose::Handling, kind.reach(), (&kind.group, &kind.plural), &["list", "watch"], None);
                    if is_patched {
                        self.patches(Purpose::Handling, &kind);
                    }
                }
            }
        }
        if operator.settings.admission.managed.is_some() {
            let conversions: Vec<Selector> =
                operator.conversions.iter().flat_map(|handler| handler.selectors.clone()).collect();
            for kind in self.all_kinds(&conversions) {
                let definition = BTreeSet::from([format!("{}.{}", kind.plural, kind.group)]);
                let definitions = ("apiextensions.k8s.io", "customresourcedefinitions");
                self.need(
                    Purpose::Webhooks,
                    Reach::Everywhere,
                    definitions,
                    &["get", "list", "watch", "patch"],
                    Some(&definition),
                );
            }
        }
    }

    fn patches(&mut self, purpose: Purpose, kind: &Named) {
        self.need(purpose, kind.reach(), (&kind.group, &kind.plural), &["patch"], None);
        if kind.has_status != Some(false) {
            self.need(purpose, kind.reach(), (&kind.group, &status_of(&kind.plural)), &["patch"], None);
        }
    }

    fn reconciles(&mut self) {
        let operator = self.operator;
        for reconcile in &operator.reconciles {
            for kind in self.all_kinds(&reconcile.handler.selectors) {
                self.need(Purpose::Handling, kind.reach(), (&kind.group, &kind.plural), &["list", "watch"], None);
                self.patches(Purpose::Handling, &kind);
            }
            for kind in self.all_kinds(&reconcile.owns) {
                let verbs = ["list", "watch", "create", "patch", "delete"];
                self.need(Purpose::Children, kind.reach(), (&kind.group, &kind.plural), &verbs, None);
            }
            for kind in self.all_kinds(reconcile.watches.iter().map(|(selector, _)| selector)) {
                self.need(Purpose::Handling, kind.reach(), (&kind.group, &kind.plural), &["list", "watch"], None);
            }
        }
    }

    /// An owner reference that delays the deletion of the owner needs the right to set the owner's finalizers, if the
    /// cluster checks that.
    fn owners(&mut self) {
        let operator = self.operator;
        let reconciling = operator
            .reconciles
            .iter()
            .filter(|reconcile| !reconcile.owns.is_empty())
            .map(|reconcile| &reconcile.handler);
        let owning = operator.object_handlers().filter(|handler| operator.calls.owning.contains(&handler.target));
        for selector in owning.chain(reconciling).flat_map(|handler| &handler.selectors) {
            for kind in self.declared_kinds(selector) {
                let finalizers = format!("{}/finalizers", kind.plural);
                self.need(Purpose::Owners, kind.reach(), (&kind.group, &finalizers), &["update"], None);
            }
        }
    }

    /// A request that is seen in a script.
    fn access(&mut self, access: &Access) {
        let kinds = match &access.kind {
            // It is declared, or an error.
            Kind::Unknown => Vec::new(),
            Kind::Handled(binding) => {
                let selectors: Vec<Selector> =
                    self.operator.all_handlers_of(*binding).flat_map(|handler| handler.selectors.clone()).collect();
                self.all_kinds(&selectors)
            }
            Kind::Text(text) => match Selector::parse(text) {
                Ok(selector) => self.kinds(&selector).unwrap_or_else(|| {
                    self.unresolved(text, scripts::place_of(access));
                    Vec::new()
                }),
                Err(_) => Vec::new(),
            },
        };
        for kind in kinds {
            let reach = match &access.namespace {
                _ if !kind.is_namespaced => Reach::Everywhere,
                Namespace::All => Reach::Everywhere,
                Namespace::Named(name) => Reach::Namespace(name.clone()),
                Namespace::Own | Namespace::Computed => Reach::Served,
            };
            let resources = match (access.function.subresource(), kind.has_status) {
                (Some("status"), Some(false)) | (None, _) => vec![kind.plural.clone()],
                (Some("status"), None) => vec![kind.plural.clone(), status_of(&kind.plural)],
                (Some(subresource), _) => vec![format!("{}/{subresource}", kind.plural)],
            };
            for resource in resources {
                let names = access.names.as_ref();
                self.need(Purpose::Scripts, reach.clone(), (&kind.group, &resource), access.function.verbs(), names);
            }
        }
    }

    fn declared(&mut self, rule: &AllowedRule) {
        for AllowedResource { kind, subresource } in &rule.resources {
            let kinds = match kind {
                AllowedKind::Selected(selector) => self.kinds(selector).unwrap_or_else(|| {
                    self.unresolved(&selector.to_string(), rule_place(rule, self.operator));
                    Vec::new()
                }),
                AllowedKind::Plural { group, plural } => {
                    let found = self.known.iter().find(|known| known.group == *group && known.plural == *plural);
                    vec![found.map_or_else(|| assumed(group, plural), Named::of)]
                }
            };
            for kind in kinds {
                let resource = subresource
                    .as_ref()
                    .map_or_else(|| kind.plural.clone(), |subresource| format!("{}/{subresource}", kind.plural));
                let names: BTreeSet<String> = rule.names.iter().cloned().collect();
                let names = Some(&names).filter(|names| !names.is_empty());
                let reaches = match &rule.namespaces[..] {
                    [] => vec![kind.reach()],
                    namespaces => namespaces.iter().cloned().map(Reach::Namespace).collect(),
                };
                let verbs: Vec<&str> = rule.verbs.iter().map(String::as_str).collect();
                for reach in reaches {
                    self.need(Purpose::Declared, reach, (&kind.group, &resource), &verbs, names);
                }
            }
        }
    }

    /// Returns the kinds of selectors of the manifest.
    fn all_kinds<'s>(&mut self, selectors: impl IntoIterator<Item = &'s Selector>) -> Vec<Named> {
        selectors.into_iter().flat_map(|selector| self.declared_kinds(selector)).collect()
    }

    /// Returns the kinds of a selector of the manifest.
    fn declared_kinds(&mut self, selector: &Selector) -> Vec<Named> {
        self.kinds(selector).unwrap_or_else(|| {
            let text = selector.to_string();
            let named = self.operator.kinds.iter().find(|named| named.selector.to_string() == text);
            if let Some(named) = named {
                self.unresolved(&named.text, named.place.clone());
            }
            Vec::new()
        })
    }

    /// Returns the kinds of a selector; `None` if it names one whose plural name is unknown.
    fn kinds(&self, selector: &Selector) -> Option<Vec<Named>> {
        if matches!(selector.name, Criterion::Everything | Criterion::Where(_)) {
            return Some(vec![Named::everything(selector.group.as_ref())]);
        }
        let of_any_version = Selector { version: None, ..selector.clone() };
        let found: BTreeSet<Named> = of_any_version.select(self.known).into_iter().map(Named::of).collect();
        match (found.is_empty(), &selector.group, &selector.name) {
            (false, ..) => Some(found.into_iter().collect()),
            // Without a definition, a name in lower case is that of URLs.
            (true, Some(group), Criterion::Any(name) | Criterion::Plural(name)) if *name == name.to_lowercase() => {
                Some(vec![assumed(group, name)])
            }
            (true, ..) => None,
        }
    }

    fn unresolved(&mut self, text: &str, place: Diagnostic) {
        if self.told.insert(format!("{text} {}:{}", place.place.line, place.place.column)) {
            let message = format!("the plural name of `{text}` is unknown, so that no rule can be made for it");
            let hint = "add its definition to `crds`, or name it as `plural.group`";
            self.found.unresolved.push(Diagnostic {
                severity: Severity::Error,
                message,
                hint: Some(hint.to_owned()),
                ..place
            });
        }
    }
}

fn status_of(plural: &str) -> String {
    format!("{plural}/status")
}

fn assumed(group: &str, plural: &str) -> Named {
    Named { group: group.to_owned(), plural: plural.to_owned(), is_namespaced: true, has_status: None }
}

fn rule_place(rule: &AllowedRule, operator: &Operator) -> Diagnostic {
    let place = SourcePosition { file: operator.file.clone(), ..rule.place };
    Diagnostic { place, length: 1, ..Diagnostic::of_file(Severity::Error, &operator.file, "", None) }
}

impl Operator {
    /// Returns the handlers of a binding.
    fn all_handlers_of(&self, binding: usize) -> impl Iterator<Item = &Handler> {
        let reviewed = self.webhooks.iter().map(|webhook| &webhook.handler);
        let reconciled = self.reconciles.iter().map(|reconcile| &reconcile.handler);
        let converting = self.conversions.iter();
        self.object_handlers()
            .chain(&self.indexes)
            .chain(reviewed)
            .chain(reconciled)
            .chain(converting)
            .filter(move |handler| handler.target == binding)
    }
}
