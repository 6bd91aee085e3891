//! Scripts that send requests to a real HTTPS server in the process.

use std::time::{Duration, Instant};

use kopfd::handling::Verdict;
use kopfd::http::install_crypto_provider;
use kopfd::kit::Clock;
use kopfd::outside;
use kopfd::script::{Options, Returned, Threads};
use serde_json::{Value, json};

use self::server::Server;
use super::world::{Operator, World};

#[allow(dead_code, reason = "the tests of the client use other parts of this module")]
#[path = "../../src/outside/http/tests/server.rs"]
mod server;

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts a host with the script of a handler. `PORT` is the port of the server, and `CA` its authority.
async fn world(server: &Server, script: &str) -> World {
    let authority = String::from_utf8(server.authority.clone()).unwrap();
    let script = script.replace("PORT", &server.port.to_string()).replace("CA", &format!("`{authority}`"));
    let mut operator = Operator::new("").runs(&script);
    operator.declaration.allow.http.push(format!("localhost:{}", server.port));
    let options =
        Options { threads: Threads::Own(1), outside: outside::of_process(String::new, None), ..Options::default() };
    operator.start_at(options, Clock::system()).await.unwrap_or_else(|problems| panic!("{problems:#?}"))
}

async fn call(server: &Server, script: &str) -> Returned {
    let world = world(server, script).await;
    tokio::time::timeout(LIMIT, world.call(0)).await.expect("an answer in time")
}

async fn value(server: &Server, script: &str) -> Value {
    let returned = call(server, script).await;
    let Verdict::Returned(Some(value)) = returned.verdict else { panic!("{:?}", returned.verdict) };
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_gets_answers_follows_redirects_and_waits_for_a_busy_server() {
    let server = Server::start().await;
    let script = "let a = http::post(\"https://localhost:PORT/echo\", #{a: 1}, #{ca: CA, auth: #{bearer: \"token\"}});
        return [a.status, a.headers[\"x-twice\"], a.body.contains(\"authorization: Bearer token\"), a.body.ends_with(\"{\\\"a\\\":1}\")];";
    assert_eq!(value(&server, script).await, json!([200, "1, 2", true, true]));
    let script = "let a = http::get(\"https://localhost:PORT/redirect\", #{ca: CA}); return [a.status, a.url.ends_with(\"/echo\")];";
    assert_eq!(value(&server, script).await, json!([200, true]));
    let begun = Instant::now();
    assert_eq!(value(&server, "return http::get(\"https://localhost:PORT/busy\", #{ca: CA}).status;").await, 200);
    assert!(begun.elapsed() >= Duration::from_secs(1), "Retry-After is obeyed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_catches_what_fails() {
    let server = Server::start().await;
    for (path, options, reason) in [
        ("/away", "ca: CA", "Forbidden"),
        ("/endless", "ca: CA, limit: 1000", "TooLarge"),
        ("/large", "ca: CA, limit: 1000", "TooLarge"),
        ("/silent", "ca: CA, timeout: 0.2, retries: 0", "Timeout"),
        ("/slow", "ca: CA, timeout: 0.2, retries: 0", "Timeout"),
        ("/nonsense", "ca: CA, retries: 0", "Broken"),
        ("/echo", "retries: 0", "Tls"),
    ] {
        let script = format!(
            "let reason = (); try {{ http::get(\"https://localhost:PORT{path}\", #{{{options}}}); }} catch (e) {{ reason = [e.kind, e.reason]; }} return reason;"
        );
        assert_eq!(value(&server, &script).await, json!(["http", reason]), "{path}");
    }
    let returned = call(&server, "let port = 1; http::get(`https://localhost:${port}/x?key=secret`);").await;
    let Verdict::Failed { text, .. } = returned.verdict else { panic!("{:?}", returned.verdict) };
    assert_eq!(text, "`http::get`: the host localhost:1 is not listed under `allow.http`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_call_closes_its_connection_and_holds_no_thread() {
    let server = Server::start().await;
    let world =
        world(&server, "return http::get(\"https://localhost:PORT/silent\", #{ca: CA, timeout: \"1h\"});").await;
    // The script has one thread: all of them wait at the same time.
    let calls = (0..20).map(|number| {
        let mut call = world.a_call(0);
        call.subject = world.creation(&format!("u-{number}"));
        world.host.call(&world.installed, call)
    });
    let waited = tokio::time::timeout(Duration::from_secs(3), futures::future::join_all(calls)).await;
    assert!(waited.is_err());
    assert_eq!(server.connections(), 20);
    tokio::time::timeout(LIMIT, server.all_closed()).await.expect("the connections are closed");
}
