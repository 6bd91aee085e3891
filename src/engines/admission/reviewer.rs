//! The reviewer of one operator: answers one review with the operator's webhooks. It knows no sockets.

mod converter;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::memos::{Unwatched, UnwatchedObjects, WatchedObjects};
pub use super::peer::RequestPeer;
use crate::cluster::apply;
use crate::engines::effects::{Scripts, call_safely};
use crate::engines::error::Error;
use crate::engines::events::{EngineEvent, EventStream};
use crate::engines::settling::settled;
use crate::handling::admission::request::CREATE;
use crate::handling::admission::{self, BadReview, Judged, Review, ReviewedRequest, Webhook, merge};
use crate::handling::conversion::{is_conversion, is_converted};
use crate::handling::{Handler, Message, Verdict, attempt};
use crate::kit::tasks::panic_text;
use crate::kit::{Clock, Stop, errors};
use crate::object::secret::{self, Values};
use crate::object::{Body, LateBody, ObjectKey, Patch, Resource};
use crate::script::interface::subject::ReviewRequest;
use crate::script::{Call, Object, ObjectMemo, Subject};
use crate::telemetry::metrics::ReviewOutcome;
use crate::telemetry::{OperatorMetrics, object_span};

/// The kinds of an operator's webhooks; `None` until the cluster was discovered.
pub type WebhookKinds = Option<Arc<BTreeSet<Arc<Resource>>>>;

/// The webhooks of one revision of an operator, and the scripts that they call.
pub struct ReviewRevision {
    /// The scripts.
    pub scripts: Arc<dyn Scripts>,
    /// The webhooks, in the order of declaration.
    pub webhooks: Vec<Webhook>,
    /// The conversions, in the order of declaration.
    pub conversions: Vec<Handler>,
}

/// The dependencies of a reviewer that its operator provides.
pub struct ReviewerParts {
    /// The name of the operator.
    pub operator: Arc<str>,
    /// The first revision.
    pub revision: ReviewRevision,
    /// The kinds of the webhooks.
    pub kinds: watch::Receiver<WebhookKinds>,
    /// The objects that the operator watches: they share their memos with their reviews.
    pub watched: Arc<dyn WatchedObjects>,
    /// The clock.
    pub clock: Clock,
    /// The events of the operator.
    pub events: EventStream,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// Ends running calls.
    pub stop: Stop,
}

/// Answers reviews with the webhooks of one operator.
pub struct Reviewer {
    operator: Arc<str>,
    /// The newest revision: each review reads it once.
    revision: watch::Sender<Arc<ReviewRevision>>,
    kinds: watch::Receiver<WebhookKinds>,
    watched: Arc<dyn WatchedObjects>,
    unwatched: UnwatchedObjects,
    clock: Clock,
    events: EventStream,
    metrics: OperatorMetrics,
    stop: Stop,
    /// The number of reviewed creations: objects without an identity get memos of their own.
    creations: AtomicU64,
}

/// The HTTP answer to a review.
#[derive(Debug, Clone, PartialEq)]
pub struct Reviewed {
    /// The HTTP status: 200 for every review that was answered, whether the request is allowed or not.
    pub status: u16,
    /// The body.
    pub body: ReviewedBody,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ReviewedBody {
    /// An `AdmissionReview` or a `ConversionReview`.
    Review(Value),
    /// The reason why there is no answer.
    Text(String),
}

impl Reviewed {
    /// Returns a refusal to answer.
    pub fn refused(status: u16, text: impl Into<String>) -> Self {
        Self { status, body: ReviewedBody::Text(text.into()) }
    }

    /// Tells whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(&self.body, ReviewedBody::Review(review) if review["response"]["allowed"] == true)
    }

    fn outcome(&self) -> ReviewOutcome {
        match &self.body {
            ReviewedBody::Text(_) => ReviewOutcome::Failed,
            ReviewedBody::Review(review) if is_conversion(review) && is_converted(review) => ReviewOutcome::Converted,
            ReviewedBody::Review(review) if is_conversion(review) => ReviewOutcome::Failed,
            ReviewedBody::Review(_) if self.is_allowed() => ReviewOutcome::Allowed,
            ReviewedBody::Review(_) => ReviewOutcome::Denied,
        }
    }
}

