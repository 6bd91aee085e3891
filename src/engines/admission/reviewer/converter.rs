//! Conversion reviews: every object of a review is converted by the operator's function, several of them at the same
//! time.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use tracing::Instrument as _;

use super::{ReviewRevision, Reviewed, ReviewedBody, Reviewer, RunningCall};
use crate::engines::effects::call_safely;
use crate::engines::events::EngineEvent;
use crate::handling::admission::answer;
use crate::handling::conversion::{Chain, ConversionRequest};
use crate::handling::{Handler, Message, Verdict, attempt};
use crate::object::{Body, ObjectKey, Patch, Resource};
use crate::script::{Call, Subject};
use crate::telemetry::object_span;

/// The calls of one review at the same time: a review may have all objects of a kind, and must not take all fibers.
const CALLS: usize = 16;

impl Reviewer {
    /// Answers a conversion review. An object that cannot be converted fails the review, with its name and the reason.
    pub(super) async fn convert(&self, revision: &ReviewRevision, handler: &Handler, review: Value) -> Reviewed {
        let mut request = match ConversionRequest::read(review) {
            Ok(request) => request,
            Err(bad) => {
                tracing::warn!(target: "kopfd::admission", operator = &*self.operator, webhook = handler.id, "A review is refused: {bad}.");
                return Reviewed::refused(400, format!("{bad}\n"));
            }
        };
        if self.kinds.borrow().is_none() {
            return Reviewed::refused(503, "the operator is starting\n");
        }
        let objects = std::mem::take(&mut request.objects);
        let (count, wanted) = (objects.len(), Arc::clone(&request.wanted));
        let calls =
            objects.into_iter().map(|object| self.convert_object(revision, handler, object, Arc::clone(&wanted)));
        let converted: Result<Vec<Value>, String> = stream::iter(calls).buffered(CALLS).try_collect().await;
        let failure = converted.as_ref().err().map(String::as_str);
        self.events.emit(&EngineEvent::Converted { handler, wanted: &wanted, objects: count, failure });
        Reviewed { status: 200, body: ReviewedBody::Review(request.answer(converted)) }
    }

    /// Converts one object. The error is a sentence about the object.
    async fn convert_object(
        &self,
        revision: &ReviewRevision,
        handler: &Handler,
        object: Value,
        wanted: Arc<str>,
    ) -> Result<Value, String> {
        let title = title(&object, &wanted);
        let mut chain = Chain::begin(object, wanted).map_err(|error| format!("{title}: {error}"))?;
        let key = ObjectKey::of(chain.original());
        let kind = self
            .kind(handler, chain.original())
            .ok_or_else(|| format!("{title}: the operator does not convert this kind"))?;
        let span = object_span(&kind, key.namespace.as_deref(), &key.name, &key.uid);
        async {
            while let Some(body) = chain.next() {
                let kind = Arc::new(Resource { version: version_of(body).to_owned(), ..Resource::clone(&kind) });
                let subject =
                    Subject::Conversion { resource: kind, body: body.clone(), version: Arc::clone(chain.wanted()) };
                let body = body.clone();
                let taken = self.call_once(revision, handler, &body, subject).await.and_then(|returned| {
                    chain.take(returned).map_err(|error| {
                        let text = error.to_string();
                        self.events.log_message(&Message::error(format!(
                            "{} failed: {text}. The object is not converted.",
                            handler.title()
                        )));
                        text
                    })
                });
                taken.map_err(|text| format!("{title}: {text}"))?;
            }
            Ok(chain.finish())
        }
        .instrument(span)
        .await
    }

    async fn call_once(
        &self,
        revision: &ReviewRevision,
        handler: &Handler,
        body: &Body,
        subject: Subject,
    ) -> Result<Option<Value>, String> {
        self.events.log_message(&attempt::announce(handler));
        let call = Call {
            target: handler.target,
            subject,
            patch: Patch::default(),
            retry: 0,
            started: self.clock.now(),
            param: handler.param.clone(),
            subhandling: None,
            stop: self.stop.clone(),
            span: tracing::Span::current(),
        };
        let running = RunningCall::begin(&self.events, body, handler);
        let returned = call_safely(&*revision.scripts, handler, call).await;
        if returned.is_cancelled {
            return Err("the operator is stopping".to_owned());
        }
        running.end(&returned.verdict);
        self.events.log_message(&answer::message(handler, &returned.verdict));
        match (answer::denial_of(&returned.verdict), returned.verdict) {
            (None, Verdict::Returned(value)) => Ok(value),
            (denial, _) => Err(denial.map(|denial| denial.message).unwrap_or_default()),
        }
    }

    /// Returns the kind of an object, if the function is declared for it.
    fn kind(&self, handler: &Handler, body: &Body) -> Option<Arc<Resource>> {
        let kinds = self.kinds.borrow().clone()?;
        let group =
            body["apiVersion"].as_str().and_then(|version| version.rsplit_once('/')).map_or("", |(group, _)| group);
        let is_kind =
            |kind: &&Arc<Resource>| kind.group == group && body["kind"] == kind.kind.as_str() && handler.concerns(kind);
        kinds.iter().find(is_kind).cloned()
    }
}

fn version_of(body: &Body) -> &str {
    let version = body["apiVersion"].as_str().unwrap_or_default();
    version.rsplit_once('/').map_or(version, |(_, version)| version)
}

/// Returns the name of an object and the wanted version, for messages.
fn title(object: &Value, wanted: &str) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or_default();
    let of = metadata["namespace"].as_str().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    format!("{name:?}{of} cannot be converted to {wanted}")
}

#[cfg(test)]
#[path = "converter_tests.rs"]
mod tests;
