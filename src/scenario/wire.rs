//! The way between one life of the operators and the server: it keeps the timeline of requests, knows which watches are behind, and lets
//! trouble happen where it is asked for.

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

use crate::apiserver::http::request::{Path, Place, Query, verb};
use crate::apiserver::server::socket::Service;
use crate::apiserver::storage::resource::Key;
use crate::apiserver::{Api, admin_client};
use crate::cluster::in_process::InProcess;
use crate::cluster::transport::{Answer, ByteStream, Connection, Login, Transport};
use crate::cluster::{Error, LoginError};
use crate::reactor::changes::changes;

use super::chaos::{Chaos, OnRead, OnWrite, Reading};
use super::compare::FOREIGN_ANNOTATION;
use super::faults::words;
use super::invariants::{Invariants, Process, Write};
use super::timeline::{Event, Request as Told, Timeline};
use watches::Watches;

/// The way of one operator in one life of the operators. Cheap to clone.
#[derive(Clone)]
pub struct Wire {
    shared: Arc<Inner>,
    /// The number of the operator.
    operator: usize,
}

/// What a way is made of.
pub struct Parts {
    /// The server.
    pub api: Api,
    /// Where requests are told.
    pub timeline: Arc<Timeline>,
    /// Who checks the invariants.
    pub invariants: Arc<Invariants>,
    /// The trouble, if there is to be any.
    pub chaos: Option<Arc<Chaos>>,
    /// The prefixes of the operators' own annotations.
    pub prefixes: Vec<String>,
    /// The token that the operators are known by.
    pub token: String,
    /// The number of the life.
    pub life: u32,
}

struct Inner {
    parts: Parts,
    server: InProcess,
    /// Whether nothing gets through any more.
    is_cut: AtomicBool,
    in_flight: AtomicUsize,
    watches: Watches,
    /// How many firings of faults were told.
    told: Mutex<usize>,
    changed: Arc<Notify>,
}

impl Wire {
    /// Returns a way that nothing has gone yet.
    pub fn new(parts: Parts) -> Self {
        let server = InProcess::new(Service::new(parts.api.clone()));
        let changed = Arc::new(Notify::new());
        let told = parts.api.injection().faults().firings().count();
        let shared = Arc::new(Inner {
            parts,
            server,
            is_cut: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            watches: Watches::new(Arc::clone(&changed)),
            told: Mutex::new(told),
            changed,
        });
        Self { shared, operator: 0 }
    }

    /// Returns the way of another operator of the same life.
    pub fn of_operator(&self, operator: usize) -> Self {
        Self { operator, ..self.clone() }
    }

    /// Lets nothing through any more.
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
    }

    /// Waits until a request or a watch has come to an end, or a watch has delivered something.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Returns what is on its way, in words; nothing if all is delivered.
    pub fn pending(&self) -> Option<String> {
        let in_flight = self.shared.in_flight.load(Ordering::SeqCst);
        if in_flight > 0 {
            return Some(format!("{in_flight} requests are on their way"));
        }
        self.shared.watches.pending(&self.shared.parts.api)
    }
}

impl Login for Wire {
    fn login(&self) -> BoxFuture<'_, Result<Connection, LoginError>> {
        let connection = Connection::over(self.clone(), "the scenario");
        Box::pin(async { Ok(connection) })
    }
}

impl Transport for Wire {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let wire = self.clone();
        Box::pin(async move {
            if wire.shared.is_cut.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let _busy = Busy::new(&wire);
            let token = HeaderValue::from_str(&format!("Bearer {}", wire.shared.parts.token)).expect("tokens are made of plain letters");
            request.headers_mut().insert(header::AUTHORIZATION, token);
            let answered = match Asked::of(&request) {
                Asked { place: Some(place), verb: "watch", since, path } => wire.watch(request, place, since, path).await,
                Asked { place: Some(place), verb, .. } if !matches!(verb, "get" | "list") => wire.write(request, place, verb).await,
                Asked { place, verb, .. } => wire.read(request, place, verb).await,
            };
            wire.tell_faults();
            answered
        })
    }
}

/// A request on its way.
struct Busy(Wire);

