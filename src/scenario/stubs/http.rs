//! The answers of HTTP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use url::Url;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::declared::{HttpReply, HttpStub};
use super::recording::{self, Exchange, Recording};
use super::sent;
use super::unexpected::UnexpectedCalls;
use crate::script::outside::{HttpAnswer, HttpClient, HttpError, HttpProblem, HttpRequest};

/// The client of one run.
pub(in super::super) struct HttpStubs {
    /// The stubs, with the numbers of their answered calls.
    stubs: Vec<(HttpStub, AtomicUsize)>,
    /// The answered calls of recordings, by the line of the stub and the request.
    replayed: Mutex<BTreeMap<(usize, String), usize>>,
    /// The answers of real servers, if they are recorded.
    recorded: Option<Mutex<BTreeMap<PathBuf, Vec<Exchange>>>>,
    timeline: Arc<Timeline>,
    unexpected: Arc<UnexpectedCalls>,
}

impl HttpStubs {
    /// Returns a client that has answered nothing yet.
    pub(in super::super) fn new(
        stubs: Vec<HttpStub>,
        records: bool,
        timeline: Arc<Timeline>,
        unexpected: Arc<UnexpectedCalls>,
    ) -> Self {
        let stubs = stubs.into_iter().map(|stub| (stub, AtomicUsize::new(0))).collect();
        let recorded = records.then(Mutex::default);
        Self { stubs, replayed: Mutex::default(), recorded, timeline, unexpected }
    }

    /// Writes what real servers have answered.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(in super::super) fn save(&self) -> Result<(), String> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        for (file, exchanges) in recorded.lock().iter() {
            recording::write(file, exchanges).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn reply(&self, request: &HttpRequest) -> Option<Result<HttpReply, HttpError>> {
        let (stub, count) = self.stubs.iter().find(|(stub, _)| stub.answers(request))?;
        if let Some(recording) = &stub.recording {
            return match &self.recorded {
                Some(recorded) => Some(recording::ask(request.clone()).map(|answer| {
                    let exchange = Exchange {
                        method: request.method.clone(),
                        url: request.url.to_string(),
                        answer: answer.clone(),
                    };
                    recorded.lock().entry(recording.file.clone()).or_default().push(exchange);
                    HttpReply { answer, ..HttpReply::default() }
                })),
                None => self.replay(stub.line, recording, request).map(Ok),
            };
        }
        let number = count.fetch_add(1, Ordering::Relaxed);
        stub.replies.get(number).or(stub.replies.last()).cloned().map(Ok)
    }

    /// Equal requests are answered in the recorded order; the last answer is repeated.
    fn replay(&self, line: usize, recording: &Recording, request: &HttpRequest) -> Option<HttpReply> {
        let is_same = |exchange: &&Exchange| exchange.method == request.method && exchange.url == request.url.as_str();
        let answers: Vec<&Exchange> = recording.exchanges.iter().filter(is_same).collect();
        let mut replayed = self.replayed.lock();
        let number = replayed.entry((line, format!("{} {}", request.method, request.url))).or_default();
        let exchange = answers.get(*number).or(answers.last())?;
        *number += 1;
        Some(HttpReply { answer: exchange.answer.clone(), ..HttpReply::default() })
    }

    /// Describes a call that no stub answers, with the stub that is most like it.
    fn unanswered(&self, title: &str, request: &HttpRequest) -> Problem {
        let problem = Problem::from(format!("no stub answers the request {title}"));
        let likeness = |stub: &HttpStub| {
            let same = stub.url.chars().zip(request.url.as_str().chars()).take_while(|(a, b)| a == b).count();
            (stub.is_for(request), stub.is_address(&request.url), same)
        };
        let nearest = self.stubs.iter().map(|(stub, _)| stub).max_by_key(|stub| likeness(stub));
        problem.with_hint(match nearest {
            Some(HttpStub { line, recording: Some(recording), .. }) => format!(
                "the recording {} of the stub in line {line} does not have it: `kopfd test --record-http` records it anew",
                recording.file.display()
            ),
            Some(stub) => {
                let nearest = format!("the nearest stub is that of line {}: {}", stub.line, stub.title());
                let differs = if stub.is_for(request) { sent::described(&stub.sends.mismatches(request)) } else { None };
                differs.map_or_else(|| nearest.clone(), |text| format!("{nearest}; {text}"))
            }
            None => format!(
                "add a stub: `given: {{http: [{{method: {}, url: \"{}\", reply: {{status: 200}}}}]}}`",
                request.method,
                shown(&request.url)
            ),
        })
    }
}

/// Returns an address without its query, which may have secrets.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.into()
}

impl HttpClient for HttpStubs {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        async move {
            let title = format!("{} {}", request.method, shown(&request.url));
            let Some(reply) = self.reply(&request) else {
                self.unexpected.note(self.unanswered(&title, &request));
                return Err(HttpError {
                    problem: HttpProblem::Unexpected,
                    message: "no stub of the scenario answers this".to_owned(),
                });
            };
            let told = |error: &HttpError| {
                self.timeline.add(Event::Operator(format!("{title}: the server has not answered: {}", error.message)));
            };
            let reply = reply.inspect_err(told)?;
            tokio::time::sleep(reply.delay).await;
            if reply.problem == Some(HttpProblem::Timeout) {
                self.timeline.add(Event::Operator(format!("{title}: the stub does not answer")));
                // The function's own time limit ends the wait.
                return std::future::pending().await;
            }
            if let Some(problem) = reply.problem {
                self.timeline.add(Event::Operator(format!("{title}: the stub has no answer ({})", problem.as_str())));
                return Err(HttpError { problem, message: "the stub of the scenario has no answer".to_owned() });
            }
            self.timeline.add(Event::Operator(format!("{title}: the stub answers {}", reply.answer.status)));
            if reply.answer.body.len() > request.max_bytes {
                let message = format!("the answer has more than {} bytes", request.max_bytes);
                return Err(HttpError { problem: HttpProblem::TooLarge, message });
            }
            Ok(reply.answer)
        }
        .boxed()
    }
}
