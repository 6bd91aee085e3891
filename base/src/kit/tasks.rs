//! Tasks with a name, whose ends are awaited.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use tokio::task::{Id, JoinSet};

/// The tasks of one owner. Dropping it cancels them.
#[derive(Debug)]
pub struct Tasks<T> {
    set: JoinSet<T>,
    names: HashMap<Id, String>,
}

/// A task that has ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// The name it was spawned with.
    pub name: String,
    /// Its result, or the text of its panic; `None` if it was cancelled.
    pub result: Option<Result<T, String>>,
}

impl<T> Default for Tasks<T> {
    fn default() -> Self {
        Self { set: JoinSet::new(), names: HashMap::new() }
    }
}

impl<T: Send + 'static> Tasks<T> {
    /// Spawns a task on the current runtime.
    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = T> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name.into());
    }

    /// Returns the number of tasks whose end was not taken yet.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Tells whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Waits for the next task to end; returns `None` if there are none.
    ///
    /// *Cancel safety*: a task's end is either returned or kept for the next call.
    pub async fn next_ended(&mut self) -> Option<Ended<T>> {
        let (id, result) = match self.set.join_next_with_id().await? {
            Ok((id, value)) => (id, Some(Ok(value))),
            Err(error) if error.is_cancelled() => (error.id(), None),
            Err(error) => (error.id(), Some(Err(panic_text(&*error.into_panic())))),
        };
        Some(Ended { name: self.names.remove(&id).unwrap_or_default(), result })
    }

    /// Waits for all tasks, up to `grace`, then cancels the rest. Returns the names of the cancelled ones.
    /// Panics are logged.
    pub async fn finish(&mut self, grace: Duration) -> Vec<String> {
        let all = async {
            while let Some(ended) = self.next_ended().await {
                report_task_end(&ended);
            }
        };
        if tokio::time::timeout(grace, all).await.is_ok() {
            return Vec::new();
        }
        let mut abandoned: Vec<String> = self.names.values().cloned().collect();
        abandoned.sort();
        self.set.abort_all();
        while let Some(ended) = self.next_ended().await {
            report_task_end(&ended);
        }
        abandoned
    }
}

/// Logs the panic of a task that has ended with one.
pub fn report_task_end<T>(ended: &Ended<T>) {
    if let Some(Err(panic)) = &ended.result {
        report_panic(&ended.name, panic);
    }
}

/// Logs that a task has panicked.
pub fn report_panic(task: &str, panic: &str) {
    tracing::error!(target: "kopfd::tasks", task, panic, "A task has failed because of a defect of the engine.");
}

/// Returns the message of a panic.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};

    use super::*;

    /// Collects the log lines of the current thread while the guard is held.
    pub(in crate::kit) fn logged() -> (Arc<Mutex<Vec<String>>>, tracing::subscriber::DefaultGuard) {
        let lines = Arc::default();
        let guard = tracing::subscriber::set_default(Lines(Arc::clone(&lines)));
        (lines, guard)
    }

    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            let _ = write!(self.0, "{field}={value:?} ");
        }
    }

    impl tracing::Subscriber for Lines {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut text = Text(format!("{} ", event.metadata().level()));
            event.record(&mut text);
            self.0.lock().push(text.0);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_at_the_end_is_logged_too() {
        let (logs, _guard) = logged();
        let mut tasks = Tasks::default();
        tasks.spawn("broken", async { panic!("no way") });
        assert!(tasks.finish(Duration::from_secs(2)).await.is_empty());
        let line = logs.lock().join("\n");
        assert!(line.starts_with("ERROR") && line.contains("broken") && line.contains("no way"), "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_tasks_are_cancelled_and_named() {
        let mut tasks = Tasks::default();
        tasks.spawn("quick", async {});
        tasks.spawn("hung", std::future::pending());
        assert_eq!(tasks.finish(Duration::from_secs(2)).await, ["hung"]);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_reported_as_text() {
        let mut tasks: Tasks<()> = Tasks::default();
        tasks.spawn("broken", async { panic!("no way") });
        let ended = tasks.next_ended().await.unwrap();
        assert_eq!((ended.name.as_str(), ended.result), ("broken", Some(Err("no way".to_owned()))));
    }
}
