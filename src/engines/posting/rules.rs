//! Which Events are posted, and their form.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handling::Level;
use crate::manifest::settings::Posting;
use crate::object::hierarchy::build_object_reference;

/// Limit of a message in characters, as the API server has it.
const MAX_MESSAGE: usize = 1_024;

/// The number of characters kept at the beginning and at the end of a longer message, around three dots.
const KEPT: (usize, usize) = (511, 510);

/// The namespace of Events about cluster-scoped objects, if the credentials have none.
const DEFAULT_NAMESPACE: &str = "default";

/// The reason of Events that are log messages.
const LOGGING: &str = "Logging";

/// An Event that is to be posted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KubernetesEvent {
    /// The reference to the object: `apiVersion`, `kind`, `name`, `uid`, `namespace`, as far as they are known.
    pub reference: Value,
    /// `Normal`, `Warning`, or another type.
    pub event_type: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// Tells whether Events of a level are posted; without a level, only the main switch counts.
pub fn is_posted(posting: &Posting, level: Option<Level>) -> bool {
    posting.enabled && level.is_none_or(|level| number(level) >= posting.level)
}

/// Returns a level as a number, as in kopf's settings.
fn number(level: Level) -> i64 {
    match level {
        Level::Debug | Level::Step => 10,
        Level::Info => 20,
        Level::Warning => 30,
        Level::Error => 40,
    }
}

/// Returns the Event of a log message about an object, if log messages are posted.
pub fn of_log(posting: &Posting, object: &Value, level: Level, message: &str) -> Option<KubernetesEvent> {
    let event_type = match level {
        Level::Debug | Level::Step => "Debug",
        Level::Info => "Normal",
        Level::Warning => "Warning",
        Level::Error => "Error",
    };
    let is_posted = posting.loggers && is_posted(posting, Some(level));
    is_posted.then(|| KubernetesEvent {
        reference: build_object_reference(object),
        event_type: event_type.to_owned(),
        reason: LOGGING.to_owned(),
        message: message.to_owned(),
    })
}

/// Returns the namespace and the body of a new Event; `None` for Events about Events, which would never end.
///
/// `component` is the name of the operator, if the settings have none.
pub fn body(
    event: &KubernetesEvent,
    posting: &Posting,
    component: &str,
    default_namespace: &str,
    now: Timestamp,
) -> Option<(String, Value)> {
    let field = |key: &str| event.reference[key].as_str().unwrap_or_default();
    if (field("apiVersion"), field("kind")) == ("v1", "Event") {
        return None;
    }
    let namespaces = [field("namespace"), default_namespace, DEFAULT_NAMESPACE];
    let namespace = namespaces.into_iter().find(|namespace| !namespace.is_empty()).unwrap_or_default();
    let mut reference = event.reference.clone();
    reference["namespace"] = json!(namespace);
    let component = posting.reporting_component.as_deref().unwrap_or(component);
    let now = time(now);
    let body = json!({
        "metadata": {"namespace": namespace, "generateName": posting.event_name_prefix},
        "action": "Action?",
        "type": event.event_type,
        "reason": event.reason,
        "message": cut(&event.message).unwrap_or_else(|| event.message.clone()),
        "reportingComponent": component,
        "reportingInstance": posting.reporting_instance,
        "source": {"component": component},
        "involvedObject": reference,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "eventTime": now,
    });
    Some((namespace.to_owned(), body))
}

/// Returns a time as kopf writes it. The API server wants all six digits of microseconds.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Cuts a message in the middle, if it is too long.
pub(super) fn cut(message: &str) -> Option<String> {
    let length = message.chars().count();
    if length <= MAX_MESSAGE {
        return None;
    }
    let begin: String = message.chars().take(KEPT.0).collect();
    let end: String = message.chars().skip(length - KEPT.1).collect();
    Some(format!("{begin}...{end}"))
}
