//! Performs the steps of cases.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::document::{Action, BesideCase, Step};
use super::side::{Side, other_kind, thing_kind};
use crate::harness::{Operator, TIMEOUT, Write, eventually};

impl Side {
    /// Performs a step, and panics if it is not possible or takes too long.
    pub(super) fn perform(&self, case: &BesideCase, step: &Step, operator: Option<&Operator>) {
        let kind = if step.is_other { other_kind() } else { thing_kind() };
        let name = case.object(step.object.as_deref());
        let wait = |what: String, probe: &dyn Fn() -> Option<()>| {
            eventually(&format!("{}: {what}", case.name), TIMEOUT, || {
                operator.into_iter().for_each(Operator::expect_running);
                probe()
            });
        };
        match &step.action {
            Action::Create(content) => {
                let mut object = json!({"metadata": {"name": name, "labels": content["labels"], "annotations": content["annotations"]}});
                let fields = content.as_object().into_iter().flatten();
                fields
                    .filter(|(key, _)| *key != "labels" && *key != "annotations")
                    .for_each(|(key, value)| object[key] = value.clone());
                self.create(&kind, object);
            }
            Action::Patch(patch) => self.patch(&kind, &name, patch),
            Action::Delete => self.delete(&kind, &name),
            Action::Gone => wait(format!("{name} is gone"), &|| {
                self.newest(&name).filter(|event| event["type"] == "DELETED").map(|_| ())
            }),
            Action::Call(counts) => wait(format!("{name} has the calls {counts:?}"), &|| {
                let lines = self.lines_of(case);
                let count = |wanted: &str| {
                    lines.iter().filter_map(|line| line.call()).filter(|call| call.name == wanted).count()
                };
                counts.iter().all(|(name, least)| count(name) >= *least).then_some(())
            }),
            Action::State(part) => wait(format!("{name} contains {part}"), &|| {
                let is_there = |event: &Value| event["type"] != "DELETED" && contains(&event["object"], part);
                self.newest(&name).filter(is_there).map(|_| ())
            }),
            Action::Pause(seconds) => sleep(Duration::from_secs_f64(*seconds)),
            Action::Events(count) => wait(format!("{count} Events are posted"), &|| {
                let is_posted = |write: &&Write| {
                    write.path.ends_with("/events")
                        && write.body["involvedObject"]["name"].as_str().is_some_and(|name| case.has_object(name))
                };
                (self.writes().iter().filter(is_posted).count() >= *count).then_some(())
            }),
            Action::Get(path) => {
                let answer = eventually(&format!("{path} is answered"), TIMEOUT, || get(self.port(), path));
                self.record_answer(case, answer);
            }
        }
    }
}

/// Tells whether a value contains a part: maps by their keys, where null is an absent key; anything else must be equal.
fn contains(value: &Value, part: &Value) -> bool {
    match part {
        Value::Object(members) => {
            members.iter().all(|(key, member)| contains(value.get(key).unwrap_or(&Value::Null), member))
        }
        _ => value == part,
    }
}

/// Sends a request to a local port, and returns the status and the body of the answer; `None` if nobody listens.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?;
    let kind = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-type: ").map(str::to_owned))
        .unwrap_or_default();
    let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
    Some(format!("{status} {kind} {body}"))
}
