//! The cases, by client. Long ones come first, so that no thread is left with one at the end.

mod go;
mod kopf;
mod kube_rs;
mod kubectl;
mod python;

use crate::context::{CaseContext, Server, TestServers};
use crate::harness::caught;

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// Its module.
    pub(crate) module: &'static str,
    /// The tested property, as a sentence.
    pub(crate) name: &'static str,
    /// How it is run.
    pub(crate) run: Run,
}

/// How a case is run.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Once, with both servers.
    Both(fn(&CaseContext<'_>)),
    /// Once with each server.
    Each(fn(&CaseContext<'_>, &Server)),
    /// Once, with its own embedded servers.
    Own(fn(&CaseContext<'_>)),
}

/// A unit of execution: a case with its servers.
pub(crate) struct Part {
    case: Case,
    /// The index of the server; `None` for both together.
    server: Option<usize>,
}

/// Creates a table of cases from functions, whose names are the sentences.
macro_rules! cases {
    ($how:ident: $($run:ident),* $(,)?) => {
        &[$(crate::cases::Case { module: module_path!(), name: stringify!($run), run: crate::cases::Run::$how($run) }),*]
    };
}
pub(crate) use cases;

/// Returns all units, in the order of their start.
pub(crate) fn all() -> Vec<Part> {
    let cases =
        [go::OWN, kube_rs::OWN, kopf::CASES, kubectl::cases().as_slice(), go::CASES, python::CASES, kube_rs::CASES]
            .concat();
    let parts = cases.into_iter().flat_map(|case| match case.run {
        Run::Both(_) | Run::Own(_) => vec![Part { case, server: None }],
        Run::Each(_) => vec![Part { case, server: Some(0) }, Part { case, server: Some(1) }],
    });
    parts.collect()
}

impl Part {
    /// Returns the name for selection.
    pub(crate) fn title(&self) -> String {
        let title = format!("{}::{}", self.case.module.rsplit("::").next().unwrap_or_default(), self.case.name);
        match self.server {
            None => title,
            Some(0) => format!("{title} (embedded)"),
            Some(_) => format!("{title} (real)"),
        }
    }

    /// Runs it.
    pub(crate) fn run(&self, number: usize, servers: &TestServers) -> Result<(), String> {
        let context = caught(|| CaseContext::new(servers, &self.title(), number))?;
        let outcome = caught(|| match (self.case.run, self.server) {
            (Run::Both(run) | Run::Own(run), _) => run(&context),
            (Run::Each(run), server) => run(&context, &servers.servers()[server.unwrap_or_default()]),
        });
        outcome.map_err(|message| format!("{message}\n{}", context.output_tail()))?;
        context.verdict()
    }
}
