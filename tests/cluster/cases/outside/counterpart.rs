//! A server outside of the cluster: a process with an address, which is asked by HTTP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Process, TIMEOUT, TestContext, child, eventually, free_port};

/// A running server. It is killed when this is dropped.
pub(super) struct Counterpart {
    process: Process,
    address: String,
    /// The header with its credentials.
    key: String,
    /// The port of a DNS server.
    dns: u16,
}

impl Counterpart {
    /// Starts one of the servers in `tests/cluster/outside`, which print the port that they have chosen.
    pub(super) fn play(context: &TestContext<'_>, name: &str, key: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/outside").join(name);
        let log = context.directory().join(format!("{name}.txt"));
        let process = Process::start(name, Command::new("python3").arg("-B").arg("-u").arg(file), &log);
        let address = eventually(&format!("{name} listens"), TIMEOUT, || {
            process.expect_running();
            let port = process.log().lines().find_map(|line| line.strip_prefix("port ")?.trim().parse::<u16>().ok())?;
            Some(format!("127.0.0.1:{port}"))
        });
        Self { process, address, key: key.to_owned(), dns: 0 }
    }

    /// Starts PowerDNS with an empty database.
    pub(super) fn powerdns(context: &TestContext<'_>) -> Self {
        let root = std::env::var_os("KOPFD_CLUSTER_POWERDNS").map(PathBuf::from);
        let root = root.expect("KOPFD_CLUSTER_POWERDNS is not set; start the suite by tests/cluster/run");
        let mut folders =
            std::fs::read_dir(root.join("usr/lib")).expect("it has libraries").flatten().map(|entry| entry.path());
        let libraries = folders.find(|path| path.join("pdns").is_dir()).expect("it has modules");
        let database = context.directory().join("zones.db");
        let made = "import sqlite3, sys; sqlite3.connect(sys.argv[2]).executescript(open(sys.argv[1]).read())";
        let schema = root.join("usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql");
        let made = child::output(Command::new("python3").args(["-c", made]).arg(schema).arg(&database));
        assert!(made.status.success(), "the database cannot be made: {}", String::from_utf8_lossy(&made.stderr));
        let (port, dns) = (free_port(), free_port());
        let mut command = Command::new(root.join("usr/sbin/pdns_server"));
        command.env("LD_LIBRARY_PATH", &libraries);
        command.args([
            "--no-config",
            "--daemon=no",
            "--guardian=no",
            "--disable-syslog",
            "--write-pid=no",
            "--security-poll-suffix=",
        ]);
        command.args([
            "--launch=gsqlite3",
            "--webserver",
            "--webserver-address=127.0.0.1",
            "--api",
            "--api-key=not-a-real-key",
        ]);
        command.args([
            "--local-address=127.0.0.1",
            &format!("--local-port={dns}"),
            &format!("--webserver-port={port}"),
        ]);
        // Answers are those of the database at once.
        command.args(["--cache-ttl=0", "--query-cache-ttl=0", "--negquery-cache-ttl=0"]);
        for (option, path) in [("module-dir", libraries.join("pdns")), ("socket-dir", context.directory().to_owned())] {
            command.arg(format!("--{option}={}", path.display()));
        }
        command.arg(format!("--gsqlite3-database={}", database.display()));
        let process = Process::start("PowerDNS", &mut command, &context.directory().join("powerdns.txt"));
        let server =
            Self { process, address: format!("127.0.0.1:{port}"), key: "X-API-Key: not-a-real-key".into(), dns };
        eventually("PowerDNS listens", TIMEOUT, || {
            server.process.expect_running();
            TcpStream::connect(&server.address).ok()
        });
        server
    }

    /// Returns the address with the port.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a signal by its name.
    pub(super) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Sends a request, and returns the status and the answer; null if that is not JSON.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        ask(&self.address, &self.key, method, path, body)
    }

    /// Asks a DNS server for an address, as a resolver does. Returns nothing if there is none.
    pub(super) fn resolve(&self, host: &str) -> Option<Ipv4Addr> {
        let mut question = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in host.trim_end_matches('.').split('.') {
            question.push(u8::try_from(label.len()).expect("a label is short"));
            question.extend(label.as_bytes());
        }
        // The end of the name, the type A, and the class IN.
        question.extend([0, 0, 1, 0, 1]);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there are free ports");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("the limit is not zero");
        socket.send_to(&question, ("127.0.0.1", self.dns)).expect("a datagram can be sent");
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).expect("the server answers");
        // One answer to one question ends with its four bytes.
        let count = u16::from_be_bytes([answer[6], answer[7]]);
        assert!(count <= 1, "{host} has one address");
        let address: [u8; 4] = answer[length - 4..length].try_into().expect("these are four");
        (count == 1).then(|| address.into())
    }

    /// Sends a request that must succeed, and returns the answer.
    pub(super) fn ask_ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }
}

/// Sends a request with a header to an address, and returns the status and the answer; null if that is not JSON.
pub(crate) fn ask(address: &str, header: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("the limit is not zero");
    let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\nContent-Length: {}\r\n", body.len());
    write!(stream, "{head}Content-Type: application/json\r\n\r\n{body}").expect("a short request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer ends, and is text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let content = answer.split_once("\r\n\r\n").map_or("", |(_, content)| content);
    (
        status.unwrap_or_else(|| panic!("no answer of HTTP: {answer}")),
        serde_json::from_str(content).unwrap_or(Value::Null),
    )
}
