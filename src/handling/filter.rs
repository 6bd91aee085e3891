//! Filters: whether one handler concerns one object, in kopf's order of evaluation.
//!
//! Expressions are not evaluated here. An unanswered one is returned as a [`Question`]; the script host answers it, and
//! the caller decides again.

use std::borrow::Cow;

use serde_json::Value;

use crate::object::{Body, FieldPath, equality};

use super::cause::Change;
use super::handler::Handler;
use super::matcher::{Matcher, Predicate, Subject};

/// The input of a handler's filters.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The current object.
    pub body: &'a Body,
    /// The essences, for causes with a change.
    pub change: Option<&'a Change>,
}

/// An expression, and the value that it is evaluated for.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The expression.
    pub predicate: Predicate,
    /// The value.
    pub candidate: Candidate,
}

/// The value that an expression is evaluated for, besides the arguments of its cause.
#[derive(Debug, Clone, PartialEq)]
pub enum Candidate {
    /// The object as a whole.
    Whole,
    /// One value of the object.
    Value(Value),
    /// An absent value.
    Absent,
}

/// Answers to questions.
pub trait Predicates {
    /// Tells whether an expression is true; `None` if it was not evaluated yet.
    fn answer(&self, question: &Question) -> Option<bool>;
}

/// The answers collected in one cycle.
#[derive(Debug, Clone, Default)]
pub struct Answers(Vec<(Question, bool)>);

impl Answers {
    /// Stores an answer.
    pub fn keep(&mut self, question: Question, holds: bool) {
        self.0.push((question, holds));
    }
}

impl Predicates for Answers {
    fn answer(&self, question: &Question) -> Option<bool> {
        self.0.iter().find(|(known, _)| known == question).map(|(_, holds)| *holds)
    }
}

/// The reason why a decision cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsettled {
    /// These expressions must be evaluated first.
    Questions(Vec<Question>),
    /// The object has a form that no API server sends.
    Malformed(String),
}

/// The combined result of several handlers' filters: decisions, and the open questions of the others.
#[derive(Debug, Default)]
pub(super) struct Poll {
    questions: Vec<Question>,
}

impl Poll {
    /// Returns whether a handler passes; false as long as there are questions.
    pub(super) fn take(&mut self, result: Result<bool, Unsettled>) -> Result<bool, Unsettled> {
        match result {
            Err(Unsettled::Questions(questions)) => {
                self.questions.extend(questions);
                Ok(false)
            }
            decided => decided,
        }
    }

    /// Returns the decision, unless there are questions.
    pub(super) fn settle<T>(self, decision: T) -> Result<T, Unsettled> {
        if self.questions.is_empty() { Ok(decision) } else { Err(Unsettled::Questions(self.questions)) }
    }
}

/// Tells whether a handler concerns an object, whether or not its field has changed.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn prematches(handler: &Handler, view: View<'_>, predicates: &dyn Predicates) -> Result<bool, Unsettled> {
    Ok(passes_metadata(handler, view, predicates)?
        && passes_value(handler, view, predicates)?
        && passes_when(handler, predicates)?)
}

/// Tells whether a handler concerns an object and, if the handler needs a change of its field, whether that has
/// changed.
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

