//! Watches directories, also if they or links on the way to them are replaced. Reports that something has changed, and
//! when the changes are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::error;

use super::watcher::{Detail, Watcher};

/// A time without changes after which the files count as complete: editors write in several steps, and many files
/// change at once.
pub(super) const QUIET_TIME: Duration = Duration::from_millis(100);

/// The longest wait for a quiet time: other programs may write into the same directories all the time.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Links that are followed on the way to a file; more of them are a circle.
const MAX_LINKS: usize = 40;

/// The watched directories.
pub(super) struct Watch {
    interest: Arc<Mutex<Interest>>,
    pub hints: mpsc::Receiver<()>,
    /// The directories, as they were named.
    directories: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// `None` if changes cannot be watched.
    watcher: Option<Watcher>,
}

/// The paths whose changes count, and the changes so far.
#[derive(Default)]
struct Interest {
    /// The directories whose entries all count.
    directories: BTreeSet<PathBuf>,
    /// The directories and links on the way to them and to the files.
    ways: BTreeSet<PathBuf>,
    /// Whether a directory may be another one than the watched one.
    is_outdated: bool,
    /// The files that are being written: they were changed, and not closed.
    open: BTreeSet<PathBuf>,
    /// The time of the last change.
    changed_at: Option<Instant>,
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new() -> Self {
        let (sender, hints) = mpsc::channel(1);
        let interest = Arc::new(Mutex::new(Interest::default()));
        let watcher = Watcher::new({
            let interest = Arc::clone(&interest);
            move |event: notify::Result<Event>| {
                if interest.lock().take_note(event.inspect_err(log_error)) {
                    // A full channel already holds a hint that was not taken yet.
                    let _ = sender.try_send(());
                }
            }
        });
        let watcher = watcher.inspect_err(log_error).ok();
        Self { interest, hints, directories: BTreeSet::new(), files: BTreeSet::new(), watcher }
    }

    /// Tells whether changes are told.
    pub(super) fn is_working(&self) -> bool {
        self.watcher.is_some()
    }

    /// Watches these directories, and the ways to them and to files.
    pub(super) fn follow(&mut self, directories: BTreeSet<PathBuf>, files: BTreeSet<PathBuf>) {
        (self.directories, self.files) = (directories, files);
        self.watch_all();
    }

    /// Returns the watched directories, as they were named.
    pub(super) fn directories(&self) -> &BTreeSet<PathBuf> {
        &self.directories
    }

    /// Watches all directories anew if one of them may have been replaced: a watch belongs to the directory, not to its
    /// path.
    pub(super) fn renew(&mut self) {
        if std::mem::take(&mut self.interest.lock().is_outdated) {
            self.watch_all();
        }
    }

    /// Waits until nothing has changed for the quiet time, and no file is being written.
    pub(super) async fn quiet(&mut self) {
        let interest = Arc::clone(&self.interest);
        let activity = || {
            let interest = interest.lock();
            (interest.changed_at, !interest.open.is_empty())
        };
        quiet(&mut self.hints, activity).await;
        // The writer may hold the file open for ever, or the event of its end was lost.
        self.interest.lock().open.clear();
    }

    fn watch_all(&mut self) {
        let places: Vec<ResolvedPath> = self.directories.iter().map(|path| ResolvedPath::of(path)).collect();
        let files: Vec<ResolvedPath> = self.files.iter().map(|path| ResolvedPath::of(path)).collect();
        let ways: BTreeSet<PathBuf> = places.iter().chain(&files).flat_map(|place| place.way.clone()).collect();
        let directories: BTreeSet<PathBuf> = places.into_iter().flat_map(|place| place.names).collect();
        let above = |path: &PathBuf| path.parent().map(Path::to_owned);
        // A directory of manifests is among the files, too.
        let files = files.iter().flat_map(|place| &place.names).filter(|path| !path.is_dir());
        let written = directories.iter().cloned().chain(files.filter_map(above));
        let mut wanted: BTreeMap<PathBuf, Detail> =
            ways.iter().filter_map(above).map(|path| (path, Detail::Names)).collect();
        wanted.extend(written.map(|path| (path, Detail::Contents)));
        {
            let mut interest = self.interest.lock();
            interest.directories.clone_from(&directories);
            interest.ways = ways;
        }
        let Some(watcher) = &mut self.watcher else { return };
        watcher.unwatch_all();
        for (path, detail) in wanted {
            match watcher.watch(&path, detail) {
                Ok(()) => {}
                // Its appearance is seen in the directory above.
                Err(_) if !directories.contains(&path) || !path.is_dir() => {}
                Err(problem) => log_error(&problem),
            }
        }
    }
}

