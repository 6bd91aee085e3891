//! Selectors of kinds: which resources of a cluster a declaration selects.

use std::sync::LazyLock;

use regex::Regex;

use super::resource::Resource;

/// A selector of resources.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The API group, if it matters; empty for the core group.
    pub group: Option<String>,
    /// The version; if `None`, only preferred versions are selected.
    pub version: Option<String>,
    /// The name-like criterion.
    pub name: Criterion,
}

/// The name-like part of a selector.
#[derive(Debug, Clone)]
pub enum Criterion {
    /// The kind, plural, singular, or a short name.
    Any(String),
    /// The kind only.
    Kind(String),
    /// The plural name only.
    Plural(String),
    /// The singular name only.
    Singular(String),
    /// A short name only.
    Shortcut(String),
    /// A category.
    Category(String),
    /// All names, but never events.
    Everything,
    /// A predicate over the resource, in any version, but never events.
    Where(fn(&Resource) -> bool),
}

/// Errors in the parts of a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// No criterion was given.
    #[error("a resource needs one name: a kind, a plural, a singular, a short name, or a category")]
    NoName,
    /// More than one criterion was given.
    #[error("a resource needs exactly one name, not several")]
    ManyNames,
    /// A name is an empty text.
    #[error("the name of a resource is empty")]
    EmptyName,
    /// There are more than three parts.
    #[error("a resource has at most three parts: group, version, and name")]
    ManyParts,
    /// Of two parts, the first looks like a version, but only `v1` means the core group.
    #[error("{0:?} is a version without a group: write the group before it, or `v1` for the core group")]
    VersionWithoutGroup(String),
}

static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^v\d+((alpha|beta)\d+)?$").expect("the pattern is valid"));

/// Tells whether a text looks like a version of Kubernetes: `v1`, `v2beta1`.
pub fn is_version(text: &str) -> bool {
    VERSION.is_match(text)
}

impl Selector {
    /// Returns the selector of kopf's positional parts: `[name]`, `[group, name]`, or `[group, version, name]`.
    ///
    /// A single name may be dotted: `name.group`, `name.v1`, `name.v1.group`. Of two parts the first may be `v1`, or
    /// `group/version`.
    ///
    /// # Errors
    /// If there is no name, an empty one, or too many parts.
    pub fn positional(parts: &[&str]) -> Result<Self, SelectorError> {
        let (group, version, name) = match *parts {
            [] => return Err(SelectorError::NoName),
            [name] => return Self::of_dotted(name),
            [group, name] => match group.rsplit_once('/') {
                Some((group, version)) => (group, Some(version), name),
                None if group == "v1" => ("", Some("v1"), name),
                None => (group, None, name),
            },
            [group, version, name] => (group, Some(version), name),
            _ => return Err(SelectorError::ManyParts),
        };
        Ok(Self { group: Some(group.to_owned()), version: version.map(str::to_owned), name: any(name)? })
    }

    fn of_dotted(text: &str) -> Result<Self, SelectorError> {
        let Some((name, rest)) = text.split_once('.') else {
            return Ok(Self { group: None, version: None, name: any(text)? });
        };
        let (first, group) = rest.split_once('.').map_or((rest, None), |(first, group)| (first, Some(group)));
        if is_version(first) {
            Ok(Self { group: group.map(str::to_owned), version: Some(first.to_owned()), name: any(name)? })
        } else {
            Ok(Self { group: Some(rest.to_owned()), version: None, name: any(name)? })
        }
    }