impl Busy {
    fn new(wire: &Wire) -> Self {
        wire.shared.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(wire.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.0.shared.changed.notify_waiters();
    }
}

/// What a request is about.
struct Asked {
    place: Option<Place>,
    verb: &'static str,
    since: Option<u64>,
    path: String,
}

impl Asked {
    fn of(request: &Request<Bytes>) -> Self {
        let path = request.uri().path().to_owned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let Path::Objects(place) = Path::parse(&path) else { return Self { place: None, verb: "get", since: None, path } };
        let verb = verb(request.method(), &place, &query);
        let since = query.text("resourceVersion").and_then(|version| version.parse().ok());
        Self { place: Some(place), verb, since, path }
    }
}

fn lost() -> Error {
    Error::Connection("the connection has broken".into())
}

fn refused(code: u16) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "a disturbance"});
    let mut headers = HeaderMap::new();
    if code == 429 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    whole(code, headers, Bytes::from(body.to_string()))
}

fn whole(status: u16, headers: HeaderMap, body: Bytes) -> Answer {
    Answer { status, headers, body: stream::once(std::future::ready(Ok(body))).boxed() }
}

async fn collect(mut body: ByteStream) -> Result<Bytes, Error> {
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece.map_err(Error::Connection)?);
    }
    Ok(all.into())
}

/// Tells whether a request is of the engine itself: those of scripts name their field manager.
fn is_of_engine(request: &Request<Bytes>, verb: &str) -> bool {
    verb == "patch" && Query::parse(request.uri().query().unwrap_or_default()).text("fieldManager").is_none()
}

/// Returns the object of an answer, if the request was accepted.
fn accepted(answered: &Result<(u16, HeaderMap, Bytes), Error>) -> Option<Value> {
    let (_, _, body) = answered.as_ref().ok().filter(|(status, ..)| *status < 300)?;
    serde_json::from_slice(body).ok()
}

/// Lets a watch begin at another version than it was asked to.
fn set_version(request: &mut Request<Bytes>, version: u64) {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let is_version = |parameter: &&str| parameter.starts_with("resourceVersion=");
    let others: Vec<&str> = query.split('&').filter(|parameter| !is_version(parameter)).collect();
    let changed = format!("{path}?{}&resourceVersion={version}", others.join("&"));
    *request.uri_mut() = changed.parse().expect("another number leaves the address well-formed");
}

/// Returns the version of an object.
fn version(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// Returns the message of a refusal.
fn message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    status["message"].as_str().map(str::to_owned)
}

impl Wire {
    async fn read(&self, request: Request<Bytes>, place: Option<Place>, verb: &'static str) -> Result<Answer, Error> {
        let listed = place.as_ref().filter(|_| verb == "list").map(|_| request.uri().path().to_owned());
        let note_list = |has_failed| listed.iter().for_each(|path| self.shared.watches.note_list(path, has_failed));
        let mut late = Duration::ZERO;
        if let Some(chaos) = &self.shared.parts.chaos {
            chaos.shuffle().await;
            let what = request.uri().path().to_owned();
            match chaos.on_read(if place.is_some() { Reading::Objects } else { Reading::Discovery }) {
                OnRead::Nothing | OnRead::Expired | OnRead::Repeated(_) => {}
                OnRead::Late(delay) => {
                    chaos.tell(format!("the answer to the request {verb} {what} is late by {} ms", delay.as_millis()));
                    late = delay;
                }
                OnRead::Lost => {
                    chaos.tell(format!("the request {verb} {what} is lost"));
                    note_list(true);
                    return Err(lost());
                }
                OnRead::Refused(code) => {
                    chaos.tell(format!("the request {verb} {what} is answered by {code}"));
                    note_list(true);
                    return Ok(refused(code));
                }
            }
        }
        let mut answered = self.shared.server.send(request).await;
        note_list(false);
        if !late.is_zero()
            && let Ok(answer) = answered
        {
            // What is in it is as old as the request.
            let Answer { status, headers, body } = answer;
            let body = collect(body).await?;
            tokio::time::sleep(late).await;
            answered = Ok(whole(status, headers, body));
        }
        if let Some(place) = place.filter(|place| place.name.is_some()) {
            let answer = answered.as_ref().map_or_else(Error::chain, |answer| answer.status.to_string());
            self.tell(Told { answer, is_quiet: true, ..self.told(&place, verb) });
        }
        answered
    }