/// Waits until nothing has changed for the quiet time, and nothing is being written. `activity` returns the time of the
/// last change, and whether a file is being written. A program that writes all the time, such as one with a log, does
/// not wake the waiting task each time.
async fn quiet(hints: &mut mpsc::Receiver<()>, activity: impl Fn() -> (Option<Instant>, bool)) {
    let began = Instant::now();
    let end = began + MAX_WAIT;
    loop {
        // A later change leaves a hint of its own.
        while hints.try_recv().is_ok() {}
        let (changed_at, is_writing) = activity();
        let now = Instant::now();
        let quiet_at = changed_at.unwrap_or(began) + QUIET_TIME;
        if now >= end || (now >= quiet_at && !is_writing) {
            return;
        }
        tokio::time::sleep_until(if now < quiet_at { quiet_at } else { now + QUIET_TIME }.min(end)).await;
    }
}

impl Interest {
    /// Takes note of an event, and of its time if it may be a change of the files. Returns whether it may.
    fn take_note(&mut self, event: notify::Result<Event>) -> bool {
        let is_change = self.is_change(event);
        if is_change {
            self.changed_at = Some(Instant::now());
        }
        is_change
    }

    fn is_change(&mut self, event: notify::Result<Event>) -> bool {
        let Ok(event) = event else { return self.may_have_missed() };
        if event.need_rescan() || event.paths.is_empty() {
            return self.may_have_missed();
        }
        if is_reading(event.kind) {
            return false;
        }
        let Self { directories, ways, is_outdated, open, .. } = self;
        let mut is_change = false;
        for path in &event.paths {
            let is_way = ways.contains(path) || directories.contains(path);
            if !is_way && !path.parent().is_some_and(|parent| directories.contains(parent)) {
                continue;
            }
            if is_told_when_closed(event.kind) && !is_way && !is_known_by_name(path) {
                continue;
            }
            is_change = true;
            match event.kind {
                kind if is_told_when_closed(kind) && is_known_by_name(path) => {
                    open.insert(path.clone());
                }
                EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => {}
                EventKind::Access(_) => {
                    open.remove(path);
                }
                _ => {
                    open.remove(path);
                    *is_outdated |= is_way;
                }
            }
        }
        is_change
    }

    fn may_have_missed(&mut self) -> bool {
        self.is_outdated = true;
        self.open.clear();
        true
    }
}

/// Tells whether events were only told because files were read. The comparison of the files itself reads them.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Tells whether a file was written, and the end of that will be told, too. Only Linux does that.
fn is_told_when_closed(kind: EventKind) -> bool {
    cfg!(target_os = "linux") && matches!(kind, EventKind::Modify(ModifyKind::Data(_)))
}

/// Tells whether a file is one that operators consist of, so that its writer is waited for. Others may be logs, which
/// stay open.
fn is_known_by_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["yaml", "yml", "rhai", "json", "j2", "jinja", "jinja2", "tpl", "tmpl"].contains(&extension)
}

fn log_error(problem: &notify::Error) {
    error!(target: "kopfd", "Changes of files cannot be watched: {problem}");
}

/// A path with its symbolic links.
struct ResolvedPath {
    /// The path, and its names with each of the links on the way resolved.
    names: Vec<PathBuf>,
    /// The directories and links on the way, and the path itself.
    way: BTreeSet<PathBuf>,
}

impl ResolvedPath {
    fn of(path: &Path) -> Self {
        let mut place = Self { names: Vec::new(), way: BTreeSet::new() };
        let mut next = std::path::absolute(path).ok();
        while let Some(path) = next.take().filter(|_| place.names.len() <= MAX_LINKS) {
            next = place.walk(&path);
            place.names.push(path);
        }
        place
    }

    /// Adds a path with all parts of it. Returns where it leads by its first link, if it has one.
    fn walk(&mut self, path: &Path) -> Option<PathBuf> {
        let mut walked = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            let above = walked.clone();
            walked.push(part);
            if !matches!(part, Component::Normal(_)) {
                continue;
            }
            self.way.insert(walked.clone());
            if let Ok(target) = std::fs::read_link(&walked) {
                // All further parts are of this name, too.
                let rest = parts.as_path();
                rest.components().fold(walked, |walked, part| {
                    let walked = walked.join(part);
                    self.way.insert(walked.clone());
                    walked
                });
                return Some(without_dots(&above.join(target).join(rest)));
            }
        }
        None
    }
}

