//! The watcher of systems without inotify. It reports more than is needed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::detail::Detail;

/// Reports changes in directories.
pub(crate) struct Watcher {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches nothing yet.
    pub(crate) fn new(tell: impl FnMut(notify::Result<Event>) + Send + 'static) -> notify::Result<Self> {
        Ok(Self { watcher: notify::recommended_watcher(tell)?, watched: BTreeSet::new() })
    }

    /// Watches a directory, too.
    pub(crate) fn watch(&mut self, path: &Path, _detail: Detail) -> notify::Result<()> {
        self.watcher.watch(path, RecursiveMode::NonRecursive)?;
        self.watched.insert(path.to_owned());
        Ok(())
    }

    /// Ends all watches.
    pub(crate) fn unwatch_all(&mut self) {
        for path in std::mem::take(&mut self.watched) {
            // It may be gone already.
            let _ = self.watcher.unwatch(&path);
        }
    }
}
