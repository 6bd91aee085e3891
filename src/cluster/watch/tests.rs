//! Tests of watching in virtual time, against a script of answers.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::{StreamExt, stream};
use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::Level;

use super::super::client::script::{Script, answer, refused, streamed};
use super::super::settings::{Networking, Watching};
use super::super::transport::Answer;
use super::*;

/// One answer of the server.
enum Reply {
    Body(String),
    Status(u16, &'static str),
    Refused,
    Stream(Vec<Step>),
}

/// One item of a stream.
enum Step {
    Bytes(String),
    Pause(u64),
    Break,
    Silence,
}

use Reply::{Body, Refused, Status, Stream};
use Step::{Break, Bytes, Pause, Silence};

fn object(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": version.to_string()}})
}

fn page(version: u64, next: &str, names: &[&str]) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    Body(json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items}).to_string())
}

fn line(kind: &str, name: &str, version: u64) -> Step {
    Bytes(json!({"type": kind, "object": object(name, version)}).to_string() + "\n")
}

fn status_line(code: u16) -> Step {
    Bytes(json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}).to_string() + "\n")
}

fn replied(reply: Reply) -> Result<Answer, Error> {
    match reply {
        Body(body) => Ok(answer(200, body)),
        Refused => Err(refused()),
        Status(status, retry_after) => {
            let mut answer = answer(status, "");
            if !retry_after.is_empty() {
                answer.headers.insert("retry-after", HeaderValue::from_static(retry_after));
            }
            Ok(answer)
        }
        Stream(steps) => Ok(streamed(
            stream::iter(steps)
                .filter_map(|step| async {
                    match step {
                        Bytes(text) => Some(Ok(text.into())),
                        Break => Some(Err("reset".into())),
                        Pause(seconds) => {
                            sleep(Duration::from_secs(seconds)).await;
                            None
                        }
                        Silence => std::future::pending().await,
                    }
                })
                .boxed(),
        )),
    }
}

/// Records the events.
#[derive(Clone, Default)]
struct Transcript {
    lines: Arc<Mutex<Vec<String>>>,
    slow: bool,
}

impl Sink for Transcript {
    async fn seen(&mut self, seen: Seen<'_>) {
        if self.slow {
            sleep(Duration::from_secs(100)).await;
        }
        let body = seen.body().unwrap();
        assert_eq!(
            (body["kind"].as_str(), body["apiVersion"].as_str(), body.uid()),
            (Some("Pod"), Some("v1"), seen.head.uid())
        );
        self.lines.lock().push(format!("{:?} {}", seen.event_kind, seen.head.name()));
    }

    async fn listed(&mut self) {
        self.lines.lock().push("listed".to_owned());
    }

    fn request_failed(&mut self, error: &Error) {
        self.lines.lock().push(error.status().map_or("trouble".to_owned(), |status| format!("trouble {status}")));
    }
}

struct Run {
    seen: Vec<String>,
    requests: Vec<String>,
}

fn pods() -> Resource {
    Resource {
        version: "v1".into(),
        plural: "pods".into(),
        kind: "Pod".into(),
        namespaced: true,
        ..Resource::default()
    }
}

/// Runs a watcher for some virtual seconds. After the last reply the server is silent.
async fn run_with(seconds: u64, watching: Watching, replies: Vec<Reply>, mut sink: Transcript) -> Run {
    let mut replies = VecDeque::from(replies);
    let script = Script::new(move |_| replied(replies.pop_front().unwrap_or(Stream(vec![Silence]))));
    let client = script.client_with(Networking::default(), watching).await;
    let mut watcher = Watcher::new(client, pods(), None).unwrap();
    let stop = Stop::new();
    let _ = timeout(Duration::from_secs(seconds), watcher.run(&mut sink, &stop)).await;
    let requests = script.requests.lock();
    let requests = requests
        .iter()
        .map(|request| request.replace("GET /api/v1/pods?", "").replace("&allowWatchBookmarks=true", ""));
    Run { seen: sink.lines.lock().clone(), requests: requests.collect() }
}

