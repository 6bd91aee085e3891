//! The transport between the operators and the server: records requests in the timeline, tracks how far each watch has
//! delivered, and injects disturbances.

mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::apiserver::http::request::{Path, Query, ResourcePath, verb};
use crate::apiserver::server::socket::Service;
use crate::apiserver::storage::resource::Key;
use crate::apiserver::{ApiServer, admin_client};
use crate::cluster::in_process::InProcess;
use crate::cluster::transport::{Answer, ByteStream, Connection, Login, Transport};
use crate::cluster::{ConnectionSettings, Error, LoginError};
use crate::object::secret::{self, Values};
use crate::reactor::changes::changes;

use super::chaos::{Chaos, OnRead, OnWrite, Reading};
use super::compare::FOREIGN_ANNOTATION;
use super::faults::words;
use super::invariants::{Invariants, Process, Write};
use super::timeline::{Event, SentRequest, Timeline};
use watches::Watches;

/// The transport of one operator during one run of it. Cheap to clone.
#[derive(Clone)]
pub(super) struct ScenarioTransport {
    shared: Arc<Inner>,
    /// Number of the operator in the scenario.
    operator: usize,
}

/// The options of a transport.
pub(super) struct TransportOptions {
    pub api: ApiServer,
    pub timeline: Arc<Timeline>,
    pub invariants: Arc<Invariants>,
    /// Random disturbances, in runs with a seed.
    pub chaos: Option<Arc<Chaos>>,
    /// Prefixes of the operators' own annotations.
    pub prefixes: Vec<String>,
    /// Token that authenticates the operators.
    pub token: String,
    /// Number of the operator run.
    pub run: u32,
}

struct Inner {
    options: TransportOptions,
    server: InProcess,
    /// Whether the connection is cut: requests wait forever.
    is_disconnected: AtomicBool,
    in_flight: AtomicUsize,
    watches: Watches,
    /// How many firings of faults are in the timeline already.
    recorded_firings: Mutex<usize>,
    changed: Arc<Notify>,
}

impl ScenarioTransport {
    /// Creates a transport without any requests.
    pub(super) fn new(options: TransportOptions) -> Self {
        let server = InProcess::new(Service::new(options.api.clone()));
        let changed = Arc::new(Notify::new());
        let recorded_firings = options.api.faults().firings().count();
        let shared = Arc::new(Inner {
            options,
            server,
            is_disconnected: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            watches: Watches::new(Arc::clone(&changed)),
            recorded_firings: Mutex::new(recorded_firings),
            changed,
        });
        Self { shared, operator: 0 }
    }

    /// Returns the transport of another operator in the same run.
    pub(super) fn of_operator(&self, operator: usize) -> Self {
        Self { operator, ..self.clone() }
    }

    /// Cuts the connection.
    pub(super) fn disconnect(&self) {
        self.shared.is_disconnected.store(true, Ordering::SeqCst);
    }

    /// Waits until a request or a watch ends, or a watch delivers an event.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Describes requests in flight and undelivered events; `None` if there are none.
    pub(super) fn pending(&self) -> Option<String> {
        let in_flight = self.shared.in_flight.load(Ordering::SeqCst);
        if in_flight > 0 {
            return Some(format!("{in_flight} requests are in flight"));
        }
        self.shared.watches.pending(&self.shared.options.api)
    }
}

impl Login for ScenarioTransport {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "the scenario");
        Box::pin(async { Ok(vec![connection]) })
    }
}

impl Transport for ScenarioTransport {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let transport = self.clone();
        Box::pin(async move {
            if transport.shared.is_disconnected.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let _busy = InFlight::new(&transport);
            let token = HeaderValue::from_str(&format!("Bearer {}", transport.shared.options.token))
                .expect("tokens are made of plain letters");
            request.headers_mut().insert(header::AUTHORIZATION, token);
            let answered = match ParsedRequest::of(&request) {
                ParsedRequest { resource_path: Some(resource_path), verb: "watch", since, path } => {
                    transport.watch(request, resource_path, since, path).await
                }
                ParsedRequest { resource_path: Some(resource_path), verb, .. } if !matches!(verb, "get" | "list") => {
                    transport.write(request, resource_path, verb).await
                }
                ParsedRequest { resource_path, verb, .. } => transport.read(request, resource_path, verb).await,
            };
            transport.record_faults();
            answered
        })
    }
}

/// Counts a request as in flight while it exists.
struct InFlight(ScenarioTransport);

