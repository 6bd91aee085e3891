//! Filters: whether one handler concerns one object, in kopf's order of evaluation.
//!
//! Expressions are not evaluated here. What is not known yet comes back as a [`Question`]; the caller has it answered
//! by the script host and decides again.

use std::borrow::Cow;

use serde_json::Value;

use crate::object::{Body, FieldPath, equality};

use super::cause::Change;
use super::handler::Handler;
use super::matcher::{Matcher, Predicate, Subject};

/// What a handler's filters look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The object as it is.
    pub body: &'a Body,
    /// The essences, for causes that are about a change.
    pub change: Option<&'a Change>,
}

/// An expression, and the value it is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Which expression.
    pub predicate: Predicate,
    /// About what.
    pub candidate: Candidate,
}

/// What an expression is asked about, besides the arguments of its cause.
#[derive(Debug, Clone, PartialEq)]
pub enum Candidate {
    /// The object as a whole.
    Whole,
    /// One value of it.
    Value(Value),
    /// A value that is not there.
    Absent,
}

/// Who knows the answers to questions.
pub trait Predicates {
    /// Tells whether an expression holds, if that is known.
    fn answer(&self, question: &Question) -> Option<bool>;
}

/// The answers gathered so far in one cycle.
#[derive(Debug, Clone, Default)]
pub struct Answers(Vec<(Question, bool)>);

impl Answers {
    /// Keeps an answer.
    pub fn keep(&mut self, question: Question, holds: bool) {
        self.0.push((question, holds));
    }
}

impl Predicates for Answers {
    fn answer(&self, question: &Question) -> Option<bool> {
        self.0.iter().find(|(known, _)| known == question).map(|(_, holds)| *holds)
    }
}

/// Why a decision cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsettled {
    /// These expressions must be evaluated first.
    Questions(Vec<Question>),
    /// The object is not what an API server sends.
    Malformed(String),
}

/// What the filters of several handlers came to: decided ones, and what is to be asked for the others.
#[derive(Debug, Default)]
pub(super) struct Poll {
    questions: Vec<Question>,
}

impl Poll {
    /// Returns whether a handler passes, or false for now if there is something to ask.
    pub(super) fn take(&mut self, result: Result<bool, Unsettled>) -> Result<bool, Unsettled> {
        match result {
            Err(Unsettled::Questions(questions)) => {
                self.questions.extend(questions);
                Ok(false)
            }
            decided => decided,
        }
    }

    /// Returns the decision, unless there is something to ask.
    pub(super) fn settle<T>(self, decision: T) -> Result<T, Unsettled> {
        if self.questions.is_empty() { Ok(decision) } else { Err(Unsettled::Questions(self.questions)) }
    }
}

/// Tells whether a handler concerns an object, whether or not its field has changed.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn prematches(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    Ok(passes_metadata(handler, view, predicates)? && passes_value(handler, view, predicates)? && passes_when(handler, predicates)?)
}

/// Tells whether a handler concerns an object and, if it is about a change of its field, the change that was made.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn matches(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    Ok(passes_metadata(handler, view, predicates)?
        && passes_value(handler, view, predicates)?
        && passes_change(handler, view, predicates)?
        && passes_when(handler, predicates)?)
}

fn ask(predicates: &dyn Predicates, predicate: Predicate, candidate: Candidate) -> Result<bool, Unsettled> {
    let question = Question { predicate, candidate };
    predicates.answer(&question).ok_or_else(|| Unsettled::Questions(vec![question]))
}

fn passes(matcher: &Matcher, subject: Subject<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    matcher.passes(subject, &mut |predicate, value| {
        ask(predicates, predicate, value.map_or(Candidate::Absent, |value| Candidate::Value(value.clone())))
    })
}

fn passes_metadata(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    Ok(passes_map(&handler.filters.labels, view.body, "labels", predicates)?
        && passes_map(&handler.filters.annotations, view.body, "annotations", predicates)?)
}

fn passes_map(filters: &[(String, Matcher)], body: &Body, stanza: &str, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    if filters.is_empty() {
        return Ok(true);
    }
    let map = match body.metadata().and_then(|metadata| metadata.get(stanza)) {
        None => None,
        Some(Value::Object(map)) => Some(map),
        Some(_) => return Err(Unsettled::Malformed(format!("metadata.{stanza} is not a mapping"))),
    };
    for (key, matcher) in filters {
        let value = map.and_then(|map| map.get(key));
        if !passes(matcher, Subject { value, is_query: false }, predicates)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The values of a field to look at.
struct Sides<'a> {
    field: &'a FieldPath,
    new: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
    /// Whether there is an old side at all: only for causes that are about a change.
    is_change: bool,
}

impl<'a> Sides<'a> {
    fn of(field: &'a FieldPath, view: View<'a>) -> Self {
        let at_field = |side: &'a Option<Value>| side.as_ref().and_then(|value| field.resolve(value));
        match view.change {
            Some(change) => Self { field, new: at_field(&change.new), old: at_field(&change.old), is_change: true },
            None => Self { field, new: field.resolve(view.body), old: None, is_change: false },
        }
    }

    /// Returns the new value first, then the old one if there is an old side.
    fn values(&self) -> impl Iterator<Item = Option<&Value>> {
        std::iter::once(self.new.as_deref()).chain(self.is_change.then_some(self.old.as_deref()))
    }

    fn subject<'b>(&self, value: Option<&'b Value>) -> Subject<'b> {
        Subject { value, is_query: self.field.is_query() }
    }
}

fn passes_value(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    let Some(field) = &handler.field else { return Ok(true) };
    let sides = Sides::of(field, view);
    let is_any_present = sides.values().any(|value| value.is_some());
    let Some(matcher) = &handler.filters.value else { return Ok(is_any_present) };
    for value in sides.values() {
        let is_skipped = value.is_none() && is_any_present && matcher.skips_absent_sides();
        if !is_skipped && passes(matcher, sides.subject(value), predicates)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn passes_change(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    let (Some(field), Some(_)) = (&handler.field, view.change) else { return Ok(true) };
    let sides = Sides::of(field, view);
    let (new, old) = (sides.new.as_deref(), sides.old.as_deref());
    let is_same = match (old, new) {
        (Some(old), Some(new)) => equality::equal(old, new),
        (None, None) => true,
        _ => false,
    };
    if handler.on.needs_change() && is_same {
        return Ok(false);
    }
    for (matcher, value) in [(&handler.filters.old, old), (&handler.filters.new, new)] {
        if let Some(matcher) = matcher
            && !passes(matcher, sides.subject(value), predicates)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn passes_when(handler: &Handler, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    handler.filters.when.map_or(Ok(true), |predicate| ask(predicates, predicate, Candidate::Whole))
}
