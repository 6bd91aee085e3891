//! Handlers of changes and of raw events.

use crate::handling::{Handler, On, Policy};
use crate::script::BindingKind;

use super::binding::{BINDING, Ids, Request, misplaced};
use super::builder::{Block, OperatorBuilder, POLICY};
use super::filters::{Asking, FILTERS};
use super::reader::{Fields, Item};
use super::suggest::{nearest, one_of};
use super::tree::Kind;

const ON: [&str; 6] = ["create", "update", "delete", "resume", "field", "event"];
const LISTED: [&str; 4] = ["create", "update", "delete", "resume"];

impl OperatorBuilder<'_> {
    /// Reads one item of `handlers`.
    pub(super) fn handler(&mut self, item: &Item<'_>, block: &Block<'_>, ids: &mut Ids) {
        let reader = self.reader;
        let known = [&BINDING[..], &FILTERS, &POLICY, &["on", "old", "new", "optional", "deleted"]].concat();
        let Some(fields) = reader.fields_but(item, "a handler", &known, |key| misplaced_here(&known, key)) else {
            return;
        };
        let on = self.on(&fields);
        let is_event = on.as_deref() == Some(&["event"]);
        let kind = if is_event { BindingKind::Event } else { BindingKind::Change };
        let field = self.field(&fields);
        if on.as_deref() == Some(&["field"]) {
            reader.required(&fields, "field", "add `field: spec.…`, the field whose changes are handled");
        }
        self.check_options(&fields, on.as_deref());
        let script = self.script(&fields, &block.script);
        let asking = Asking { kind, script: script.clone().unless(on.is_none()) };
        let filters = self.filters(&fields, block, field.as_ref(), &asking);
        let defaults = if is_event { Policy::default() } else { self.operator.defaults.clone() };
        let policy = if is_event { defaults } else { self.policy(&fields, &defaults) };
        let request = Request { kind, script: &script, suffix: field.as_ref(), deadline: None };
        let Some(bound) = self.bind(&fields, &request) else { return };
        if on.is_none() {
            self.lost.insert(bound.target);
        }
        self.register(ids, &bound, "a handler");
        let (optional, deleted) = (reader.flag(&fields, "optional"), reader.flag(&fields, "deleted"));
        for word in on.unwrap_or_default() {
            self.operator.handlers.push(Handler {
                id: bound.id.clone(),
                function: bound.function.clone(),
                target: bound.target,
                on: match word {
                    "create" => On::Create,
                    "update" => On::Update,
                    "delete" => On::Delete { optional: optional.unwrap_or(false) },
                    "resume" => On::Resume { deleted: deleted.unwrap_or(false) },
                    "field" => On::Field,
                    _ => On::Event,
                },
                selectors: block.selectors.clone(),
                field: field.clone(),
                filters: filters.clone(),
                policy: policy.clone(),
                param: bound.param.clone(),
            });
        }
    }

    /// Returns the values of `on`, if they can be combined.
    fn on(&self, fields: &Fields<'_>) -> Option<Vec<&'static str>> {
        let reader = self.reader;
        let hint = format!("write {}, or a list of the first four", one_of(&ON));
        let item = reader.required(fields, "on", &hint)?;
        if !matches!(item.node.kind, Kind::List(_)) {
            return self.on_word(&item).map(|word| vec![word]);
        }
        let items = reader.list(&item);
        if items.is_empty() {
            reader.error_with(&item, "`on` is an empty list", hint);
            return None;
        }
        let mut words = Vec::new();
        let mut is_whole = true;
        for item in &items {
            match self.on_word(item) {
                Some(word) if !LISTED.contains(&word) => {
                    let hint = format!(
                        "write a handler of its own for it; a list may hold {}",
                        one_of(&LISTED).replace(" or ", " and ")
                    );
                    reader.error_with(item, format!("`{word}` cannot stand in a list"), hint);
                    is_whole = false;
                }
                Some(word) if words.contains(&word) => {
                    reader.error_with(item, format!("`{word}` stands twice in `on`"), "leave one of them out");
                    is_whole = false;
                }
                Some(word) => words.push(word),
                None => is_whole = false,
            }
        }
        is_whole.then_some(words)
    }

    fn on_word(&self, item: &Item<'_>) -> Option<&'static str> {
        if matches!(item.node.kind, Kind::Number(_) | Kind::Bool(_)) {
            self.reader.mistyped(item, "a string", format!("write {}, or a list of the first four", one_of(&ON)));
            return None;
        }
        let text = &self.reader.text(item)?.value;
        if let Some(word) = ON.iter().find(|word| *word == text) {
            return Some(word);
        }
        let elsewhere = match text.as_str() {
            "validate" | "mutate" | "convert" => Some("webhooks"),
            "timer" => Some("timers"),
            "daemon" => Some("daemons"),
            "index" => Some("indexes"),
            "startup" | "cleanup" | "login" | "probe" => Some("spec.activities"),
            _ => None,
        };
        let hint = match (elsewhere, nearest(text, ON)) {
            (Some(list), _) => format!("it has a list of its own: `{list}`"),
            (None, Some(suggestion)) => format!("did you mean `{suggestion}`?"),
            (None, None) => format!("write {}, or a list of the first four", one_of(&ON)),
        };
        self.reader.error_with(item, format!("unknown value `{text}` of `on`"), hint);
        None
    }

    /// Refuses the combinations of options that kopf refuses.
    fn check_options(&self, fields: &Fields<'_>, on: Option<&[&str]>) {
        let reader = self.reader;
        if let (Some(value), Some(side)) = (fields.raw("value"), fields.raw("old").or_else(|| fields.raw("new"))) {
            let message = format!("`value` and `{}` exclude each other", side.name());
            reader.key_error(&value, message, "`value` means either side of a change: leave one of them out");
        }
        // Without a valid `on`, its combinations cannot be checked.
        let Some(on) = on else { return };
        for key in ["old", "new"] {
            if let Some(item) = fields.raw(key)
                && !matches!(on, ["update" | "field"])
            {
                let message = format!("`{key}` is only for `on: update` and `on: field`");
                let hint = if on.len() > 1 {
                    "write a handler of its own for `update`"
                } else {
                    "use `value` for the current value"
                };
                reader.key_error(&item, message, hint);
            }
        }
        for (key, reason) in [("optional", "delete"), ("deleted", "resume")] {
            if let Some(item) = fields.get(key)
                && !on.contains(&reason)
            {
                reader.key_error(
                    &item,
                    format!("`{key}` needs `{reason}` in `on`"),
                    format!("leave it out, or add `{reason}`"),
                );
            }
        }
        if on == ["event"] {
            for key in POLICY {
                if let Some(item) = fields.get(key) {
                    reader.key_error(
                        &item,
                        format!("`{key}` is not for `on: event`"),
                        "handlers of raw events are never retried: leave it out",
                    );
                }
            }
        }
    }
}

/// Returns the message and the hint for a key that belongs to other bindings than one with these keys.
fn misplaced_here(known: &[&str], key: &str) -> Option<(String, String)> {
    if known.contains(&key) { None } else { misplaced("a handler", key) }
}
