//! Answers the requests to the hooks of one operator: verifies them, and calls the functions. It knows no sockets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{error, warn};

use super::secrets::{Secrets, Unreadable};
use crate::engines::effects::{Scripts, call_safely};
use crate::engines::events::EventStream;
use crate::engines::leading::Lead;
use crate::engines::pause::Pause;
use crate::engines::readiness::Readiness;
use crate::handling::hook::auth::{Check, Refusal, verify_names, verify_token};
use crate::handling::hook::{self, Hook, Selected};
use crate::handling::{Handler, Message, Verdict, attempt};
use crate::kit::{Clock, Stop};
use crate::object::Patch;
use crate::object::SecretKey;
use crate::script::interface::subject::HookRequest;
use crate::script::{Call, HookAnswer, Limit, Returned, Subject};
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::HookOutcome;

/// When senders may try again while the operator does not serve.
const SERVING_AGAIN: Duration = Duration::from_secs(5);

/// When senders may try again while too many requests are answered.
const CAPACITY_AGAIN: Duration = Duration::from_secs(1);

/// The minimum interval between log lines about refused requests of one hook: their senders must not be able to fill
/// the log.
const TELL_INTERVAL: Duration = Duration::from_mins(1);

/// How long a cancelled call may take to end.
const CANCELLATION: Duration = Duration::from_secs(1);

/// The hooks of one revision of an operator, and the scripts that they call.
pub struct HookRevision {
    scripts: Arc<dyn Scripts>,
    hooks: Vec<Arc<Hook>>,
    /// Has a permit for each request that may be answered at the same time, by the id of the hook.
    permits: BTreeMap<String, Arc<Semaphore>>,
}

impl HookRevision {
    /// Returns the hooks of a revision.
    pub fn new(scripts: Arc<dyn Scripts>, hooks: Vec<Hook>) -> Self {
        let permits = |hook: &Hook| (hook.handler.id.clone(), Arc::new(Semaphore::new(hook.concurrency)));
        Self { scripts, permits: hooks.iter().map(permits).collect(), hooks: hooks.into_iter().map(Arc::new).collect() }
    }

    /// Returns the hook of a method and a path.
    pub fn select(&self, method: &str, path: &str) -> Selected<'_, Arc<Hook>> {
        hook::select(&self.hooks, method, path)
    }
}

/// The dependencies of an answerer that its operator provides.
pub struct AnswererParts {
    /// The name of the operator.
    pub operator: Arc<str>,
    /// The credentials.
    pub secrets: Secrets,
    /// The clock.
    pub clock: Clock,
    /// The pause of the operator: nothing is answered during it.
    pub pause: Pause,
    /// Whether this replica leads: only then, requests are answered.
    pub lead: Lead,
    /// The indexes, which scripts may read: nothing is answered before they are filled.
    pub readiness: Arc<Readiness>,
    /// The events of the operator.
    pub events: EventStream,
    /// The metrics of the operator.
    pub metrics: OperatorMetrics,
    /// The operator ends: no further request is answered.
    pub ending: Stop,
    /// Ends running calls.
    pub stop: Stop,
}

/// Answers the requests to the hooks of one operator.
pub struct Answerer {
    parts: AnswererParts,
    /// The newest revision: each request reads it once.
    newest: RwLock<Arc<HookRevision>>,
    /// When refused requests were logged last, by the id of the hook.
    told: Mutex<BTreeMap<String, Instant>>,
}

impl Answerer {
    /// Returns the answerer of an operator, with its first revision.
    pub fn new(parts: AnswererParts, first: HookRevision) -> Self {
        Self { parts, newest: RwLock::new(Arc::new(first)), told: Mutex::default() }
    }

    /// Returns the name of the operator.
    pub fn operator(&self) -> &Arc<str> {
        &self.parts.operator
    }

    /// Answers requests that begin from now on with another revision.
    pub fn revise(&self, revision: HookRevision) {
        *self.newest.write() = Arc::new(revision);
    }

    /// Returns the newest revision.
    pub fn revision(&self) -> Arc<HookRevision> {
        Arc::clone(&self.newest.read())
    }