impl InFlight {
    fn new(transport: &ScenarioTransport) -> Self {
        transport.shared.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(transport.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.0.shared.changed.notify_waiters();
    }
}

/// The options of a request that decide how it is recorded and disturbed.
struct ParsedRequest {
    resource_path: Option<ResourcePath>,
    verb: &'static str,
    since: Option<u64>,
    path: String,
}

impl ParsedRequest {
    fn of(request: &Request<Bytes>) -> Self {
        let path = request.uri().path().to_owned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let Path::Objects(resource_path) = Path::parse(&path) else {
            return Self { resource_path: None, verb: "get", since: None, path };
        };
        let verb = verb(request.method(), &resource_path, &query);
        let since = query.text("resourceVersion").and_then(|version| version.parse().ok());
        Self { resource_path: Some(resource_path), verb, since, path }
    }
}

fn connection_error() -> Error {
    Error::Connection("the connection was lost".into())
}

fn refusal(code: u16) -> Answer {
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "a disturbance"});
    let mut headers = HeaderMap::new();
    if code == 429 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    complete_answer(code, headers, Bytes::from(body.to_string()))
}

fn complete_answer(status: u16, headers: HeaderMap, body: Bytes) -> Answer {
    Answer { status, headers, body: stream::once(std::future::ready(Ok(body))).boxed() }
}

async fn read_body(mut body: ByteStream) -> Result<Bytes, Error> {
    let mut all = Vec::new();
    while let Some(chunk) = body.next().await {
        all.extend_from_slice(&chunk.map_err(Error::Connection)?);
    }
    Ok(all.into())
}

/// Tells whether the engine has sent the request: patches of scripts name a field manager.
fn is_of_engine(request: &Request<Bytes>, verb: &str) -> bool {
    verb == "patch" && Query::parse(request.uri().query().unwrap_or_default()).text("fieldManager").is_none()
}

/// Returns the object of a successful answer.
fn accepted(answered: &Result<(u16, HeaderMap, Bytes), Error>) -> Option<Value> {
    let (_, _, body) = answered.as_ref().ok().filter(|(status, ..)| *status < 300)?;
    serde_json::from_slice(body).ok()
}

/// Changes the resource version from which a watch starts.
fn set_version(request: &mut Request<Bytes>, version: u64) {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let is_version = |parameter: &&str| parameter.starts_with("resourceVersion=");
    let others: Vec<&str> = query.split('&').filter(|parameter| !is_version(parameter)).collect();
    let changed = format!("{path}?{}&resourceVersion={version}", others.join("&"));
    *request.uri_mut() = changed.parse().expect("another number leaves the address well-formed");
}

fn version(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// Returns the message of an error answer.
fn message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    status["message"].as_str().map(str::to_owned)
}

impl ScenarioTransport {
    async fn read(
        &self,
        request: Request<Bytes>,
        resource_path: Option<ResourcePath>,
        verb: &'static str,
    ) -> Result<Answer, Error> {
        let listed = resource_path.as_ref().filter(|_| verb == "list").map(|_| request.uri().path().to_owned());
        let note_list = |has_failed| listed.iter().for_each(|path| self.shared.watches.note_list(path, has_failed));
        let mut late = Duration::ZERO;
        if let Some(chaos) = &self.shared.options.chaos {
            chaos.shuffle().await;
            let what = request.uri().path().to_owned();
            // Scripts usually list other objects, or do so while the watch is open.
            if verb == "list" && chaos.is_outage() && chaos.is_watched(&what) && !self.shared.watches.is_open(&what) {
                chaos.record(format!("the request {verb} {what} is not answered"));
                note_list(true);
                return Err(connection_error());
            }
            match chaos.on_read(if resource_path.is_some() { Reading::Objects } else { Reading::Discovery }) {
                OnRead::Nothing | OnRead::Expired | OnRead::Repeated(_) => {}
                OnRead::Late(delay) => {
                    chaos.record(format!(
                        "the answer to the request {verb} {what} is delayed by {} ms",
                        delay.as_millis()
                    ));
                    late = delay;
                }
                OnRead::Lost => {
                    chaos.record(format!("the request {verb} {what} is lost"));
                    note_list(true);
                    return Err(connection_error());
                }
                OnRead::Refused(code) => {
                    chaos.record(format!("the request {verb} {what} is answered with {code}"));
                    note_list(true);
                    return Ok(refusal(code));
                }
            }
        }
        let mut answered = self.shared.server.send(request).await;
        note_list(false);
        if !late.is_zero()
            && let Ok(answer) = answered
        {
            // The content is that of the moment of the request.
            let Answer { status, headers, body } = answer;
            let body = read_body(body).await?;
            tokio::time::sleep(late).await;
            answered = Ok(complete_answer(status, headers, body));
        }
        if let Some(resource_path) = resource_path.filter(|resource_path| resource_path.name.is_some()) {
            let answer = answered.as_ref().map_or_else(Error::chain, |answer| answer.status.to_string());
            self.record(SentRequest { answer, is_quiet: true, ..self.sent_request(&resource_path, verb) });
        }
        answered
    }

