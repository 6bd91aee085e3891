//! The answers of containers: their logs, and the commands that run in them.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::counted::CountedStubs;
use super::declared::{PodAnswer, PodStub};
use super::unexpected::UnexpectedCalls;
use crate::script::outside::api::{ApiError, ExecError, ExecRequest, LogPart, LogRequest};
use crate::script::outside::pods::Pods;
use crate::script::outside::programs::{Finished, ProgramError, ProgramFailure, refusal};

/// The stubs of containers in one run of a scenario.
pub(in super::super) struct PodStubs {
    stubs: CountedStubs<PodStub>,
    timeline: Arc<Timeline>,
    unexpected: Arc<UnexpectedCalls>,
}

/// The request of a call.
struct Call<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    container: Option<&'a str>,
    /// The command; `None` for the log.
    arguments: Option<&'a [String]>,
}

impl Call<'_> {
    fn title(&self) -> String {
        let namespace = self.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let place =
            format!("{namespace}{}{}", self.name, self.container.map(|name| format!(" ({name})")).unwrap_or_default());
        match self.arguments {
            None => format!("the log of {place}"),
            Some(arguments) => format!("the command {} in {place}", arguments.join(" ")),
        }
    }

    fn hint(&self) -> String {
        let what = match self.arguments {
            None => "log: done".to_owned(),
            Some(arguments) => {
                format!("exec: [{}, \"*\"], stdout: done", arguments.first().map(String::as_str).unwrap_or_default())
            }
        };
        format!("add one, such as `given: {{pods: [{{name: {}, {what}}}]}}`", self.name)
    }
}

fn fits(pattern: Option<&String>, text: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| refusal(std::slice::from_ref(pattern), &[Some(text.unwrap_or_default())]).is_none())
}

/// Tells whether a stub answers a call.
fn answers(stub: &PodStub, call: &Call<'_>) -> bool {
    let is_place = fits(Some(&stub.name), Some(call.name))
        && fits(stub.namespace.as_ref(), call.namespace)
        && fits(stub.container.as_ref(), call.container);
    let is_kind = match (&stub.answer, call.arguments) {
        (PodAnswer::Log(_), None) => true,
        (PodAnswer::Command { patterns, .. }, Some(arguments)) => {
            let arguments: Vec<Option<&str>> = arguments.iter().map(|argument| Some(argument.as_str())).collect();
            refusal(patterns, &arguments).is_none()
        }
        _ => false,
    };
    is_place && is_kind
}

impl PodStubs {
    /// Returns the stubs at the begin of a run.
    pub(in super::super) fn new(
        stubs: Vec<PodStub>,
        timeline: Arc<Timeline>,
        unexpected: Arc<UnexpectedCalls>,
    ) -> Self {
        Self { stubs: CountedStubs::new(stubs, |stub| stub.times), timeline, unexpected }
    }

    /// Returns the stub that answers a call, and counts it.
    ///
    /// # Errors
    /// If there is none, which fails the scenario.
    fn take(&self, call: &Call<'_>) -> Result<&PodStub, String> {
        self.stubs.take(|stub| answers(stub, call)).ok_or_else(|| {
            let message = format!("no stub of the scenario answers {}", call.title());
            self.timeline.add(Event::Operator(message.clone()));
            self.unexpected.note(Problem::from(message.clone()).with_hint(call.hint()));
            message
        })
    }

    fn record(&self, title: &str, how: &str) {
        self.timeline.add(Event::Operator(format!("{title} is answered by a stub: {how}")));
    }
}

fn unavailable(message: String) -> ApiError {
    ApiError { message, status: None, reason: Some("NoStub".to_owned()), details: None }
}

/// Returns the end of a log, as the API server cuts it.
fn cut(log: &str, part: &LogPart) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let skipped = part.tail.map_or(0, |tail| lines.len().saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX)));
    let text: String = lines[skipped..].concat();
    let limit = usize::try_from(part.limit).unwrap_or(usize::MAX);
    String::from_utf8_lossy(&text.as_bytes()[..text.len().min(limit)]).into_owned()
}

/// Returns the result of a command within its limits.
fn result(finished: &Finished, request: &ExecRequest) -> Result<Finished, ExecError> {
    if finished.stdout.len() + finished.stderr.len() <= request.output {
        return Ok(finished.clone());
    }
    let message = format!("the command has written more than {} bytes", request.output);
    Err(ExecError::Command(ProgramError::new(ProgramFailure::TooMuchOutput, message)))
}

impl Pods for PodStubs {
    fn log(&self, request: LogRequest) -> BoxFuture<'_, Result<String, ApiError>> {
        async move {
            let LogRequest { namespace, name, part } = &request;
            let call =
                Call { namespace: namespace.as_deref(), name, container: part.container.as_deref(), arguments: None };
            let stub = self.take(&call).map_err(unavailable)?;
            tokio::time::sleep(stub.takes).await;
            if let Some(error) = &stub.fails {
                self.record(&call.title(), &error.message);
                return Err(error.clone());
            }
            let PodAnswer::Log(log) = &stub.answer else { return Err(unavailable("the stub has no log".to_owned())) };
            let log = cut(log, part);
            self.record(&call.title(), &format!("{} bytes", log.len()));
            Ok(log)
        }
        .boxed()
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Finished, ExecError>> {
        async move {
            let ExecRequest { namespace, name, container, arguments, .. } = &request;
            let call = Call {
                namespace: namespace.as_deref(),
                name,
                container: container.as_deref(),
                arguments: Some(arguments),
            };
            let no_stub = |message| ExecError::Command(ProgramError::new(ProgramFailure::NoStub, message));
            let stub = self.take(&call).map_err(no_stub)?;
            tokio::time::sleep(stub.takes.min(request.time)).await;
            if stub.takes >= request.time {
                let message = format!("the command has not ended within {} seconds", request.time.as_secs_f64());
                self.record(&call.title(), &message);
                return Err(ExecError::Command(ProgramError::new(ProgramFailure::Timeout, message)));
            }
            if let Some(error) = &stub.fails {
                self.record(&call.title(), &error.message);
                return Err(ExecError::Api(error.clone()));
            }
            let PodAnswer::Command { finished, .. } = &stub.answer else {
                return Err(no_stub("the stub has no command".to_owned()));
            };
            let result = result(finished, &request);
            self.record(
                &call.title(),
                &result.as_ref().map_or_else(|_| "too much output".to_owned(), |ended| format!("code {}", ended.code)),
            );
            result
        }
        .boxed()
    }
}