async fn run(seconds: u64, replies: Vec<Reply>) -> Run {
    run_with(seconds, Watching::default(), replies, Transcript::default()).await
}

#[tokio::test(start_paused = true)]
async fn everything_is_listed_in_pages_and_then_watched() {
    let changes =
        vec![line("ADDED", "c", 11), line("BOOKMARK", "", 15), line("MODIFIED", "a", 16), line("DELETED", "b", 17)];
    let run = run(60, vec![page(10, "more", &["a"]), page(10, "", &["b"]), Stream(changes)]).await;
    assert_eq!(run.seen, ["Listed a", "Listed b", "listed", "Added c", "Modified a", "Deleted b"]);
    assert_eq!(
        run.requests,
        ["limit=500", "limit=500&continue=more", "watch=true&resourceVersion=10", "watch=true&resourceVersion=17"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_is_resumed_at_once_and_half_a_line_is_read_again() {
    let half = Bytes(r#"{"type":"ADDED","object":{"metadata":{"na"#.to_owned());
    let replies = vec![
        page(10, "", &[]),
        Stream(vec![line("ADDED", "a", 11), half, Break]),
        Stream(vec![line("ADDED", "b", 12), Silence]),
    ];
    let run = run(1, replies).await;
    assert_eq!(run.seen, ["listed", "Added a", "Added b"]);
    assert_eq!(run.requests[2], "watch=true&resourceVersion=11");
}

#[tokio::test(start_paused = true)]
async fn repeated_states_of_a_stream_are_skipped() {
    let first = Stream(vec![line("ADDED", "a", 11), line("MODIFIED", "a", 12)]);
    let repeated = vec![
        line("ADDED", "a", 11),
        line("ADDED", "b", 11),
        line("MODIFIED", "a", 12),
        line("MODIFIED", "a", 13),
        Silence,
    ];
    let run = run(1, vec![page(10, "", &[]), first, Stream(repeated)]).await;
    assert_eq!(run.seen, ["listed", "Added a", "Modified a", "Added b", "Modified a", "Modified a"]);
}

#[tokio::test(start_paused = true)]
async fn lines_may_be_cut_anywhere_and_the_last_may_lack_its_end() {
    let text = json!({"type": "ADDED", "object": object("a", 11)}).to_string()
        + "\n\n"
        + &json!({"type": "ADDED", "object": object("b", 12)}).to_string();
    let (one, other) = text.split_at(40);
    let replies = vec![page(10, "", &[]), Stream(vec![Bytes(one.to_owned()), Pause(5), Bytes(other.to_owned())])];
    let run = run(10, replies).await;
    assert_eq!(run.seen, ["listed", "Added a", "Added b"]);
    assert_eq!(run.requests[2], "watch=true&resourceVersion=12");
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_followed_by_a_list_that_reports_vanished_objects() {
    for loss in [Stream(vec![status_line(410)]), Status(410, "")] {
        let replies = vec![page(10, "", &["a", "b"]), loss, page(20, "", &["b", "c"])];
        let run = run(1, replies).await;
        assert_eq!(run.seen, ["Listed a", "Listed b", "listed", "Listed b", "Listed c", "Deleted a", "listed"]);
        assert_eq!(run.requests[2..], ["limit=500", "watch=true&resourceVersion=20"]);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_pages_are_listed_again_in_one_piece() {
    let replies = vec![page(10, "more", &["a"]), Status(410, ""), page(11, "", &["a", "b"])];
    let run = run(1, replies).await;
    assert_eq!(run.seen, ["Listed a", "Listed a", "Listed b", "listed"]);
    assert_eq!(run.requests[1..3], ["limit=500&continue=more", "GET /api/v1/pods"]);
}

#[tokio::test(start_paused = true)]
async fn other_errors_in_the_stream_are_reported_and_never_the_end() {
    let replies = vec![
        page(10, "", &[]),
        Stream(vec![status_line(500)]),
        page(11, "", &[]),
        Stream(vec![status_line(500)]),
        page(12, "", &["a"]),
    ];
    let run = run(10, replies).await;
    assert_eq!(run.seen, ["listed", "trouble 500", "listed", "trouble 500", "Listed a", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_or_missing_resource_is_reported_and_tried_again() {
    let replies = vec![Status(403, ""), Status(403, ""), Status(404, ""), page(10, "", &["a"])];
    let run = run(10, replies).await;
    assert_eq!(run.seen, ["trouble 403", "trouble 403", "trouble 404", "Listed a", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_not_asked_before_its_retry_time() {
    for status in [429, 503] {
        let began = Instant::now();
        let replies = vec![
            page(10, "", &[]),
            Status(status, "30"),
            page(10, "", &[]),
            Stream(vec![line("ADDED", "a", 11), Pause(1000)]),
        ];
        let run = run(29, replies).await;
        assert_eq!(run.requests.len(), 2);
        assert_eq!(run.seen, ["listed", format!("trouble {status}").as_str()]);
        assert_eq!(began.elapsed().as_secs(), 29);
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_asks_for_no_pause_is_reported_as_an_error() {
    for (status, retry_after, expected) in [(429, "1", Level::WARN), (429, "", Level::ERROR), (503, "1", Level::ERROR)]
    {
        let (lines, guard) = crate::telemetry::collect_lines(Level::WARN);
        run(9, vec![Status(status, retry_after), page(10, "", &[]), Stream(vec![Silence])]).await;
        drop(guard);
        assert_eq!(
            lines.lock().iter().map(|line| line.level).collect::<Vec<_>>(),
            [expected],
            "{status} {retry_after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_watch_continues_on_the_same_server() {
    let replies = vec![
        page(10, "", &["a"]),
        Stream(vec![Break]),
        Refused,
        Refused,
        page(12, "more", &["a"]),
        Stream(vec![line("MODIFIED", "a", 12), Silence]),
    ];
    let run = run(20, replies).await;
    assert_eq!(run.seen, ["Listed a", "listed", "trouble", "trouble", "Modified a"]);
    assert_eq!(run.requests[3..], ["limit=1", "limit=1", "watch=true&resourceVersion=10"]);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_everything_is_listed_if_the_server_was_set_back() {
    let replies = vec![page(10, "", &["a"]), Refused, page(3, "", &[]), page(3, "", &["b"])];
    let run = run(20, replies).await;
    assert_eq!(run.seen, ["Listed a", "listed", "trouble", "Listed b", "Deleted a", "listed"]);
    assert_eq!(run.requests[2..], ["limit=1", "limit=500", "watch=true&resourceVersion=3"]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_or_a_refusal_may_also_show_that_the_server_was_set_back() {
    let too_large = json!({"type": "ERROR", "object": {"kind": "Status", "code": 504, "message": "Too large resource version: 10, current: 3"}});
    for step in [line("BOOKMARK", "", 3), Bytes(too_large.to_string() + "\n")] {
        let run = run(1, vec![page(10, "", &["a"]), Stream(vec![step]), page(3, "", &[])]).await;
        assert_eq!(run.seen, ["Listed a", "listed", "Deleted a", "listed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_reopened() {
    let replies = vec![
        page(10, "", &[]),
        Stream(vec![Pause(60), line("ADDED", "a", 11), Silence]),
        Stream(vec![Silence]),
        page(11, "", &[]),
        Stream(vec![line("ADDED", "b", 12), Silence]),
    ];
    let run = run(60 + 70 + 70 + 1, replies).await;
    assert_eq!(run.seen, ["listed", "Added a", "Added b"]);
    let expected = [
        "limit=500",
        "watch=true&resourceVersion=10",
        "watch=true&resourceVersion=11",
        "limit=1",
        "watch=true&resourceVersion=11",
    ];
    assert_eq!(run.requests, expected);
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_is_not_a_silent_server() {
    let replies = vec![page(10, "", &[]), Stream(vec![line("ADDED", "a", 11), line("ADDED", "b", 12), Silence])];
    let run = run_with(260, Watching::default(), replies, Transcript { slow: true, ..Transcript::default() }).await;
    assert_eq!(run.seen, ["listed", "Added a", "Added b"]);
    assert_eq!(run.requests.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn streams_that_end_without_events_are_reopened_more_slowly() {
    let replies = std::iter::once(page(10, "", &[])).chain((0..1000).map(|_| Stream(vec![]))).collect();
    let run = run(20, replies).await;
    assert!((8..20).contains(&run.requests.len()), "{} requests", run.requests.len());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_repeatedly_is_relisted_more_slowly() {
    let replies = (0..1000).map(|number| if number % 2 == 0 { page(10, "", &[]) } else { Status(410, "") }).collect();
    let run = run(20, replies).await;
    assert!(run.requests.len() < 20, "{} requests", run.requests.len());
}

#[tokio::test(start_paused = true)]
async fn the_settings_limit_a_watch() {
    let watching = Watching {
        server_timeout: Some(Duration::from_secs(200)),
        client_timeout: Some(Duration::from_secs(5)),
        ..Watching::default()
    };
    let run = run_with(11, watching, vec![page(10, "", &[])], Transcript::default()).await;
    assert_eq!(run.requests[1..], ["watch=true&resourceVersion=10&timeoutSeconds=200"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_setting_is_the_pause_before_a_lost_watch_lists_again() {
    for (pause, lists) in [(3, 2), (6, 1)] {
        let watching = Watching { reconnect_backoff: Duration::from_secs(pause), ..Watching::default() };
        let replies = vec![page(10, "", &[]), Stream(vec![status_line(410)]), page(20, "", &[])];
        let run = run_with(5, watching, replies, Transcript::default()).await;
        assert_eq!(run.seen, vec!["listed"; lists], "a pause of {pause} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_line_causes_a_list_and_an_unknown_type_is_ignored() {
    let odd = Bytes("{\"type\":\"ODD\",\"object\":{}}\n".to_owned());
    let replies = vec![page(10, "", &[]), Stream(vec![odd, Bytes("nonsense\n".to_owned())]), page(11, "", &["a"])];
    assert_eq!(run(5, replies).await.seen, ["listed", "trouble", "Listed a", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_can_be_spawned_stopped_and_run_again() {
    let mut replies = VecDeque::from([page(10, "", &["a"]), Stream(vec![Silence]), page(11, "", &["b"])]);
    let script = Script::new(move |_| replied(replies.pop_front().unwrap_or(Stream(vec![Silence]))));
    let mut watcher = Watcher::new(script.client().await, pods(), None).unwrap();
    let (transcript, stop) = (Transcript::default(), Stop::new());
    let (mut sink, heard) = (transcript.clone(), stop.clone());
    let mut tasks = crate::kit::Tasks::default();
    tasks.spawn("watcher", async move {
        watcher.run(&mut sink, &heard).await;
        let _ = timeout(Duration::from_secs(1), watcher.run(&mut sink, &Stop::new())).await;
        watcher.len()
    });
    sleep(Duration::from_secs(1)).await;
    stop.request("enough");
    assert_eq!(tasks.next_ended().await.unwrap().result, Some(Ok(1)));
    assert_eq!(*transcript.lines.lock(), ["Listed a", "listed", "Listed b", "Deleted a", "listed"]);
}

/// Runs a watcher whose known objects are requested after these virtual seconds, or before its start.
async fn run_revisited(at: &[u64], replies: Vec<Reply>) -> Run {
    let mut replies = VecDeque::from(replies);
    let script = Script::new(move |_| replied(replies.pop_front().unwrap_or(Stream(vec![Silence]))));
    let client = script.client_with(Networking::default(), Watching::default()).await;
    let (requests, receiver) = watch::channel(0);
    if at.is_empty() {
        requests.send_replace(1);
    }
    let mut watcher = Watcher::new(client, pods(), None).unwrap().with_revisits(receiver);
    let (stop, mut sink) = (Stop::new(), Transcript::default());
    let request = async {
        let began = Instant::now();
        for (number, second) in (1..).zip(at) {
            tokio::time::sleep_until(began + Duration::from_secs(*second)).await;
            requests.send_replace(number);
        }
        std::future::pending::<()>().await;
    };
    let lines = Arc::clone(&sink.lines);
    let run = async { tokio::join!(watcher.run(&mut sink, &stop), request) };
    let _ = timeout(Duration::from_secs(50), run).await;
    let seen = lines.lock().clone();
    let requests = script.requests.lock().iter().map(|request| request.replace("GET /api/v1/pods?", "")).collect();
    Run { seen, requests }
}

#[tokio::test(start_paused = true)]
async fn known_objects_are_passed_on_once_more_on_request_and_the_stream_stays_open() {
    let stream = Stream(vec![line("MODIFIED", "a", 6), Pause(10), line("MODIFIED", "b", 7), Silence]);
    // The new state of `b` and the object `c` are in the stream, too, but were not read yet.
    let items = [object("a", 6), object("b", 7), object("c", 8)];
    let listed = Body(json!({"metadata": {"resourceVersion": "8"}, "items": items}).to_string());
    let run = run_revisited(&[5], vec![page(5, "", &["a", "b"]), stream, listed]).await;
    assert_eq!(run.seen, ["Listed a", "Listed b", "listed", "Modified a", "Revisited a", "Modified b"]);
    assert_eq!(run.requests.len(), 3, "{:?}", run.requests);
    assert_eq!(run.requests[2], "limit=500");
}

#[tokio::test(start_paused = true)]
async fn a_request_before_a_list_is_answered_by_the_list_and_a_failed_one_is_repeated() {
    let run = run_revisited(&[], vec![page(5, "", &["a"]), Stream(vec![Silence])]).await;
    assert_eq!(run.seen, ["Listed a", "listed"]);
    let replies =
        vec![page(5, "", &["a"]), Stream(vec![Silence]), Status(500, ""), page(5, "next", &["a"]), page(5, "", &["x"])];
    let run = run_revisited(&[5], replies).await;
    assert_eq!(run.seen, ["Listed a", "listed", "Revisited a"]);
    assert_eq!(run.requests[2..], ["limit=500", "limit=500", "limit=500&continue=next"]);
}

#[tokio::test(start_paused = true)]
async fn on_request_everything_is_listed_anew_and_the_events_of_the_old_stream_are_left_to_the_list() {
    let old = Stream(vec![Pause(10), line("MODIFIED", "a", 6), Silence]);
    let new = Stream(vec![line("MODIFIED", "b", 8), Silence]);
    let mut replies = VecDeque::from([page(5, "", &["a", "b"]), old, page(7, "", &["a", "b"]), new]);
    let script = Script::new(move |_| replied(replies.pop_front().unwrap_or(Stream(vec![Silence]))));
    let client = script.client_with(Networking::default(), Watching::default()).await;
    let (begins, receiver) = watch::channel(0);
    let mut watcher = Watcher::new(client, pods(), None).unwrap().with_relists(receiver);
    let (stop, mut sink) = (Stop::new(), Transcript::default());
    let lines = Arc::clone(&sink.lines);
    let begin = async {
        sleep(Duration::from_secs(5)).await;
        begins.send_replace(1);
        std::future::pending::<()>().await;
    };
    let run = async { tokio::join!(watcher.run(&mut sink, &stop), begin) };
    let _ = timeout(Duration::from_secs(50), run).await;
    assert_eq!(*lines.lock(), ["Listed a", "Listed b", "listed", "Listed a", "Listed b", "listed", "Modified b"]);
    let requests = script.requests.lock().clone();
    assert!(requests[2].ends_with("?limit=500") && requests[3].contains("resourceVersion=7"), "{requests:?}");
}

/// A transcript that panics at some events instead of recording them.
struct Fragile {
    transcript: Transcript,
    /// The event.
    at: &'static str,
    /// The number of panics that are left.
    panics: usize,
}

impl Fragile {
    fn at(at: &'static str, panics: usize) -> Self {
        Self { transcript: Transcript::default(), at, panics }
    }

    /// Panics without the panic hook: the output of the tests stays readable.
    fn panic(&mut self) {
        self.panics -= 1;
        std::panic::resume_unwind(Box::new("injected"));
    }
}

impl Sink for Fragile {
    async fn seen(&mut self, seen: Seen<'_>) {
        if self.panics > 0 && format!("{:?} {}", seen.event_kind, seen.head.name()) == self.at {
            self.panic();
        }
        self.transcript.seen(seen).await;
    }

    async fn listed(&mut self) {
        self.transcript.listed().await;
    }

    fn request_failed(&mut self, error: &Error) {
        self.transcript.request_failed(error);
        if self.panics > 0 {
            self.panic();
        }
    }
}

/// Keeps a watcher running for some virtual seconds. Returns the seconds after which the panics were logged, too.
async fn run_fragile(seconds: u64, replies: Vec<Reply>, mut sink: Fragile) -> (Vec<String>, Vec<u64>) {
    let mut replies = VecDeque::from(replies);
    let script = Script::new(move |_| replied(replies.pop_front().unwrap_or(Stream(vec![Silence]))));
    let mut watcher = Watcher::new(script.client().await, pods(), None).unwrap();
    let (began, logged, stop) = (Instant::now(), Arc::new(Mutex::new(Vec::new())), Stop::new());
    let collected = Arc::clone(&logged);
    let _guard = crate::telemetry::listen(Level::ERROR, crate::kit::Clock::system(), move |line| {
        assert_eq!((&line.fields["task"], &line.fields["panic"]), (&json!("watch of pods"), &json!("injected")));
        collected.lock().push(began.elapsed().as_secs());
    });
    let lines = Arc::clone(&sink.transcript.lines);
    let stopping = async {
        sleep(Duration::from_secs(seconds)).await;
        stop.request("enough");
    };
    tokio::join!(watcher.keep_running("watch of pods", &mut sink, &stop), stopping);
    assert_eq!(began.elapsed().as_secs(), seconds, "a stop is not waited for");
    let (lines, logged) = (lines.lock().clone(), logged.lock().clone());
    (lines, logged)
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_sink_is_logged_once_and_everything_is_listed_anew() {
    let changes = || Stream(vec![line("MODIFIED", "a", 11), line("DELETED", "b", 12), Silence]);
    let seen = |text: &str| text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let replies = vec![page(10, "", &["a", "b"]), page(10, "", &["a", "b"]), changes()];
    let in_list = run_fragile(30, replies, Fragile::at("Listed b", 1)).await;
    assert_eq!(in_list, (seen("Listed a, trouble, Listed a, Listed b, listed, Modified a, Deleted b"), vec![0]));
    let replies = || {
        vec![page(10, "", &["a", "b"]), changes(), page(12, "", &["a"]), Stream(vec![line("ADDED", "c", 13), Silence])]
    };
    let in_change = run_fragile(30, replies(), Fragile::at("Modified a", 1)).await;
    assert_eq!(in_change, (seen("Listed a, Listed b, listed, trouble, Listed a, Deleted b, listed, Added c"), vec![0]));
    let in_deletion = run_fragile(30, replies(), Fragile::at("Deleted b", 1)).await;
    assert_eq!(
        in_deletion,
        (seen("Listed a, Listed b, listed, Modified a, trouble, Listed a, Deleted b, listed, Added c"), vec![0])
    );
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_again_and_again_is_tried_after_longer_pauses_until_the_stop() {
    let replies = (0..9).map(|_| page(10, "", &["a"])).collect();
    let (seen, logged) = run_fragile(160, replies, Fragile::at("Listed a", usize::MAX)).await;
    assert_eq!(seen, ["trouble"; 6]);
    assert_eq!(logged, [0, 1, 6, 26, 86, 146]);
}
