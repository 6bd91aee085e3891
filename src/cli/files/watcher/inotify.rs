//! The watcher of Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use inotify::{EventMask, EventOwned, Inotify, WatchDescriptor, WatchMask, Watches};
use notify::event::{
    AccessKind, AccessMode, CreateKind, DataChange, Flag, MetadataKind, ModifyKind, RemoveKind, RenameMode,
};
use notify::{Event, EventKind};
use parking_lot::Mutex;

use super::detail::Detail;
use crate::kit::Tasks;

/// Room for some dozens of events; more of them are read later.
const BUFFER_SIZE: usize = 4096;

/// The watched directories. One that is watched by two paths has one descriptor.
type Paths = BTreeMap<WatchDescriptor, BTreeSet<PathBuf>>;

/// Reports changes in directories, until it is dropped.
pub(crate) struct Watcher {
    watches: Watches,
    paths: Arc<Mutex<Paths>>,
    _reader: Tasks<()>,
}

impl Watcher {
    /// Watches nothing yet. The events are read on the current runtime.
    pub(crate) fn new(mut tell: impl FnMut(notify::Result<Event>) + Send + 'static) -> notify::Result<Self> {
        let mut events = Inotify::init()?.into_event_stream(vec![0; BUFFER_SIZE])?;
        let watches = events.watches();
        let paths = Arc::new(Mutex::new(Paths::new()));
        let mut reader = Tasks::default();
        reader.spawn("reader of file events", {
            let paths = Arc::clone(&paths);
            async move {
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => {
                            // Not locked while the events are reported.
                            let told = told(event, &paths.lock());
                            for event in told {
                                tell(Ok(event));
                            }
                        }
                        Err(problem) => return tell(Err(problem.into())),
                    }
                }
            }
        });
        Ok(Self { watches, paths, _reader: reader })
    }

    /// Watches a directory, too.
    pub(crate) fn watch(&mut self, path: &Path, detail: Detail) -> notify::Result<()> {
        let names =
            WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVED_FROM | WatchMask::MOVED_TO | WatchMask::ATTRIB;
        let itself = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
        let contents = match detail {
            Detail::Names => WatchMask::empty(),
            Detail::Contents => WatchMask::MODIFY | WatchMask::CLOSE_WRITE,
        };
        let mut paths = self.paths.lock();
        // Another path of the same directory may be watched for more.
        let descriptor = self.watches.add(path, names | itself | contents | WatchMask::MASK_ADD)?;
        paths.entry(descriptor).or_default().insert(path.to_owned());
        Ok(())
    }

    /// Ends all watches.
    pub(crate) fn unwatch_all(&mut self) {
        for descriptor in std::mem::take(&mut *self.paths.lock()).into_keys() {
            // It is gone already with its directory.
            let _ = self.watches.remove(descriptor);
        }
    }
}

/// Returns the reports of an event: a directory with several paths is reported by each.
fn told(event: EventOwned, paths: &Paths) -> Vec<Event> {
    if event.mask.contains(EventMask::Q_OVERFLOW) {
        return vec![Event::new(EventKind::Other).set_flag(Flag::Rescan)];
    }
    let (Some(kind), Some(paths)) = (kind(event.mask), paths.get(&event.wd)) else { return Vec::new() };
    let of = |directory: &PathBuf| event.name.as_ref().map_or_else(|| directory.clone(), |name| directory.join(name));
    paths.iter().map(|directory| Event::new(kind).add_path(of(directory))).collect()
}

fn kind(mask: EventMask) -> Option<EventKind> {
    let is = |wanted: EventMask| mask.intersects(wanted);
    if is(EventMask::CREATE) {
        Some(EventKind::Create(CreateKind::Any))
    } else if is(EventMask::DELETE | EventMask::DELETE_SELF | EventMask::UNMOUNT) {
        Some(EventKind::Remove(RemoveKind::Any))
    } else if is(EventMask::MOVED_FROM | EventMask::MOVED_TO | EventMask::MOVE_SELF) {
        Some(EventKind::Modify(ModifyKind::Name(RenameMode::Any)))
    } else if is(EventMask::MODIFY) {
        Some(EventKind::Modify(ModifyKind::Data(DataChange::Any)))
    } else if is(EventMask::CLOSE_WRITE) {
        Some(EventKind::Access(AccessKind::Close(AccessMode::Write)))
    } else if is(EventMask::ATTRIB) {
        Some(EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)))
    } else {
        // The watch has ended.
        None
    }
}
