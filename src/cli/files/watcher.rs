//! Reports changes in directories.
//!
//! On Linux by inotify, with the events that are needed and no others: the directories above those of an operator, such
//! as `/etc` and `/tmp`, are watched for new names only. A process that opens a file in one of them, or writes a log
//! there, wakes nothing; not even its own log does.

mod detail;
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;

pub(super) use detail::Detail;
#[cfg(target_os = "linux")]
pub(super) use inotify::Watcher;
#[cfg(not(target_os = "linux"))]
pub(super) use portable::Watcher;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use notify::event::{AccessKind, AccessMode, ModifyKind};
    use notify::{Event, EventKind};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::Detail;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Directories, and their reported events.
    struct Told {
        events: UnboundedReceiver<Event>,
        folder: tempfile::TempDir,
    }

    impl Told {
        /// Makes the directories `names` and `contents`, each with a file.
        fn new() -> (Self, impl FnMut(notify::Result<Event>) + Send + 'static) {
            let (sender, events) = unbounded_channel();
            let folder = tempfile::tempdir().expect("a directory can be made");
            for name in ["names", "contents"] {
                fs::create_dir(folder.path().join(name)).expect("a directory can be made");
                fs::write(folder.path().join(name).join("file"), "before").expect("a file can be written");
            }
            let tell = move |event: notify::Result<Event>| {
                let _ = sender.send(event.expect("the directories can be watched"));
            };
            (Self { events, folder }, tell)
        }

        fn path(&self, name: &str) -> PathBuf {
            // As the system names it.
            fs::canonicalize(self.folder.path()).expect("the directory exists").join(name)
        }

        /// Waits for an event of a path.
        async fn expect(&mut self, path: &Path, is_wanted: impl Fn(EventKind) -> bool) {
            let wanted = async {
                while let Some(event) = self.events.recv().await {
                    if is_wanted(event.kind) && event.paths.iter().any(|told| told == path) {
                        return;
                    }
                }
                panic!("the watcher has ended");
            };
            tokio::time::timeout(LIMIT, wanted)
                .await
                .unwrap_or_else(|_| panic!("nothing is told of {}", path.display()));
        }

        /// Takes the events until one of a path.
        async fn until(&mut self, path: &Path) -> Vec<Event> {
            let mut taken = Vec::new();
            while let Ok(Some(event)) = tokio::time::timeout(LIMIT, self.events.recv()).await {
                if event.paths.iter().any(|told| told == path) {
                    return taken;
                }
                taken.push(event);
            }
            panic!("nothing is told of {}", path.display());
        }
    }

    fn is_written(kind: EventKind) -> bool {
        matches!(kind, EventKind::Modify(ModifyKind::Data(_)) | EventKind::Access(AccessKind::Close(AccessMode::Write)))
    }

    /// Each watcher reports these events.
    macro_rules! tells_what_happens {
        ($watcher:ty) => {{
            let (mut told, tell) = Told::new();
            let mut watcher = <$watcher>::new(tell).expect("there is a watcher");
            watcher.watch(&told.path("names"), Detail::Names).expect("the directory can be watched");
            watcher.watch(&told.path("contents"), Detail::Contents).expect("the directory can be watched");
            assert!(watcher.watch(&told.path("absent"), Detail::Names).is_err(), "it does not exist");
            fs::write(told.path("names/new"), "new").expect("a file can be written");
            told.expect(&told.path("names/new"), |kind| kind.is_create()).await;
            fs::rename(told.path("names/new"), told.path("names/moved")).expect("a file can be moved");
            told.expect(&told.path("names/moved"), |kind| matches!(kind, EventKind::Modify(ModifyKind::Name(_)))).await;
            fs::remove_file(told.path("names/moved")).expect("a file can be removed");
            told.expect(&told.path("names/moved"), |kind| kind.is_remove()).await;
            fs::write(told.path("contents/file"), "after").expect("a file can be written");
            told.expect(&told.path("contents/file"), is_written).await;
            watcher.unwatch_all();
            watcher.watch(&told.path("names"), Detail::Names).expect("the directory can be watched");
            fs::write(told.path("contents/unseen"), "unseen").expect("a file can be written");
            fs::write(told.path("names/last"), "last").expect("a file can be written");
            let before = told.until(&told.path("names/last")).await;
            let unseen = told.path("contents/unseen");
            assert!(before.iter().all(|event| !event.paths.contains(&unseen)), "{before:?}");
        }};
    }

    #[tokio::test]
    async fn the_portable_watcher_tells_what_happens() {
        tells_what_happens!(super::portable::Watcher);
    }

    #[cfg(target_os = "linux")]
    mod inotify {
        use super::super::inotify::Watcher;
        use super::*;

        #[tokio::test]
        async fn the_watcher_tells_what_happens() {
            tells_what_happens!(Watcher);
        }

        #[tokio::test]
        async fn neither_reading_nor_a_log_beside_the_operator_is_told() {
            let (mut told, tell) = Told::new();
            let mut watcher = Watcher::new(tell).expect("there is a watcher");
            watcher.watch(&told.path("names"), Detail::Names).expect("the directory can be watched");
            watcher.watch(&told.path("contents"), Detail::Contents).expect("the directory can be watched");
            fs::write(told.path("names/file"), "a log").expect("a file can be written");
            fs::read(told.path("names/file")).expect("a file can be read");
            fs::read(told.path("contents/file")).expect("a file can be read");
            fs::create_dir(told.path("names/last")).expect("a directory can be made");
            let before = told.until(&told.path("names/last")).await;
            assert!(before.is_empty(), "{before:?}");
        }

        #[tokio::test]
        async fn a_directory_with_two_names_is_told_by_both() {
            let (mut told, tell) = Told::new();
            std::os::unix::fs::symlink("contents", told.path("link")).expect("a link can be made");
            let mut watcher = Watcher::new(tell).expect("there is a watcher");
            watcher.watch(&told.path("contents"), Detail::Contents).expect("the directory can be watched");
            watcher.watch(&told.path("link"), Detail::Names).expect("the directory can be watched");
            fs::write(told.path("contents/file"), "after").expect("a file can be written");
            told.expect(&told.path("contents/file"), is_written).await;
            told.expect(&told.path("link/file"), is_written).await;
        }

        #[tokio::test]
        async fn a_directory_tells_that_it_is_gone() {
            let (mut told, tell) = Told::new();
            let mut watcher = Watcher::new(tell).expect("there is a watcher");
            watcher.watch(&told.path("contents"), Detail::Names).expect("the directory can be watched");
            fs::remove_dir_all(told.path("contents")).expect("a directory can be removed");
            told.expect(&told.path("contents"), |kind| kind.is_remove()).await;
        }
    }
}
