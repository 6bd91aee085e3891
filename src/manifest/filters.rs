//! Filters: labels, annotations, the field and its values, and expressions.

use serde_json::Value;

use crate::handling::{Filters, Matcher, Predicate};
use crate::object::FieldPath;
use crate::script::{BindingKind, Expression};

use super::builder::{Block, OperatorBuilder, Script};
use super::reader::{Fields, Item};
use super::storages;
use super::suggest::nearest;
use super::tree::{Kind, Text};

/// The filter keys of all bindings with an object.
pub(super) const FILTERS: [&str; 5] = ["labels", "annotations", "field", "value", "when"];

const MATCHERS: [&str; 6] = ["equals", "present", "in", "notIn", "matches", "when"];

/// The context of expressions.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    /// The kind of the binding.
    pub kind: BindingKind,
    /// The file whose functions may be called.
    pub script: Script,
}

/// The values that a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// Labels and annotations, which are strings.
    Metadata,
    /// Any value.
    Value,
    /// The array of the nodes of a JSONPath.
    Nodes,
}

impl OperatorBuilder<'_> {
    /// Reads `field`.
    pub(super) fn field(&self, fields: &Fields<'_>) -> Option<FieldPath> {
        let item = fields.get("field")?;
        if let Kind::Text(text) = &item.node.kind
            && text.value.starts_with('$')
        {
            return match FieldPath::json_path(&text.value) {
                Ok(path) => Some(path),
                Err(error) => {
                    let words = error.to_string();
                    let first = words.lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
                    let message = if words.starts_with("not a JSONPath") {
                        format!("`{}` is not a JSONPath", text.value)
                    } else {
                        first
                    };
                    self.reader.error_with(
                        &item,
                        message,
                        "write such as `$.spec.containers[*].image`, or a dotted path without `$`",
                    );
                    None
                }
            };
        }
        storages::keys(self.reader, &item).map(FieldPath::of_keys)
    }

    /// Reads all filters of a binding; labels, annotations and `when` may be inherited from its block.
    pub(super) fn filters(
        &mut self,
        fields: &Fields<'_>,
        block: &Block<'_>,
        field: Option<&FieldPath>,
        asking: &Asking,
    ) -> Filters {
        let given =
            |key: &str, inherited: &Option<Item<'_>>| -> bool { fields.get(key).is_none() && inherited.is_some() };
        let labels = if given("labels", &block.labels) { block.labels.clone() } else { fields.get("labels") };
        let annotations = if given("annotations", &block.annotations) {
            block.annotations.clone()
        } else {
            fields.get("annotations")
        };
        let when = if given("when", &block.when) { block.when.clone() } else { fields.get("when") };
        for key in ["value", "old", "new"] {
            if let Some(item) = fields.raw(key)
                && !fields.mentions("field")
            {
                self.reader.key_error(
                    &item,
                    format!("`{key}` needs a `field`"),
                    "add `field: spec.…`: its value is what is compared",
                );
            }
        }
        let compared = if field.is_some_and(FieldPath::is_query) { Compared::Nodes } else { Compared::Value };
        let mut pattern = |key: &str| fields.raw(key).and_then(|item| self.pattern(&item, compared, asking));
        let (value, old, new) = (pattern("value"), pattern("old"), pattern("new"));
        Filters {
            labels: labels.map(|item| self.patterns(&item, asking)).unwrap_or_default(),
            annotations: annotations.map(|item| self.patterns(&item, asking)).unwrap_or_default(),
            value,
            old,
            new,
            when: when.and_then(|item| self.when(&item, asking)),
        }
    }

    /// Checks the filters of a block, since possibly no binding inherits them.
    pub(super) fn check_block_filters(&mut self, block: &Block<'_>) {
        let asking = Asking { kind: BindingKind::Change, script: Script::None };
        let kept = self.operator.declaration.expressions.len();
        for item in [&block.labels, &block.annotations].into_iter().flatten() {
            self.patterns(item, &asking);
        }
        if let Some(item) = &block.when {
            self.when(item, &asking);
        }
        self.operator.declaration.expressions.truncate(kept);
    }

    fn patterns(&mut self, item: &Item<'_>, asking: &Asking) -> Vec<(String, Matcher)> {
        let Some(entries) = item.entries() else {
            let message = format!("`{}` must be a mapping, not {}", item.name(), item.node.noun());
            self.reader.error_with(item, message, "write such as `{app: web, tier: {present: true}}`");
            return Vec::new();
        };
        let pattern =
            |(key, item): (&str, Item<'_>)| Some((key.to_owned(), self.pattern(&item, Compared::Metadata, asking)?));
        entries.into_iter().filter_map(pattern).collect()
    }

    /// Reads `when`; `true` means no condition.
    pub(super) fn when(&mut self, item: &Item<'_>, asking: &Asking) -> Option<Predicate> {
        match &item.node.kind {
            Kind::Bool(true) => None,
            Kind::Bool(false) => {
                let text = Text { value: "false".to_owned(), is_quoted: false, start: item.node.spot };
                Some(self.expression(&text, asking, false, false))
            }
            Kind::Text(text) if !text.value.trim().is_empty() => Some(self.expression(text, asking, false, false)),
            _ => {
                let message = match item.node.text() {
                    Some(_) => format!("the expression in `{}` is empty", item.name()),
                    None => format!("`{}` must be an expression, not {}", item.name(), item.node.noun()),
                };
                self.reader.error_with(item, message, "write it in single quotes, such as `when: 'spec.replicas > 1'`");
                None
            }
        }
    }

    /// Stores an expression and returns its number.
    pub(super) fn expression(&mut self, text: &Text, asking: &Asking, has_value: bool, is_delay: bool) -> Predicate {
        let expression = Expression {
            text: text.value.clone(),
            place: self.place(text.start),
            kind: asking.kind,
            has_value,
            file: asking.script.file(),
            is_delay,
        };
        let expressions = &mut self.operator.declaration.expressions;
        expressions.push(expression);
        let number = expressions.len() - 1;
        if asking.script == Script::Lost {
            self.lost_expressions.insert(number);
        }
        Predicate(number)
    }

    fn pattern(&mut self, item: &Item<'_>, compared: Compared, asking: &Asking) -> Option<Matcher> {
        match &item.node.kind {
            Kind::Map(_) => self.matcher(item, compared, asking),
            Kind::Null => {
                let hint = match compared {
                    Compared::Metadata => "write `{present: false}` for one that is not there",
                    _ => "write `{present: false}` for a value that is not there, or `{equals: null}`",
                };
                self.reader.error_with(item, "null is no pattern", hint);
                None
            }
            Kind::List(_) if compared == Compared::Metadata => {
                let message = format!("`{}` must be a string or a matcher, not a list", item.name());
                self.reader.error_with(item, message, "write `{in: […]}` for one of several");
                None
            }
            Kind::List(_) => {
                if compared == Compared::Value {
                    let hint = "write `{in: […]}` if one of them is meant, or `{equals: […]}` to say that the list is";
                    self.reader.hint(item, "a list is compared as a whole", hint);
                }
                Some(Matcher::Equals(item.node.to_value()))
            }
            _ => self.compared_value(item, compared).map(Matcher::Equals),
        }
    }

    /// Labels and annotations are strings: a number would never be equal to one.
    fn compared_value(&self, item: &Item<'_>, compared: Compared) -> Option<Value> {
        let value = item.node.to_value();
        if compared == Compared::Metadata && !value.is_string() {
            let message = format!("labels and annotations are strings, and this is {}", item.node.noun());
            let hint = match &value {
                Value::Number(_) | Value::Bool(_) => format!("quote it: `\"{value}\"`"),
                _ => "write `{present: false}` for one that is not there".to_owned(),
            };
            self.reader.error_with(item, message, hint);
            return None;
        }
        Some(value)
    }

    fn matcher(&mut self, item: &Item<'_>, compared: Compared, asking: &Asking) -> Option<Matcher> {
        let reader = self.reader;
        let special = |key: &str| {
            let hint =
                format!("known are {}; a mapping to compare with is written `equals: {{…}}`", MATCHERS.join(", "));
            nearest(key, MATCHERS).is_none().then(|| (format!("unknown matcher `{key}`"), hint))
        };
        let fields = reader.fields_but(item, "a matcher", &MATCHERS, special)?;
        let entries = item.entries().unwrap_or_default();
        if entries.is_empty() {
            let hint = "write one of `equals`, `present`, `in`, `notIn`, `matches`, and `when`; an empty mapping is written `equals: {}`";
            reader.error_with(item, "the matcher is empty", hint);
            return None;
        }
        let mut matchers = Vec::new();
        let mut is_whole = entries.iter().all(|(key, _)| MATCHERS.contains(key));
        for key in MATCHERS {
            let Some(item) = fields.raw(key) else { continue };
            match self.one_matcher(key, &item, compared, asking) {
                Some(matcher) => matchers.push(matcher),
                None => is_whole = false,
            }
        }
        if entries.len() > 1 && matchers.iter().any(|matcher| matches!(matcher, Matcher::Absent)) {
            let excluded = matchers
                .iter()
                .any(|matcher| !matches!(matcher, Matcher::Absent | Matcher::NotIn(_) | Matcher::When(_)));
            if excluded {
                let hint = "for a value that is absent only `present: false`, `notIn` and `when` can pass";
                reader.warn(item, "no value can pass this matcher", hint);
            }
        }
        is_whole.then(|| if matchers.len() == 1 { matchers.swap_remove(0) } else { Matcher::All(matchers) })
    }

    fn one_matcher(&mut self, key: &str, item: &Item<'_>, compared: Compared, asking: &Asking) -> Option<Matcher> {
        let reader = self.reader;
        match key {
            "equals" => self.compared_value(item, compared).map(Matcher::Equals),
            "present" => reader.boolean(item).map(|present| if present { Matcher::Present } else { Matcher::Absent }),
            "in" | "notIn" => {
                let items = reader.list(item);
                if items.is_empty() && item.items().is_some() {
                    reader.warn(
                        item,
                        format!("`{key}` is empty"),
                        if key == "in" { "nothing can pass it" } else { "everything passes it" },
                    );
                }
                let is_list = item.items().is_some();
                let values: Option<Vec<Value>> = items.iter().map(|item| self.compared_value(item, compared)).collect();
                let values = values.filter(|_| is_list)?;
                Some(if key == "in" { Matcher::In(values) } else { Matcher::NotIn(values) })
            }
            "matches" => reader.regex(item).map(Matcher::Matches),
            _ => match &item.node.kind {
                Kind::Text(text) if !text.value.trim().is_empty() => {
                    Some(Matcher::When(self.expression(text, asking, true, false)))
                }
                _ => {
                    let message = format!("`when` must be an expression, not {}", item.node.noun());
                    reader.error_with(item, message, "write it in single quotes, such as `{when: 'value > 3'}`");
                    None
                }
            },
        }
    }
}
