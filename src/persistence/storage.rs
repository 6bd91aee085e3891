//! Storages: the locations of progress and essences on an object.

use super::digests::{Keys, MissingKey, SecretStorage};

/// Kopf's prefix of annotations.
pub const PREFIX: &str = "kopf.zalando.org";

/// Kopf's finalizer.
pub const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// The locations of an operator's state on objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Storages {
    /// The finalizer.
    pub finalizer: String,
    /// The storage of progress.
    pub progress: ProgressStorage,
    /// The storage of the last handled essence.
    pub diffbase: DiffbaseStorage,
    /// The form of the last handled essences of Secrets.
    pub secrets: SecretStorage,
}

impl Storages {
    /// Returns the storages with the keys of digests.
    ///
    /// # Errors
    /// If digests are to be written, and there is no key.
    pub fn with_keys(self, keys: &Keys) -> Result<Self, MissingKey> {
        Ok(Self { secrets: self.secrets.with_keys(keys)?, ..self })
    }

    /// Returns the prefix of the annotations of progress, or kopf's prefix if progress is not stored in annotations.
    pub fn prefix(&self) -> &str {
        match &self.progress {
            ProgressStorage::Annotations(annotations) | ProgressStorage::Smart { annotations, .. } => {
                &annotations.prefix
            }
            ProgressStorage::Status(_) | ProgressStorage::Multi(_) => PREFIX,
        }
    }
}

impl Default for Storages {
    fn default() -> Self {
        let (progress, diffbase) = (ProgressStorage::default(), DiffbaseStorage::default());
        Self { finalizer: FINALIZER.to_owned(), progress, diffbase, secrets: SecretStorage::default() }
    }
}

/// The storage of progress.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgressStorage {
    /// In annotations.
    Annotations(ProgressAnnotations),
    /// In a field of the status.
    Status(ProgressStatus),
    /// In all of these; the first one with data is read.
    Multi(Vec<ProgressStorage>),
    /// In annotations; progress of older versions in the status is read and purged, never written.
    Smart {
        /// The current storage.
        annotations: ProgressAnnotations,
        /// The former storage.
        status: ProgressStatus,
    },
}

impl Default for ProgressStorage {
    fn default() -> Self {
        Self::Smart { annotations: ProgressAnnotations::default(), status: ProgressStatus::default() }
    }
}

/// Progress in annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressAnnotations {
    /// The prefix of the keys.
    pub prefix: String,
    /// Whether the older form of long keys is also written.
    pub v1: bool,
    /// Whether nulls are written.
    pub verbose: bool,
    /// The name of the annotation that is changed to get an event.
    pub touch_key: String,
}

impl Default for ProgressAnnotations {
    fn default() -> Self {
        Self { prefix: PREFIX.to_owned(), v1: true, verbose: false, touch_key: "touch-dummy".to_owned() }
    }
}

/// Progress in the status.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressStatus {
    /// The field of the records.
    pub field: Vec<String>,
    /// The field that is changed to get an event.
    pub touch_field: Vec<String>,
}

impl ProgressStatus {
    /// Returns the fields below `status.<name>`.
    pub fn named(name: &str) -> Self {
        let below = |leaf: &str| vec!["status".to_owned(), name.to_owned(), leaf.to_owned()];
        Self { field: below("progress"), touch_field: below("dummy") }
    }
}

impl Default for ProgressStatus {
    fn default() -> Self {
        Self::named("kopf")
    }
}

/// The storage of the last handled essence.
#[derive(Debug, Clone, PartialEq)]
pub enum DiffbaseStorage {
    /// In an annotation.
    Annotations(DiffbaseAnnotations),
    /// In a field of the status.
    Status(DiffbaseStatus),
    /// In all of these; the first one with data is read.
    Multi(Vec<DiffbaseStorage>),
}

impl Default for DiffbaseStorage {
    fn default() -> Self {
        Self::Annotations(DiffbaseAnnotations::default())
    }
}

/// The essence in an annotation.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffbaseAnnotations {
    /// The prefix of the key.
    pub prefix: String,
    /// The name of the annotation.
    pub key: String,
    /// Whether the older form of long keys is also written.
    pub v1: bool,
    /// Fields that do not belong to the essence.
    pub ignored_fields: Vec<Vec<String>>,
}

impl Default for DiffbaseAnnotations {
    fn default() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            key: "last-handled-configuration".to_owned(),
            v1: true,
            ignored_fields: Vec::new(),
        }
    }
}

/// The essence in the status.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffbaseStatus {
    /// The field.
    pub field: Vec<String>,
    /// Fields that do not belong to the essence.
    pub ignored_fields: Vec<Vec<String>>,
}

impl DiffbaseStatus {
    /// Returns the field below `status.<name>`.
    pub fn named(name: &str) -> Self {
        let field = ["status", name, "last-handled-configuration"].map(str::to_owned).to_vec();
        Self { field, ignored_fields: Vec::new() }
    }
}

impl Default for DiffbaseStatus {
    fn default() -> Self {
        Self::named("kopf")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_annotations_have_the_prefix_of_progress_or_that_of_kopf() {
        let prefix = |progress| Storages { progress, ..Storages::default() }.prefix().to_owned();
        let annotations = || ProgressAnnotations { prefix: "example.com".to_owned(), ..ProgressAnnotations::default() };
        assert_eq!(prefix(ProgressStorage::Annotations(annotations())), "example.com");
        assert_eq!(
            prefix(ProgressStorage::Smart { annotations: annotations(), status: ProgressStatus::default() }),
            "example.com"
        );
        assert_eq!(prefix(ProgressStorage::Status(ProgressStatus::default())), "kopf.zalando.org");
    }
}
