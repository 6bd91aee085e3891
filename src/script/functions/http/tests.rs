//! Tests of the `http::` functions with a client that records requests, and answers from a list.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, ready};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kit::Stop;
use crate::script::Limits;
use crate::script::interface::declaration::Allow;
use crate::script::language::convert;
use crate::script::outside::{HttpAnswer, HttpClient, HttpError, HttpProblem, HttpRequest, Outside};
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::testing::{environment, run_in};
use crate::script::runtime::context::{Context, Environment, Mode};

#[derive(Default)]
struct Recorder {
    requests: Mutex<Vec<HttpRequest>>,
    /// `None` is no answer at all.
    answers: Mutex<Vec<Option<Result<HttpAnswer, HttpError>>>>,
}

impl HttpClient for Recorder {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        self.requests.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        match if answers.is_empty() { Some(Ok(status(200))) } else { answers.remove(0) } {
            Some(answer) => ready(answer).boxed(),
            None => pending().boxed(),
        }
    }
}

fn status(status: u16) -> HttpAnswer {
    HttpAnswer { status, ..HttpAnswer::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "an item of the answers")]
fn with(number: u16, headers: &[(&str, &str)], body: &str) -> Option<Result<HttpAnswer, HttpError>> {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Some(Ok(HttpAnswer { status: number, headers, body: body.as_bytes().to_vec() }))
}

#[expect(clippy::unnecessary_wraps, reason = "an item of the answers")]
fn failed(problem: HttpProblem) -> Option<Result<HttpAnswer, HttpError>> {
    Some(Err(HttpError { problem, message: "no".to_owned() }))
}

type Answers = Vec<Option<Result<HttpAnswer, HttpError>>>;

/// Runs a script, and returns its value or its error, the requests, and the seconds that it took.
async fn run_as(mode: Mode, script: &str, answers: Answers) -> (Result<Value, String>, Vec<HttpRequest>, u64) {
    let recorder = Arc::new(Recorder { answers: Mutex::new(answers), ..Recorder::default() });
    let client: Arc<dyn HttpClient> = Arc::<Recorder>::clone(&recorder);
    let http = ["api.example.com", "*.example.org", "127.0.0.1:8080"].map(str::to_owned).to_vec();
    let allow = Allow { http, ..Allow::default() };
    let environment =
        Environment { outside: Outside { http: Some(client), ..Outside::default() }, allow, ..environment() };
    let budget = Rc::new(Budget::new(&Limits { api_calls: 20, ..Limits::default() }, Stop::new()));
    let begun = Instant::now();
    let ended = run_in(Context::new(Rc::new(environment), budget, mode), script).await;
    let value = ended.map(|value| convert::to_json(&value).unwrap()).map_err(|error| match *error {
        rhai::EvalAltResult::ErrorRuntime(value, _) => convert::text_of(&value),
        other => other.to_string(),
    });
    (value, recorder.requests.lock().unwrap().clone(), begun.elapsed().as_secs())
}

async fn run(script: &str, answers: Answers) -> (Result<Value, String>, Vec<HttpRequest>, u64) {
    run_as(Mode::Function, script, answers).await
}

async fn value(script: &str, answers: Answers) -> Value {
    run(script, answers).await.0.unwrap()
}

async fn error(script: &str) -> String {
    run(script, Vec::new()).await.0.unwrap_err()
}

/// Returns the properties of the error that a script catches.
async fn caught(call: &str, answers: Answers) -> Value {
    value(
        &format!("let c = (); try {{ {call}; }} catch (e) {{ c = [e.kind, e.reason, e.status, e.message]; }} c"),
        answers,
    )
    .await
}

fn header<'r>(request: &'r HttpRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_status_headers_body_and_json() {
    let script = r#"let a = http::get("https://api.example.com/x?token=secret"); [a.status, a.headers["x-a"], a.body, a.json, a.url]"#;
    let headers = [("content-type", "application/json; charset=utf-8"), ("x-a", "1"), ("x-a", "2")];
    let answered = value(script, vec![with(404, &headers, "{\"a\": [1]}")]).await;
    assert_eq!(answered, json!([404, "1, 2", "{\"a\": [1]}", {"a": [1]}, "https://api.example.com/x"]));
    let script = r#"let a = http::get("https://api.example.com/"); [a.json, a.body]"#;
    assert_eq!(value(script, vec![with(200, &[("content-type", "application/json")], "{")]).await, json!([null, "{"]));
    assert_eq!(value(script, vec![with(200, &[("content-type", "text/plain")], "{}")]).await, json!([null, "{}"]));
    let script = r#"http::get("https://api.example.com/", #{bytes: true}).body"#;
    assert_eq!(value(script, vec![with(200, &[], "x")]).await, "eA==", "bytes are base64 in JSON");
}