impl Reviewer {
    /// Returns the reviewer of an operator.
    pub fn new(parts: ReviewerParts) -> Self {
        let ReviewerParts { operator, revision, kinds, watched, clock, events, metrics, stop } = parts;
        let (revision, unwatched, creations) =
            (watch::Sender::new(Arc::new(revision)), UnwatchedObjects::default(), AtomicU64::new(0));
        Self { operator, revision, kinds, watched, unwatched, clock, events, metrics, stop, creations }
    }

    /// Returns the name of the operator.
    pub fn operator(&self) -> &Arc<str> {
        &self.operator
    }

    /// Answers reviews that begin from now on with another revision.
    pub fn revise(&self, revision: ReviewRevision) {
        self.revision.send_replace(Arc::new(revision));
    }

    /// Returns a channel with the newest revision.
    pub fn revisions(&self) -> watch::Receiver<Arc<ReviewRevision>> {
        self.revision.subscribe()
    }

    /// Returns a channel with the current kinds of the webhooks.
    pub fn kinds(&self) -> watch::Receiver<WebhookKinds> {
        self.kinds.clone()
    }

    /// Tells whether the operator has a webhook or a conversion with an id.
    pub fn has(&self, id: &str) -> bool {
        let revision = self.revision.borrow();
        revision.has(id) || revision.conversion(id).is_some()
    }

    /// Tells whether the operator has a conversion with an id.
    pub fn converts(&self, id: &str) -> bool {
        self.revision.borrow().conversion(id).is_some()
    }

    /// Tells whether the operator has any admission webhooks.
    pub fn has_webhooks(&self) -> bool {
        !self.revision.borrow().webhooks.is_empty()
    }

    /// Tells whether the operator has any conversions.
    pub fn has_conversions(&self) -> bool {
        !self.revision.borrow().conversions.is_empty()
    }

    /// Answers a review. `id` is the webhook in the path of the request; without it, all admission webhooks are
    /// considered.
    ///
    /// A webhook that the operator does not have is an error, and so is a review that cannot be read: then the API
    /// server does as the `failurePolicy` says. A defect of the engine is an error of this review only.
    ///
    /// *Cancel safety*: if the review is dropped, its running calls are ended.
    pub async fn review(&self, id: Option<&str>, review: impl Into<Review>, peer: RequestPeer) -> Reviewed {
        let review: Review = review.into();
        let began = Instant::now();
        let revision = Arc::clone(&self.revision.borrow());
        let converts = is_conversion(&review.value);
        let converter = id.filter(|_| converts).and_then(|id| revision.conversion(id));
        let known =
            if converts { converter.map(|handler| handler.id.as_str()) } else { id.filter(|id| revision.has(id)) };
        if (id.is_some() || converts) && known.is_none() {
            return Reviewed::refused(404, "there is no such webhook\n");
        }
        let answer = async {
            match converter {
                Some(handler) => self.convert(&revision, handler, review.value).await,
                None => self.answer(&revision, id, review, peer).await,
            }
        };
        let answered = AssertUnwindSafe(answer).catch_unwind().await;
        let reviewed = answered.unwrap_or_else(|panic| {
            let text = panic_text(&*panic);
            tracing::error!(target: "kopfd::admission", operator = &*self.operator, "A review has failed because of a defect of the engine: {text}");
            Reviewed::refused(500, "the review has failed because of a defect of the operator\n")
        });
        self.metrics.review(known.unwrap_or_default(), reviewed.outcome(), began.elapsed());
        reviewed
    }

    async fn answer(&self, revision: &ReviewRevision, id: Option<&str>, review: Review, peer: RequestPeer) -> Reviewed {
        let kinds = self.kinds.borrow().clone().unwrap_or_default();
        let request = match ReviewedRequest::read(review, &kinds) {
            Ok(request) => request,
            Err(bad) => return self.refuse(id, bad),
        };
        let key = ObjectKey::of(&request.body);
        let span =
            object_span(&request.resource, key.namespace.as_deref(), &key.name, request.body.uid().unwrap_or_default());
        let run = ReviewRun {
            reviewer: self,
            revision,
            subject: self.subject(revision, &request, key, peer),
            values: secret_values(&request),
            span: span.clone(),
        };
        async {
            match run.judge(id, &request).await {
                Ok(judged) => {
                    Reviewed { status: 200, body: ReviewedBody::Review(admission::answer(&request.envelope, &judged)) }
                }
                Err(error) => {
                    run.log(&Message::error(format!("The request cannot be reviewed: {}", errors::chain(&error))));
                    Reviewed::refused(500, "the review has failed, and the log of the operator has the reason\n")
                }
            }
        }
        .instrument(span)
        .await
    }