    /// Returns the selector of a text in manifests and scripts, such as `databases.techoral.com` or
    /// `apps/v1/deployments`.
    ///
    /// # Errors
    /// If the text has no name, too many parts, or a version in the place of a group.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let parts: Vec<&str> = text.split('/').collect();
        if let [first, _] = parts[..]
            && is_version(first)
            && first != "v1"
        {
            return Err(SelectorError::VersionWithoutGroup(first.to_owned()));
        }
        if parts.len() > 1 && parts.contains(&"") {
            return Err(SelectorError::EmptyName);
        }
        let mut selector = Self::positional(&parts)?;
        if parts.last() == Some(&"everything") {
            selector.name = Criterion::Everything;
        }
        Ok(selector)
    }

    /// Returns the selector of named parts. Exactly one of the name-like ones is needed.
    ///
    /// # Errors
    /// If there is no name, an empty one, or several.
    pub fn named(group: Option<String>, version: Option<String>, names: Vec<Criterion>) -> Result<Self, SelectorError> {
        let mut names = names.into_iter();
        match (names.next(), names.next()) {
            (None, _) => Err(SelectorError::NoName),
            (Some(_), Some(_)) => Err(SelectorError::ManyNames),
            (Some(name), None) if name.text() == Some("") => Err(SelectorError::EmptyName),
            (Some(name), None) => Ok(Self { group, version, name }),
        }
    }

    /// Tells whether a resource is selected.
    pub fn matches(&self, resource: &Resource) -> bool {
        let is_version_meant = match (&self.version, &self.name) {
            (Some(version), _) => *version == resource.version,
            (None, Criterion::Where(_)) => true,
            (None, _) => resource.preferred,
        };
        let is_group_meant = self.group.as_ref().is_none_or(|group| *group == resource.group);
        is_group_meant && is_version_meant && self.name.matches(resource)
    }

    /// Tells whether the selector is for one kind, so that several candidates are ambiguous.
    pub fn is_specific(&self) -> bool {
        !matches!(self.name, Criterion::Category(_) | Criterion::Everything | Criterion::Where(_))
    }

    /// Returns the selected resources of a cluster. A specific selector prefers the core group.
    pub fn select<'a>(&self, resources: impl IntoIterator<Item = &'a Resource>) -> Vec<&'a Resource> {
        let mut selected: Vec<&Resource> = resources.into_iter().filter(|resource| self.matches(resource)).collect();
        if self.is_specific() && selected.iter().any(|resource| resource.group.is_empty()) {
            selected.retain(|resource| resource.group.is_empty());
        }
        selected
    }
}

fn any(name: &str) -> Result<Criterion, SelectorError> {
    if name.is_empty() { Err(SelectorError::EmptyName) } else { Ok(Criterion::Any(name.to_owned())) }
}

impl Criterion {
    /// Returns the name, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Any(name)
            | Self::Kind(name)
            | Self::Plural(name)
            | Self::Singular(name)
            | Self::Shortcut(name)
            | Self::Category(name) => Some(name),
            Self::Everything | Self::Where(_) => None,
        }
    }

    fn matches(&self, resource: &Resource) -> bool {
        let has = |names: &[String], name: &String| names.contains(name);
        match self {
            Self::Any(name) => {
                [&resource.kind, &resource.plural, &resource.singular].contains(&name) || has(&resource.shortcuts, name)
            }
            Self::Kind(name) => resource.kind == *name,
            Self::Plural(name) => resource.plural == *name,
            Self::Singular(name) => resource.singular == *name,
            Self::Shortcut(name) => has(&resource.shortcuts, name),
            Self::Category(name) => has(&resource.categories, name),
            Self::Everything => !is_event(resource),
            Self::Where(predicate) => !is_event(resource) && predicate(resource),
        }
    }
}

/// Otherwise an operator that watches everything would receive the events that it causes itself.
fn is_event(resource: &Resource) -> bool {
    resource.preferred && resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io")
}

/// Prints the selector in the form that manifests use.
impl std::fmt::Display for Selector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.text().unwrap_or(if matches!(self.name, Criterion::Everything) {
            "everything"
        } else {
            "a predicate"
        });
        match (self.group.as_deref(), self.version.as_deref()) {
            (None, None) => formatter.write_str(name),
            (None, Some(version)) => write!(formatter, "{name}.{version}"),
            (Some(""), version) => write!(formatter, "{}/{name}", version.unwrap_or("v1")),
            (Some(group), None) => write!(formatter, "{group}/{name}"),
            (Some(group), Some(version)) => write!(formatter, "{group}/{version}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_groups_and_versions() {
        let printed = |text: &str| Selector::parse(text).map(|selector| selector.to_string());
        assert_eq!(printed("pods").unwrap(), "pods");
        assert_eq!(printed("databases.techoral.com").unwrap(), "techoral.com/databases");
        assert_eq!(printed("things.v1").unwrap(), "things.v1");
        assert_eq!(printed("things.v1beta1.example.com").unwrap(), "example.com/v1beta1/things");
        assert_eq!(printed("v1/services").unwrap(), "v1/services");
        assert_eq!(printed("apps/v1/deployments").unwrap(), "apps/v1/deployments");
        assert_eq!(printed("apps/everything").unwrap(), "apps/everything");
        assert_eq!(printed("v2/things"), Err(SelectorError::VersionWithoutGroup("v2".into())));
        assert_eq!(printed("apps//deployments"), Err(SelectorError::EmptyName));
        assert_eq!(printed("a/b/c/d"), Err(SelectorError::ManyParts));
    }
}