    /// Returns why the operator does not answer at the moment.
    fn unavailable(&self) -> Option<&'static str> {
        let AnswererParts { ending, pause, lead, readiness, .. } = &self.parts;
        if ending.is_requested() {
            Some("the operator is stopping\n")
        } else if pause.is_paused() {
            Some("the operator is paused\n")
        } else if lead.term().is_none() {
            Some("this replica stands by\n")
        } else if !readiness.is_ready() {
            Some("the operator is starting\n")
        } else {
            None
        }
    }

    /// Logs a refused request, unless one of the hook was logged just before.
    fn tell(&self, hook: &Hook, what: &str) {
        let now = Instant::now();
        let id = &hook.handler.id;
        let mut told = self.told.lock();
        if told.get(id).is_some_and(|at| now.duration_since(*at) < TELL_INTERVAL) {
            return;
        }
        told.insert(id.clone(), now);
        drop(told);
        warn!(
            target: "kopfd::hooks", operator = &*self.parts.operator, hook = id,
            "A request is refused: {what}. Further ones are logged after a minute."
        );
    }
}

/// A refusal, and its outcome.
type Refused = (HookAnswer, HookOutcome);

/// A request whose hook is known, until it is answered.
pub struct Pending {
    answerer: Arc<Answerer>,
    revision: Arc<HookRevision>,
    hook: Arc<Hook>,
    began: Instant,
    /// Whether the credentials are not verified: scenarios may leave that out.
    is_trusted: bool,
}

impl Pending {
    /// Returns a request to a hook of a revision.
    pub(super) fn new(answerer: &Arc<Answerer>, revision: &Arc<HookRevision>, hook: &Arc<Hook>) -> Self {
        let hook = Arc::clone(hook);
        let (answerer, revision) = (Arc::clone(answerer), Arc::clone(revision));
        Self { answerer, revision, hook, began: Instant::now(), is_trusted: false }
    }

