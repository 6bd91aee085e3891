//! `kopfd test --record-http`: the answers of a real server are written, and replayed without it.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use super::child::output;

/// Answers a number of requests, one on each connection, and ends.
fn serve(listener: TcpListener, count: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for number in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            let mut buffer = [0; 1_024];
            while !received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..count]);
            }
            let body = format!("{{\"number\":{number}}}");
            let head =
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nSet-Cookie: a=secret\r\n";
            write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    })
}

fn kopfd(folder: &Path, arguments: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_kopfd")).arg("test").args(arguments).current_dir(folder))
}

#[test]
fn a_recorded_scenario_runs_without_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text.replace("PORT", &port.to_string())).unwrap();
    };
    write(
        "operator.yaml",
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: x}\nspec:\n  allow: {http: [\"127.0.0.1:PORT\"]}\n  resources:\n    \
         - {resource: v1/configmaps, script: x.rhai, handlers: [{on: create, fn: ask}]}\n",
    );
    write(
        "x.rhai",
        "fn ask(patch) {\n    let numbers = [];\n    for i in 0..2 { numbers.push(http::get(\"http://127.0.0.1:PORT/x?page=1\").json.number); }\n    \
         patch.data.numbers = json::dump(numbers);\n}\n",
    );
    write(
        "scenario.yaml",
        "apiVersion: kopfd.dev/v1\nkind: Scenario\nmetadata: {name: recorded}\nspec:\n  operator: operator.yaml\n  given:\n    http:\n      \
         - {url: \"http://127.0.0.1:PORT/*\", record: api.yaml}\n  steps:\n    \
         - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n    - settle\n    \
         - expect: {object: configmaps/a, matches: {data: {numbers: \"[0,1]\"}}}\n",
    );
    let missing = kopfd(folder.path(), &["scenario.yaml"]);
    assert_eq!(missing.status.code(), Some(1), "nothing is sent without the option");
    assert!(
        String::from_utf8_lossy(&missing.stderr).contains("`kopfd test --record-http` records it anew")
            || String::from_utf8_lossy(&missing.stdout).contains("`kopfd test --record-http` records it anew")
    );
    let server = serve(listener, 2);
    let recorded = kopfd(folder.path(), &["scenario.yaml", "--record-http"]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    server.join().unwrap();
    let text = std::fs::read_to_string(folder.path().join("api.yaml")).unwrap();
    assert!(text.contains("number: 1") && text.contains("/x?page=1") && !text.contains("secret"), "{text}");
    for arguments in [&["scenario.yaml"][..], &["scenario.yaml", "--seeds", "3"]] {
        let replayed = kopfd(folder.path(), arguments);
        assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    }
}