    async fn write(
        &self,
        request: Request<Bytes>,
        mut resource_path: ResourcePath,
        verb: &'static str,
    ) -> Result<Answer, Error> {
        if resource_path.name.is_none() {
            // A creation names its object in the body.
            let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            resource_path.name = body["metadata"]["name"].as_str().map(str::to_owned);
        }
        let is_of_engine = is_of_engine(&request, verb);
        let disturbance = self.disturb_write(&resource_path, verb, is_of_engine).await?;
        if let Some(code) = disturbance.refusal {
            return Ok(refusal(code));
        }
        let before = self.object(&resource_path);
        let sent = request.body().clone();
        let answered = match self.shared.server.send(request).await {
            Ok(answer) => {
                let (status, headers) = (answer.status, answer.headers);
                read_body(answer.body).await.map(|body| (status, headers, body))
            }
            Err(error) => Err(error),
        };
        let object = accepted(&answered);
        if let (None, Some(object)) = (&resource_path.name, &object) {
            resource_path.name = object["metadata"]["name"].as_str().map(str::to_owned);
        }
        let after = self.object(&resource_path);
        let changed =
            after.as_ref().filter(|after| before.as_ref().is_none_or(|before| version(before) != version(after)));
        // A write whose answer was lost or is an error may have been done nevertheless.
        let version = object.as_ref().or(changed).and_then(version);
        let written = after.clone().or(before.clone()).unwrap_or_default();
        let process = Process { run: self.shared.options.run, operator: self.operator };
        let write = Write {
            process,
            before: before.as_ref(),
            object: &written,
            subresource: resource_path.subresource.as_deref(),
            is_of_engine,
            version,
        };
        self.shared.options.invariants.written(&write);
        let answer = match &answered {
            Ok((status, _, body)) if *status >= 300 => {
                message(body).map_or_else(|| status.to_string(), |text| format!("{status} {text}"))
            }
            Ok((status, ..)) => status.to_string(),
            Err(error) => error.chain(),
        };
        // A refusal may quote the request.
        let answer = match serde_json::from_slice(&sent) {
            Ok(sent) if secret::is_path(&resource_path.group, &resource_path.plural) => {
                Values::of_request(&sent).hidden(&answer).into_owned()
            }
            _ => answer,
        };
        let lines = changes(before.as_ref(), after.as_ref(), &self.shared.options.prefixes);
        self.record(SentRequest { answer, lines, ..self.sent_request(&resource_path, verb) });
        if let Some(chaos) = &self.shared.options.chaos {
            if disturbance.crashes {
                chaos.record("the operators crash after the request, before its answer".to_owned());
                chaos.crash().await;
            }
            if disturbance.loses_answer {
                chaos.record("the answer is lost".to_owned());
                self.shared.options.invariants.answered(&write, false);
                return Err(connection_error());
            }
            chaos.shuffle().await;
            tokio::time::sleep(disturbance.late).await;
        }
        self.shared.options.invariants.answered(&write, object.is_some());
        answered.map(|(status, headers, body)| complete_answer(status, headers, body))
    }

    /// Applies the disturbances that come before a write.
    async fn disturb_write(
        &self,
        resource_path: &ResourcePath,
        verb: &'static str,
        is_of_engine: bool,
    ) -> Result<AfterWrite, Error> {
        let mut disturbance = AfterWrite::default();
        let Some(chaos) = &self.shared.options.chaos else { return Ok(disturbance) };
        chaos.shuffle().await;
        let request = self.sent_request(resource_path, verb);
        if is_of_engine {
            chaos.count_write();
            if chaos.is_outage() {
                chaos.record(format!("the request {request} is not answered"));
                return Err(connection_error());
            }
        }
        match chaos.on_write() {
            OnWrite::Nothing => {}
            OnWrite::CrashBefore => {
                chaos.record(format!("the operators crash before the request {request}"));
                chaos.crash().await;
            }
            OnWrite::CrashAfter => disturbance.crashes = true,
            OnWrite::Lost => {
                chaos.record(format!("the request {request} is lost"));
                return Err(connection_error());
            }
            OnWrite::AnswerLost => disturbance.loses_answer = true,
            OnWrite::Late(delay) => {
                chaos.record(format!("the answer to the request {request} is delayed by {} ms", delay.as_millis()));
                disturbance.late = delay;
            }
            OnWrite::Conflict => self.write_concurrently(resource_path).await,
            OnWrite::Refused(code) => {
                chaos.record(format!("the request {request} is answered with {code}"));
                disturbance.refusal = Some(code);
            }
        }
        Ok(disturbance)
    }

