//! Admission and conversion webhooks.

use std::time::Duration;

use serde_json::Value;

use crate::handling::admission::configuration;
use crate::handling::{On, Policy};
use crate::object::Selector;
use crate::script::BindingKind;

use super::binding::{BINDING, Concern, Request, misplaced};
use super::builder::{Block, OperatorBuilder};
use super::filters::{Asking, FILTERS};
use super::operator::{SideEffects, Webhook};
use super::reader::{Fields, Item};
use super::suggest::{nearest, one_of};
use super::tree::Kind;

/// The longest time that an API server waits for a webhook.
const MAX_ANSWER: Duration = Duration::from_secs(30);

const OPERATIONS: [&str; 4] = ["create", "update", "delete", "connect"];
const ON: [&str; 3] = ["validate", "mutate", "convert"];
const OWN: [&str; 8] =
    ["on", "operations", "subresource", "persistent", "sideEffects", "ignoreFailures", "matchConditions", "timeout"];

impl OperatorBuilder<'_> {
    /// Reads one item of `webhooks`; returns whether it is a conversion, of which a block has at most one.
    pub(super) fn webhook(&mut self, item: &Item<'_>, block: &Block<'_>) -> bool {
        let reader = self.reader;
        let on =
            item.node.get("on").and_then(|node| node.text()).and_then(|text| ON.into_iter().find(|word| *word == text));
        let is_conversion = on == Some("convert");
        let known =
            if is_conversion { [&BINDING[..], &["on"]].concat() } else { [&BINDING[..], &FILTERS, &OWN].concat() };
        let noun = if is_conversion { "a conversion webhook" } else { "a webhook" };
        let special = |key: &str| match key {
            "retries" | "backoff" | "errors" => Some((
                format!("`{key}` is not for webhooks"),
                "a request is answered at once and never retried: leave it out".to_owned(),
            )),
            _ if is_conversion && FILTERS.contains(&key) => Some((
                format!("`{key}` is no option of {noun}"),
                "all objects of the kind are converted: leave it out".to_owned(),
            )),
            _ => misplaced(noun, key),
        };
        let Some(fields) = reader.fields_but(item, noun, &known, special) else { return false };
        let on =
            reader.required(&fields, "on", &format!("write {}", one_of(&ON))).and_then(|item| self.webhook_on(&item));
        match on {
            Some("convert") => self.conversion(&fields, block),
            on => self.admission(&fields, block, on),
        }
        is_conversion
    }

    fn webhook_on(&self, item: &Item<'_>) -> Option<&'static str> {
        if let Some(text) = item.node.text()
            && ["create", "update", "delete"].contains(&text)
        {
            let hint = format!("write `on: validate` or `on: mutate`, and `operations: [{text}]`");
            self.reader.error_with(item, format!("unknown value `{text}` of `on`"), hint);
            return None;
        }
        self.reader.word(item, &ON)
    }

    fn conversion(&mut self, fields: &Fields<'_>, block: &Block<'_>) {
        let script = self.script(fields, &block.script);
        let request = Request { kind: BindingKind::Convert, script: &script, suffix: None, deadline: Some(MAX_ANSWER) };
        let Some(bound) = self.bind(fields, &request) else { return };
        self.register_webhook("convert", fields, &bound.id, bound.spot.line);
        self.check_definition(fields, block);
        let concern = Concern { selectors: block.selectors.clone(), ..Concern::default() };
        self.operator.conversions.push(bound.handler(On::Conversion, concern, Policy::default()));
    }

    /// A definition names one webhook for its conversions.
    fn check_definition(&self, fields: &Fields<'_>, block: &Block<'_>) {
        let place = fields.get("on").unwrap_or_else(|| fields.item.clone());
        let refuse = |message: String, hint: &str| self.reader.error_with(&place, message, hint);
        match block.selectors.as_slice() {
            // The mistake is reported at the block.
            [] => {}
            [selector] if !selector.is_specific() || selector.group.as_deref() == Some("") => {
                let hint = "name the kind of one custom resource definition, such as `resource: databases.example.com`";
                refuse(format!("a conversion is for one definition, not for `{selector}`"), hint);
            }
            [selector] => {
                let is_same =
                    |other: &Selector| other.group == selector.group && other.name.text() == selector.name.text();
                if self.operator.conversions.iter().flat_map(|handler| &handler.selectors).any(is_same) {
                    refuse(
                        format!("`{selector}` has another conversion"),
                        "a definition has one: leave one of them out",
                    );
                }
            }
            several => {
                let hint = "make a block of its own for each kind";
                refuse(format!("a conversion is for one definition, but the block has {} kinds", several.len()), hint);
            }
        }
    }

    fn admission(&mut self, fields: &Fields<'_>, block: &Block<'_>, on: Option<&'static str>) {
        let reader = self.reader;
        let is_mutating = on == Some("mutate");
        let kind = if is_mutating { BindingKind::Mutate } else { BindingKind::Validate };
        let script = self.script(fields, &block.script);
        let asking = Asking { kind, script: script.clone().unless(on.is_none()) };
        let field = self.field(fields);
        let filters = self.filters(fields, block, field.as_ref(), &asking);
        let operations = reader.list_of(fields, "operations").iter().filter_map(|item| self.operation(item)).collect();
        if let Some(item) = fields.get("operations").filter(|item| item.items().is_some_and(|items| items.is_empty())) {
            reader.error_with(&item, "`operations` is empty", "leave it out for all operations");
        }
        let timeout = fields.get("timeout").and_then(|item| self.whole_seconds(&item)).unwrap_or(MAX_ANSWER);
        let side_effects = fields.get("sideEffects").and_then(|item| self.side_effects(&item)).unwrap_or_default();
        let conditions =
            reader.list_of(fields, "matchConditions").iter().filter_map(|item| self.condition(item)).collect();
        let subresource = reader.string(fields, "subresource");
        let (persistent, ignores) = (reader.flag(fields, "persistent"), reader.flag(fields, "ignoreFailures"));
        let request = Request { kind, script: &script, suffix: field.as_ref(), deadline: Some(timeout) };
        let Some(bound) = self.bind(fields, &request) else { return };
        let Some(on) = on else {
            self.lost.insert(bound.target);
            return;
        };
        self.register_webhook(on, fields, &bound.id, bound.spot.line);
        self.check_managed_name(fields, &bound.id);
        let concern = Concern { selectors: block.selectors.clone(), field, filters };
        self.operator.webhooks.push(Webhook {
            handler: bound.handler(On::Review, concern, Policy::default()),
            is_mutating,
            operations,
            subresource,
            is_persistent: persistent.unwrap_or(false),
            side_effects,
            ignores_failures: ignores.unwrap_or(false),
            match_conditions: conditions,
            timeout,
        });
    }

    fn register_webhook(&mut self, on: &'static str, fields: &Fields<'_>, id: &str, line: usize) {
        let Some(first) = self.webhook_ids.get(&(on, id.to_owned())) else {
            self.webhook_ids.insert((on, id.to_owned()), line);
            return;
        };
        let place = fields.get("id").or_else(|| fields.get("fn")).unwrap_or_else(|| fields.item.clone());
        let message = format!("the id `{id}` is taken by another `{on}` webhook in line {first}");
        self.reader.error_with(
            &place,
            message,
            "give one of them an `id` of its own: it is a part of the webhook's address",
        );
    }

    /// With a managed configuration, the id is a part of the webhook's name, which the API server checks.
    fn check_managed_name(&self, fields: &Fields<'_>, id: &str) {
        let Some(managed) = &self.operator.settings.admission.managed else { return };
        let name = configuration::webhook_name(id, managed);
        if configuration::is_valid_name(&name) {
            return;
        }
        let place = fields.get("id").or_else(|| fields.get("fn")).unwrap_or_else(|| fields.item.clone());
        let hint = if managed.contains('.') {
            "with `settings.admission.managed`, write an `id` of lower-case letters and digits, with `-`, `_`, `/` or `.` between them"
        } else {
            "write a domain of at least two parts in `settings.admission.managed`, such as `my-operator.example.com`"
        };
        self.reader.error_with(&place, format!("the API server refuses `{name}` as the name of a webhook"), hint);
    }

    fn operation(&self, item: &Item<'_>) -> Option<String> {
        let text = &self.reader.text(item)?.value;
        let lower = text.to_lowercase();
        if OPERATIONS.contains(&lower.as_str()) {
            return Some(text.to_uppercase());
        }
        let hint = nearest(&lower, OPERATIONS).map_or_else(
            || format!("known are {}", OPERATIONS.join(", ")),
            |suggestion| format!("did you mean `{suggestion}`?"),
        );
        self.reader.error_with(item, format!("unknown operation `{text}`"), hint);
        None
    }

    fn whole_seconds(&self, item: &Item<'_>) -> Option<Duration> {
        let duration = self.reader.duration(item)?;
        if (Duration::from_secs(1)..=MAX_ANSWER).contains(&duration) && duration.subsec_nanos() == 0 {
            return Some(duration);
        }
        self.reader.error_with(item, "the `timeout` of a webhook must be 1 to 30 whole seconds", "write such as `10s`");
        None
    }

    fn side_effects(&self, item: &Item<'_>) -> Option<SideEffects> {
        let dry_run = |has_some: bool| if has_some { SideEffects::NoneOnDryRun } else { SideEffects::None };
        match (&item.node.kind, item.node.text()) {
            (Kind::Bool(has_some), _) => Some(dry_run(*has_some)),
            (_, Some("None")) => Some(SideEffects::None),
            (_, Some("NoneOnDryRun")) => Some(SideEffects::NoneOnDryRun),
            _ => {
                let words = item.node.text().map_or_else(|| item.node.noun().to_owned(), |text| format!("`{text}`"));
                let message = format!("`sideEffects` cannot be {words}");
                self.reader.error_with(item, message, "write `true`, `false`, `None`, or `NoneOnDryRun`");
                None
            }
        }
    }

    fn condition(&self, item: &Item<'_>) -> Option<Value> {
        let fields = self.reader.fields(item, "a match condition", &["name", "expression"])?;
        let hint = "a condition has a name and an expression in CEL, which the API server evaluates";
        let name = self.reader.required(&fields, "name", hint).and_then(|item| self.reader.owned(&item));
        let expression = self.reader.required(&fields, "expression", hint).and_then(|item| self.reader.owned(&item));
        Some(serde_json::json!({"name": name?, "expression": expression?}))
    }
}