#[tokio::test(start_paused = true)]
async fn only_listed_hosts_are_asked() {
    for url in [
        "https://example.com/?password=x",
        "https://api.example.com:8443/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "https://example.org",
        "http://localhost",
    ] {
        let (ended, requests, _) = run(
            &format!(
                "let c = (); try {{ http::get(\"{url}\"); }} catch (e) {{ c = [e.kind, e.reason, e.message]; }} c"
            ),
            Vec::new(),
        )
        .await;
        let ended = ended.unwrap();
        assert_eq!((&ended[0], &ended[1]), (&json!("http"), &json!("Forbidden")), "{url}");
        assert!(ended[2].as_str().unwrap().contains("is not listed under `allow.http`"), "{ended}");
        assert!(!ended[2].as_str().unwrap().contains("password"), "{ended}");
        assert!(requests.is_empty());
    }
    for url in
        ["https://api.example.com", "https://a.b.example.org/", "http://127.0.0.1:8080/", "http://2130706433:8080"]
    {
        assert_eq!(run(&format!("http::get(\"{url}\").status"), Vec::new()).await.0, Ok(json!(200)), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_refused_before_anything_is_sent() {
    for (script, expected) in [
        ("http::get(1)", "the address must be a text"),
        ("http::get(\"ftp://api.example.com\")", "must begin with https:// or http://"),
        ("http::get(\"https://user:secret@api.example.com\")", "use the option `auth`"),
        ("http::get(\"https://api.example.com\", #{header: 1})", "has no option `header`"),
        ("http::get(\"https://api.example.com\", #{headers: #{\"a b\": 1}})", "no name of a header"),
        ("http::get(\"https://api.example.com\", #{headers: #{\"a\": \"x\\r\\nb: 1\"}})", "one line of text"),
        ("http::get(\"https://api.example.com\", #{headers: #{Host: \"evil\"}})", "cannot be set"),
        ("http::get(\"https://api.example.com\", #{auth: #{bearer: \"a b\"}})", "must be a token"),
        ("http::get(\"https://api.example.com\", #{auth: #{basic: \"a\"}})", "an array of a name and a password"),
        ("http::get(\"https://api.example.com\", #{auth: #{}})", "a map with one key"),
        ("http::get(\"https://api.example.com\", #{limit: \"1Gi\"})", "a quarter of `limits.memory`"),
        ("http::get(\"https://api.example.com\", #{timeout: -1})", "seconds"),
        ("http::get(\"https://api.example.com\", #{proxy: \"http://evil.com:3128\"})", "is not listed"),
        ("http::get(\"https://api.example.com\", #{cert: \"x\"})", "together with `key`"),
        ("http::request(\"CONNECT\", \"https://api.example.com\")", "is no method"),
        ("http::post(\"https://api.example.com\", 1, #{form: #{}})", "one body"),
    ] {
        let message = error(script).await;
        assert!(message.contains(expected), "{script}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_are_json_text_bytes_or_forms() {
    for (script, content_type, expected) in [
        ("http::post(\"https://api.example.com\", #{a: [1, ()]})", "application/json", "{\"a\":[1,null]}"),
        ("http::put(\"https://api.example.com\", \"text\")", "text/plain; charset=utf-8", "text"),
        ("http::patch(\"https://api.example.com\", to_bytes([1, 2]))", "application/octet-stream", "\u{1}\u{2}"),
        (
            "http::post(\"https://api.example.com\", (), #{form: #{a: \"x y&\", b: [1, 2], c: ()}})",
            "application/x-www-form-urlencoded",
            "a=x%20y%26&b=1&b=2",
        ),
        ("http::post(\"https://api.example.com\", 7, #{headers: #{\"Content-Type\": \"a/b\"}})", "a/b", "7"),
    ] {
        let (ended, requests, _) = run(script, Vec::new()).await;
        ended.unwrap();
        assert_eq!(header(&requests[0], "content-type"), Some(content_type), "{script}");
        assert_eq!(String::from_utf8_lossy(&requests[0].body), expected, "{script}");
    }
    let script = "http::post(\"https://api.example.com\", (), #{multipart: #{a: 1, f: #{filename: \"x\\\"y\", type: \"text/csv\", content: \"z\"}}})";
    let (ended, requests, _) = run(script, Vec::new()).await;
    ended.unwrap();
    let boundary = header(&requests[0], "content-type")
        .unwrap()
        .strip_prefix("multipart/form-data; boundary=")
        .unwrap()
        .to_owned();
    let body = String::from_utf8(requests[0].body.clone()).unwrap().replace(&boundary, "B");
    assert_eq!(
        body,
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B\r\nContent-Disposition: form-data; name=\"f\"; \
         filename=\"x%22y\"\r\nContent-Type: text/csv\r\n\r\nz\r\n--B--\r\n"
    );
}

#[tokio::test(start_paused = true)]
async fn credentials_become_headers() {
    for (auth, expected) in [
        ("#{bearer: \"abc\"}", "Bearer abc"),
        ("#{bearer: to_bytes(\"abc\\n\")}", "Bearer abc"),
        ("#{basic: [\"user\", to_bytes(\"p:w\")]}", "Basic dXNlcjpwOnc="),
    ] {
        let (ended, requests, _) =
            run(&format!("http::get(\"https://api.example.com\", #{{auth: {auth}}})"), Vec::new()).await;
        ended.unwrap();
        assert_eq!(header(&requests[0], "authorization"), Some(expected), "{auth}");
    }
    let script = "http::get(\"https://api.example.com/?a=1\", #{query: #{b: \"x y\"}, ca: \"pem\", proxy: false})";
    let (ended, requests, _) = run(script, Vec::new()).await;
    ended.unwrap();
    assert_eq!(requests[0].url.as_str(), "https://api.example.com/?a=1&b=x%20y");
    assert_eq!(requests[0].connection.authorities.as_deref(), Some(&b"pem"[..]));
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_to_listed_hosts_only_and_other_hosts_get_no_credentials() {
    let to = |status, location| with(status, &[("location", location)], "");
    let script = "http::post(\"https://api.example.com/a\", \"body\", #{headers: #{\"X-Key\": \"k\", Accept: \"x/y\"}, auth: #{bearer: \"t\"}}).url";
    let (ended, requests, _) =
        run(script, vec![to(307, "/b"), to(308, "https://x.example.org/c"), to(303, "https://api.example.com/d")])
            .await;
    assert_eq!(ended, Ok(json!("https://api.example.com/d")));
    let shown: Vec<_> = requests
        .iter()
        .map(|request| format!("{} {} {}", request.method, request.url.path(), request.body.len()))
        .collect();
    assert_eq!(shown, ["POST /a 4", "POST /b 4", "POST /c 4", "GET /d 0"]);
    let secrets = |request| {
        (
            header(request, "authorization").is_some(),
            header(request, "x-key").is_some(),
            header(request, "accept").is_some(),
        )
    };
    assert_eq!(requests.iter().map(secrets).collect::<Vec<_>>()[..2], [(true, true, true); 2]);
    assert_eq!(
        requests.iter().map(secrets).collect::<Vec<_>>()[2..],
        [(false, false, true); 2],
        "also after the way back"
    );

    let forbidden =
        caught("http::get(\"https://api.example.com\")", vec![to(302, "http://169.254.169.254/latest")]).await;
    assert_eq!((&forbidden[0], &forbidden[1]), (&json!("http"), &json!("Forbidden")));
    let redirect = caught("http::get(\"https://api.example.com\")", vec![to(302, "file:///etc/passwd")]).await;
    assert_eq!(redirect[1], "Redirect");
    let endless = (0..20).map(|_| to(302, "/")).collect();
    let endless = caught("http::get(\"https://api.example.com\")", endless).await;
    assert_eq!(endless[3], "GET https://api.example.com/: there were more than 10 redirects");
    let unfollowed = value("http::get(\"https://api.example.com\", #{redirects: 0}).status", vec![to(302, "/")]).await;
    assert_eq!(unfollowed, 302);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_repeated_is_repeated_with_pauses() {
    let (ended, requests, seconds) =
        run("http::get(\"https://api.example.com\").status", vec![with(503, &[], ""), failed(HttpProblem::Connect)])
            .await;
    assert_eq!((ended, requests.len()), (Ok(json!(200)), 3));
    assert!((2..=4).contains(&seconds), "{seconds}");
    let wait = |value| with(429, &[("retry-after", value)], "");
    let (ended, requests, seconds) =
        run("http::put(\"https://api.example.com\", 1).status", vec![wait("40"), wait("3")]).await;
    assert_eq!((ended, requests.len(), seconds), (Ok(json!(200)), 3, 43));
    let (ended, requests, seconds) = run("http::get(\"https://api.example.com\").status", vec![wait("61")]).await;
    assert_eq!((ended, requests.len(), seconds), (Ok(json!(429)), 1, 0), "the handler decides about longer pauses");
    for (script, expected) in [
        ("http::post(\"https://api.example.com\", 1).status", 1),
        ("http::post(\"https://api.example.com\", 1, #{idempotent: true}).status", 3),
        ("http::get(\"https://api.example.com\", #{retries: 0}).status", 1),
    ] {
        let (ended, requests, _) =
            run(script, vec![with(503, &[], ""), with(503, &[], ""), with(503, &[], ""), with(503, &[], "")]).await;
        assert_eq!((ended, requests.len()), (Ok(json!(503)), expected), "{script}");
    }
    let unreached = vec![failed(HttpProblem::Connect), failed(HttpProblem::Broken)];
    let (ended, requests, _) = run("http::post(\"https://api.example.com\", 1)", unreached).await;
    assert_eq!((ended.is_err(), requests.len()), (true, 2), "a server that was not reached has not seen the request");
    for problem in [HttpProblem::Tls, HttpProblem::TooLarge, HttpProblem::Forbidden] {
        let (ended, requests, _) = run("http::get(\"https://api.example.com\")", vec![failed(problem)]).await;
        assert_eq!((ended.is_err(), requests.len()), (true, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_end_with_the_time_limit() {
    let (ended, requests, seconds) = run(
        "let c = (); try { http::get(\"https://api.example.com/x?key=secret\", #{timeout: 5, retries: 1}); } catch (e) { c = [e.reason, e.message]; } c",
        vec![None, None],
    )
    .await;
    assert_eq!(ended, Ok(json!(["Timeout", "GET https://api.example.com/x: no answer within 5 seconds"])));
    assert_eq!(requests.len(), 2);
    assert!((10..=12).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn statuses_of_errors_are_thrown_if_the_script_asks_for_it() {
    let answer = || vec![with(422, &[], "{\"why\": 1}")];
    assert_eq!(value("http::get(\"https://api.example.com\").status", answer()).await, 422);
    let raised = caught("http::get(\"https://api.example.com\", #{raise: true})", answer()).await;
    assert_eq!(
        raised,
        json!(["http", "Status", 422, "GET https://api.example.com/: the server has answered with the status 422"])
    );
    let details = value(
        "let c = (); try { http::get(\"https://api.example.com\", #{raise: true}); } catch (e) { c = e.details.body.why; } c",
        answer(),
    )
    .await;
    assert_eq!(details, 1);
}

#[tokio::test(start_paused = true)]
async fn requests_count_as_calls_of_the_api() {
    let (ended, requests, _) =
        run("try { loop { http::get(\"https://api.example.com\"); } } catch {} 42", Vec::new()).await;
    assert!(ended.is_err());
    assert_eq!(requests.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn expressions_transformations_and_the_top_level_cannot_send_requests() {
    for mode in [Mode::Expression, Mode::Transform, Mode::TopLevel] {
        let (ended, requests, _) = run_as(mode, "http::get(\"https://api.example.com\")", Vec::new()).await;
        assert!(ended.unwrap_err().contains("`http::get` is not available in"));
        assert!(requests.is_empty());
    }
    assert!(run_as(Mode::Login, "http::get(\"https://api.example.com\")", Vec::new()).await.0.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_ends_with_the_call() {
    let begun = Instant::now();
    let (ended, ..) =
        run("try { http::get(\"https://api.example.com\", #{timeout: \"9h\"}) } catch {} 42", vec![None]).await;
    assert!(ended.is_err());
    assert!(begun.elapsed() <= Duration::from_secs(3_601));
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(start_paused = true)]
async fn pages_are_read_by_links_and_by_cursors() {
    let link = ("link", "<https://api.example.com/users?page=2>; rel=\"next\"");
    let script = "http::pages(\"https://api.example.com/users\", #{auth: #{bearer: \"t\"}})";
    let (ended, requests, _) = run(script, vec![with(200, &[JSON, link], "[1, 2]"), with(200, &[JSON], "[3]")]).await;
    assert_eq!(ended, Ok(json!([1, 2, 3])));
    assert_eq!(requests[1].url.as_str(), "https://api.example.com/users?page=2");
    assert!(header(&requests[1], "authorization").is_some());

    let script = "http::pages(\"https://api.example.com/x?a=1&after=0\", #{items: \"data.list\", cursor: \"meta.next\", param: \"after\"})";
    let page = |next: &str, item: &str| {
        with(200, &[JSON], &format!("{{\"data\": {{\"list\": [{item}]}}, \"meta\": {{\"next\": {next}}}}}"))
    };
    let (ended, requests, _) = run(script, vec![page("\"b c\"", "1"), page("7", "2"), page("null", "3")]).await;
    assert_eq!(ended, Ok(json!([1, 2, 3])));
    assert_eq!(requests[1].url.query(), Some("a=1&after=b+c"));
    assert_eq!(requests[2].url.query(), Some("a=1&after=7"));

    let elsewhere = ("link", "<https://b.example.org/>; rel=next");
    let script = "http::pages(\"https://api.example.com/\", #{auth: #{bearer: \"t\"}, headers: #{\"X-Key\": \"k\"}})";
    let (_, requests, _) = run(script, vec![with(200, &[elsewhere], "[]"), with(200, &[], "[]")]).await;
    assert_eq!((header(&requests[1], "authorization"), header(&requests[1], "x-key")), (None, None));
    let forbidden = caught(
        "http::pages(\"https://api.example.com/\")",
        vec![with(200, &[("link", "<http://evil.com>; rel=next")], "[]")],
    )
    .await;
    assert_eq!(forbidden[1], "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_none_are_errors() {
    let endless = |_| with(200, &[("link", "</>; rel=next")], "[1]");
    for (call, answers, expected) in [
        ("http::pages(\"https://api.example.com/\", #{pages: 3})", (0..5).map(endless).collect(), "more than 3 pages"),
        ("http::pages(\"https://api.example.com/\")", vec![with(200, &[], "{}")], "no list of items"),
        ("http::pages(\"https://api.example.com/\")", vec![with(200, &[], "<html>")], "no JSON"),
        ("http::pages(\"https://api.example.com/\")", vec![with(403, &[], "")], "status 403"),
    ] {
        let failed = caught(call, answers).await;
        assert!(failed[3].as_str().unwrap().contains(expected), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_client_is_kept_until_it_expires_or_is_refused() {
    let token = |text: &str| with(200, &[JSON], &format!("{{\"access_token\": \"{text}\", \"expires_in\": 100}}"));
    let script = r#"
        let options = #{auth: #{oauth2: #{url: "https://login.example.org/token", id: "me", secret: "a b", scope: "read"}}};
        http::get("https://api.example.com/", options);
        http::get("https://api.example.com/", options);
        sleep(71);
        http::get("https://api.example.com/", options);
        http::get("https://api.example.com/", options).status"#;
    let ok = || with(200, &[], "");
    let answers = vec![token("one"), ok(), ok(), token("two"), ok(), with(401, &[], ""), token("three"), ok()];
    let (ended, requests, _) = run(script, answers).await;
    assert_eq!(ended, Ok(json!(200)));
    let authorizations: Vec<_> = requests.iter().map(|request| header(request, "authorization").unwrap()).collect();
    let basic = "Basic bWU6YSUyMGI=";
    let bearers = ["Bearer one", "Bearer one", "Bearer two", "Bearer two", "Bearer three"];
    assert_eq!(authorizations, [basic, bearers[0], bearers[1], basic, bearers[2], bearers[3], basic, bearers[4]]);
    assert_eq!(requests[0].body, b"grant_type=client_credentials&scope=read");

    let refused = with(400, &[JSON], "{\"error\": \"invalid_client\"}");
    let call = "http::get(\"https://api.example.com/\", #{auth: #{oauth2: #{url: \"https://login.example.org/token\", id: \"me\", secret: \"hush\"}}})";
    let failed = caught(call, vec![refused]).await;
    assert_eq!(failed[2], 400);
    assert_eq!(
        failed[3],
        "POST https://login.example.org/token: the server gives no token (status 400, invalid_client)"
    );
    let unlisted = call.replace("login.example.org", "login.evil.com");
    assert_eq!(caught(&unlisted, Vec::new()).await[1], "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn requests_to_aws_are_signed_again_at_each_attempt() {
    let script = r#"
        let aws = #{access_key: "AKIDEXAMPLE", secret_key: "secret", region: "eu-west-1", service: "s3", session_token: "t"};
        http::get("https://api.example.com/a b?x=1", #{auth: #{aws: aws}}).status"#;
    let (ended, requests, _) = run(script, vec![with(503, &[], "")]).await;
    assert_eq!(ended, Ok(json!(200)));
    let signature = |request| header(request, "authorization").unwrap().rsplit_once('=').unwrap().1.len();
    assert_eq!(requests.iter().map(signature).collect::<Vec<_>>(), [64, 64]);
    let signed = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token";
    assert!(header(&requests[0], "authorization").unwrap().contains(signed));
    assert_ne!(header(&requests[0], "x-amz-date"), header(&requests[1], "x-amz-date"));
    let missing = error("http::get(\"https://api.example.com/\", #{auth: #{aws: #{access_key: \"a\"}}})").await;
    assert!(missing.contains("`auth.aws.secret_key`") || missing.contains("must be given"), "{missing}");
}