    fn refuse(&self, id: Option<&str>, bad: BadReview) -> Reviewed {
        let webhook = id.unwrap_or_default();
        tracing::warn!(target: "kopfd::admission", operator = &*self.operator, webhook, "A review is refused: {bad}.");
        Reviewed::refused(bad.status(), format!("{bad}\n"))
    }

    fn subject(
        &self,
        revision: &ReviewRevision,
        request: &ReviewedRequest,
        key: ObjectKey,
        peer: RequestPeer,
    ) -> Subject {
        let memo = self.memo(&*revision.scripts, request, key);
        Subject::Review {
            object: Object { resource: Arc::clone(&request.resource), body: request.body.clone(), memo },
            old: request.old.clone(),
            new: request.new.clone(),
            request: Arc::new(ReviewRequest {
                dryrun: request.is_dry_run,
                operation: request.operation.clone(),
                subresource: request.subresource.clone(),
                userinfo: request.user.clone(),
                sslpeer: Value::Object(peer.certificate),
                headers: Value::Object(peer.headers),
            }),
        }
    }

    /// Returns the memo of the object, which its other calls share. An object that is being created has a memo for its
    /// review only.
    fn memo(&self, scripts: &dyn Scripts, request: &ReviewedRequest, key: ObjectKey) -> ObjectMemo {
        let name = &self.operator;
        if request.operation == CREATE {
            let number = self.creations.fetch_add(1, Ordering::Relaxed);
            return ObjectMemo { key: format!("{name}/creation/{number}").into(), origin: scripts.operator_memo() };
        }
        let memo_key: Arc<str> = memo_key(name, &key.uid).into();
        let origin = self.watched.origin(&request.resource, &key.uid).unwrap_or_else(|| {
            let object = Unwatched { resource: Arc::clone(&request.resource), uid: key.uid };
            if let Some((forgotten, object)) = self.unwatched.note(&memo_key, object)
                && self.watched.origin(&object.resource, &object.uid).is_none()
            {
                scripts.forget(&forgotten);
            }
            scripts.operator_memo()
        });
        ObjectMemo { key: memo_key, origin }
    }
}

/// Returns the values of a Secret in its states before and after a request; `None` for other objects.
fn secret_values(request: &ReviewedRequest) -> Option<Values> {
    if !secret::is_secret(&request.body) {
        return None;
    }
    Values::of_both(request.old.as_ref().and_then(LateBody::get).map(|old| &**old), request.new.as_deref())
}

/// Returns the key of the memo of an object, by its unique id.
pub fn memo_key(operator: &str, uid: &str) -> String {
    format!("{operator}/{uid}")
}

impl ReviewRevision {
    /// Tells whether there is an admission webhook with an id.
    pub fn has(&self, id: &str) -> bool {
        self.webhooks.iter().any(|webhook| webhook.handler.id == id)
    }

    /// Returns the conversion with an id.
    pub fn conversion(&self, id: &str) -> Option<&Handler> {
        self.conversions.iter().find(|handler| handler.id == id)
    }
}

/// The run of one review.
struct ReviewRun<'a> {
    reviewer: &'a Reviewer,
    revision: &'a ReviewRevision,
    subject: Subject,
    /// The values of a Secret, which are not logged.
    values: Option<Values>,
    span: tracing::Span,
}

