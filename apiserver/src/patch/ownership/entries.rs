//! The entries of `managedFields`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::manager::{Manager, Operation};
use super::set::Set;

/// Limit of update entries. The oldest ones beyond it are merged into one.
const MAX_UPDATES: usize = 10;

/// The manager of the merged entry.
const ANCIENT: &str = "ancient-changes";

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    manager: String,
    operation: Operation,
    api_version: String,
    /// The time of the manager's last write, as text; empty if unknown.
    pub time: String,
    subresource: String,
    /// The fields.
    pub fields: Set,
}

/// The entries of all managers.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entry {
    /// Returns the entry of the current writer.
    pub(super) fn of(by: &Manager<'_>, fields: Set) -> Self {
        Self {
            manager: by.name.to_owned(),
            operation: by.operation,
            api_version: by.api_version.to_owned(),
            // Writes through `scale` have no time.
            time: if by.subresource == Some("scale") { String::new() } else { written(by.time) },
            subresource: by.subresource.unwrap_or_default().to_owned(),
            fields,
        }
    }

    /// Returns the entry for fields that existed before the first apply.
    pub(super) fn before_first_apply(by: &Manager<'_>, fields: Set) -> Self {
        Self {
            manager: "before-first-apply".to_owned(),
            operation: Operation::Update,
            subresource: String::new(),
            ..Self::of(by, fields)
        }
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let operation = match value["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let fields = value.get("fieldsV1").map_or_else(|| Some(Set::default()), Set::read)?;
        Some(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            time: text("time"),
            subresource: text("subresource"),
            fields,
        })
    }

    fn write(&self) -> Value {
        let mut entry = Map::new();
        let operation = if self.operation == Operation::Apply { "Apply" } else { "Update" };
        let texts = [
            ("manager", self.manager.as_str()),
            ("operation", operation),
            ("apiVersion", &self.api_version),
            ("time", &self.time),
        ];
        for (key, text) in
            texts.into_iter().chain([("subresource", self.subresource.as_str())]).filter(|(_, text)| !text.is_empty())
        {
            entry.insert(key.to_owned(), json!(text));
        }
        entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
        entry.insert("fieldsV1".to_owned(), self.fields.write());
        Value::Object(entry)
    }

    fn is_of(&self, by: &Manager<'_>) -> bool {
        self.manager == by.name
            && self.operation == by.operation
            && self.api_version == by.api_version
            && self.subresource == by.subresource.unwrap_or_default()
    }

    fn words(&self) -> String {
        let through = if self.subresource.is_empty() {
            String::new()
        } else {
            format!(" with subresource {:?}", self.subresource)
        };
        let version =
            if self.operation == Operation::Update { format!(" using {}", self.api_version) } else { String::new() };
        format!("{:?}{through}{version}", self.manager)
    }
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn listed(object: &Value) -> Option<&Vec<Value>> {
    object.pointer("/metadata/managedFields")?.as_array()
}

impl Entries {
    /// Reads the entries of an object; empty if they cannot be parsed.
    pub(super) fn read(object: &Value) -> Self {
        let entries = listed(object).and_then(|list| list.iter().map(Entry::read).collect());
        Self(entries.unwrap_or_default())
    }

    /// Tells whether the object requests the end of all tracking.
    pub(super) fn is_reset(object: &Value) -> bool {
        listed(object).is_some_and(|list| list.len() == 1 && list[0].as_object().is_some_and(Map::is_empty))
    }

    /// Tells whether there are no owned fields.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes and returns the entry of the manager.
    pub(super) fn take(&mut self, by: &Manager<'_>) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.is_of(by))?;
        Some(self.0.remove(place))
    }

    /// Adds an entry.
    pub(super) fn put(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Returns the owned fields of all managers.
    pub(super) fn all_fields(&self) -> Set {
        self.0.iter().fold(Set::default(), |all, entry| all.union(&entry.fields))
    }

    /// Returns the managers of some of the fields, as named in conflicts, with the paths of these fields.
    pub(super) fn owners_of(&self, fields: &Set) -> Vec<(String, Vec<String>)> {
        let common = self.0.iter().map(|entry| (entry.words(), entry.fields.common(fields).paths()));
        common.filter(|(_, paths)| !paths.is_empty()).collect()
    }

    /// Removes the fields from all managers.
    pub(super) fn take_fields(&mut self, fields: &Set) {
        for entry in &mut self.0 {
            entry.fields = entry.fields.without(fields);
        }
    }

    /// Removes the fields from all other managers.
    pub(super) fn take_others(&mut self, fields: &Set, by: &Manager<'_>) {
        for entry in self.0.iter_mut().filter(|entry| !entry.is_of(by)) {
            entry.fields = entry.fields.without(fields);
        }
    }

    /// Merges the oldest updates, to limit the number of managers.
    pub(super) fn limit(&mut self) {
        let is_update = |entry: &Entry| entry.operation == Operation::Update && !entry.fields.is_empty();
        let mut surplus = self.0.iter().filter(|entry| is_update(entry)).count().saturating_sub(MAX_UPDATES);
        self.0.sort_by(|a, b| a.time.cmp(&b.time));
        while surplus > 0 {
            let Some(place) = self.0.iter().position(|entry| is_update(entry) && entry.manager != ANCIENT) else {
                return;
            };
            let old = self.0.remove(place);
            let shared =
                self.0.iter_mut().find(|entry| entry.manager == ANCIENT && entry.api_version == old.api_version);
            if let Some(shared) = shared {
                shared.fields = shared.fields.union(&old.fields);
                shared.time = old.time;
                surplus -= 1;
            } else {
                self.0.insert(place, Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..old });
            }
        }
    }

    /// Writes the entries to the object: applies first, then by time.
    pub(super) fn write(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key =
                |entry: &Entry| (entry.operation, entry.time.clone(), entry.manager.clone(), entry.subresource.clone());
            key(a).cmp(&key(b))
        });
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), self.0.iter().map(Entry::write).collect());
        }
    }
}