/// Resolves `..` where the way before it has no links.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut resolved, part| {
        let is_plain =
            matches!(resolved.components().next_back(), Some(Component::Normal(_))) && !resolved.is_symlink();
        match part {
            Component::CurDir => {}
            Component::ParentDir if is_plain => drop(resolved.pop()),
            part => resolved.push(part),
        }
        resolved
    })
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange};

    use super::*;

    /// Changes at intervals, from now on.
    fn changes(interval: Duration, count: u32) -> impl Fn() -> (Option<Instant>, bool) {
        let began = Instant::now();
        move || {
            let passed = (began.elapsed().as_millis() / interval.as_millis()).min(count.into());
            (Some(began + interval * u32::try_from(passed).unwrap()), false)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_quiet_time_begins_with_the_last_change() {
        let (sender, mut hints) = mpsc::channel(1);
        sender.send(()).await.unwrap();
        let began = Instant::now();
        quiet(&mut hints, changes(Duration::from_millis(60), 10)).await;
        assert_eq!(began.elapsed().as_millis(), 10 * 60 + QUIET_TIME.as_millis());
        assert!(hints.try_recv().is_err(), "the hints of these changes are taken");
    }

    #[tokio::test(start_paused = true)]
    async fn changes_without_an_end_are_waited_for_up_to_a_limit() {
        let (_sender, mut hints) = mpsc::channel(1);
        let endless = changes(Duration::from_millis(1), u32::MAX);
        let looks = std::cell::Cell::new(0);
        let began = Instant::now();
        quiet(&mut hints, || {
            looks.set(looks.get() + 1);
            endless()
        })
        .await;
        assert_eq!(began.elapsed(), MAX_WAIT);
        assert!(looks.get() <= 52, "{} looks", looks.get());
        let began = Instant::now();
        quiet(&mut hints, || (None, true)).await;
        assert_eq!(began.elapsed(), MAX_WAIT);
    }

    fn interest() -> Interest {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Interest { directories: paths(&["/etc/app"]), ways: paths(&["/etc", "/etc/app"]), ..Interest::default() }
    }

    fn happens(interest: &mut Interest, kind: EventKind, path: &str) -> bool {
        interest.take_note(Ok(Event::new(kind).add_path(PathBuf::from(path))))
    }

    const CREATED: EventKind = EventKind::Create(CreateKind::Any);
    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSED: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const OPENED: EventKind = EventKind::Access(AccessKind::Open(AccessMode::Any));

    #[test]
    fn what_happens_beside_the_way_is_no_change() {
        let mut interest = interest();
        assert!(!happens(&mut interest, CREATED, "/etc/other"));
        assert!(!happens(&mut interest, OPENED, "/etc/app/a.rhai") && interest.changed_at.is_none());
        assert!(
            happens(&mut interest, CREATED, "/etc/app/a.rhai")
                && !interest.is_outdated
                && interest.changed_at.is_some()
        );
        assert!(happens(&mut interest, CREATED, "/etc/app") && interest.is_outdated, "another directory has its name");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_being_written_until_it_is_closed() {
        let mut interest = interest();
        assert!(!happens(&mut interest, WRITTEN, "/etc/app/app.log"), "a log may stay open");
        assert!(happens(&mut interest, CLOSED, "/etc/app/app.log"), "its end is a change");
        assert!(happens(&mut interest, WRITTEN, "/etc/app/a.rhai"));
        assert_eq!(interest.open, BTreeSet::from([PathBuf::from("/etc/app/a.rhai")]));
        assert!(happens(&mut interest, CLOSED, "/etc/app/a.rhai") && interest.open.is_empty());
        happens(&mut interest, WRITTEN, "/etc/app/a.rhai");
        assert!(
            interest.is_change(Err(notify::Error::generic("overflow")))
                && interest.open.is_empty()
                && interest.is_outdated
        );
    }

    #[test]
    fn a_resolved_path_has_all_its_names_and_all_links_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("releases/1/app")).unwrap();
        std::os::unix::fs::symlink("../releases/1", root.join("releases/latest")).unwrap();
        std::os::unix::fs::symlink("releases/latest", root.join("current")).unwrap();
        let place = ResolvedPath::of(&root.join("current/app"));
        assert_eq!(place.names, ["current/app", "releases/latest/app", "releases/1/app"].map(|name| root.join(name)));
        for name in [
            "current",
            "current/app",
            "releases",
            "releases/latest",
            "releases/latest/app",
            "releases/1",
            "releases/1/app",
        ] {
            assert!(place.way.contains(&root.join(name)), "{name}: {:?}", place.way);
        }
        std::os::unix::fs::symlink("circle", root.join("circle")).unwrap();
        assert_eq!(ResolvedPath::of(&root.join("circle")).names.len(), MAX_LINKS + 1);
    }
}
