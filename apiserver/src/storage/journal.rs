//! The journal: stores all writes in a file, so that no acknowledged write is lost.
//!
//! Writes that cannot be made durable are undone in the store, and their clients get an error; the next write tries
//! again.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use parking_lot::Mutex;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;
use tokio::sync::watch;
use tracing::{error, info};

use crate::storage::private_files;
use crate::storage::resource::{Key, Resource};
use crate::storage::store::Stored;
use kopfd_base::kit::tasks;

/// The file in the data directory.
const FILE: &str = "objects.redb";
/// The objects, by key.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Numbers: only the last revision.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The key of the last revision.
const REVISION: &str = "revision";
/// Limit of writes in one transaction.
const BATCH: usize = 1_000;
/// Limit of recorded failures: clients ask for them within moments.
const MAX_FAILURES: usize = 1_000;

/// One write.
#[derive(Debug)]
pub struct Record {
    /// Its revision.
    pub revision: u64,
    /// The resource.
    pub resource: Resource,
    /// The object.
    pub key: Key,
    /// The object before; `None` for a creation.
    pub old: Option<Arc<Stored>>,
    /// The object after; `None` for a removal.
    pub new: Option<Arc<Stored>>,
}

impl Record {
    fn place(&self) -> String {
        format!("{}/{}/{}/{}", self.resource.group, self.resource.plural, self.key.0, self.key.1)
    }
}

/// Receives the results of writes.
pub trait Writer: Send + Sync {
    /// Everything up to a revision is durable.
    fn committed(&self, revision: u64);
    /// Undoes failed writes: `records` and the later records returned by `rest`, both in order. No other writes are
    /// allowed meanwhile. Returns a revision that is later than the failed ones and belongs to no write.
    fn failed(&self, records: Vec<Record>, rest: &mut dyn FnMut() -> Vec<Record>) -> u64;
}

/// The reason why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The disk is full.
    #[error("no space left for the store of objects: {0}")]
    Full(String),
    /// Any other error.
    #[error("the store of objects cannot be written: {0}")]
    Other(String),
}

/// The journal. A separate thread writes it in batches.
pub struct Journal {
    records: mpsc::Sender<Record>,
    writer: Arc<OnceLock<Box<dyn Writer>>>,
    progress: Arc<Progress>,
    /// The revision up to which writes are either durable or undone.
    settled: watch::Receiver<u64>,
}

/// Failed writes, as ranges of revisions: after the first number, up to the second one.
#[derive(Debug, Default)]
struct Progress(Mutex<VecDeque<(u64, u64, WriteError)>>);

