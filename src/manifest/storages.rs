//! Storages in the settings.

use std::sync::LazyLock;

use regex::Regex;

use crate::persistence::{
    DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage,
    SecretForm, storage::PREFIX,
};

use super::reader::{Fields, Item, Reader};
use super::tree::Kind;

/// Longer prefixes leave no room for a name in kopf's storage keys.
const MAX_PREFIX: usize = 189;

static DOMAIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").expect("the pattern is valid")
});
static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$").expect("the pattern is valid"));

/// Reads the name of an object or a namespace.
pub(super) fn named(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if is_domain(&text) {
        return Some(text);
    }
    reader.error_with(
        item,
        format!("`{text}` cannot be a name in Kubernetes"),
        "names have lower-case letters, digits, `-` and `.`",
    );
    None
}

/// Tells whether a text is a DNS subdomain, as required for names and prefixes.
pub(super) fn is_domain(text: &str) -> bool {
    text.len() <= 253 && DOMAIN.is_match(text)
}

/// Reads `settings.persistence.progressStorage`.
pub(super) fn progress(reader: &Reader, item: &Item<'_>) -> Option<ProgressStorage> {
    let kinds = ["smart", "annotations", "status", "multi"];
    let known: &[&'static str] = match item.node.get("kind").and_then(|node| node.text()) {
        Some("annotations") => &["kind", "prefix", "v1", "verbose", "touchKey"],
        Some("status") => &["kind", "name", "field", "touchField"],
        Some("multi") => &["kind", "storages"],
        Some("smart") => &["kind", "prefix", "v1", "verbose", "touchKey", "name", "field", "touchField"],
        _ => &["kind", "prefix", "v1", "verbose", "touchKey", "name", "field", "touchField", "storages"],
    };
    let fields = reader.fields(item, "this progress storage", known)?;
    let annotations = |fields: &Fields<'_>| {
        let mut storage = ProgressAnnotations::default();
        reader.set(fields, "prefix", &mut storage.prefix, prefix);
        reader.set(fields, "v1", &mut storage.v1, Reader::boolean);
        reader.set(fields, "verbose", &mut storage.verbose, Reader::boolean);
        reader.set(fields, "touchKey", &mut storage.touch_key, annotation_name);
        storage
    };
    let status = |fields: &Fields<'_>| {
        let name = storage_name(reader, fields);
        let mut storage = ProgressStatus::named(&name);
        reader.set(fields, "field", &mut storage.field, |reader, item| named_field(reader, item, &name));
        reader.set(fields, "touchField", &mut storage.touch_field, |reader, item| named_field(reader, item, &name));
        storage
    };
    Some(match kind(reader, &fields, &kinds)? {
        "annotations" => ProgressStorage::Annotations(annotations(&fields)),
        "status" => ProgressStorage::Status(status(&fields)),
        "smart" => ProgressStorage::Smart { annotations: annotations(&fields), status: status(&fields) },
        _ => ProgressStorage::Multi(several(reader, &fields, progress)?),
    })
}

/// Reads `settings.persistence.diffbaseStorage`.
pub(super) fn diffbase(reader: &Reader, item: &Item<'_>) -> Option<DiffbaseStorage> {
    let kinds = ["annotations", "status", "multi"];
    let known: &[&'static str] = match item.node.get("kind").and_then(|node| node.text()) {
        Some("annotations") => &["kind", "prefix", "key", "v1", "ignoredFields"],
        Some("status") => &["kind", "name", "field", "ignoredFields"],
        Some("multi") => &["kind", "storages"],
        _ => &["kind", "prefix", "key", "v1", "name", "field", "ignoredFields", "storages"],
    };
    let fields = reader.fields(item, "this diffbase storage", known)?;
    Some(match kind(reader, &fields, &kinds)? {
        "annotations" => {
            let mut storage = DiffbaseAnnotations::default();
            reader.set(&fields, "prefix", &mut storage.prefix, prefix);
            reader.set(&fields, "key", &mut storage.key, annotation_name);
            reader.set(&fields, "v1", &mut storage.v1, Reader::boolean);
            reader.set(&fields, "ignoredFields", &mut storage.ignored_fields, ignored);
            DiffbaseStorage::Annotations(storage)
        }
        "status" => {
            let name = storage_name(reader, &fields);
            let mut storage = DiffbaseStatus::named(&name);
            reader.set(&fields, "field", &mut storage.field, |reader, item| named_field(reader, item, &name));
            reader.set(&fields, "ignoredFields", &mut storage.ignored_fields, ignored);
            DiffbaseStorage::Status(storage)
        }
        _ => DiffbaseStorage::Multi(several(reader, &fields, diffbase)?),
    })
}