impl ReviewRun<'_> {
    /// Calls the selected webhooks one after another; they share one patch.
    async fn judge(&self, id: Option<&str>, request: &ReviewedRequest) -> Result<Judged, Error> {
        let scripts = &*self.revision.scripts;
        let selected = settled(
            scripts,
            || self.subject.clone(),
            |answers| admission::selected(&self.revision.webhooks, id, request, answers),
        )
        .await?;
        let (mut patch, mut warnings, mut verdicts) =
            (Patch::default(), Vec::new(), Vec::with_capacity(selected.len()));
        for webhook in selected {
            let (extended, further, verdict) = self.call(request, webhook, patch).await?;
            patch = extended;
            warnings.extend(further);
            verdicts.push(verdict);
        }
        let judged = Judged {
            denial: admission::answer::denial(&verdicts),
            warnings,
            operations: self.operations(request, patch).await?,
        };
        self.reviewer.events.emit(&EngineEvent::Reviewed {
            body: &request.body,
            request: self.request(),
            judged: &judged,
            webhook: id,
        });
        Ok(judged)
    }

    async fn call(
        &self,
        request: &ReviewedRequest,
        webhook: &Webhook,
        patch: Patch,
    ) -> Result<(Patch, Vec<String>, Verdict), Error> {
        let Reviewer { clock, stop, events, .. } = self.reviewer;
        let handler = &webhook.handler;
        let is_debugged = events.wants_debugging();
        if is_debugged {
            self.log(&attempt::announce(handler));
        }
        let call = Call {
            target: handler.target,
            subject: self.subject.clone(),
            patch,
            retry: 0,
            started: clock.now(),
            param: handler.param.clone(),
            subhandling: None,
            stop: stop.clone(),
            span: self.span.clone(),
        };
        let running = RunningCall::begin(events, &request.body, handler);
        let returned = call_safely(&*self.revision.scripts, handler, call).await;
        if returned.is_cancelled {
            return Err(Error::Cancelled);
        }
        running.end(&returned.verdict);
        // A success is a line for debugging only.
        if is_debugged || !matches!(returned.verdict, Verdict::Returned(_)) {
            self.log(&admission::answer::message(handler, &returned.verdict));
        }
        Ok((returned.patch, returned.warnings, returned.verdict))
    }

    /// Returns the operations of a JSON patch that make the changes of a patch.
    async fn operations(&self, request: &ReviewedRequest, patch: Patch) -> Result<Vec<Value>, Error> {
        if patch.is_empty() {
            return Ok(Vec::new());
        }
        // A transform may change anything.
        let before = match &*patch.transforms {
            [] => Cow::Owned(merge::touched(&request.body, &patch.merge)),
            [..] => Cow::Borrowed(&*request.body),
        };
        let mut changed = before.clone().into_owned();
        merge::apply(&mut changed, &patch.merge);
        for transform in &patch.transforms {
            changed = apply::transformed(transform, changed).await.map_err(Error::Transform)?;
        }
        Ok(apply::operations(&before, &changed))
    }

    fn request(&self) -> &ReviewRequest {
        let Subject::Review { request, .. } = &self.subject else {
            unreachable!("the subject of a review is a review")
        };
        request
    }

    /// Logs a line without the values of a Secret.
    fn log(&self, message: &Message) {
        let shown = |text: &str| {
            self.values.as_ref().map_or_else(|| text.to_owned(), |values| values.hidden(text).into_owned())
        };
        let message =
            Message { text: shown(&message.text), trace: message.trace.as_deref().map(shown), ..message.clone() };
        self.reviewer.events.log_message(&message);
    }
}

/// A call among the running ones of a webhook, until it is dropped.
struct RunningCall<'a> {
    events: &'a EventStream,
    body: &'a Body,
    handler: &'a Handler,
    began: Instant,
}

impl<'a> RunningCall<'a> {
    fn begin(events: &'a EventStream, body: &'a Body, handler: &'a Handler) -> Self {
        events.emit(&EngineEvent::WebhookCalled { body, handler });
        Self { events, body, handler, began: Instant::now() }
    }

    fn end(self, verdict: &Verdict) {
        let duration: Duration = self.began.elapsed();
        self.events.emit(&EngineEvent::WebhookJudged { body: self.body, handler: self.handler, verdict, duration });
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.events.emit(&EngineEvent::WebhookEnded { handler: self.handler });
    }
}

#[cfg(test)]
#[path = "reviewer_tests.rs"]
mod tests;