    async fn write(&self, request: Request<Bytes>, mut place: Place, verb: &'static str) -> Result<Answer, Error> {
        if place.name.is_none() {
            // A creation names its object in the body.
            let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            place.name = body["metadata"]["name"].as_str().map(str::to_owned);
        }
        let is_of_engine = is_of_engine(&request, verb);
        let trouble = self.meet(&place, verb, is_of_engine).await?;
        if let Some(code) = trouble.refusal {
            return Ok(refused(code));
        }
        let before = self.object(&place);
        let answered = match self.shared.server.send(request).await {
            Ok(answer) => {
                let (status, headers) = (answer.status, answer.headers);
                collect(answer.body).await.map(|body| (status, headers, body))
            }
            Err(error) => Err(error),
        };
        let object = accepted(&answered);
        if let (None, Some(object)) = (&place.name, &object) {
            place.name = object["metadata"]["name"].as_str().map(str::to_owned);
        }
        let after = self.object(&place);
        let changed = after.as_ref().filter(|after| before.as_ref().is_none_or(|before| version(before) != version(after)));
        // What was done though the answer says otherwise is found on the object.
        let version = object.as_ref().or(changed).and_then(version);
        let told = after.clone().or(before.clone()).unwrap_or_default();
        let process = Process { life: self.shared.parts.life, operator: self.operator };
        let write = Write { process, object: &told, subresource: place.subresource.as_deref(), is_of_engine, version };
        self.shared.parts.invariants.wrote(&write);
        let answer = match &answered {
            Ok((status, _, body)) if *status >= 300 => message(body).map_or_else(|| status.to_string(), |text| format!("{status} {text}")),
            Ok((status, ..)) => status.to_string(),
            Err(error) => error.chain(),
        };
        let lines = changes(before.as_ref(), after.as_ref(), &self.shared.parts.prefixes);
        self.tell(Told { answer, lines, ..self.told(&place, verb) });
        if let Some(chaos) = &self.shared.parts.chaos {
            if trouble.crashes {
                chaos.tell("the operators die after the request, before its answer".to_owned());
                chaos.crash().await;
            }
            if trouble.loses_answer {
                chaos.tell("the answer is lost".to_owned());
                self.shared.parts.invariants.answered(&write, false);
                return Err(lost());
            }
            chaos.shuffle().await;
            tokio::time::sleep(trouble.late).await;
        }
        self.shared.parts.invariants.answered(&write, object.is_some());
        answered.map(|(status, headers, body)| whole(status, headers, body))
    }

    /// Lets the trouble of a write happen that comes before it.
    async fn meet(&self, place: &Place, verb: &'static str, is_of_engine: bool) -> Result<Trouble, Error> {
        let mut trouble = Trouble::default();
        let Some(chaos) = &self.shared.parts.chaos else { return Ok(trouble) };
        chaos.shuffle().await;
        let request = self.told(place, verb);
        if is_of_engine {
            chaos.count_write();
            if chaos.is_outage() {
                return Err(lost());
            }
        }
        match chaos.on_write() {
            OnWrite::Nothing => {}
            OnWrite::CrashBefore => {
                chaos.tell(format!("the operators die before the request {request}"));
                chaos.crash().await;
            }
            OnWrite::CrashAfter => trouble.crashes = true,
            OnWrite::Lost => {
                chaos.tell(format!("the request {request} is lost"));
                return Err(lost());
            }
            OnWrite::AnswerLost => trouble.loses_answer = true,
            OnWrite::Late(delay) => {
                chaos.tell(format!("the answer to the request {request} is late by {} ms", delay.as_millis()));
                trouble.late = delay;
            }
            OnWrite::Conflict => self.interfere(place).await,
            OnWrite::Refused(code) => {
                chaos.tell(format!("the request {request} is answered by {code}"));
                trouble.refusal = Some(code);
            }
        }
        Ok(trouble)
    }