    /// Returns the request without a verification of its credentials.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { is_trusted: true, ..self }
    }

    /// Returns the hook.
    pub fn hook(&self) -> &Hook {
        &self.hook
    }

    /// Refuses the request.
    pub(super) fn refuse(&self, (answer, outcome): Refused) -> HookAnswer {
        self.answerer.parts.metrics.hook(&self.hook.handler.id, outcome, self.began.elapsed());
        answer
    }

    /// Refuses the request, because its body is too large.
    pub fn too_large(&self) -> HookAnswer {
        self.refuse((refused(413, "the body is too large\n"), HookOutcome::Invalid))
    }

    /// Performs the checks that do not need the body.
    ///
    /// # Errors
    /// The answer, if the request is refused.
    pub async fn admit(&self, head: &HookRequest) -> Result<(), HookAnswer> {
        if let Some(why) = self.answerer.unavailable() {
            return Err(self.refuse(unavailable(why)));
        }
        self.verify(head, |check| !check.needs_body()).await.map_err(|refused| self.refuse(refused))
    }

    /// Answers the request, whose body is there.
    ///
    /// *Cancel safety*: if it is dropped, its running call is ended.
    pub async fn answer(&self, request: HookRequest) -> HookAnswer {
        match self.answered(request).await {
            Ok(answer) => self.refuse((answer, HookOutcome::Answered)),
            Err(refused) => self.refuse(refused),
        }
    }

    async fn answered(&self, mut request: HookRequest) -> Result<HookAnswer, Refused> {
        self.verify(&request, Check::needs_body).await?;
        request.json = json(&request)?;
        let limited = || with_retry(refused(429, "too many requests are being answered\n"), CAPACITY_AGAIN);
        let permits = self.revision.permits.get(&self.hook.handler.id).map(Arc::clone);
        let _permit = permits
            .and_then(|permits| permits.try_acquire_owned().ok())
            .ok_or_else(|| (limited(), HookOutcome::Limited))?;
        let returned = self.call(request).await;
        let Some(Returned { verdict, answer, overrun, is_cancelled, .. }) = returned else {
            return Err(unavailable("this replica stands by\n"));
        };
        if is_cancelled {
            return Err(unavailable("the operator is stopping\n"));
        }
        self.answerer.parts.events.log_message(&message(&self.hook.handler, &verdict, overrun));
        match (verdict, answer) {
            (Verdict::Returned(_), Some(answer)) => Ok(answer),
            (verdict, _) => Err(failure(verdict, overrun)),
        }
    }

    /// Calls the function; `None` if this replica has lost the leadership.
    async fn call(&self, request: HookRequest) -> Option<Returned> {
        let AnswererParts { lead, clock, events, stop, .. } = &self.answerer.parts;
        let term = lead.term()?;
        let _duty = lead.enter(Some(term))?;
        let handler = &self.hook.handler;
        events.log_message(&attempt::announce(handler));
        let cancelled = stop.child();
        let call = Call {
            target: handler.target,
            subject: Subject::Hook { request: Arc::new(request) },
            patch: Patch::default(),
            retry: 0,
            started: clock.now(),
            param: handler.param.clone(),
            subhandling: None,
            stop: cancelled.clone(),
            span: tracing::Span::current(),
        };
        let mut called = std::pin::pin!(call_safely(&*self.revision.scripts, handler, call));
        tokio::select! {
            biased;
            returned = &mut called => return Some(returned),
            () = lead.ended(term) => cancelled.request("the lease is lost"),
        }
        let ended = tokio::time::timeout(CANCELLATION, called).await;
        Some(ended.unwrap_or_else(|_| Returned::cancelled("the lease is lost")))
    }

    /// Verifies the credentials of a request, as far as a kind of checks demands.
    async fn verify(&self, request: &HookRequest, is_due: impl Fn(&Check) -> bool) -> Result<(), Refused> {
        if self.is_trusted {
            return Ok(());
        }
        for check in self.hook.checks.iter().filter(|check| is_due(check)) {
            let verified = match check.secret() {
                None => verify(check, &[], request),
                Some(secret) => {
                    self.verify_by_secret(check, secret, request).await.map_err(|error| self.unreadable(&error))?
                }
            };
            if let Err(refusal) = verified {
                return Err(self.unverified(check, refusal));
            }
        }
        Ok(())
    }

    /// A Secret may have been replaced since it was read.
    async fn verify_by_secret(
        &self,
        check: &Check,
        key: &SecretKey,
        request: &HookRequest,
    ) -> Result<Result<(), Refusal>, Unreadable> {
        let secrets = &self.answerer.parts.secrets;
        let known = secrets.get(key).await?;
        let verified = verify(check, &known, request);
        if verified != Err(Refusal::Wrong) {
            return Ok(verified);
        }
        let changed = secrets.changed(key, &known).await?;
        Ok(changed.map_or(verified, |newest| verify(check, &newest, request)))
    }

    fn unreadable(&self, failure: &Unreadable) -> Refused {
        error!(
            target: "kopfd::hooks", operator = &*self.answerer.parts.operator, hook = self.hook.handler.id,
            "A request cannot be verified: {failure}."
        );
        unavailable("the request cannot be verified at the moment\n")
    }

    fn unverified(&self, check: &Check, refusal: Refusal) -> Refused {
        let what = match check {
            Check::Token { .. } => "token",
            Check::Hmac { .. } => "signature",
            Check::Certificate { .. } => "client certificate",
        };
        match refusal {
            Refusal::Missing => {
                self.answerer.tell(&self.hook, &format!("it has no {what}"));
                let mut answer = refused(401, "the request has no credentials\n");
                if matches!(check, Check::Token { .. }) {
                    answer.headers.insert("www-authenticate".to_owned(), "Bearer".to_owned());
                }
                (answer, HookOutcome::Unauthenticated)
            }
            Refusal::Wrong => {
                self.answerer.tell(&self.hook, &format!("its {what} is wrong"));
                (refused(403, "the credentials of the request are wrong\n"), HookOutcome::Forbidden)
            }
        }
    }
}

