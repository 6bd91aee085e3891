//! `kopfd status` asks a running operator, or says why it cannot.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Cluster;
use super::reload::Run;
use crate::child::{LIMIT, output};

/// Returns the exit code, the standard output and the standard error of the command.
fn status(cluster: &Cluster, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = output(cluster.kopfd().arg("status").args(arguments).envs(environment.iter().copied()));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Waits until two calls have succeeded and nothing is left to do. Returns the document.
fn settled(cluster: &Cluster, url: &str) -> Value {
    let began = Instant::now();
    loop {
        let (code, printed, problem) = status(cluster, &[url, "--output", "json"], &[]);
        assert_eq!(code, Some(0), "{problem}");
        let document: Value = serde_json::from_str(&printed).unwrap();
        let operator = &document["operators"][0];
        let greeted = operator["handlers"].as_array().unwrap().iter().find(|handler| handler["id"] == "greet").unwrap();
        let is_idle = operator["queues"].as_object().unwrap().values().all(|count| *count == 0);
        if is_idle && greeted["calls"] == 2 {
            return document;
        }
        assert!(began.elapsed() < LIMIT, "{document:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_state_of_a_running_operator_is_shown() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster);
    run.wait_for("[default/one] Handler 'greet' succeeded.");
    let url = format!("http://{}", run.endpoint());
    let document = settled(&cluster, &url);
    let operator = &document["operators"][0];
    let (revision, since) = (operator["revision"].as_str().unwrap(), operator["since"].as_str().unwrap());
    assert_eq!(revision.len(), 12);
    let kind = &operator["kinds"][0];
    let objects = kind["objects"].as_u64().unwrap();
    assert!(objects >= 2 && kind["revisions"][revision] == objects, "{kind:#}");
    // The URL of the probes is as good as that of the host.
    let (code, printed, _) = status(&cluster, &[], &[("KOPFD_LIVENESS", &format!("{url}/healthz"))]);
    let objects = objects.to_string();
    let head = ["KIND", "OBJECTS", "QUEUED", "WATCHES", "REVISIONS"];
    let row = ["configmaps.v1", &objects, "0", "1 watching", &format!("{revision}: {objects}")];
    let cells = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let lines: Vec<&str> = printed.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        format!("kopfd {version} at {url}/status: ready"),
        String::new(),
        format!("operator a: revision {revision} since {since}"),
        "  0 events queued, 0 objects in work, 0 calls running, 0 objects waiting for a retry".to_owned(),
        String::new(),
    ];
    assert_eq!((code, &lines[..5]), (Some(0), &expected.each_ref().map(String::as_str)[..]));
    assert_eq!([cells(lines[5]), cells(lines[6])], [head.map(str::to_owned).to_vec(), row.map(str::to_owned).to_vec()]);
    let expected = "
  HANDLER  ON       CALLS  RETRIED  FAILED  RUNNING
  end      cleanup  0      0        0       0
  greet    create   2      0        0       0
  start    startup  1      0        0       0
";
    assert_eq!(lines[7..].join("\n") + "\n", expected);
}

#[test]
fn an_address_without_an_operator_is_explained() {
    let cluster = Cluster::start();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, printed, problem) = status(&cluster, &[&format!("http://{closed}")], &[]);
    let expected = format!(
        "error: no answer from http://{closed}/status: nothing listens there\n  hint: start the operator with `--liveness="
    );
    assert!(code == Some(1) && printed.is_empty() && problem.starts_with(&expected), "{code:?} {problem}");

    let answers = [
        (
            "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello",
            "does not answer as kopfd does: HTTP 200 \"<html>hello\"",
        ),
        (
            "HTTP/1.0 404 Not Found\r\n\r\nthere are /healthz",
            "does not answer as kopfd does: HTTP 404 \"there are /healthz\"",
        ),
        ("HTTP/1.0 200 OK\r\n\r\n{\"kind\": \"Other\"}", "does not answer as kopfd does: HTTP 200"),
        ("220 mail ESMTP\r\n", "the answer is not HTTP"),
    ];
    for (answer, expected) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /status HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let (code, printed, problem) = status(&cluster, &[&url, "-o", "json"], &[]);
        server.join().unwrap();
        assert!(
            code == Some(1)
                && printed.is_empty()
                && problem.contains(expected)
                && problem.contains("\n  hint: name the URL"),
            "{problem}"
        );
    }
    let (code, _, problem) = status(&cluster, &["localhost:8080"], &[]);
    assert!(code == Some(2) && problem.contains("expected a URL that begins with http://"), "{problem}");
}
