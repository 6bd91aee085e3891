//! The kinds of the cluster that an operator serves, and those that it leaves to other operators.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::engines::admission::reviewer::WebhookKinds;
use crate::handling::Handler;
use crate::manifest::cross_operator;
use crate::object::{Resource, Selector};

use super::super::observation::{Insights, Purposes};
use super::super::precedence::{Precedence, Yielded};
use super::declared::Declared;

/// The kinds that were found in the cluster for the purposes of an operator.
pub(super) struct FoundKinds {
    purposes: Purposes,
    /// The kinds that the operator would serve alone.
    found: Insights,
    /// The kinds that it serves, without those left to other operators.
    served: Insights,
    yielded: BTreeSet<Yielded>,
    warnings: BTreeSet<String>,
    /// The kinds of webhooks, for others.
    published_webhook_kinds: watch::Sender<WebhookKinds>,
}

impl FoundKinds {
    /// Returns that nothing was found yet for these handlers and webhooks.
    pub(super) fn none(handlers: &[Arc<Handler>], webhooks: &[Selector]) -> Self {
        Self {
            purposes: purposes_of(handlers, webhooks),
            found: Insights::default(),
            served: Insights::default(),
            yielded: BTreeSet::new(),
            warnings: BTreeSet::new(),
            published_webhook_kinds: watch::Sender::default(),
        }
    }

    /// Lets peerings be found, too.
    pub(super) fn seek_peerings(&mut self, peerings: Vec<Selector>) {
        self.purposes.peering = peerings;
    }

    /// Replaces the handlers and webhooks.
    pub(super) fn seek(&mut self, handlers: &[Arc<Handler>], webhooks: &[Selector]) {
        let peering = std::mem::take(&mut self.purposes.peering);
        self.purposes = Purposes { peering, ..purposes_of(handlers, webhooks) };
    }

    /// Forgets the found kinds, since the purposes have changed.
    pub(super) fn forget(&mut self) {
        self.found = Insights::default();
    }

    /// Returns the groups to discover; `None` means all.
    pub(super) fn groups(&self, earlier: &Precedence) -> Option<BTreeSet<String>> {
        earlier.groups(self.purposes.groups()).map(|groups| groups.into_iter().map(str::to_owned).collect())
    }

    /// Returns the kinds that are watched.
    pub(super) fn watched(&self) -> &BTreeSet<Arc<Resource>> {
        &self.served.watched
    }

    /// Returns the kinds that were found for the purposes of the operator alone.
    pub(super) fn found(&self) -> &Insights {
        &self.found
    }

    /// Returns the groups of the named kinds that were not found; `None` stands for all groups.
    pub(super) fn missing_groups(&self) -> BTreeSet<Option<String>> {
        self.found.missing_groups(&self.purposes)
    }

    /// Returns the kinds of the webhooks, as they will be at any time.
    pub(super) fn webhook_kinds(&self) -> watch::Receiver<WebhookKinds> {
        self.published_webhook_kinds.subscribe()
    }

    /// Takes over the kinds of a group, or of all, and reports what cannot be served.
    pub(super) fn revise(&mut self, declared: &mut Declared, group: Option<&str>, discovered: &[Arc<Resource>]) {
        let unserved = self.found.revise(&self.purposes, group, discovered);
        declared.earlier.revise(group, discovered);
        self.yield_kinds(declared);
        let warnings: BTreeSet<String> = unserved.iter().map(|one| one.warning.clone()).collect();
        for warning in warnings.difference(&self.warnings) {
            warn!(target: "kopfd::reactor", operator = &*declared.name, "{warning}");
        }
        if let Some(monitor) = &declared.monitor {
            let yielded = self.yielded.iter().map(|yielded| {
                format!(
                    "{} is not served by operator '{}', since operator '{}' serves it",
                    yielded.resource, declared.name, yielded.to
                )
            });
            monitor.not_served(&declared.name, unserved.into_iter().filter_map(|one| one.named).chain(yielded));
        }
        self.warnings = warnings;
        self.publish_webhook_kinds();
    }

    /// Leaves kinds to earlier operators if both would overwrite each other's records.
    fn yield_kinds(&mut self, declared: &Declared) {
        self.served = self.found.clone();
        let yielded = declared.earlier.apply(&self.purposes, &declared.storages, &mut self.served);
        let name = &declared.name;
        for Yielded { resource, to, clashes } in yielded.difference(&self.yielded) {
            error!(
                target: "kopfd::reactor",
                "Operator '{name}' does not serve {resource}: operator '{to}' serves it, and the two would overwrite each other's records. \
                 Make these settings of one of them different: {}.",
                cross_operator::keys(clashes)
            );
        }
        for Yielded { resource, to, .. } in self.yielded.difference(&yielded) {
            if self.served.watched.contains(resource) {
                info!(target: "kopfd::reactor", "Operator '{to}' does not serve {resource} any more. Operator '{name}' serves it from now on.");
            }
        }
        self.yielded = yielded;
    }

    fn publish_webhook_kinds(&self) {
        let kinds = &self.served.webhook;
        self.published_webhook_kinds.send_if_modified(|published| {
            let is_same = published.as_ref().is_some_and(|published| {
                published.len() == kinds.len()
                    && published.iter().zip(kinds).all(|(one, other)| one.has_same_details(other))
            });
            if !is_same {
                *published = Some(Arc::new(kinds.clone()));
            }
            !is_same
        });
    }
}

fn purposes_of(handlers: &[Arc<Handler>], webhooks: &[Selector]) -> Purposes {
    Purposes::of_handlers(handlers.iter().map(AsRef::as_ref)).with_webhooks(webhooks)
}
