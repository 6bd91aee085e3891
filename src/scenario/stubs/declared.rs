//! The stubs as a scenario declares them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::recording::Recording;
use super::sent::SentRequest;
use crate::script::outside::api::ApiError;
use crate::script::outside::programs::Finished;
use crate::script::outside::sql::{Reply, SqlError};
use crate::script::outside::{HttpAnswer, HttpProblem, HttpRequest};

/// The stubs of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Stubs {
    /// The answers of HTTP servers.
    pub http: Vec<HttpStub>,
    /// The runs of programs. In their order: the first one that fits a call answers it.
    pub programs: Vec<ProgramStub>,
    /// The logs of containers, and the commands in them. The first one that fits a call answers it.
    pub pods: Vec<PodStub>,
    /// The contents of files by absolute path; `None` for a file that does not exist.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    /// The answers of databases. In their order: the first one that fits a statement answers it.
    pub sql: Vec<SqlStub>,
}

/// A stub of a database.
#[derive(Debug, Clone)]
pub struct SqlStub {
    /// The name of the connection in the manifest, or the address of one of `sql::connect`, in which a star stands for
    /// any characters.
    pub connection: String,
    /// The statement, in which a star stands for any characters, and a space for any white space.
    pub statement: String,
    /// The parameters, as JSON; `None` for any.
    pub params: Option<Vec<Value>>,
    /// How many statements it answers; `None` for any number.
    pub times: Option<usize>,
    /// The virtual time that the statement takes.
    pub takes: Duration,
    /// The error that it returns in place of a result.
    pub error: Option<SqlError>,
    /// The result.
    pub reply: Reply,
}

/// A stub of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramStub {
    /// The name of the program in the manifest.
    pub program: String,
    /// The patterns of its arguments, as in the manifest; `None` for any arguments.
    pub args: Option<Vec<String>>,
    /// How many calls it answers; `None` for any number.
    pub times: Option<usize>,
    /// The virtual time that the program takes.
    pub takes: Duration,
    /// The reason why it cannot be started, if it cannot.
    pub fails: Option<String>,
    /// The result of the program.
    pub finished: Finished,
}

/// A stub of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodStub {
    /// The pattern of its name.
    pub name: String,
    /// The pattern of its namespace; `None` for any.
    pub namespace: Option<String>,
    /// The pattern of the container that a call names; `None` for any, and for calls that name none.
    pub container: Option<String>,
    /// How many calls it answers; `None` for any number.
    pub times: Option<usize>,
    /// The virtual time that the answer takes.
    pub takes: Duration,
    /// The error of the API server in place of an answer.
    pub fails: Option<ApiError>,
    /// The answer to the call.
    pub answer: PodAnswer,
}

/// The answer of a stub of a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum PodAnswer {
    /// The log of a container.
    Log(String),
    /// A command.
    Command {
        /// The patterns of its program and arguments.
        patterns: Vec<String>,
        /// The result of the command.
        finished: Finished,
    },
}

/// A stub of an HTTP server.
#[derive(Debug, Clone)]
pub struct HttpStub {
    /// The method in capital letters; `None` for all methods.
    pub method: Option<String>,
    /// The address, in which a star stands for any characters. Without a query, it stands for all queries.
    pub url: String,
    /// The headers and the body that a request must have.
    pub(super) sends: SentRequest,
    /// The replies, one after the other; the last one is repeated.
    pub replies: Vec<HttpReply>,
    /// The recording that has the replies, in place of those.
    pub(super) recording: Option<Recording>,
    /// Its line in the scenario.
    pub line: usize,
}

/// A reply of a stub.
#[derive(Debug, Clone, Default)]
pub struct HttpReply {
    /// The answer.
    pub answer: HttpAnswer,
    /// The failure in place of an answer.
    pub problem: Option<HttpProblem>,
    /// How long the answer takes.
    pub delay: Duration,
}

impl HttpStub {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method.as_deref().unwrap_or("any method of"), self.url)
    }

    pub(super) fn answers(&self, request: &HttpRequest) -> bool {
        self.is_for(request) && self.sends.mismatches(request).is_empty()
    }

    /// Tells whether the method and the address are those of the stub.
    pub(super) fn is_for(&self, request: &HttpRequest) -> bool {
        self.method.as_deref().is_none_or(|known| known == request.method) && self.is_address(&request.url)
    }

    pub(super) fn is_address(&self, url: &Url) -> bool {
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
pub(super) fn matches(pattern: &str, text: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_a_missing_query_for_all() {
        let is = |pattern: &str, url: &str| {
            let sends = SentRequest::default();
            let stub = HttpStub {
                method: None,
                url: pattern.to_owned(),
                sends,
                replies: Vec::new(),
                recording: None,
                line: 1,
            };
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
