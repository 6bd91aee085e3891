//! State that two operators on one object would overwrite.

use super::storage::{DiffbaseStorage, ProgressStorage, Storages};

/// State that two operators must not share on one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clash {
    /// The finalizer: the first operator to finish would release the object for both.
    Finalizer,
    /// A storage of progress: each operator would purge the records of the other.
    Progress,
    /// A storage of the last handled essence: changes would count as handled for both.
    Diffbase,
}

/// A location on an object.
#[derive(Debug, PartialEq)]
enum Slot<'a> {
    /// All annotations with a prefix.
    Prefix(&'a str),
    /// One annotation.
    Annotation(&'a str, &'a str),
    /// A field and its contents.
    Field(&'a [String]),
}

impl Slot<'_> {
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.starts_with(other) || other.starts_with(one),
            _ => self == other,
        }
    }
}

impl Storages {
    /// Returns the state that both share.
    pub fn clashes(&self, other: &Self) -> Vec<Clash> {
        let (our_progress, their_progress) = (Progress::of(&self.progress), Progress::of(&other.progress));
        let (our_essences, their_essences) = (diffbase(&self.diffbase), diffbase(&other.diffbase));
        let is_progress_shared = overlap(&our_progress.written, &their_progress.written)
            || overlap(&our_progress.purged, &their_progress.written)
            || overlap(&our_progress.written, &their_progress.purged);
        // Progress of one operator and the essence of the other in one field conflict, too.
        let is_diffbase_shared = overlap(&our_essences, &their_essences)
            || overlap(&our_progress.written, &their_essences)
            || overlap(&our_essences, &their_progress.written);
        let found = [
            (self.finalizer == other.finalizer, Clash::Finalizer),
            (is_progress_shared, Clash::Progress),
            (is_diffbase_shared, Clash::Diffbase),
        ];
        found.into_iter().filter_map(|(is_shared, clash)| is_shared.then_some(clash)).collect()
    }
}

fn overlap(ours: &[Slot<'_>], theirs: &[Slot<'_>]) -> bool {
    ours.iter().any(|our| theirs.iter().any(|their| our.overlaps(their)))
}

/// The locations of progress.
#[derive(Default)]
struct Progress<'a> {
    written: Vec<Slot<'a>>,
    /// Locations that are read and purged, and never written.
    purged: Vec<Slot<'a>>,
}

impl<'a> Progress<'a> {
    fn of(storage: &'a ProgressStorage) -> Self {
        match storage {
            ProgressStorage::Annotations(annotations) => {
                Self { written: vec![Slot::Prefix(&annotations.prefix)], purged: Vec::new() }
            }
            ProgressStorage::Status(status) => {
                Self { written: vec![Slot::Field(&status.field), Slot::Field(&status.touch_field)], purged: Vec::new() }
            }
            ProgressStorage::Smart { annotations, status } => {
                Self { written: vec![Slot::Prefix(&annotations.prefix)], purged: vec![Slot::Field(&status.field)] }
            }
            ProgressStorage::Multi(storages) => {
                let mut all = Self::default();
                for part in storages.iter().map(Self::of) {
                    all.written.extend(part.written);
                    all.purged.extend(part.purged);
                }
                all
            }
        }
    }
}

fn diffbase(storage: &DiffbaseStorage) -> Vec<Slot<'_>> {
    match storage {
        DiffbaseStorage::Annotations(annotations) => vec![Slot::Annotation(&annotations.prefix, &annotations.key)],
        DiffbaseStorage::Status(status) => vec![Slot::Field(&status.field)],
        DiffbaseStorage::Multi(storages) => storages.iter().flat_map(diffbase).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::{DiffbaseAnnotations, DiffbaseStatus, ProgressAnnotations, ProgressStatus};

    fn named(finalizer: &str, progress: ProgressStorage, diffbase: DiffbaseStorage) -> Storages {
        Storages { finalizer: finalizer.to_owned(), progress, diffbase, ..Storages::default() }
    }

    fn annotations(prefix: &str) -> ProgressStorage {
        ProgressStorage::Annotations(ProgressAnnotations {
            prefix: prefix.to_owned(),
            ..ProgressAnnotations::default()
        })
    }

    fn essence(prefix: &str, key: &str) -> DiffbaseStorage {
        let (prefix, key) = (prefix.to_owned(), key.to_owned());
        DiffbaseStorage::Annotations(DiffbaseAnnotations { prefix, key, ..DiffbaseAnnotations::default() })
    }

    #[test]
    fn the_defaults_clash_in_everything() {
        let all = Storages::default().clashes(&Storages::default());
        assert_eq!(all, [Clash::Finalizer, Clash::Progress, Clash::Diffbase]);
    }

    #[test]
    fn another_prefix_or_another_name_is_enough() {
        let one = named("a/f", annotations("a.dev"), essence("a.dev", "last"));
        assert_eq!(one.clashes(&named("b/f", annotations("b.dev"), essence("a.dev", "other"))), []);
        assert_eq!(one.clashes(&named("b/f", annotations("b.dev"), essence("b.dev", "last"))), []);
        assert_eq!(one.clashes(&named("b/f", annotations("a.dev"), essence("b.dev", "last"))), [Clash::Progress]);
        assert_eq!(one.clashes(&named("b/f", annotations("b.dev"), essence("a.dev", "last"))), [Clash::Diffbase]);
    }

    #[test]
    fn fields_of_the_status_clash_with_what_is_above_and_below_them() {
        let status = |name: &str| ProgressStorage::Status(ProgressStatus::named(name));
        let one = named("a/f", status("a"), DiffbaseStorage::Status(DiffbaseStatus::named("a")));
        assert_eq!(one.clashes(&named("b/f", status("b"), DiffbaseStorage::Status(DiffbaseStatus::named("b")))), []);
        let above = ProgressStatus {
            field: vec!["status".to_owned(), "a".to_owned()],
            touch_field: vec!["status".to_owned(), "t".to_owned()],
        };
        let other = named("b/f", ProgressStorage::Status(above), essence("b.dev", "last"));
        assert_eq!(one.clashes(&other), [Clash::Progress, Clash::Diffbase]);
    }

    #[test]
    fn a_smart_storage_purges_what_another_keeps_in_the_same_field() {
        let smart = ProgressStorage::Smart {
            annotations: ProgressAnnotations { prefix: "a.dev".to_owned(), ..ProgressAnnotations::default() },
            status: ProgressStatus::default(),
        };
        let one = named("a/f", smart.clone(), essence("a.dev", "last"));
        let kept = named("b/f", ProgressStorage::Status(ProgressStatus::default()), essence("b.dev", "last"));
        assert_eq!((one.clashes(&kept), kept.clashes(&one)), (vec![Clash::Progress], vec![Clash::Progress]));
        let ProgressStorage::Smart { status, .. } = smart else { unreachable!("it was made so") };
        let other = ProgressStorage::Smart {
            annotations: ProgressAnnotations { prefix: "b.dev".to_owned(), ..ProgressAnnotations::default() },
            status,
        };
        assert_eq!(one.clashes(&named("b/f", other, essence("b.dev", "last"))), [], "neither writes there");
    }
}