fn verify(check: &Check, secret: &[u8], request: &HookRequest) -> Result<(), Refusal> {
    let header = |name: &str| request.headers.get(name).map(String::as_bytes);
    match check {
        Check::Token { header: name, .. } => verify_token(secret, name, header(name)),
        Check::Hmac { form, .. } => form.verify(secret, &request.body, header(&form.header)),
        Check::Certificate { names } => verify_names(names, request.certificate.as_deref()),
    }
}

/// Returns the parsed body of a request that says that it is JSON.
fn json(request: &HookRequest) -> Result<Option<Value>, Refused> {
    let content_type = request.headers.get("content-type").map(|text| text.to_ascii_lowercase()).unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if media != "application/json" && !(media.starts_with("application/") && media.ends_with("+json")) {
        return Ok(None);
    }
    let parsed = serde_json::from_slice(&request.body);
    parsed
        .map(Some)
        .map_err(|_| (refused(400, "the body is no JSON, though its content type says so\n"), HookOutcome::Invalid))
}

/// Returns a refusal as plain text.
pub(super) fn refused(status: u16, text: &str) -> HookAnswer {
    let headers = BTreeMap::from([("content-type".to_owned(), "text/plain; charset=utf-8".to_owned())]);
    HookAnswer { status, headers, body: Bytes::copy_from_slice(text.as_bytes()).into() }
}

/// Returns the answer to a request whose hook may be that of an operator that has not started yet.
pub(crate) fn starting() -> HookAnswer {
    unavailable("the operator is starting\n").0
}

/// Returns the answer to a request that no hook is for.
pub(crate) fn unknown() -> HookAnswer {
    refused(404, "there is no hook at this path\n")
}

/// Returns the answer to a request with another method than those of the hooks at its path.
pub(crate) fn other_methods(methods: &[String]) -> HookAnswer {
    let mut answer = refused(405, "the method is not allowed\n");
    answer.headers.insert("allow".to_owned(), methods.join(", "));
    answer
}

fn with_retry(mut answer: HookAnswer, again: Duration) -> HookAnswer {
    let seconds = again.as_secs() + u64::from(again.subsec_nanos() > 0);
    answer.headers.insert("retry-after".to_owned(), seconds.max(1).to_string());
    answer
}

pub(super) fn unavailable(text: &str) -> Refused {
    (with_retry(refused(503, text), SERVING_AGAIN), HookOutcome::Unavailable)
}

/// Returns the answer to a request whose function has failed. Only the text of `reject` is for the sender; the log has
/// the others.
fn failure(verdict: Verdict, overrun: Option<Limit>) -> Refused {
    let answer = match verdict {
        Verdict::Rejected { text, code } if (400..600).contains(&code) => refused(code, &format!("{text}\n")),
        Verdict::Temporary { delay, .. } => with_retry(refused(503, "try again later\n"), delay.unwrap_or_default()),
        _ if overrun == Some(Limit::Time) => refused(504, "the answer took too long\n"),
        _ => refused(500, "the request has failed, and the log of the operator has the reason\n"),
    };
    let is_answer = answer.status < 500;
    (answer, if is_answer { HookOutcome::Answered } else { HookOutcome::Failed })
}

fn message(handler: &Handler, verdict: &Verdict, overrun: Option<Limit>) -> Message {
    let title = handler.title();
    match verdict {
        Verdict::Returned(_) => Message::step(format!("{title} succeeded.")),
        Verdict::Rejected { text, code } => {
            Message::warning(format!("{title} rejects the request: {text} (code {code})"))
        }
        Verdict::Permanent { text } => Message::error(format!("{title} failed permanently: {text}")),
        Verdict::Temporary { text, .. } => {
            Message::error(format!("{title} failed temporarily: {}", text.as_deref().unwrap_or("temporary error")))
        }
        Verdict::Unfinished { .. } => Message::error(format!("{title} has not finished")),
        Verdict::Failed { text, representation, trace } => {
            let text = if text.is_empty() { representation } else { text };
            let what = if overrun.is_some() { "was ended" } else { "failed with an exception" };
            Message { trace: trace.clone(), ..Message::error(format!("{title} {what}: {text}")) }
        }
    }
}
