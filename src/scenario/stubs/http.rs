//! The answers of HTTP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use url::Url;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::UnexpectedCalls;
use super::recording::{self, Exchange, Recording};
use crate::script::outside::{HttpAnswer, HttpClient, HttpError, HttpProblem, HttpRequest};

/// One stub.
#[derive(Debug, Clone)]
pub struct HttpStub {
    /// The method in capital letters; `None` for all methods.
    pub method: Option<String>,
    /// The address, in which a star stands for any characters. Without a query, it stands for all queries.
    pub url: String,
    /// The replies, one after the other; the last one is repeated.
    pub replies: Vec<HttpReply>,
    /// Where the replies are recorded, in place of those.
    pub(super) recording: Option<Recording>,
    /// Its line in the scenario.
    pub line: usize,
}

/// A reply of a stub.
#[derive(Debug, Clone, Default)]
pub struct HttpReply {
    /// The answer.
    pub answer: HttpAnswer,
    /// What fails in place of an answer.
    pub problem: Option<HttpProblem>,
    /// How long the answer takes.
    pub delay: Duration,
}

impl HttpStub {
    fn title(&self) -> String {
        format!("{} {}", self.method.as_deref().unwrap_or("any method of"), self.url)
    }

    fn answers(&self, method: &str, url: &Url) -> bool {
        self.method.as_deref().is_none_or(|known| known == method) && self.is_address(url)
    }

    fn is_address(&self, url: &Url) -> bool {
        let mut url = url.clone();
        url.set_fragment(None);
        if !self.url.contains('?') {
            url.set_query(None);
        }
        let written = Url::parse(&self.url).map_or_else(|_| self.url.clone(), String::from);
        matches(&written, url.as_str())
    }
}

/// Tells whether a text has the form of a pattern, in which a star stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

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
    pub(super) fn new(stubs: Vec<HttpStub>, records: bool, timeline: Arc<Timeline>, unexpected: Arc<UnexpectedCalls>) -> Self {
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
        let (stub, count) = self.stubs.iter().find(|(stub, _)| stub.answers(&request.method, &request.url))?;
        if let Some(recording) = &stub.recording {
            return match &self.recorded {
                Some(recorded) => Some(recording::ask(request.clone()).map(|answer| {
                    let exchange = Exchange { method: request.method.clone(), url: request.url.to_string(), answer: answer.clone() };
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
            (stub.is_address(&request.url), same)
        };
        let nearest = self.stubs.iter().map(|(stub, _)| stub).max_by_key(|stub| likeness(stub));
        problem.with_hint(match nearest {
            Some(HttpStub { line, recording: Some(recording), .. }) => format!(
                "the recording {} of the stub in line {line} does not have it: `kopfd test --record-http` records it anew",
                recording.file.display()
            ),
            Some(stub) => format!("the nearest stub is that of line {}: {}", stub.line, stub.title()),
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
                return Err(HttpError { problem: HttpProblem::Unexpected, message: "no stub of the scenario answers this".to_owned() });
            };
            let reply = reply.map_err(|error| {
                self.timeline.add(Event::Operator(format!("{title}: the server has not answered: {}", error.message)));
                error
            })?;
            tokio::time::sleep(reply.delay).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_a_missing_query_for_all() {
        let is = |pattern: &str, url: &str| {
            let stub = HttpStub { method: None, url: pattern.to_owned(), replies: Vec::new(), recording: None, line: 1 };
            stub.is_address(&Url::parse(url).unwrap())
        };
        assert!(is("https://a.com/x", "https://a.com/x?page=2"));
        assert!(is("https://A.com", "https://a.com/"));
        assert!(!is("https://a.com/x", "https://a.com/xy"));
        assert!(is("https://a.com/x?page=2", "https://a.com/x?page=2"));
        assert!(!is("https://a.com/x?page=1", "https://a.com/x?page=2"));
        assert!(is("https://*.com/users/*", "https://a.b.com/users/1/posts"));
        assert!(is("https://a.com/*/x/*/y", "https://a.com/1/x/2/y"));
        assert!(!is("https://a.com/*/x", "https://a.com/1/y"));
    }
}
