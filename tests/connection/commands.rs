//! Commands in containers, with a server that speaks the protocol of WebSockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use kopfd::cluster::exec::{Command, CommandResult, Output, Problem};
use kopfd::cluster::object_client::ObjectAddress;
use kopfd::cluster::{Error, ObjectClient};
use kopfd::kit::Tasks;
use kopfd::object::Resource;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::super::child::Deadline;
use super::{client, kubeconfig, token_file};

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// What the server notes, and its connections.
#[derive(Clone)]
struct Notes(mpsc::UnboundedSender<String>, Arc<Mutex<Tasks<()>>>);

fn failure(status: StatusCode, reason: &str, message: &str) -> Response {
    let body =
        json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status.as_u16()});
    (status, axum::Json(body)).into_response()
}

/// Answers as an API server would: the name of the pod decides how.
async fn answer(State(notes): State<Notes>, request: Request) -> Response {
    let header =
        |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    if header("authorization") != "Bearer good" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let pod = request.uri().path().split('/').nth(6).unwrap().to_owned();
    let offered = header("sec-websocket-protocol");
    notes.0.send(format!("{pod} {} {offered}", request.uri().query().unwrap_or_default())).unwrap();
    match pod.as_str() {
        "missing" => return failure(StatusCode::NOT_FOUND, "NotFound", "pods \"missing\" not found"),
        "forbidden" => return failure(StatusCode::FORBIDDEN, "Forbidden", "no"),
        "embedded" => return failure(StatusCode::BAD_REQUEST, "BadRequest", "this server has no nodes"),
        // Like servers before Kubernetes 1.30.
        "old" if !offered.contains("v4") => return StatusCode::FORBIDDEN.into_response(),
        "plain" => return "hello".into_response(),
        _ => {}
    }
    let chosen = match pod.as_str() {
        "old" => "v4.channel.k8s.io",
        "other" => "channel.k8s.io",
        _ => "v5.channel.k8s.io",
    };
    let accept = Sha1::digest(header("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = base64::engine::general_purpose::STANDARD.encode(accept);
    let tasks = Arc::clone(&notes.1);
    tasks.lock().spawn("connection", async move {
        let connection = hyper::upgrade::on(request).await.unwrap();
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await;
        speak(&pod, &mut socket).await;
        if pod == "silent" {
            notes.0.send("silent waits".to_owned()).unwrap();
        }
        while let Some(Ok(_)) = socket.next().await {}
        notes.0.send(format!("{pod} closed")).unwrap();
    });
    let head = Response::builder().status(101).header("connection", "upgrade").header("upgrade", "websocket");
    head.header("sec-websocket-accept", accept).header("sec-websocket-protocol", chosen).body(Body::empty()).unwrap()
}

async fn say(socket: &mut Socket, channel: u8, data: &[u8]) -> bool {
    let message = [&[channel], data].concat();
    socket.send(Message::Binary(message.into())).await.is_ok()
}

async fn end(socket: &mut Socket, status: Value) {
    say(socket, 3, status.to_string().as_bytes()).await;
    drop(socket.close(None).await);
}

async fn speak(pod: &str, socket: &mut Socket) {
    let succeeded = json!({"metadata": {}, "status": "Success"});
    match pod {
        "both" | "old" => {
            for (channel, data) in [(1, ""), (2, ""), (3, ""), (1, "a"), (2, "b"), (1, "c"), (2, "d")] {
                say(socket, channel, data.as_bytes()).await;
            }
            drop(socket.send(Message::Ping(vec![1].into())).await);
            say(socket, 255, &[1]).await;
            let causes = json!([{"reason": "ExitCode", "message": "3"}]);
            end(socket, json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}})).await;
        }
        "cat" => {
            while let Some(Ok(message)) = socket.next().await {
                match message.into_data().split_first() {
                    Some((0, piece)) => drop(say(socket, 1, piece).await),
                    Some((255, [0])) => break,
                    other => panic!("{other:?}"),
                }
            }
            end(socket, succeeded).await;
        }
        // It does not read its input.
        "deaf" => end(socket, succeeded).await,
        "loud" => while say(socket, 1, &[b'x'; 1000]).await {},
        "half" => {
            say(socket, 1, b"half").await;
            drop(socket.close(None).await);
        }
        "late" => {
            say(socket, 3, succeeded.to_string().as_bytes()).await;
            say(socket, 1, b"rest").await;
            drop(socket.close(None).await);
        }
        "container" => {
            end(
                socket,
                json!({"status": "Failure", "reason": "InternalError", "message": "container not found", "code": 500}),
            )
            .await;
        }
        "huge" => drop(say(socket, 1, &vec![0; 2 << 20]).await),
        "text" => drop(socket.send(Message::text("hello")).await),
        "silent" => drop(say(socket, 1, b"so far").await),
        _ => {}
    }
}

/// A server, and the client of its pods.
struct Setup {
    objects: ObjectClient,
    notes: mpsc::UnboundedReceiver<String>,
    directory: TempDir,
    _tasks: Tasks<()>,
}

async fn setup(token: &str) -> Setup {
    let (sender, notes) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Notes(sender, Arc::default()));
    let (mut tasks, directory) = (Tasks::default(), TempDir::new().unwrap());
    tasks.spawn("server", async move { axum::serve(listener, router).await.unwrap() });
    let user = token_file(&directory, token);
    let client = client(kubeconfig(&directory, &address, &user)).await;
    Setup { objects: ObjectClient::new(client, "me"), notes, directory, _tasks: tasks }
}

impl Setup {
    async fn run(&self, pod: &str, command: Command) -> CommandResult {
        let pods = Resource {
            version: "v1".into(),
            plural: "pods".into(),
            kind: "Pod".into(),
            namespaced: true,
            ..Resource::default()
        };
        self.objects.exec(ObjectAddress { resource: &pods, namespace: Some("n"), name: pod }, command).await
    }
}

