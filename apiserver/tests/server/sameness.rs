//! Compares the embedded server with the recorded answers of `tests/differ`, without a real server.

mod compare;
mod differences;
mod direction;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::differ::answers;
use crate::differ::case;
use crate::differ::embedded::Embedded;
use crate::differ::run::{RequestUser, Server as _, run};
use compare::{Verdicts, compare, matches};
use differences::{DIFFERENCES, Direction, WHOLE_BODIES};

/// The documentation of the differences.
const PAGE: &str = include_str!("../../../docs/apiserver-differences.md");

/// Returns the section of a direction, without its heading.
fn section(direction: Direction) -> &'static str {
    let heading = match direction {
        Direction::RefusesValid => "## Valid requests that it rejects\n",
        Direction::AcceptsRefused => "## Invalid requests that it accepts\n",
        Direction::AnswersOtherwise => "## Different answers\n",
    };
    let (_, rest) = PAGE.split_once(heading).unwrap_or_else(|| panic!("the page has no heading {heading:?}"));
    rest.split("\n## ").next().unwrap_or_default()
}

#[test]
fn every_reason_is_in_the_documentation_under_its_direction() {
    for difference in DIFFERENCES {
        let is_listed = section(difference.direction).contains(&format!("\n* {}\n", difference.reason));
        assert!(is_listed, "{:?}: {}", difference.direction, difference.reason);
    }
}

/// Returns the documentation's names of resources that are not served, and the versions of groups of which none is.
fn documented_as_missing() -> Vec<&'static str> {
    let lines = section(Direction::RefusesValid).lines().filter(|line| line.starts_with("* "));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[tokio::test(start_paused = true)]
async fn resources_that_the_documentation_calls_missing_are_not_served() {
    let server = Embedded::new();
    let groups = get(&server, "/apis").await;
    let versions =
        groups["groups"].as_array().into_iter().flatten().filter_map(|group| group["versions"].as_array()).flatten();
    let versions: Vec<&str> = versions.filter_map(|version| version["groupVersion"].as_str()).collect();
    let mut served: Vec<String> = versions.iter().map(|&version| version.to_owned()).collect();
    for path in versions.iter().map(|version| format!("/apis/{version}")).chain(["/api/v1".to_owned()]) {
        let list = get(&server, &path).await;
        let resources = list["resources"].as_array().unwrap_or_else(|| panic!("{path}: {list}"));
        served.extend(resources.iter().filter_map(|resource| resource["name"].as_str()).map(str::to_owned));
    }
    assert!(["apps/v1", "pods", "deployments"].iter().all(|name| served.iter().any(|one| one == name)), "{served:?}");
    let missing = documented_as_missing();
    assert!(missing.contains(&"bindings") && missing.contains(&"resource.k8s.io/v1"), "{missing:?}");
    let wrong: Vec<_> = missing.iter().filter(|name| served.iter().any(|one| one == **name)).collect();
    assert!(wrong.is_empty(), "these are served: {wrong:?}");
}

async fn get(server: &Embedded, path: &str) -> Value {
    let answer =
        server.send(RequestUser::Administrator, Request::get(path).body(Bytes::new()).expect("a request")).await;
    let body = answer.into_body().collect().await.expect("an answer in this process").to_bytes();
    serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_difference_names_its_case_and_its_step() {
    for (case, at) in DIFFERENCES.iter().flat_map(|difference| difference.places) {
        let is_a_step =
            at.split_once('/').is_some_and(|(step, rest)| step.parse::<usize>().is_ok() && !rest.is_empty());
        assert!(!case.contains('*') && is_a_step, "{case}: {at}");
    }
}

/// Tells whether a place includes the whole body of an answer, or all parts of it.
fn is_whole_body(at: &str) -> bool {
    let step = at.split('/').next().unwrap_or_default();
    [format!("{step}/body"), format!("{step}/body/any-part")].iter().any(|body| matches(at, body))
}

#[test]
fn only_listed_bodies_differ_as_a_whole() {
    assert!(["5/body", "5/*", "5/b*", "5/body*", "5/body/*"].iter().all(|at| is_whole_body(at)));
    assert!(
        !["5/body/spec/serviceAccount*", "5/body/items", "5/status", "5/lines/0/object"]
            .iter()
            .any(|at| is_whole_body(at))
    );
    let places = DIFFERENCES.iter().flat_map(|difference| difference.places).filter(|(_, at)| is_whole_body(at));
    let places: Vec<(&str, &str)> = places.copied().collect();
    let listed: Vec<(&str, &str)> = WHOLE_BODIES.iter().map(|(case, at, _)| (*case, *at)).collect();
    assert_eq!(places, listed, "the allowed differences of whole bodies, in their order");
    for (case, at, reason) in WHOLE_BODIES {
        let (topic, name) = case.split_once(": ").expect("a place has a topic and a name");
        let step: usize =
            at.strip_suffix("/body").and_then(|step| step.parse().ok()).expect("only whole bodies are listed");
        let body = &answers::read(topic)[name][step - 1]["body"];
        assert!(body.is_string() || body.is_array(), "{case}: {at}: the parts of an object can be named: {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_those_of_a_real_server() {
    let is_chosen = case::chosen();
    let mut verdicts = Verdicts::default();
    for (topic, cases) in case::all() {
        let recorded = answers::read(&topic);
        for case in cases.iter().filter(|case| is_chosen(case)) {
            let ours = run(&Embedded::new(), case).await;
            match recorded.get(&case.name) {
                Some(real) => compare(&mut verdicts, case, real, &ours),
                None => verdicts.complain(&format!("{topic}: {}: no answers were recorded", case.name)),
            }
        }
        for name in recorded.keys().filter(|name| !cases.iter().any(|case| case.name == **name)) {
            verdicts.complain(&format!("{topic}: {name}: answers to no case"));
        }
    }
    let counted = format!("{} cases are the same, {} differ where they may", verdicts.same, verdicts.excused);
    verdicts.conclude().unwrap_or_else(|report| panic!("\n{report}\n{counted}"));
}
