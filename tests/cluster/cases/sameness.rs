//! The real API server answers as recorded in `apiserver/tests/differ`, by which the embedded one is tested.
//!
//! With `KOPFD_RECORD=1` the answers are recorded; without, they must equal the recorded ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use serde_json::Value;

use super::cases;
use crate::differ::answers::{self, Answers};
use crate::differ::case::{self, Case as Differential};
use crate::differ::run::{RequestUser, Server, run};
use crate::harness::{Case, Cluster, Controllers, TestContext};

pub(crate) const CASES: &[Case] = cases![the_real_server_answers_as_recorded];

/// Number of cases sent to the real server in parallel.
const AT_ONCE: usize = 8;

/// Number of repetitions of a case whose answers differ from the recorded ones.
const REPETITIONS: usize = 3;

/// The real server, with a client for each user.
struct Real(BTreeMap<RequestUser, kube::Client>);

impl Server for Real {
    async fn send(&self, user: RequestUser, request: Request<Bytes>) -> Response<Body> {
        let client = &self.0[&user];
        let answer = client.send(request.map(kube::client::Body::from)).await.expect("the server answers");
        answer.map(Body::new)
    }
}

fn the_real_server_answers_as_recorded(context: &TestContext<'_>) {
    // Its own cluster: the controllers of workloads would write in between.
    let (directory, tools) = (context.directory().join("cluster"), context.cluster().tools());
    let cluster = Cluster::start(&directory, tools, Controllers::Housekeeping);
    let real = Real(
        [RequestUser::Administrator, RequestUser::Guest, RequestUser::UnknownToken, RequestUser::Anonymous]
            .map(|user| (user, cluster.connection(token(user))))
            .into(),
    );
    let real = &real;
    let (_, runtime) = cluster.client().parts();
    let topics = case::all();
    let recorded: BTreeMap<&str, Answers> = topics.keys().map(|topic| (topic.as_str(), answers::read(topic))).collect();
    let is_chosen = case::chosen();
    let cases: Vec<&Differential> = topics.values().flatten().filter(|case| is_chosen(case)).collect();
    let mut answers: Vec<(&Differential, Vec<Value>)> = runtime.block_on(
        futures::stream::iter(cases)
            .map(|case| async move { (case, run(real, case).await) })
            .buffer_unordered(AT_ONCE)
            .collect(),
    );
    if std::env::var_os("KOPFD_RECORD").is_none() {
        for (case, found) in &mut answers {
            let recorded = recorded[case.topic.as_str()].get(&case.name);
            repeat(case, recorded, found, |again| runtime.block_on(run(real, again)));
        }
    }
    let mut by_topic: BTreeMap<&str, Answers> = BTreeMap::new();
    for (case, answers) in &answers {
        by_topic.entry(&case.topic).or_default().insert(case.name.clone(), answers.clone());
    }
    if std::env::var_os("KOPFD_RECORD").is_some() {
        for (topic, answers) in &by_topic {
            write(topic, &recorded[topic], answers);
        }
        return;
    }
    let mut report = String::new();
    for (topic, answers) in &by_topic {
        for (name, steps) in answers {
            describe_difference(&mut report, &format!("{topic}: {name}"), recorded[topic].get(name), steps);
        }
    }
    assert!(report.is_empty(), "\nThe real server answers in another way than was recorded:\n{report}");
}

/// Writes down the steps of a case whose answers are not the recorded ones.
fn describe_difference(report: &mut String, name: &str, recorded: Option<&Vec<Value>>, found: &[Value]) {
    let Some(recorded) = recorded else {
        writeln!(report, "{name}: no answers were recorded").expect("texts can be written to");
        return;
    };
    for number in 0..recorded.len().max(found.len()) {
        let (recorded, found) = (recorded.get(number), found.get(number));
        if recorded != found {
            let shown = |answer: Option<&Value>| answer.map_or_else(|| "nothing".to_owned(), Value::to_string);
            writeln!(
                report,
                "{name}: step {}\n  recorded: {}\n  found:    {}",
                number + 1,
                shown(recorded),
                shown(found)
            )
            .expect("texts can be written to");
        }
    }
}

/// Repeats a case while its answers differ from the recorded ones: a busy real server may be too late for a watch of
/// one second, or not ready for a kind that it already serves.
fn repeat(
    case: &Differential,
    recorded: Option<&Vec<Value>>,
    found: &mut Vec<Value>,
    run: impl Fn(&Differential) -> Vec<Value>,
) {
    for number in 1..=REPETITIONS {
        if recorded.is_none_or(|recorded| recorded == found) {
            return;
        }
        // Its objects may still be terminating.
        *found = run(&Differential { id: format!("{}-{number}", case.id), ..case.clone() });
    }
}

/// Writes the answers of a topic: one line for each step. Answers of other cases are kept.
fn write(topic: &str, recorded: &Answers, played: &Answers) {
    let mut answers = recorded.clone();
    answers.extend(played.clone());
    let mut text = String::from("{\n");
    for (number, (case, steps)) in answers.iter().enumerate() {
        let steps: Vec<String> = steps.iter().map(|step| format!("    {step}")).collect();
        let comma = if number + 1 < answers.len() { "," } else { "" };
        writeln!(text, "  {}: [\n{}\n  ]{comma}", Value::from(case.as_str()), steps.join(",\n"))
            .expect("texts can be written to");
    }
    text.push_str("}\n");
    std::fs::write(answers::path(topic), text).expect("the answers can be written");
}

fn token(user: RequestUser) -> Option<&'static str> {
    match user {
        RequestUser::Administrator => Some(crate::harness::admin_token()),
        RequestUser::Guest => Some(crate::harness::GUEST_TOKEN),
        RequestUser::UnknownToken => Some("nobody-knows-this"),
        RequestUser::Anonymous => None,
    }
}
