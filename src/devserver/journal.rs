//! The journal: everything that was written, kept in a file, so that nothing that was acknowledged is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;
use tokio::sync::watch;
use tracing::error;

use super::private;
use super::store::{Key, Resource};
use crate::kit::tasks;

/// The file in the directory of the data.
const FILE: &str = "objects.redb";
/// The objects, by their places.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// The numbers: only that of the last revision.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The name of the last revision.
const REVISION: &str = "revision";
/// Writes that are made durable together.
const BATCH: usize = 1_000;

/// One write.
#[derive(Debug)]
pub struct Record {
    /// Its revision.
    pub revision: u64,
    /// The resource.
    pub resource: Resource,
    /// The object.
    pub key: Key,
    /// What is stored; none for a removal.
    pub value: Option<Arc<Value>>,
}

/// The journal. A thread of its own writes it, many writes at once.
#[derive(Debug)]
pub struct Journal {
    records: mpsc::Sender<Record>,
    written: watch::Receiver<u64>,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory cannot be made.
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
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// There is no thread for it.
    #[error("cannot start the thread that writes the store of objects")]
    Thread(#[source] std::io::Error),
}

/// A store that was opened.
struct Opened {
    database: Database,
    /// The objects; or where one is that cannot be read, and why.
    objects: Result<Vec<Value>, (String, serde_json::Error)>,
    revision: u64,
}

impl Journal {
    /// Opens the journal in a directory, and returns what is in it with its last revision.
    ///
    /// # Errors
    /// If it cannot be opened, or is damaged.
    pub fn open(directory: &Path) -> Result<(Self, Vec<Value>, u64), Error> {
        let shown = directory.display().to_string();
        private::make_directory(directory).map_err(|error| Error::Directory(shown.clone(), error))?;
        let path = directory.join(FILE);
        let file = path.display().to_string();
        // The library panics at some stores that are damaged.
        let loaded = std::panic::catch_unwind(|| load(&path));
        let loaded = loaded.unwrap_or_else(|panic| Err(redb::Error::Corrupted(tasks::panic_text(&*panic))));
        let Opened { database, objects, revision } = loaded.map_err(|error| match error {
            redb::Error::DatabaseAlreadyOpen => Error::InUse(shown),
            error => Error::Open(file.clone(), Box::new(error)),
        })?;
        let objects = objects.map_err(|(place, source)| Error::Damaged { file, place, source })?;
        let (records, queue) = mpsc::channel();
        let (progress, written) = watch::channel(revision);
        let work = move || keep(&database, &queue, &progress);
        thread::Builder::new().name("journal".to_owned()).spawn(work).map_err(Error::Thread)?;
        Ok((Self { records, written }, objects, revision))
    }

    /// Takes a write, which is durable a little later.
    pub fn write(&self, record: Record) {
        if self.records.send(record).is_err() {
            error!(target: "kopfd", "The store of objects has failed. What is written is lost when the process ends.");
        }
    }

    /// Waits until everything up to a revision is durable. If the journal has failed, this never ends: nothing is acknowledged any more.
    pub async fn written(&self, revision: u64) {
        if self.written.clone().wait_for(|written| *written >= revision).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn load(path: &Path) -> Result<Opened, redb::Error> {
    private::make_file(path).map_err(redb::Error::Io)?;
    let database = Database::create(path)?;
    // The tables are created here, so that they can be read.
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

/// Writes what comes, all that has come meanwhile in one transaction.
fn keep(database: &Database, queue: &mpsc::Receiver<Record>, progress: &watch::Sender<u64>) {
    while let Ok(first) = queue.recv() {
        let mut records = vec![first];
        records.extend(queue.try_iter().take(BATCH - 1));
        match store(database, &records) {
            Ok(revision) => {
                progress.send_replace(revision);
            }
            Err(failure) => {
                error!(target: "kopfd", error = %failure, "The store of objects cannot be written.");
                return;
            }
        }
    }
}

fn store(database: &Database, records: &[Record]) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let mut last = 0;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for record in records {
            let place = format!("{}/{}/{}/{}", record.resource.group, record.resource.plural, record.key.0, record.key.1);
            match &record.value {
                Some(value) => objects.insert(place.as_str(), value.to_string().as_bytes())?,
                None => objects.remove(place.as_str())?,
            };
            last = record.revision;
        }
        transaction.open_table(NUMBERS)?.insert(REVISION, last)?;
    }
    transaction.commit()?;
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn what_was_written_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let record = |revision, name: &str, value: Option<Value>| Record {
            revision,
            resource: Resource { group: "ex.dev".into(), plural: "things".into() },
            key: ("default".into(), name.into()),
            value: value.map(Arc::new),
        };
        let (journal, objects, revision) = Journal::open(directory.path()).unwrap();
        assert_eq!((objects.len(), revision), (0, 0));
        journal.write(record(5, "a", Some(json!({"a": 1}))));
        journal.write(record(6, "b", Some(json!({"b": 1}))));
        journal.write(record(7, "a", None));
        journal.written(7).await;
        drop(journal);
        // The thread lets the file go when its queue has ended.
        let (_, objects, revision) = loop {
            match Journal::open(directory.path()) {
                Ok(opened) => break opened,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        assert_eq!((objects, revision), (vec![json!({"b": 1})], 7));
    }

    #[test]
    fn nobody_else_reads_the_objects_and_nobody_else_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("data");
        let opened = Journal::open(&directory).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join(FILE))), (0o700, 0o600));
        let refused = Journal::open(&directory).unwrap_err().to_string();
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
            let refused = Journal::open(folder.path()).unwrap_err();
            assert!(matches!(refused, Error::Open(..)), "{refused}");
            assert!(refused.to_string().ends_with("/objects.redb"), "{refused}");
        }
    }
}
