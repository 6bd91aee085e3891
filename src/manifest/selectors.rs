//! Selectors of kinds in manifests.

use std::sync::LazyLock;

use regex::Regex;

use crate::object::Selector;
use crate::object::selector::{Criterion, SelectorError, is_version};

use super::reader::{Fields, Item, Reader};
use super::tree::Kind;

const FORMS: &str =
    "write such as `pods`, `databases.example.com`, `v1/services`, `apps/deployments`, or `apps/v1/deployments`";
const NAMES: [&str; 6] = ["any", "kind", "plural", "singular", "shortcut", "category"];

static PARTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$").expect("the pattern is valid"));

/// Reads one selector or a list of them, each with its position.
pub(super) fn read_all<'a>(reader: &Reader, item: &Item<'a>) -> Vec<(Selector, Item<'a>)> {
    let Some(items) = item.items() else {
        return read(reader, item).map(|selector| (selector, item.clone())).into_iter().collect();
    };
    if items.is_empty() {
        reader.error_with(item, format!("`{}` is empty", item.name()), FORMS);
    }
    items.into_iter().filter_map(|item| Some((read(reader, &item)?, item))).collect()
}

/// Reads a selector of a single kind.
pub(super) fn read_one(reader: &Reader, item: &Item<'_>) -> Option<Selector> {
    let selector = read(reader, item)?;
    if !selector.is_specific() {
        reader.error_with(item, format!("`{}` must mean one kind", item.name()), FORMS);
        return None;
    }
    Some(selector)
}

/// Reads a selector.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<Selector> {
    match &item.node.kind {
        Kind::Map(_) => mapping(reader, item),
        Kind::Text(_) => {
            let text = &reader.text(item)?.value;
            match Selector::parse(text) {
                Ok(_) if !text.split('/').all(|part| PARTS.is_match(part)) => {
                    reader.error_with(item, format!("`{text}` is no resource"), FORMS);
                    None
                }
                Ok(selector) => Some(selector),
                Err(error) => {
                    let hint = match &error {
                        SelectorError::VersionWithoutGroup(version) => {
                            format!("write such as `example.com/{version}/things`, or `v1/things` for the core group")
                        }
                        _ => FORMS.to_owned(),
                    };
                    reader.error_with(item, format!("bad resource `{text}`: {}", error_words(&error)), hint);
                    None
                }
            }
        }
        _ => {
            let words = format!("a resource must be a string or a mapping, not {}", item.node.noun());
            reader.error_with(item, words, FORMS);
            None
        }
    }
}

fn error_words(error: &SelectorError) -> String {
    match error {
        SelectorError::VersionWithoutGroup(version) => format!("`{version}` is a version without a group"),
        other => other.to_string(),
    }
}

fn mapping(reader: &Reader, item: &Item<'_>) -> Option<Selector> {
    let known = ["group", "version", "any", "kind", "plural", "singular", "shortcut", "category"];
    let fields = reader.fields(item, "a resource", &known)?;
    let group = match fields.get("group") {
        // The name of the core group is empty.
        Some(item) if item.node.text() == Some("") => Some(String::new()),
        Some(item) => Some(part(reader, &item)?),
        None => None,
    };
    let version = match fields.get("version") {
        Some(item) => {
            let version = part(reader, &item)?;
            if !is_version(&version) {
                reader.error_with(
                    &item,
                    format!("`{version}` is no version"),
                    "write such as `v1` or `v1beta1`; the group is written apart",
                );
                return None;
            }
            Some(version)
        }
        None => None,
    };
    Some(Selector { group, version, name: criterion(reader, &fields)? })
}

fn criterion(reader: &Reader, fields: &Fields<'_>) -> Option<Criterion> {
    let given: Vec<Item<'_>> = NAMES.iter().filter_map(|name| fields.get(name)).collect();
    let hint = "give exactly one of `any`, `kind`, `plural`, `singular`, `shortcut`, and `category`";
    match given.as_slice() {
        [] => {
            if !NAMES.iter().any(|name| fields.mentions(name)) {
                reader.error_with(&fields.item, "the resource has no name", hint);
            }
            None
        }
        [item] => {
            let name = part(reader, item)?;
            Some(match item.name() {
                "any" if name == "everything" => Criterion::Everything,
                "any" => Criterion::Any(name),
                "kind" => Criterion::Kind(name),
                "plural" => Criterion::Plural(name),
                "singular" => Criterion::Singular(name),
                "shortcut" => Criterion::Shortcut(name),
                _ => Criterion::Category(name),
            })
        }
        [first, second, ..] => {
            reader.key_error(
                second,
                format!("the resource has two names, `{}` and `{}`", first.name(), second.name()),
                hint,
            );
            None
        }
    }
}

fn part(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = &reader.text(item)?.value;
    if PARTS.is_match(text) {
        return Some(text.clone());
    }
    let hint = "use letters, digits, `-` and `.`; group, version and name are written apart";
    reader.error_with(item, format!("`{text}` cannot be the {} of a resource", item.name()), hint);
    None
}