/// Reads `settings.persistence.secrets`.
pub(super) fn secrets(reader: &Reader, item: &Item<'_>) -> Option<SecretForm> {
    let forms = [SecretForm::Values, SecretForm::Digests];
    let word = reader.word(item, &forms.map(SecretForm::as_str))?;
    forms.into_iter().find(|form| form.as_str() == word)
}

/// Reads `settings.persistence.finalizer`.
pub(super) fn finalizer(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    let (domain, name) = text.split_once('/').map_or((None, text.as_str()), |(domain, name)| (Some(domain), name));
    if domain.is_some_and(|domain| !is_domain(domain)) || !NAME.is_match(name) {
        reader.error_with(
            item,
            format!("`{text}` cannot be a finalizer"),
            "write a domain and a name, such as `example.com/my-operator`",
        );
        return None;
    }
    Some(text)
}

/// Reads a field as a dotted text or a list of keys.
pub(super) fn keys(reader: &Reader, item: &Item<'_>) -> Option<Vec<String>> {
    let keys = match &item.node.kind {
        Kind::List(nodes) if nodes.is_empty() => {
            reader.error_with(
                item,
                format!("`{}` is an empty list of keys", item.name()),
                "write such as `[status, kopf]`, or `status.kopf`",
            );
            return None;
        }
        Kind::List(_) => reader.list(item).iter().map(|key| reader.owned(key)).collect::<Option<Vec<_>>>()?,
        _ => reader.text(item)?.value.split('.').map(str::to_owned).collect(),
    };
    if keys.iter().any(String::is_empty) {
        reader.error_with(
            item,
            "the field has an empty key",
            "write the keys with one dot between them, such as `spec.replicas`",
        );
        return None;
    }
    Some(keys)
}

fn kind<'w>(reader: &Reader, fields: &Fields<'_>, kinds: &[&'w str]) -> Option<&'w str> {
    let hint = format!("`kind` is one of {}", kinds.join(", "));
    reader.required(fields, "kind", &hint).and_then(|item| reader.word(&item, kinds))
}

fn several<T>(reader: &Reader, fields: &Fields<'_>, read: fn(&Reader, &Item<'_>) -> Option<T>) -> Option<Vec<T>> {
    let item = reader.required(fields, "storages", "list the storages: what is found first is read")?;
    let items = reader.list(&item);
    if items.is_empty() && item.items().is_some() {
        reader.error_with(&item, "`storages` is empty", "list at least one storage");
    }
    items.iter().map(|item| read(reader, item)).collect()
}

fn prefix(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if !is_domain(&text) {
        reader.error_with(
            item,
            format!("`{text}` cannot be the prefix of annotations"),
            format!("write a domain, such as `{PREFIX}`"),
        );
        return None;
    }
    if text.len() > MAX_PREFIX {
        reader.warn(
            item,
            format!("the prefix is longer than {MAX_PREFIX} characters"),
            "ids of handlers may be cut to fit into annotations",
        );
    }
    Some(text)
}

fn annotation_name(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if NAME.is_match(&text) {
        return Some(text);
    }
    let hint = "at most 63 letters, digits, `-`, `_` and `.`; the prefix is written apart";
    reader.error_with(item, format!("`{text}` cannot be the name of an annotation"), hint);
    None
}

fn storage_name(reader: &Reader, fields: &Fields<'_>) -> String {
    let mut name = "kopf".to_owned();
    reader.set(fields, "name", &mut name, Reader::owned);
    name
}

/// Reads a field with kopf's placeholder `{name}`, the name of the storage.
fn named_field(reader: &Reader, item: &Item<'_>, name: &str) -> Option<Vec<String>> {
    Some(keys(reader, item)?.iter().map(|key| key.replace("{name}", name)).collect())
}

fn ignored(reader: &Reader, item: &Item<'_>) -> Option<Vec<Vec<String>>> {
    reader.list(item).iter().map(|item| keys(reader, item)).collect()
}
