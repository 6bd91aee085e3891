//! Sends the patch of an object, and reports what became of it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::effects::Effects;
use super::error::Error;
use super::events::EngineEvent;
use crate::cluster::{Applied, Confirmation};
use crate::handling::Message;
use crate::object::{Body, Item, Patch, Resource, secret};

/// The inconsistencies of a large patch are shown up to this length, in characters.
const MAX_SHOWN: usize = 10_000;

/// Sends a patch, and waits before each further request of it for the event of the earlier one.
///
/// # Errors
/// If the API server refuses it or cannot be reached, or a transformation fails.
pub(crate) async fn send(
    effects: &impl Effects,
    resource: &Resource,
    body: &Body,
    patch: &Patch,
    confirmation: &dyn Confirmation,
) -> Result<Applied, Error> {
    let events = effects.events();
    events.emit(&EngineEvent::PatchPrepared { body, patch });
    let applied = effects.apply(resource, body, patch, confirmation).await?;
    events.emit(&EngineEvent::PatchSent { body, patch, version: applied.version.as_deref() });
    if applied.is_gone {
        events.log_message(&Message::debug("Patching was skipped: the object does not exist anymore."));
    }
    if !applied.remaining.is_empty() {
        events.log_message(
            &Message::debug("Could not apply the patch in full due to conflicts with newer changes. Will try on the next cycle soon.")
                .followed_by(format!("Remaining: {} functions.", applied.remaining.len())),
        );
    }
    if !applied.inconsistencies.is_empty() {
        let values = secret::Values::of(body);
        let items: Vec<Value> =
            secret::shown_items(values.as_ref(), &applied.inconsistencies).iter().map(diff_item).collect();
        let shown = beginning(Value::Array(items).to_string());
        events.log_message(&Message::warning(format!("Merge-patching finished with inconsistencies: {shown}")));
    }
    Ok(applied)
}

/// Cuts a long text, and appends the size of the missing part.
fn beginning(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
        let more = text[end..].chars().count();
        text.truncate(end);
        let _ = write!(text, "… ({more} more characters)");
    }
    text
}

/// Returns a difference in kopf's form.
pub(crate) fn diff_item(item: &Item) -> Value {
    json!([item.op.as_str(), item.path, item.old, item.new])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_long_text_is_shown() {
        assert_eq!(beginning("ä".repeat(MAX_SHOWN)), "ä".repeat(MAX_SHOWN));
        assert_eq!(beginning("ä".repeat(MAX_SHOWN + 3)), format!("{}… (3 more characters)", "ä".repeat(MAX_SHOWN)));
    }
}
