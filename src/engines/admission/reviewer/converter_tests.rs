//! Tests of conversion reviews with scripted functions.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;

use super::super::{RequestPeer, ReviewerParts, WebhookKinds};
use super::*;
use crate::engines::admission::memos::NothingWatched;
use crate::engines::effects::Scripts;
use crate::engines::events::EventStream;
use crate::handling::On;
use crate::kit::{Clock, Stop};
use crate::object::Selector;
use crate::script::{Evaluation, Returned};
use crate::telemetry::Metrics;

/// A function that goes to the neighbouring version; objects say how it misbehaves.
struct Neighbours;

impl Scripts for Neighbours {
    fn call<'a>(&'a self, _: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        let Subject::Conversion { body, version, resource } = call.subject else {
            panic!("only conversions are called")
        };
        let number = |version: &str| version.rsplit_once('v').unwrap().1.parse::<i64>().unwrap();
        let (from, to) = (number(body["apiVersion"].as_str().unwrap()), number(&version));
        assert_eq!(resource.version, format!("v{from}"), "the kind has the version of the object");
        let verdict = match body["spec"]["act"].as_str() {
            Some("panic") => return async { panic!("a broken engine") }.boxed(),
            Some("cancel") => return std::future::ready(Returned::cancelled("the thread has ended")).boxed(),
            Some("throw") => Verdict::Rejected { text: "no way".to_owned(), code: 0 },
            Some("nothing") => Verdict::Returned(None),
            _ => {
                let mut object = (*body).clone();
                object["apiVersion"] = json!(format!("a.io/v{}", from + (to - from).signum()));
                let path = object["spec"]["path"].as_str().unwrap_or_default().to_owned();
                object["spec"]["path"] = json!(format!("{path}{from}"));
                Verdict::Returned(Some(object))
            }
        };
        std::future::ready(Returned::new(verdict, Patch::default())).boxed()
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Err("conversions have no filters".to_owned())).boxed()
    }
}

struct Fixture {
    reviewer: Reviewer,
    metrics: Metrics,
    kinds: watch::Sender<WebhookKinds>,
}

impl Fixture {
    fn new() -> Self {
        let kind = |plural: &str, kind: &str| {
            let (group, version) = ("a.io".into(), "v1".into());
            Arc::new(Resource {
                group,
                version,
                plural: plural.into(),
                kind: kind.into(),
                preferred: true,
                ..Resource::default()
            })
        };
        let kinds: WebhookKinds = Some(Arc::new(BTreeSet::from([kind("things", "Thing"), kind("others", "Other")])));
        let (kinds, metrics) = (watch::Sender::new(kinds), Metrics::default());
        let handler = Handler {
            selectors: vec![Selector::parse("things.a.io").unwrap()],
            ..Handler::simple("convert", On::Conversion)
        };
        let reviewer = Reviewer::new(ReviewerParts {
            operator: "demo".into(),
            revision: ReviewRevision {
                scripts: Arc::new(Neighbours),
                webhooks: Vec::new(),
                conversions: vec![handler],
            },
            kinds: kinds.subscribe(),
            watched: Arc::new(NothingWatched),
            clock: Clock::system(),
            events: EventStream::default(),
            metrics: metrics.operator("demo"),
            stop: Stop::new(),
        });
        Self { reviewer, metrics, kinds }
    }

    async fn review(&self, id: &str, request: Value) -> Reviewed {
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
        self.reviewer.review(Some(id), review, RequestPeer::default()).await
    }

    /// Returns the response to a review that is answered.
    async fn converted(&self, wanted: &str, objects: &[Value]) -> Value {
        let reviewed =
            self.review("convert", json!({"uid": "r", "desiredAPIVersion": wanted, "objects": objects})).await;
        let ReviewedBody::Review(review) = reviewed.body else { panic!("{reviewed:?}") };
        assert_eq!(
            (reviewed.status, &review["kind"], &review["response"]["uid"]),
            (200, &json!("ConversionReview"), &json!("r"))
        );
        review["response"].clone()
    }

