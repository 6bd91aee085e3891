//! The objects that are kept true: the two webhook configurations, and the definitions of converted kinds.

use serde_json::Value;

use super::declared::Configurations;
use crate::engines::admission::client_config::ClientConfig;
use crate::engines::admission::reviewer::ReviewRevision;
use crate::handling::admission::configuration::{self, Situation};
use crate::handling::admission::{ConfigurationKind, Webhook};
use crate::handling::conversion::definition;
use crate::object::Resource;

/// The group of webhook configurations.
const REGISTRATION: &str = "admissionregistration.k8s.io";
/// The group of definitions.
const EXTENSIONS: &str = "apiextensions.k8s.io";

/// An object of which the operator keeps a part up to date.
#[derive(Clone, Copy)]
pub(super) enum Managed<'a> {
    /// A webhook configuration: its webhooks.
    Configuration(&'a Configurations, ConfigurationKind),
    /// A custom resource definition: its conversion.
    Definition {
        /// Its name.
        name: &'a str,
        /// The id of the function.
        id: &'a str,
    },
}

/// The state on which the wanted part depends.
pub(super) struct Declared<'a> {
    /// The webhooks and conversions.
    pub(super) revision: &'a ReviewRevision,
    /// The kinds of the webhooks.
    pub(super) resources: &'a [&'a Resource],
    /// The address of the webhooks for the API server.
    pub(super) address: &'a ClientConfig,
}

impl Managed<'_> {
    /// Returns the name of the object.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Configuration(configurations, _) => &configurations.managed,
            Self::Definition { name, .. } => name,
        }
    }

    /// Returns the kind of the object.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Configuration(_, kind) => kind.kind(),
            Self::Definition { .. } => "CustomResourceDefinition",
        }
    }

    /// Returns the verbs that are needed.
    pub(super) fn verbs(&self) -> &'static str {
        match self {
            Self::Configuration(..) => "create, patch, list and watch",
            Self::Definition { .. } => "patch, list and watch",
        }
    }

    /// Returns the resource of the object.
    pub(super) fn resource(&self) -> Resource {
        let (group, plural) = match self {
            Self::Configuration(_, kind) => (REGISTRATION, kind.plural()),
            Self::Definition { .. } => (EXTENSIONS, "customresourcedefinitions"),
        };
        Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: self.kind().to_owned(),
            preferred: true,
            ..Resource::default()
        }
    }

    /// Returns the body with which the object is created; `None` for objects of others.
    pub(super) fn initial(&self) -> Option<Value> {
        match self {
            Self::Configuration(configurations, _) => Some(configuration::initial(&configurations.managed)),
            Self::Definition { .. } => None,
        }
    }

    /// Returns the patch for everything that is declared.
    pub(super) fn patch(&self, declared: &Declared<'_>) -> Value {
        match self {
            Self::Configuration(configurations, kind) => webhooks(configurations, *kind, declared, |_| true),
            Self::Definition { id, .. } => definition::patch(&declared.address.of_webhook(id)),
        }
    }

    /// Returns the patch at the end of the operator; `None` if everything stays.
    pub(super) fn last_patch(&self, declared: &Declared<'_>) -> Option<Value> {
        match self {
            Self::Configuration(configurations, kind) => {
                Some(webhooks(configurations, *kind, declared, |webhook| webhook.is_persistent))
            }
            Self::Definition { .. } => None,
        }
    }

    /// Returns the managed part of the object, with the defaults of the API server.
    pub(super) fn stored(&self, object: &Value) -> Value {
        match self {
            Self::Configuration(..) => object.get("webhooks").cloned().unwrap_or_default(),
            Self::Definition { .. } => definition::stored(object),
        }
    }

    /// Returns the number of webhooks in the stored part.
    pub(super) fn webhooks(&self, stored: &Value) -> usize {
        match self {
            Self::Configuration(..) => stored.as_array().map_or(0, Vec::len),
            Self::Definition { .. } => 1,
        }
    }

    /// Tells whether the object has another part than the stored one.
    pub(super) fn is_edited(&self, object: &Value, stored: &Value) -> bool {
        match self {
            Self::Configuration(..) => configuration::is_edited(object, stored),
            Self::Definition { .. } => definition::stored(object) != *stored,
        }
    }
}

fn webhooks(
    configurations: &Configurations,
    kind: ConfigurationKind,
    declared: &Declared<'_>,
    is_included: fn(&Webhook) -> bool,
) -> Value {
    let situation = Situation {
        managed: &configurations.managed,
        naming: configurations.naming,
        resources: declared.resources,
        client_config: &|id| declared.address.of_webhook(id),
        derives_conditions: configurations.derives_conditions,
    };
    let included = declared.revision.webhooks.iter().filter(|webhook| is_included(webhook));
    configuration::patch(configuration::webhooks(kind, included, situation))
}
