//! The probes of an operator: their results are kept for ten seconds, and concurrent requests share one run.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::kit::{Stop, TaskGroup};
use crate::manifest::operator::Moment;

use super::{Activities, ActivityError, Attempts, title};

/// How long results are kept, from the end of their run.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Time limit of a run: a request to the endpoint must get an answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The results of the probes, in the order of declaration.
pub(crate) type Results = Vec<(String, Value)>;

/// A run; its results with its end.
type Run = Shared<BoxFuture<'static, Result<(Instant, Arc<Results>), ActivityError>>>;

/// The probes of one operator.
pub struct Probes {
    activities: Arc<Activities>,
    state: Mutex<State>,
    /// The run, which continues if its clients go away.
    runs: TaskGroup,
    stop: Stop,
}

#[derive(Default)]
struct State {
    /// The results of the last successful run, and its end.
    kept: Option<(Instant, Arc<Results>)>,
    running: Option<Run>,
}

impl Probes {
    /// Returns the probes among the activities of an operator.
    pub fn new(activities: Arc<Activities>, stop: Stop) -> Self {
        Self { activities, state: Mutex::default(), runs: TaskGroup::under(&stop), stop }
    }

    /// Returns the results, which are at most ten seconds old. Each probe is called once: a failed one is not repeated.
    ///
    /// # Errors
    /// If a probe fails, or takes too long. Nothing is kept then.
    pub async fn results(&self) -> Result<Arc<Results>, ActivityError> {
        let run = {
            let mut state = self.state.lock();
            if let Some((ended_at, results)) = &state.kept
                && ended_at.elapsed() < MAX_AGE
            {
                return Ok(Arc::clone(results));
            }
            state.running.get_or_insert_with(|| self.run()).clone()
        };
        let ended = run.clone().await;
        let mut state = self.state.lock();
        // The first one to get here ends the run for the others.
        if state.running.as_ref().is_some_and(|running| running.ptr_eq(&run)) {
            state.running = None;
            state.kept = ended.as_ref().ok().cloned();
        }
        drop(state);
        ended.map(|(_, results)| results)
    }

    fn run(&self) -> Run {
        let (activities, stop) = (Arc::clone(&self.activities), self.stop.clone());
        let run = async move {
            let run = activities.run(Moment::Probe, Attempts::Single, &stop);
            match tokio::time::timeout(TIME_LIMIT, run).await {
                Ok(ended) => ended.map(|results| (Instant::now(), Arc::new(results))),
                Err(_) => Err(ActivityError::Timeout { activity: title(Moment::Probe), limit: TIME_LIMIT }),
            }
        };
        let run = run.boxed().shared();
        self.runs.spawn(|| "probes".to_owned(), run.clone().map(drop));
        run
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use serde_json::json;

    use super::*;
    use crate::engines::effects::Scripts;
    use crate::engines::events::EventStream;
    use crate::handling::{ErrorMode, Handler, On, Policy, Verdict};
    use crate::kit::Clock;
    use crate::manifest::Settings;
    use crate::manifest::operator::Activity;
    use crate::object::Patch;
    use crate::script::{Call, Evaluation, Returned, Subject};

    /// A probe that takes some time, and fails if its number is among some.
    struct Counting {
        calls: AtomicUsize,
        takes: Duration,
        fails: &'static [usize],
    }

    impl Scripts for Counting {
        fn call<'a>(&'a self, _handler: &'a Handler, _call: Call) -> BoxFuture<'a, Returned> {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(self.takes).await;
                let failed = Verdict::Failed { text: "broken".to_owned(), representation: String::new(), trace: None };
                let verdict =
                    if self.fails.contains(&number) { failed } else { Verdict::Returned(Some(json!(number))) };
                Returned::new(verdict, Patch::default())
            }
            .boxed()
        }

        fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
            std::future::ready(Ok(true)).boxed()
        }
    }

    fn probes(takes: Duration, errors: Option<ErrorMode>, fails: &'static [usize]) -> (Arc<Counting>, Probes) {
        let scripts = Arc::new(Counting { calls: AtomicUsize::new(0), takes, fails });
        let handler =
            Handler { policy: Policy { errors, ..Policy::default() }, ..Handler::simple("probe", On::Activity) };
        let declared = vec![Activity { handler, moment: Moment::Probe }];
        let settings = Settings::default();
        let calls = Arc::clone(&scripts) as Arc<dyn Scripts>;
        let activities = Activities::new(calls, declared, &settings, Clock::system(), EventStream::default());
        (scripts, Probes::new(Arc::new(activities), Stop::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_one_run_and_its_result_is_kept_for_ten_seconds_after_its_end() {
        let (scripts, probes) = probes(Duration::from_secs(1), None, &[]);
        let all = join_all((0..10).map(|_| probes.results())).await;
        assert!(all.iter().all(|ended| **ended.as_ref().unwrap() == [("probe".to_owned(), json!(0))]));
        tokio::time::sleep(MAX_AGE.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(**probes.results().await.unwrap(), [("probe".to_owned(), json!(0))]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(**probes.results().await.unwrap(), [("probe".to_owned(), json!(1))]);
        assert_eq!(scripts.calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_probe_is_told_at_once_and_not_kept() {
        for errors in [None, Some(ErrorMode::Temporary), Some(ErrorMode::Permanent)] {
            let (scripts, probes) = probes(Duration::ZERO, errors, &[0]);
            let began = Instant::now();
            assert_eq!(probes.results().await.unwrap_err().to_string(), "the probe 'probe' has failed: broken");
            assert!(probes.results().await.is_ok() && began.elapsed() < Duration::from_secs(1));
            assert_eq!(scripts.calls.load(Ordering::SeqCst), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_hangs_fails_for_all_who_ask_within_ten_seconds() {
        let (scripts, probes) = probes(Duration::from_hours(1), None, &[]);
        let began = Instant::now();
        let all = join_all((0..3).map(|_| probes.results())).await;
        assert!(
            all.iter()
                .all(|ended| ended.as_ref().unwrap_err().to_string() == "the probe has not ended within 10 seconds")
        );
        assert_eq!((began.elapsed().as_secs(), scripts.calls.load(Ordering::SeqCst)), (10, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_whose_client_has_gone_does_not_block_the_next_request() {
        let (_, probes) = probes(Duration::from_secs(1), None, &[]);
        assert!(tokio::time::timeout(Duration::from_millis(1), probes.results()).await.is_err());
        assert!(probes.results().await.is_ok());
    }
}