    async fn failure(&self, object: Value) -> String {
        let response = self.converted("a.io/v3", &[thing("first", 1), object]).await;
        assert_eq!((&response["result"]["status"], &response["convertedObjects"]), (&json!("Failure"), &json!([])));
        response["result"]["message"].as_str().unwrap().to_owned()
    }

    fn counted(&self, outcome: &str) -> Option<u64> {
        let start = format!("kopfd_reviews_total{{operator=\"demo\",webhook=\"convert\",outcome=\"{outcome}\"}} ");
        self.metrics.text().lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
    }
}

fn thing(name: &str, version: u8) -> Value {
    json!({"apiVersion": format!("a.io/v{version}"), "kind": "Thing", "metadata": {"name": name, "namespace": "n"}, "spec": {}})
}

fn acting(act: &str) -> Value {
    let mut object = thing("bad", 1);
    object["spec"]["act"] = json!(act);
    object
}

#[tokio::test]
async fn objects_of_several_versions_are_converted_in_their_order_through_all_versions() {
    let fixture = Fixture::new();
    let objects: Vec<Value> = (0..100).map(|number| thing(&format!("o{number}"), [1, 2, 3, 5][number % 4])).collect();
    let response = fixture.converted("a.io/v3", &objects).await;
    let converted = response["convertedObjects"].as_array().unwrap();
    assert_eq!((converted.len(), &response["result"]), (100, &json!({"status": "Success"})));
    for (number, object) in converted.iter().enumerate() {
        let path = ["12", "2", "", "54"][number % 4];
        let seen = object["spec"]["path"].as_str().unwrap_or_default();
        assert_eq!((object["metadata"]["name"].as_str().unwrap(), seen), (format!("o{number}").as_str(), path));
        assert_eq!(object["apiVersion"], "a.io/v3");
    }
    assert_eq!(fixture.counted("converted"), Some(1));
}

#[tokio::test]
async fn one_object_that_cannot_be_converted_fails_its_review_with_the_reason_and_no_other() {
    let fixture = Fixture::new();
    let beginning = "\"bad\" in n cannot be converted to a.io/v3: ";
    for (act, reason) in [
        ("throw", "no way"),
        ("nothing", "the function has returned nothing instead of the object"),
        ("panic", "a defect of the engine: a broken engine"),
        ("cancel", "the operator is stopping"),
    ] {
        assert_eq!(fixture.failure(acting(act)).await, format!("{beginning}{reason}"));
    }
    assert!(fixture.failure(json!({"metadata": {"name": "bad"}})).await.ends_with("without apiVersion"));
    let mut other = thing("bad", 1);
    other["kind"] = json!("Other");
    assert!(fixture.failure(other).await.ends_with("the operator does not convert this kind"));
    assert_eq!((fixture.counted("failed"), fixture.counted("converted")), (Some(6), None));
    assert_eq!(fixture.converted("a.io/v3", &[thing("good", 1)]).await["result"]["status"], "Success");
    assert_eq!(fixture.converted("a.io/v3", &[]).await["convertedObjects"], json!([]));
}

#[tokio::test]
async fn what_is_no_conversion_review_for_a_known_function_is_refused() {
    let fixture = Fixture::new();
    let request = json!({"uid": "r", "desiredAPIVersion": "a.io/v2", "objects": []});
    assert_eq!(fixture.review("other", request.clone()).await.status, 404);
    assert_eq!(fixture.review("convert", json!({"uid": "r"})).await.status, 400);
    let admission = json!({"kind": "AdmissionReview", "request": {"uid": "r"}});
    assert_eq!(
        fixture.reviewer.review(Some("convert"), admission, RequestPeer::default()).await.status,
        404,
        "it would be allowed"
    );
    let review = json!({"kind": "ConversionReview", "request": request});
    assert_eq!(fixture.reviewer.review(None, review, RequestPeer::default()).await.status, 404);
    fixture.kinds.send_replace(None);
    let unknown = fixture
        .review("convert", json!({"uid": "r", "desiredAPIVersion": "a.io/v2", "objects": [thing("a", 1)]}))
        .await;
    assert_eq!(unknown.status, 503, "the kinds are not known yet");
}