/// Errors of opening a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be created.
    #[error("cannot create the directory {0}")]
    Directory(String, #[source] std::io::Error),
    /// The file cannot be opened or read.
    #[error("cannot open the store of objects {0}")]
    Open(String, #[source] Box<redb::Error>),
    /// Another process has it open.
    #[error("the directory {0} is in use by another kopfd")]
    InUse(String),
    /// An object in the file cannot be read.
    #[error("the store of objects {file} is damaged at {place}")]
    Damaged {
        /// The file.
        file: String,
        /// The object.
        place: String,
        /// The error.
        #[source]
        source: serde_json::Error,
    },
    /// The thread cannot be created.
    #[error("cannot start the thread that writes the store of objects")]
    Thread(#[source] std::io::Error),
}

/// An opened store.
struct Opened {
    database: Database,
    /// The objects; or the key of an unreadable one with its error.
    objects: Result<Vec<Value>, (String, serde_json::Error)>,
    revision: u64,
}

impl Journal {
    /// Opens the journal in a directory, and returns its objects and its last revision.
    ///
    /// # Errors
    /// If it cannot be opened, or is damaged.
    pub fn open(directory: &Path) -> Result<(Self, Vec<Value>, u64), Error> {
        let shown = directory.display().to_string();
        private_files::make_directory(directory).map_err(|error| Error::Directory(shown.clone(), error))?;
        let path = directory.join(FILE);
        let file = path.display().to_string();
        // The library panics for some damaged stores.
        let loaded = std::panic::catch_unwind(|| load(&path));
        let loaded = loaded.unwrap_or_else(|panic| Err(redb::Error::Corrupted(tasks::panic_text(&*panic))));
        let Opened { database, objects, revision } = loaded.map_err(|error| match error {
            redb::Error::DatabaseAlreadyOpen => Error::InUse(shown),
            error => Error::Open(file.clone(), Box::new(error)),
        })?;
        let objects = objects.map_err(|(place, source)| Error::Damaged { file, place, source })?;
        let (records, queue) = mpsc::channel();
        let (settle, settled) = watch::channel(revision);
        let (writer, progress) = (Arc::default(), Arc::default());
        let file = StoreFile { path, database: Some(database), repairs: BTreeMap::new() };
        let thread = Thread {
            file,
            queue,
            writer: Arc::clone(&writer),
            progress: Arc::clone(&progress),
            settle,
            durable: revision,
        };
        thread::Builder::new().name("journal".to_owned()).spawn(move || thread.run()).map_err(Error::Thread)?;
        Ok((Self { records, writer, progress, settled }, objects, revision))
    }

    /// Sets the receiver of results. It is set once, before the first write.
    pub fn tell(&self, writer: Box<dyn Writer>) {
        assert!(self.writer.set(writer).is_ok(), "a journal has one writer");
    }

    /// Queues a write, which becomes durable shortly after.
    pub fn write(&self, record: Record) {
        if self.records.send(record).is_err() {
            error!(target: "kopfd", "The store of objects has failed. What is written is lost when the process ends.");
        }
    }

    /// Waits until everything up to a revision is durable.
    ///
    /// # Errors
    /// If the write with this revision was undone.
    pub async fn written(&self, revision: u64) -> Result<(), WriteError> {
        let mut settled = self.settled.clone();
        if settled.wait_for(|settled| *settled >= revision).await.is_err() {
            return Err(WriteError::Other("its thread has ended".to_owned()));
        }
        self.progress.failure_of(revision).map_or(Ok(()), Err)
    }
}

impl Progress {
    fn failure_of(&self, revision: u64) -> Option<WriteError> {
        let failures = self.0.lock();
        failures
            .iter()
            .find(|(after, until, _)| *after < revision && revision <= *until)
            .map(|(.., error)| error.clone())
    }

    fn fail(&self, after: u64, until: u64, error: WriteError) {
        let mut failures = self.0.lock();
        failures.push_back((after, until, error));
        if failures.len() > MAX_FAILURES {
            failures.pop_front();
        }
    }
}

fn load(path: &Path) -> Result<Opened, redb::Error> {
    private_files::make_file(path).map_err(redb::Error::Io)?;
    let database = Database::create(path)?;
    // The tables must exist to be readable.
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(NUMBERS)?;
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let revision = transaction.open_table(NUMBERS)?.get(REVISION)?.map_or(0, |number| number.value());
    let table = transaction.open_table(OBJECTS)?;
    let mut objects = Ok(Vec::new());
    for entry in table.iter()? {
        let (place, text) = entry?;
        let object = serde_json::from_slice(text.value()).map_err(|error| (place.value().to_owned(), error));
        objects = objects.and_then(|mut objects: Vec<Value>| {
            objects.push(object?);
            Ok(objects)
        });
    }
    drop(table);
    Ok(Opened { database, objects, revision })
}

/// The writing thread.
struct Thread {
    file: StoreFile,
    queue: mpsc::Receiver<Record>,
    writer: Arc<OnceLock<Box<dyn Writer>>>,
    progress: Arc<Progress>,
    settle: watch::Sender<u64>,
    /// The last revision in the file.
    durable: u64,
}

impl Thread {
    /// Writes all queued records, as many as possible in one transaction.
    fn run(mut self) {
        let mut is_failing = false;
        while let Ok(first) = self.queue.recv() {
            let mut records = vec![first];
            records.extend(self.queue.try_iter().take(BATCH - 1));
            match self.file.store(&records) {
                Ok(()) => {
                    if is_failing {
                        info!(target: "kopfd", "The store of objects can be written again.");
                        is_failing = false;
                    }
                    self.succeed(&records);
                }
                Err(failure) => {
                    if !is_failing {
                        error!(target: "kopfd", error = %failure, "The store of objects cannot be written: writes are refused.");
                        is_failing = true;
                    }
                    self.fail(records, &failure);
                }
            }
        }
    }

    fn succeed(&mut self, records: &[Record]) {
        let last = records.last().map_or(self.durable, |record| record.revision);
        self.durable = last;
        if let Some(writer) = self.writer.get() {
            writer.committed(last);
        }
        self.settle.send_replace(last);
    }

    fn fail(&mut self, records: Vec<Record>, failure: &redb::Error) {
        let queue = &self.queue;
        let last = records.last().map_or(self.durable, |record| record.revision);
        let after = records.first().map_or(self.durable, |record| record.revision - 1);
        let settled =
            self.writer.get().map_or(last, |writer| writer.failed(records, &mut || queue.try_iter().collect()));
        let error = if is_full(failure) {
            WriteError::Full(failure.to_string())
        } else {
            WriteError::Other(failure.to_string())
        };
        self.progress.fail(after, settled - 1, error);
        self.settle.send_replace(settled);
    }
}

/// Tells whether the disk is full.
fn is_full(failure: &redb::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(failure, redb::Error::Io(error) if matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull))
}

/// The file of the store, which is reopened after a failure.
struct StoreFile {
    path: PathBuf,
    database: Option<Database>,
    /// The earlier states of objects with failed writes: it is unknown which of these writes have reached the file.
    repairs: BTreeMap<String, Option<Arc<Stored>>>,
}

impl StoreFile {
    /// Writes records in one transaction: all of them, or none.
    fn store(&mut self, records: &[Record]) -> Result<(), redb::Error> {
        // The library panics for some damaged files.
        let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.try_to_store(records)));
        let stored = attempt.unwrap_or_else(|panic| Err(redb::Error::Corrupted(tasks::panic_text(&*panic))));
        if stored.is_ok() {
            self.repairs.clear();
            return stored;
        }
        // After a failure, the library accepts no more transactions.
        self.database = None;
        for record in records {
            self.repairs.entry(record.place()).or_insert_with(|| record.old.clone());
        }
        stored
    }

    fn try_to_store(&mut self, records: &[Record]) -> Result<(), redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => Database::open(&self.path)?,
        };
        let database = self.database.insert(database);
        let transaction = database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            let repairs = self.repairs.iter().map(|(place, object)| (place.clone(), object));
            for (place, object) in repairs.chain(records.iter().map(|record| (record.place(), &record.new))) {
                match object {
                    Some(object) => objects.insert(place.as_str(), object.value.to_string().as_bytes())?,
                    None => objects.remove(place.as_str())?,
                };
            }
            if let Some(last) = records.last() {
                transaction.open_table(NUMBERS)?.insert(REVISION, last.revision)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn written_objects_are_restored_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let record = |revision, name: &str, value: Option<Value>| Record {
            revision,
            resource: Resource { group: "ex.dev".into(), plural: "things".into() },
            key: ("default".into(), name.into()),
            old: None,
            new: value.map(|value| Arc::new(Stored { revision, value: Arc::new(value) })),
        };
        let (journal, objects, revision) = Journal::open(directory.path()).unwrap();
        assert_eq!((objects.len(), revision), (0, 0));
        journal.write(record(5, "a", Some(json!({"a": 1}))));
        journal.write(record(6, "b", Some(json!({"b": 1}))));
        journal.write(record(7, "a", None));
        journal.written(7).await.unwrap();
        drop(journal);
        // The thread closes the file when its queue has ended.
        let (_, objects, revision) = loop {
            match Journal::open(directory.path()) {
                Ok(opened) => break opened,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        assert_eq!((objects, revision), (vec![json!({"b": 1})], 7));
    }

    #[test]
    fn the_store_is_private_and_locked() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let opened = Journal::open(&directory).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join(FILE))), (0o700, 0o600));
        let refused = Journal::open(&directory).map(drop).unwrap_err().to_string();
        assert_eq!(refused, format!("the directory {} is in use by another kopfd", directory.display()));
        drop(opened);
    }

    #[test]
    fn a_damaged_store_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        drop(load(&file).unwrap());
        let sound = std::fs::read(&file).unwrap();
        for damaged in ["nonsense ".repeat(1_000).as_bytes(), &sound[..sound.len() / 2]] {
            std::fs::write(&file, damaged).unwrap();
            let refused = Journal::open(folder.path()).map(drop).unwrap_err();
            assert!(matches!(refused, Error::Open(..)), "{refused}");
            assert!(refused.to_string().ends_with("/objects.redb"), "{refused}");
        }
    }
}
