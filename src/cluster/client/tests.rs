//! Tests of requests in virtual time.

use std::collections::VecDeque;

use http::{HeaderValue, Method, header};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::super::in_flight;
use super::super::transport::Connection;
use super::credentials::LOGIN_PAUSE;
use super::script::{Script, answer, refused};
use super::*;
use crate::kit::Rate;

fn failing(statuses: &[u16]) -> Script {
    let mut statuses: VecDeque<u16> = statuses.iter().copied().collect();
    Script::new(move |_| match statuses.pop_front() {
        Some(0) => Err(refused()),
        Some(1) => Err(Error::Connection("reset".into())),
        Some(status) => Ok(answer(status, "")),
        None => Ok(answer(200, "{}")),
    })
}

async fn outcome(script: &Script, request: Request) -> (Option<u16>, usize, u64) {
    let client = script.client().await;
    let began = Instant::now();
    let status = match client.request(&request).await {
        Ok(response) => Some(response.status),
        Err(error) => error.status(),
    };
    let requests = script.requests.lock().len();
    (status, requests, began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_repeated_with_growing_pauses() {
    let script = failing(&[0, 1, 500, 403, 429]);
    assert_eq!(outcome(&script, Request::get("/api")).await, (Some(200), 6, 1 + 1 + 2 + 3 + 5));
}

#[tokio::test(start_paused = true)]
async fn after_nine_attempts_the_failure_stays() {
    let script = failing(&[503; 20]);
    assert_eq!(outcome(&script, Request::get("/api")).await, (Some(503), 9, 54));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_until_its_answer() {
    let counted: Arc<Mutex<Vec<usize>>> = Arc::default();
    let script = Script::new({
        let counted = Arc::clone(&counted);
        move |_| {
            counted.lock().push(in_flight::count());
            Ok(answer(200, "{}"))
        }
    });
    assert_eq!(outcome(&script, Request::get("/api")).await.0, Some(200));
    // Tests of the same process may have further ones.
    assert!(counted.lock()[0] >= 1);
}

#[tokio::test(start_paused = true)]
async fn other_failures_are_not_repeated() {
    for status in [400, 404, 409, 410, 422] {
        assert_eq!(outcome(&failing(&[status]), Request::get("/api")).await, (Some(status), 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_types_are_final_though_the_server_calls_them_internal() {
    let text = "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .data.a: expected string, got 1";
    for (message, requests) in [(text, 1), ("failed to create typed live object", 9)] {
        let body = serde_json::json!({"kind": "Status", "code": 500, "message": message}).to_string();
        let script = Script::new(move |_| Ok(answer(500, body.clone())));
        assert_eq!(outcome(&script, Request::new(Method::PATCH, "/api")).await.1, requests, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_not_idempotent_are_repeated_only_if_they_were_not_executed() {
    let create = Request::new(Method::POST, "/api").repeated(Repeat::Unreached);
    assert_eq!(outcome(&failing(&[0, 429]), create.clone()).await, (Some(200), 3, 2));
    assert_eq!(outcome(&failing(&[1]), create.clone()).await, (None, 1, 0));
    assert_eq!(outcome(&failing(&[500]), create).await, (Some(500), 1, 0));
}

async fn pause_after(retry_after: &'static str, enforce_retry_after: bool) -> u64 {
    let mut is_first = true;
    let script = Script::new(move |_| {
        let mut answer = answer(if is_first { 429 } else { 200 }, "");
        is_first = false;
        answer.headers.insert(header::RETRY_AFTER, HeaderValue::from_static(retry_after));
        Ok(answer)
    });
    let client =
        script.client_with(Networking { enforce_retry_after, ..Networking::default() }, Watching::default()).await;
    let began = Instant::now();
    client.request(&Request::get("/api")).await.unwrap();
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_server_may_ask_for_a_longer_pause() {
    assert_eq!(pause_after("7.9", false).await, 7);
    assert_eq!(pause_after("0", false).await, 1);
    assert_eq!(pause_after("0", true).await, 0);
    assert_eq!(pause_after("nonsense", false).await, 1);
    assert_eq!(pause_after("Wed, 01 Jan 2020 00:00:30 GMT", false).await, 30);
    assert_eq!(pause_after("Wed, 01 Jan 2010 00:00:30 GMT", false).await, 1);
    for longer in ["86400", "Thu, 02 Jan 2020 00:00:30 GMT"] {
        assert_eq!(pause_after(longer, false).await, 300, "a mistaken header does not stop the operator");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_available_may_ask_for_a_pause_too() {
    let mut statuses = VecDeque::from([503, 200]);
    let script = Script::new(move |_| {
        let mut answer = answer(statuses.pop_front().unwrap(), "");
        answer.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("9"));
        Ok(answer)
    });
    assert_eq!(outcome(&script, Request::get("/api")).await, (Some(200), 2, 9));
}

/// Returns when each of some requests was sent, in milliseconds. The number of a request is its path.
async fn sent_with_budget(requests: Option<Rate>, numbers: std::ops::Range<usize>) -> Vec<(String, u64)> {
    let sent: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let began = Instant::now();
    let script = Script::new({
        let sent = Arc::clone(&sent);
        move |request| {
            sent.lock().push((request.uri().to_string(), began.elapsed().as_millis() as u64));
            Ok(answer(200, "{}"))
        }
    });
    let client = script.client_with(Networking { requests, ..Networking::default() }, Watching::default()).await;
    let requests: Vec<_> = numbers.map(|number| Request::get(format!("/{number}"))).collect();
    futures::future::join_all(requests.iter().map(|request| client.request(request))).await;
    std::mem::take(&mut *sent.lock())
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_budget_wait_in_their_order() {
    let sent = sent_with_budget(Some(Rate { per_second: 10, burst: 3 }), 0..7).await;
    let at = [0, 0, 0, 100, 200, 300, 400];
    let paths: Vec<String> = sent.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(paths, (0..7).map(|number| format!("/{number}")).collect::<Vec<_>>());
    // Timers are rounded up to milliseconds.
    assert!(sent.iter().zip(at).all(|((_, sent_at), at)| (at..at + 10).contains(sent_at)), "{sent:?}");
    let unlimited = sent_with_budget(None, 0..1_000).await;
    assert!(unlimited.len() == 1_000 && unlimited.iter().all(|(_, at)| *at == 0));
}

#[tokio::test(start_paused = true)]
async fn repetitions_and_watches_take_from_the_budget_and_dropped_requests_do_not() {
    let script = failing(&[500, 500]);
    let budget = Networking {
        requests: Some(Rate { per_second: 1, burst: 1 }),
        error_backoffs: vec![Duration::ZERO; 3],
        ..Networking::default()
    };
    let client = script.client_with(budget.clone(), Watching::default()).await;
    let metrics = crate::telemetry::Metrics::default();
    client.measure(metrics.operator("demo"));
    let began = Instant::now();
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 2, "three attempts");
    assert!(timeout(Duration::from_millis(500), client.open("/watch")).await.is_err());
    assert!(client.open("/watch").await.is_ok());
    assert_eq!(began.elapsed().as_secs(), 3);
    let text = metrics.text();
    let waited = text
        .lines()
        .find_map(|line| line.strip_prefix("kopfd_api_budget_wait_seconds_total{operator=\"demo\"} "))
        .unwrap();
    assert!((2.4..2.6).contains(&waited.parse::<f64>().unwrap()), "{waited}");
    // Without the budget, the next request does not wait.
    client.configure(ConnectionSettings {
        networking: Networking { requests: None, ..budget },
        watching: Watching::default(),
    });
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_server_may_ask_in_the_body_too() {
    let mut is_first = true;
    let script = Script::new(move |_| {
        let status = if is_first { 429 } else { 200 };
        is_first = false;
        Ok(answer(status, r#"{"kind":"Status","details":{"retryAfterSeconds":4}}"#))
    });
    assert_eq!(outcome(&script, Request::get("/api")).await, (Some(200), 2, 4));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_ends_an_attempt() {
    let script = Script::new(|_| Ok(super::script::streamed(Box::pin(futures::stream::pending()))));
    let client = script.client().await;
    let began = Instant::now();
    let error = client.request(&Request::get("/api").repeated(Repeat::Never)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout(_)));
    assert_eq!(began.elapsed().as_secs(), 300);
    let stream = client.open("/watch").await;
    assert!(stream.is_ok(), "the beginning of the answer is there");
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_renewed_at_once() {
    let script = failing(&[401]).with_logins(2);
    assert_eq!(outcome(&script, Request::get("/api")).await, (Some(200), 2, 0));
    assert_eq!(script.logins(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_refused_credentials_are_a_clear_error() {
    let script = failing(&[401; 9]);
    let client = script.client().await;
    let error = client.request(&Request::get("/api")).await.unwrap_err();
    assert!(matches!(error, Error::Login(LoginError::Refused)), "{error}");
    assert_eq!((script.requests.lock().len(), script.logins()), (1, 2));
    // A second failure soon after does not log in again; one much later does.
    client.open("/api").await.err().unwrap();
    assert_eq!(script.logins(), 2);
    tokio::time::sleep(LOGIN_PAUSE).await;
    client.request(&Request::get("/api")).await.unwrap_err();
    assert_eq!(script.logins(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_who_are_refused_at_once_log_in_once() {
    let mut refusals = 10;
    let script = Script::new(move |_| {
        refusals -= 1;
        Ok(answer(if refusals >= 0 { 401 } else { 200 }, "{}"))
    })
    .with_logins(2);
    let client = script.client().await;
    let request = Request::get("/api");
    let all = futures::future::join_all((0..10).map(|_| client.request(&request))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(script.logins(), 2);
}

#[tokio::test(start_paused = true)]
async fn credentials_are_renewed_before_they_end() {
    let script = failing(&[]).expiring_at("2020-01-01T00:01:00Z".parse().unwrap());
    let client = script.client().await;
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(script.logins(), 1);
    tokio::time::sleep(Duration::from_secs(55)).await;
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(script.logins(), 2);
}

/// A login with several credentials: each has a name, whether the server accepts it, and the login from which it is
/// another one.
#[derive(Clone)]
struct Several {
    logins: Arc<std::sync::atomic::AtomicU64>,
    accepted: Script,
    refused: Script,
}

impl Login for Several {
    fn login(&self, _: Arc<ConnectionSettings>) -> futures::future::BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let number = self.logins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let connection = |id: &str, script: &Script, fingerprint| {
            let connection = Connection::over(script.clone(), id);
            Connection { id: id.to_owned(), fingerprint, ..connection }
        };
        // The first one is always the same, the second one is another one at each login.
        Box::pin(std::future::ready(Ok(vec![
            connection("same", &self.refused, 1),
            connection("new", &self.accepted, number),
        ])))
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_credentials_are_used_before_another_login_and_refused_ones_not_again() {
    let logins: Arc<std::sync::atomic::AtomicU64> = Arc::default();
    let several =
        Several { logins: Arc::clone(&logins), accepted: failing(&[200, 200, 401]), refused: failing(&[401; 9]) };
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let client = Client::new(Box::new(several.clone()), ConnectionSettings::default(), clock);
    let count = || {
        (
            several.accepted.requests.lock().len(),
            several.refused.requests.lock().len(),
            logins.load(std::sync::atomic::Ordering::SeqCst),
        )
    };
    assert_eq!(count(), (0, 0, 0));
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!((count(), client.server()), ((1, 1, 1), "new".to_owned()));
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(count(), (2, 1, 1));
    // Both are refused: of the new login, only the credentials that were not refused before are used.
    client.request(&Request::get("/api")).await.unwrap();
    assert_eq!(count(), (4, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_login_is_told_to_the_owner_of_the_client() {
    let script = failing(&[401; 9]);
    let client = script.client().await;
    client.request(&Request::get("/api")).await.unwrap_err();
    assert!(matches!(client.login_failed().await, LoginError::Refused));
    let working = failing(&[]).client().await;
    assert!(timeout(Duration::from_secs(1), working.login_failed()).await.is_err());
}
