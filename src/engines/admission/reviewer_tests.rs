//! Tests of the reviewer with scripted webhooks.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::engines::admission::memos::NothingWatched;
use crate::engines::events::EventSink;
use crate::handling::{Filters, On, Predicate};
use crate::script::{Evaluation, Returned};
use crate::telemetry::Metrics;

/// The behaviour of a scripted webhook.
#[derive(Debug, Clone, Copy)]
enum Act {
    Allow,
    Panic,
    Cancel,
    Tell(&'static str),
}

/// Scripts that record the keys of memos.
struct Scripted {
    act: Act,
    memos: Mutex<Vec<String>>,
}

impl Scripts for Scripted {
    fn call<'a>(&'a self, _: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.memos.lock().push(call.subject.object().unwrap().memo.key.to_string());
        let verdict = match self.act {
            Act::Allow => Verdict::Returned(None),
            Act::Panic => return async { panic!("a broken engine") }.boxed(),
            Act::Cancel => return std::future::ready(Returned::cancelled("the thread has ended")).boxed(),
            Act::Tell(text) => {
                Verdict::Failed { text: text.to_owned(), representation: String::new(), trace: Some(text.to_owned()) }
            }
        };
        std::future::ready(Returned::new(verdict, call.patch)).boxed()
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Err("no such variable".to_owned())).boxed()
    }
}

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl EventSink for Lines {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let EngineEvent::Message(message) = event {
            self.0.lock().push(format!(
                "{} {message} {}",
                message.level.as_str(),
                message.trace.as_deref().unwrap_or_default()
            ));
        }
    }
}

struct Fixture {
    reviewer: Reviewer,
    scripts: Arc<Scripted>,
    lines: Arc<Lines>,
    metrics: Metrics,
    /// Kept so that the kinds stay known.
    _kinds: watch::Sender<WebhookKinds>,
}

#[expect(clippy::unnecessary_wraps, reason = "the kinds of an operator that has discovered them")]
fn kinds() -> WebhookKinds {
    let kind = |plural: &str| Arc::new(Resource { version: "v1".into(), plural: plural.into(), ..Resource::default() });
    Some(Arc::new(["things", "secrets"].map(kind).into()))
}

impl Fixture {
    fn new(act: Act, filters: Filters, kinds: WebhookKinds) -> Self {
        let (scripts, lines, metrics) =
            (Arc::new(Scripted { act, memos: Mutex::default() }), Arc::new(Lines::default()), Metrics::default());
        let handler = Handler { filters, ..Handler::simple("fn", On::Review) };
        let kinds = watch::Sender::new(kinds);
        let reviewer = Reviewer::new(ReviewerParts {
            operator: "demo".into(),
            revision: ReviewRevision {
                scripts: Arc::clone(&scripts) as Arc<dyn Scripts>,
                webhooks: vec![Webhook::simple(handler, false)],
                conversions: Vec::new(),
            },
            kinds: kinds.subscribe(),
            watched: Arc::new(NothingWatched),
            clock: Clock::system(),
            events: EventStream::default().with(Arc::clone(&lines) as Arc<dyn EventSink>),
            metrics: metrics.operator("demo"),
            stop: Stop::new(),
        });
        Self { reviewer, scripts, lines, metrics, _kinds: kinds }
    }

    async fn review(&self, id: &str, operation: &str, object: &Value) -> Reviewed {
        let plural = if object["kind"] == "Secret" { "secrets" } else { "things" };
        let review = json!({"request": {
            "uid": "r", "resource": {"group": "", "version": "v1", "resource": plural}, "operation": operation,
            "userInfo": {"username": "ann"}, "object": object,
        }});
        self.reviewer.review(Some(id), review, RequestPeer::default()).await
    }

    fn counted(&self, outcome: &str) -> bool {
        self.metrics
            .text()
            .contains(&format!("kopfd_reviews_total{{operator=\"demo\",webhook=\"fn\",outcome=\"{outcome}\"}} 1"))
    }
}