fn passes_map(
    filters: &[(String, Matcher)],
    body: &Body,
    stanza: &str,
    predicates: &dyn Predicates,
) -> Result<bool, Unsettled> {
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

/// The values of a field before and after a change.
struct Sides<'a> {
    field: &'a FieldPath,
    new: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
    /// Whether there is an old side: only for causes with a change.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::{Filters, On};
    use serde_json::json;

    /// Returns a handler with a field, and filters.
    fn handler(on: On, filters: Filters) -> Handler {
        Handler { field: Some(FieldPath::dotted("spec.x")), filters, ..Handler::simple("fn", on) }
    }

    /// Returns whether a handler matches a change of `spec.x`; an absent side has no spec.
    fn matched(
        handler: &Handler,
        old: Option<Value>,
        new: Option<Value>,
        answers: &Answers,
    ) -> Result<bool, Unsettled> {
        let essence = |side: Option<Value>| side.map_or_else(|| json!({}), |x| json!({"spec": {"x": x}}));
        let body = Body::from(json!({"metadata": {"labels": {"a": "1"}}, "spec": {"x": 0}}));
        let change = Change::between(Some(essence(old)), Some(essence(new)));
        matches(handler, View { body: &body, change: Some(&change) }, answers)
    }

    fn settled(handler: &Handler, old: Option<Value>, new: Option<Value>) -> bool {
        matched(handler, old, new, &Answers::default()).unwrap()
    }

    #[test]
    fn null_is_absent_in_differences_but_not_in_filters() {
        let present = handler(On::Create, Filters { value: Some(Matcher::Present), ..Filters::default() });
        assert!(settled(&present, None, Some(Value::Null)));
        let changed = handler(On::Update, Filters::default());
        assert!(settled(&changed, None, Some(Value::Null)), "absent differs from everything");
        assert!(!settled(&changed, Some(json!(1)), Some(json!(true))), "loosely equal values have not changed");
    }

    #[test]
    fn a_value_on_either_side_is_enough_but_sides_are_strict() {
        let value = |matcher| handler(On::Update, Filters { value: Some(matcher), ..Filters::default() });
        assert!(settled(&value(Matcher::Equals(json!(1))), Some(json!(1)), Some(json!(2))));
        assert!(settled(&value(Matcher::Equals(json!(2))), Some(json!(1)), Some(json!(2))));
        let old = handler(On::Update, Filters { old: Some(Matcher::Equals(json!(2))), ..Filters::default() });
        assert!(!settled(&old, Some(json!(1)), Some(json!(2))));
    }

    #[test]
    fn matchers_beyond_kopf_check_present_values_first() {
        let unless_two =
            handler(On::Update, Filters { value: Some(Matcher::NotIn(vec![json!(2)])), ..Filters::default() });
        assert!(!settled(&unless_two, None, Some(json!(2))), "the absent side does not count beside a present one");
        assert!(settled(&unless_two, Some(json!(2)), Some(json!(3))));
    }

    #[test]
    fn expressions_are_asked_only_after_everything_before_them_has_passed() {
        let filters = |label: &str| Filters {
            labels: vec![("a".into(), Matcher::Equals(json!(label)))],
            value: Some(Matcher::When(Predicate(7))),
            when: Some(Predicate(8)),
            ..Filters::default()
        };
        let mut answers = Answers::default();
        assert_eq!(matched(&handler(On::Create, filters("2")), None, None, &answers), Ok(false));
        let passing = handler(On::Create, filters("1"));
        let asked = |answers: &Answers| matched(&passing, None, Some(json!(5)), answers);
        let question = |number, candidate| Question { predicate: Predicate(number), candidate };
        let of_value = question(7, Candidate::Value(json!(5)));
        assert_eq!(asked(&answers), Err(Unsettled::Questions(vec![of_value.clone()])));
        answers.keep(of_value, true);
        let of_all = question(8, Candidate::Whole);
        assert_eq!(asked(&answers), Err(Unsettled::Questions(vec![of_all.clone()])));
        answers.keep(of_all, false);
        assert_eq!(asked(&answers), Ok(false));
    }

    #[test]
    fn a_prematch_does_not_care_whether_anything_has_changed() {
        let body = Body::from(json!({"spec": {"x": 1}}));
        let same = Change::between(Some(json!({"spec": {"x": 1}})), Some(json!({"spec": {"x": 1}})));
        let view = View { body: &body, change: Some(&same) };
        let update = handler(On::Update, Filters::default());
        assert_eq!(prematches(&update, view, &Answers::default()), Ok(true));
        assert_eq!(matches(&update, view, &Answers::default()), Ok(false));
    }

    #[test]
    fn a_field_that_is_absent_on_both_sides_has_not_changed() {
        let filters = || Filters { value: Some(Matcher::Absent), ..Filters::default() };
        assert!(!settled(&handler(On::Update, filters()), None, None));
        assert!(settled(&handler(On::Create, filters()), None, None), "a creation needs no change");
    }
}