    /// Writes the object as another client would, so that the request meets a conflict.
    async fn write_concurrently(&self, resource_path: &ResourcePath) {
        let (Some(chaos), Some(name)) = (&self.shared.options.chaos, &resource_path.name) else { return };
        let resource = if resource_path.group.is_empty() {
            resource_path.plural.clone()
        } else {
            format!("{}.{}", resource_path.plural, resource_path.group)
        };
        let Ok(handle) =
            admin_client::find(&self.shared.options.api, &resource, name, resource_path.namespace.as_deref())
        else {
            return;
        };
        let Some(object) = handle.value() else { return };
        let version = object["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"annotations": {FOREIGN_ANNOTATION: version}}});
        chaos.record(format!("another client writes {resource}/{name}"));
        // An object that is being deleted at this moment causes no conflict.
        let _ =
            admin_client::patch(&self.shared.options.api, &handle, None, "application/merge-patch+json", &patch).await;
    }

    fn object(&self, resource_path: &ResourcePath) -> Option<Value> {
        let key: Key = (resource_path.namespace.clone().unwrap_or_default(), resource_path.name.clone()?);
        let registry = self.shared.options.api.registry();
        let served = registry.find(&resource_path.group, &resource_path.version, &resource_path.plural)?;
        self.shared.options.api.read(&served.resource, &key).map(|stored| (*stored.value).clone())
    }

    fn record(&self, request: SentRequest) {
        self.shared.options.timeline.add(Event::Request(request));
    }

    fn sent_request(&self, resource_path: &ResourcePath, verb: &'static str) -> SentRequest {
        let registry = self.shared.options.api.registry();
        let kind = registry
            .find(&resource_path.group, &resource_path.version, &resource_path.plural)
            .map(|served| served.kind.kind.clone());
        SentRequest {
            verb,
            group: resource_path.group.clone(),
            plural: resource_path.plural.clone(),
            kind: kind.unwrap_or_default(),
            namespace: resource_path.namespace.clone().unwrap_or_default(),
            name: resource_path.name.clone().unwrap_or_default(),
            subresource: resource_path.subresource.clone().unwrap_or_default(),
            ..SentRequest::default()
        }
    }

    /// Records the faults that have fired since the last call.
    fn record_faults(&self) {
        let faults = self.shared.options.api.faults();
        let mut recorded = self.shared.recorded_firings.lock();
        for firing in faults.firings().skip(*recorded) {
            let rule = faults.rules().find(|(id, _)| *id == firing.rule);
            let what = words::firing(rule.map(|(_, rule)| &rule.action), firing);
            self.shared.options.timeline.add(Event::Fault(what));
            *recorded += 1;
        }
    }

    async fn watch(
        &self,
        mut request: Request<Bytes>,
        resource_path: ResourcePath,
        mut since: Option<u64>,
        path: String,
    ) -> Result<Answer, Error> {
        let watches = &self.shared.watches;
        if let Some(chaos) = &self.shared.options.chaos {
            chaos.note_watched(&path);
            chaos.shuffle().await;
            let disturbance = if chaos.is_outage() { OnRead::Lost } else { chaos.on_read(Reading::Watch) };
            let (problem, answered) = match disturbance {
                OnRead::Nothing | OnRead::Late(_) => (String::new(), None),
                OnRead::Repeated(count) => {
                    let earlier =
                        watches.before_last(&path, count).filter(|earlier| since.is_some_and(|since| *earlier < since));
                    if let Some(earlier) = earlier {
                        set_version(&mut request, earlier);
                        chaos.record(format!(
                            "the watch of {path} begins at version {earlier} instead of {}",
                            since.unwrap_or_default()
                        ));
                        since = Some(earlier);
                    }
                    (String::new(), None)
                }
                OnRead::Refused(code) => (format!("is answered with {code}"), Some(Ok(refusal(code)))),
                OnRead::Expired => ("is answered with 410".to_owned(), Some(Ok(refusal(410)))),
                OnRead::Lost => ("does not open".to_owned(), Some(Err(connection_error()))),
            };
            if let Some(answered) = answered {
                watches.note_closed(&path, &resource_path);
                chaos.record(format!("the watch of {path} {problem}"));
                return answered;
            }
        }
        let answered = self.shared.server.send(request).await;
        match &answered {
            Ok(answer) if answer.status < 300 => {}
            // A resource that does not exist is not watched again.
            Ok(answer) if answer.status == 404 => watches.forget(&path),
            _ => watches.note_closed(&path, &resource_path),
        }
        answered.map(|answer| {
            if answer.status >= 300 {
                return answer;
            }
            let delivered = since.unwrap_or_else(|| self.shared.options.api.revision());
            let open = watches.open(path, &resource_path, delivered);
            Answer { body: open.deliver(answer.body, self.shared.options.chaos.clone()), ..answer }
        })
    }
}

/// The disturbance of a write that happens with it or after it.
#[derive(Default)]
struct AfterWrite {
    refusal: Option<u16>,
    crashes: bool,
    loses_answer: bool,
    late: Duration,
}