fn command(stdin: Option<&[u8]>) -> Command {
    let arguments = vec!["run".to_owned(), "a b".to_owned()];
    Command {
        arguments,
        stdin: stdin.map(<[u8]>::to_vec),
        time: Duration::from_secs(20),
        output: 1 << 20,
        ..Command::default()
    }
}

fn output(stdout: &str, stderr: &str) -> Output {
    Output { stdout: stdout.as_bytes().to_vec(), stderr: stderr.as_bytes().to_vec() }
}

#[tokio::test]
async fn both_outputs_and_the_exit_code_are_read_in_both_versions() {
    let _deadline = Deadline::of_test();
    let mut setup = setup("good").await;
    for pod in ["both", "old"] {
        let (done, written) = setup.run(pod, command(None)).await;
        assert_eq!((done.unwrap(), written), (3, output("ac", "bd")), "{pod}");
        let asked =
            format!("{pod} stdout=true&stderr=true&command=run&command=a+b v5.channel.k8s.io, v4.channel.k8s.io");
        assert_eq!(setup.notes.recv().await.unwrap(), asked);
        assert_eq!(setup.notes.recv().await.unwrap(), format!("{pod} closed"));
    }
    // What comes after the status belongs to it.
    let (done, written) = setup.run("late", command(None)).await;
    assert_eq!((done.unwrap(), written), (0, output("rest", "")));
}

#[tokio::test]
async fn standard_input_has_an_end() {
    let _deadline = Deadline::of_test();
    let setup = setup("good").await;
    let input: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
    let (done, written) = setup.run("cat", command(Some(&input))).await;
    assert_eq!((done.unwrap(), written.stdout == input), (0, true));
    let (done, written) = setup.run("cat", command(Some(b""))).await;
    assert_eq!((done.unwrap(), written), (0, Output::default()));
    let (done, _) = setup.run("deaf", command(Some(&input))).await;
    assert_eq!(done.unwrap(), 0);
    let (done, _) = setup.run("old", command(Some(&input))).await;
    let error = done.unwrap_err().to_string();
    assert!(error.contains("refused the protocol v5.channel.k8s.io"), "{error}");
}

#[tokio::test]
async fn refusals_of_the_server_are_its_errors() {
    let _deadline = Deadline::of_test();
    let setup = setup("good").await;
    for (pod, status, message) in [
        ("missing", 404, "HTTP 404 (NotFound): pods \"missing\" not found"),
        ("forbidden", 403, "HTTP 403 (Forbidden): no"),
        ("embedded", 400, "HTTP 400 (BadRequest): this server has no nodes"),
        ("container", 500, "HTTP 500 (InternalError): container not found"),
        ("plain", 200, "HTTP 200 (OK): hello"),
    ] {
        let (done, _) = setup.run(pod, command(Some(b"x"))).await;
        let Err(Problem::Request(error)) = done else { panic!("{pod}: {done:?}") };
        assert_eq!((error.status(), error.to_string().as_str()), (Some(status), message), "{pod}");
    }
    for (pod, expected) in [
        ("other", "the server speaks the protocol \"channel.k8s.io\", which was not offered"),
        ("text", "the server has sent a text in place of bytes"),
        ("huge", "Space limit exceeded"),
        ("half", "the connection has ended before the command"),
    ] {
        let (done, written) = setup.run(pod, command(None)).await;
        let Err(Problem::Request(error @ (Error::Payload(_) | Error::Connection(_)))) = done else {
            panic!("{pod}: {done:?}")
        };
        assert!(error.chain().contains(expected), "{pod}: {}", error.chain());
        assert_eq!(written, output(if pod == "half" { "half" } else { "" }, ""));
    }
}

#[tokio::test]
async fn output_and_time_have_limits_at_which_the_connection_is_closed() {
    let _deadline = Deadline::of_test();
    let mut setup = setup("good").await;
    let (done, written) = setup.run("loud", Command { output: 2500, ..command(None) }).await;
    assert!(matches!(done, Err(Problem::TooMuchOutput(2500))), "{done:?}");
    assert_eq!(written.stdout.len(), 2500);
    let (began, time) = (Instant::now(), Duration::from_millis(300));
    let (done, written) = setup.run("silent", Command { time, ..command(None) }).await;
    assert!(matches!(done, Err(Problem::Timeout(limit)) if limit == time), "{done:?}");
    assert!(began.elapsed() >= time);
    assert_eq!(written, output("so far", ""));
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(setup.notes.recv().await.unwrap());
    }
    assert!(seen.contains(&"loud closed".to_owned()) && seen.contains(&"silent closed".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_is_disconnected() {
    let _deadline = Deadline::of_test();
    let mut setup = setup("good").await;
    let pods = Resource { version: "v1".into(), plural: "pods".into(), namespaced: true, ..Resource::default() };
    let place = ObjectAddress { resource: &pods, namespace: Some("n"), name: "silent" };
    let notes = &mut setup.notes;
    let waits = async { while notes.recv().await.unwrap() != "silent waits" {} };
    tokio::select! {
        ended = setup.objects.exec(place, command(None)) => panic!("{ended:?}"),
        () = waits => {}
    }
    assert_eq!(setup.notes.recv().await.unwrap(), "silent closed");
}

#[tokio::test]
async fn refused_credentials_are_replaced_before_the_command_runs() {
    let _deadline = Deadline::of_test();
    let mut setup = setup("old").await;
    token_file(&setup.directory, "good");
    let (done, _) = setup.run("both", command(None)).await;
    assert_eq!(done.unwrap(), 3);
    assert!(setup.notes.recv().await.unwrap().starts_with("both "));
}