    /// Writes an object as somebody else who means no harm.
    async fn interfere(&self, place: &Place) {
        let (Some(chaos), Some(name)) = (&self.shared.parts.chaos, &place.name) else { return };
        let resource = if place.group.is_empty() { place.plural.clone() } else { format!("{}.{}", place.plural, place.group) };
        let Ok(meant) = admin_client::find(&self.shared.parts.api, &resource, name, place.namespace.as_deref()) else { return };
        let Some(object) = meant.value() else { return };
        let version = object["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"annotations": {FOREIGN_ANNOTATION: version}}});
        chaos.tell(format!("somebody else writes {resource}/{name}"));
        // An object that is just vanishing is no conflict.
        let _ = admin_client::patch(&self.shared.parts.api, &meant, None, "application/merge-patch+json", &patch).await;
    }

    fn object(&self, place: &Place) -> Option<Value> {
        let key: Key = (place.namespace.clone().unwrap_or_default(), place.name.clone()?);
        let registry = self.shared.parts.api.registry();
        let served = registry.find(&place.group, &place.version, &place.plural)?;
        self.shared.parts.api.read(&served.resource, &key).map(|stored| (*stored.value).clone())
    }

    fn tell(&self, request: Told) {
        self.shared.parts.timeline.add(Event::Request(request));
    }

    fn told(&self, place: &Place, verb: &'static str) -> Told {
        let registry = self.shared.parts.api.registry();
        let kind = registry.find(&place.group, &place.version, &place.plural).map(|served| served.kind.kind.clone());
        Told {
            verb,
            group: place.group.clone(),
            plural: place.plural.clone(),
            kind: kind.unwrap_or_default(),
            namespace: place.namespace.clone().unwrap_or_default(),
            name: place.name.clone().unwrap_or_default(),
            subresource: place.subresource.clone().unwrap_or_default(),
            ..Told::default()
        }
    }

    /// Tells the faults that have fired since the last look.
    fn tell_faults(&self) {
        let faults = self.shared.parts.api.injection().faults();
        let mut told = self.shared.told.lock();
        for firing in faults.firings().skip(*told) {
            let rule = faults.rules().find(|(id, _)| *id == firing.rule);
            let what = words::firing(rule.map(|(_, rule)| &rule.action), firing);
            self.shared.parts.timeline.add(Event::Fault(what));
            *told += 1;
        }
    }

    async fn watch(&self, mut request: Request<Bytes>, place: Place, mut since: Option<u64>, path: String) -> Result<Answer, Error> {
        let watches = &self.shared.watches;
        if let Some(chaos) = &self.shared.parts.chaos {
            chaos.shuffle().await;
            let trouble = if chaos.is_outage() { OnRead::Lost } else { chaos.on_read(Reading::Watch) };
            let (told, answered) = match trouble {
                OnRead::Nothing | OnRead::Late(_) => (String::new(), None),
                OnRead::Repeated(count) => {
                    let earlier = watches.before_last(&path, count).filter(|earlier| since.is_some_and(|since| *earlier < since));
                    if let Some(earlier) = earlier {
                        set_version(&mut request, earlier);
                        chaos.tell(format!("the watch of {path} begins at version {earlier} instead of {}", since.unwrap_or_default()));
                        since = Some(earlier);
                    }
                    (String::new(), None)
                }
                OnRead::Refused(code) => (format!("is answered by {code}"), Some(Ok(refused(code)))),
                OnRead::Expired => ("is answered by 410".to_owned(), Some(Ok(refused(410)))),
                OnRead::Lost => ("does not open".to_owned(), Some(Err(lost()))),
            };
            if let Some(answered) = answered {
                watches.note_closed(&path, &place);
                chaos.tell(format!("the watch of {path} {told}"));
                return answered;
            }
        }
        let answered = self.shared.server.send(request).await;
        match &answered {
            Ok(answer) if answer.status < 300 => {}
            // A resource that is gone is not watched again.
            Ok(answer) if answer.status == 404 => watches.forget(&path),
            _ => watches.note_closed(&path, &place),
        }
        answered.map(|answer| {
            if answer.status >= 300 {
                return answer;
            }
            let delivered = since.unwrap_or_else(|| self.shared.parts.api.with(|state| state.store.revision()));
            let open = watches.open(path, &place, delivered);
            Answer { body: open.deliver(answer.body, self.shared.parts.chaos.clone()), ..answer }
        })
    }
}

/// The trouble of a write that comes with it or after it.
#[derive(Default)]
struct Trouble {
    refusal: Option<u16>,
    crashes: bool,
    loses_answer: bool,
    late: Duration,
}