fn thing() -> Value {
    json!({"metadata": {"name": "a", "uid": "u"}})
}

#[tokio::test]
async fn a_defect_in_one_call_denies_its_request_only() {
    let fixture = Fixture::new(Act::Panic, Filters::default(), kinds());
    let reviewed = fixture.review("fn", "UPDATE", &thing()).await;
    let ReviewedBody::Review(review) = &reviewed.body else { panic!("{reviewed:?}") };
    assert_eq!(
        review["response"]["status"],
        json!({"message": "a defect of the engine: a broken engine", "code": 500})
    );
    assert!(fixture.counted("denied"));
}

#[tokio::test]
async fn what_cannot_be_decided_is_an_error_and_no_denial() {
    let failing = || Filters { when: Some(Predicate(0)), ..Filters::default() };
    for (fixture, id, status) in [
        (Fixture::new(Act::Allow, failing(), kinds()), "fn", 500),
        (Fixture::new(Act::Cancel, Filters::default(), kinds()), "fn", 500),
        (Fixture::new(Act::Allow, Filters::default(), None), "fn", 404),
        (Fixture::new(Act::Allow, Filters::default(), kinds()), "other", 404),
    ] {
        let reviewed = fixture.review(id, "UPDATE", &thing()).await;
        assert!(reviewed.status == status && matches!(reviewed.body, ReviewedBody::Text(_)), "{reviewed:?}");
        assert_eq!(fixture.counted("failed"), id == "fn", "unknown ids are no labels");
    }
}

#[tokio::test]
async fn objects_share_their_memo_and_creations_have_one_each() {
    let fixture = Fixture::new(Act::Allow, Filters::default(), kinds());
    for operation in ["CREATE", "UPDATE", "CREATE", "DELETE"] {
        assert!(fixture.review("fn", operation, &thing()).await.is_allowed());
    }
    assert_eq!(*fixture.scripts.memos.lock(), ["demo/creation/0", "demo/u", "demo/creation/1", "demo/u"]);
}

#[tokio::test]
async fn lines_about_a_secret_do_not_have_its_values() {
    let fixture =
        Fixture::new(Act::Tell("dG9tYXRvLXNvdXA= is known, also as tomato-soup"), Filters::default(), kinds());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "dG9tYXRvLXNvdXA="}});
    assert!(!fixture.review("fn", "UPDATE", &secret).await.is_allowed());
    let lines = fixture.lines.0.lock().join("\n");
    assert!(lines.contains("*** is known") && !lines.contains("tomato") && !lines.contains("dG9tYXRv"), "{lines}");
}

#[tokio::test]
async fn a_new_revision_answers_reviews_that_begin_later() {
    let fixture = Fixture::new(Act::Allow, Filters::default(), kinds());
    fixture.reviewer.revise(ReviewRevision {
        scripts: Arc::clone(&fixture.scripts) as Arc<dyn Scripts>,
        webhooks: Vec::new(),
        conversions: Vec::new(),
    });
    assert_eq!(fixture.review("fn", "UPDATE", &thing()).await.status, 404);
    assert!(!fixture.reviewer.has_webhooks());
}

/// Objects with few keys, so that changes often touch them.
fn values() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), Just(json!([1, 2])), Just(json!([{"a": 1}]))];
    leaf.prop_recursive(4, 24, 4, |inner| {
        proptest::collection::btree_map("[a-d]", inner, 0..4).prop_map(|fields| json!(fields))
    })
}

proptest! {
    #[test]
    fn the_changes_of_the_touched_part_are_those_of_the_whole_object(object in values(), merge in values()) {
        let merge = merge.as_object().cloned().unwrap_or_default();
        let changes_of = |before: Value| {
            let mut changed = before.clone();
            merge::apply(&mut changed, &merge);
            apply::operations(&before, &changed)
        };
        prop_assert_eq!(changes_of(merge::touched(&object, &merge)), changes_of(object));
    }
}
