//! The cases, by client. Long ones come first, so that no thread is left with one at the end.

mod go;
mod kopf;
mod kube_rs;
mod kubectl;
mod python;

use crate::harness::caught;
use crate::stage::{Server, Stage, World};

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// Its module.
    pub(crate) module: &'static str,
    /// The tested property, as a sentence.
    pub(crate) name: &'static str,
    /// How it is run.
    pub(crate) play: Play,
}

/// How a case is run.
#[derive(Clone, Copy)]
pub(crate) enum Play {
    /// Once, with both servers.
    Both(fn(&Stage<'_>)),
    /// Once with each server.
    Each(fn(&Stage<'_>, &Server)),
    /// Once, with its own embedded servers.
    Own(fn(&Stage<'_>)),
}

/// A unit of execution: a case with its servers.
pub(crate) struct Part {
    case: Case,
    /// The index of the server; `None` for both together.
    server: Option<usize>,
}

/// Creates a table of cases from functions, whose names are the sentences.
macro_rules! cases {
    ($how:ident: $($play:ident),* $(,)?) => {
        &[$(crate::cases::Case { module: module_path!(), name: stringify!($play), play: crate::cases::Play::$how($play) }),*]
    };
}
pub(crate) use cases;

/// Returns all units, in the order of their start.
pub(crate) fn all() -> Vec<Part> {
    let cases = [go::OWN, kube_rs::OWN, kopf::CASES, kubectl::cases().as_slice(), go::CASES, python::CASES, kube_rs::CASES].concat();
    let parts = cases.into_iter().flat_map(|case| match case.play {
        Play::Both(_) | Play::Own(_) => vec![Part { case, server: None }],
        Play::Each(_) => vec![Part { case, server: Some(0) }, Part { case, server: Some(1) }],
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
    pub(crate) fn play(&self, number: usize, world: &World) -> Result<(), String> {
        let stage = caught(|| Stage::new(world, &self.title(), number))?;
        let played = caught(|| match (self.case.play, self.server) {
            (Play::Both(play) | Play::Own(play), _) => play(&stage),
            (Play::Each(play), server) => play(&stage, &world.servers()[server.unwrap_or_default()]),
        });
        played.map_err(|story| format!("{story}\n{}", stage.last_words()))?;
        stage.verdict()
    }
}
