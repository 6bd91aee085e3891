//! Performs the step `convert`, and compares the result.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::ApiError;
use crate::apiserver::kinds::registry::ServedKind;
use crate::manifest::tree::SourceSpan;
use crate::object::{Scope, diff, path};
use crate::reactor::changes::line;

use super::super::environment::Environment;
use super::super::expressions::Answers;
use super::super::model::{ConversionStep, ExpectedConversion, RoundTrip};
use super::super::pattern::{Mismatch, Pattern};
use super::super::problem::Problem;
use super::super::verify::{Difference, Observations as _, describe, shown};
use super::generate::{Generator, Impossible};

/// Stands between the object and the reason in the messages of operators.
const CANNOT: &str = " cannot be converted to ";

/// The candidates for each wanted object: rules of the schema may refuse most of them.
const CANDIDATES: usize = 20;

/// Performs the step. `is_repeated` decides whether a conversion is repeated after an error.
///
/// # Errors
/// If it cannot be performed.
pub(in crate::scenario) async fn perform(
    environment: &Environment,
    spot: SourceSpan,
    step: &ConversionStep,
    is_repeated: &impl AsyncFn(&str) -> bool,
) -> Result<Vec<Difference>, Problem> {
    let converter = Converter { environment, is_repeated };
    match step {
        ConversionStep::One { object, to, expected } => {
            let group = object["apiVersion"]
                .as_str()
                .and_then(|version| version.rsplit_once('/'))
                .map_or("", |(group, _)| group);
            let wanted = if to.contains('/') { to.clone() } else { format!("{group}/{to}") };
            let converted = converter.convert(object.clone(), &wanted).await;
            compare(environment, spot, expected, &converted).await
        }
        ConversionStep::RoundTrip(trip) => converter.round_trips(spot, trip).await,
    }
}

struct Converter<'a, R> {
    environment: &'a Environment,
    is_repeated: &'a R,
}

impl<R: AsyncFn(&str) -> bool> Converter<'_, R> {
    async fn convert(&self, object: Value, to: &str) -> Result<Value, ApiError> {
        loop {
            match self.environment.api.convert(object.clone(), to).await {
                Err(error) if (self.is_repeated)(&error.message).await => {}
                done => return done,
            }
        }
    }

    /// Converts generated objects of each version to each other version, and back. The first difference of each pair is
    /// reported.
    async fn round_trips(&self, spot: SourceSpan, trip: &RoundTrip) -> Result<Vec<Difference>, Problem> {
        let versions = versions(self.environment, trip)?;
        let mut differences = Vec::new();
        for from in &versions {
            for to in versions.iter().filter(|to| to.kind.version != from.kind.version) {
                for (number, object) in generated(from, trip.objects, self.environment.seed())?.into_iter().enumerate()
                {
                    if let Some(text) = self.round_trip(from, to, &object, &trip.ignore).await {
                        let (from, to) = (&from.kind.version, &to.kind.version);
                        let text =
                            format!("{from} to {to} and back: object {} of {}: {text}", number + 1, trip.objects);
                        differences.push(Difference::new(spot, text));
                        break;
                    }
                }
            }
        }
        Ok(differences)
    }

    /// Returns the mistake in the conversion of an object and back, with the object.
    async fn round_trip(
        &self,
        from: &ServedKind,
        to: &ServedKind,
        object: &Value,
        ignored: &[String],
    ) -> Option<String> {
        let (here, there) = (from.kind.api_version(), to.kind.api_version());
        let with_object = |text: String, more: &[(&str, &Value)]| {
            let shown: Vec<String> = more.iter().map(|(noun, value)| format!("\n  {noun}: {value}")).collect();
            Some(format!("{text}\n  the object: {object}{}", shown.concat()))
        };
        let converted = match self.convert(object.clone(), &there).await {
            Ok(converted) => converted,
            Err(error) => return with_object(format!("the conversion fails: {}", error.message), &[]),
        };
        let causes = to.schema.as_ref().map(|schema| schema.validate(&converted, None)).unwrap_or_default();
        if let Some(cause) = causes.first() {
            let text = format!("the object is not valid in {}: {}: {}", to.kind.version, cause.field, cause.message);
            return with_object(text, &[("converted", &converted)]);
        }
        let back = match self.convert(converted.clone(), &here).await {
            Ok(back) => back,
            Err(error) => {
                return with_object(
                    format!("the conversion back fails: {}", error.message),
                    &[("converted", &converted)],
                );
            }
        };
        let lines: Vec<String> = diff::diff(&without(object, ignored), &without(&back, ignored), Scope::Full)
            .iter()
            .map(|item| format!("\n  {}", line(&item.path.join("."), item.op, &item.old, &item.new)))
            .collect();
        if lines.is_empty() {
            return None;
        }
        let text = format!("the object has changed:{}", lines.concat());
        with_object(text, &[("converted", &converted), ("and back", &back)])
    }
}

/// Returns the versions of a round trip.
fn versions(environment: &Environment, trip: &RoundTrip) -> Result<Vec<Arc<ServedKind>>, Problem> {
    let registry = environment.api.registry();
    let is_named = |served: &ServedKind| served.full_name() == trip.resource || served.kind.plural == trip.resource;
    let all: Vec<&Arc<ServedKind>> =
        registry.all().filter(|served| served.kind.is_custom() && is_named(served)).collect();
    let Some(first) = all.first() else {
        let problem = Problem::from(format!("no definition has the resource `{}`", trip.resource));
        return Err(problem.with_hint(
            "write its plural name, such as `databases.example.com`, of a definition in `crds:` or in `given`",
        ));
    };
    let known: Vec<&str> = all.iter().map(|served| served.kind.version.as_str()).collect();
    if let Some(unknown) = trip.versions.iter().find(|version| !known.contains(&version.as_str())) {
        let problem = Problem::from(format!("`{}` has no version `{unknown}`", first.full_name()));
        return Err(problem.with_hint(format!("served are {}", known.join(", "))));
    }
    let is_chosen =
        |served: &&&Arc<ServedKind>| trip.versions.is_empty() || trip.versions.contains(&served.kind.version);
    let chosen: Vec<Arc<ServedKind>> = all.iter().filter(is_chosen).map(|served| Arc::clone(served)).collect();
    if chosen.len() < 2 {
        return Err(Problem::from(format!(
            "`{}` has one served version, and so nothing to convert",
            first.full_name()
        )));
    }
    Ok(chosen)
}

/// Returns objects of a version that are valid and have its defaults.
fn generated(served: &ServedKind, count: usize, seed: u64) -> Result<Vec<Value>, Problem> {
    let kind = &served.kind;
    let versions = kind.definition.as_deref().and_then(|definition| definition["spec"]["versions"].as_array());
    let version = versions.into_iter().flatten().find(|version| version["name"] == kind.version.as_str());
    let text = version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default();
    let (mut objects, mut refused) = (Vec::with_capacity(count), None);
    for number in 0..count.saturating_mul(CANDIDATES) {
        if objects.len() == count {
            break;
        }
        let namespace = kind.namespaced.then_some("default");
        let mut object = Generator::new(seed, number)
            .object(&text, &kind.api_version(), &kind.kind, namespace)
            .map_err(impossible)?;
        let Some(schema) = &served.schema else { continue };
        schema.conform(&mut object);
        match schema.validate(&object, None).into_iter().next() {
            None => objects.push(object),
            Some(cause) => refused = Some(format!("{}: {}", cause.field, cause.message)),
        }
    }
    if objects.len() == count {
        return Ok(objects);
    }
    let (found, why) = (objects.len(), refused.unwrap_or_default());
    let text = format!(
        "only {found} of {count} objects of {} could be generated; another one is not valid: {why}",
        kind.version
    );
    Err(Problem::from(text)
        .with_hint("the rules of the schema refuse most random objects: write a smaller number of `objects`"))
}

fn impossible(Impossible { path, pattern }: Impossible) -> Problem {
    let text = format!("no text for `{path}` could be generated that matches {pattern}");
    Problem::from(text).with_hint("write one as its `default` or `example` into the schema")
}

fn without(object: &Value, ignored: &[String]) -> Value {
    let mut object = object.clone();
    for field in ignored {
        let keys: Vec<String> = field.split('.').map(str::to_owned).collect();
        if let Some(map) = object.as_object_mut() {
            path::remove(map, &keys);
        }
    }
    object
}

/// Compares a result with the expected one.
async fn compare(
    environment: &Environment,
    spot: SourceSpan,
    expected: &ExpectedConversion,
    converted: &Result<Value, ApiError>,
) -> Result<Vec<Difference>, Problem> {
    let (pattern, value) = match (expected, converted) {
        (ExpectedConversion::Object(None), Ok(_)) | (ExpectedConversion::Failure(_, None), Err(_)) => {
            return Ok(Vec::new());
        }
        (ExpectedConversion::Object(_), Err(error)) => {
            return Ok(vec![Difference::new(
                spot,
                format!("convert: expected an object, but it fails: {}", error.message),
            )]);
        }
        (ExpectedConversion::Failure(spot, _), Ok(object)) => {
            return Ok(vec![Difference::new(*spot, format!("convert: expected a failure, but it returns {object}"))]);
        }
        (ExpectedConversion::Object(Some(pattern)), Ok(object)) => (pattern, object.clone()),
        (ExpectedConversion::Failure(_, Some(pattern)), Err(error)) => (pattern, Value::from(reason(&error.message))),
    };
    let mut answers = Answers::default();
    let mut failed = Vec::new();
    loop {
        let found = mismatches(pattern, &value, &mut answers);
        let questions = answers.questions();
        if questions.is_empty() {
            return Ok(found.into_iter().chain(failed).collect());
        }
        for question in questions {
            let holds = environment.evaluate(&question).await;
            answers.keep(question, holds == Ok(true));
            failed.extend(holds.err().map(|text| Difference::new(spot, format!("an expression fails: {text}"))));
        }
    }
}

fn mismatches(pattern: &Pattern, value: &Value, answers: &mut Answers) -> Vec<Difference> {
    let mut mismatches = Vec::new();
    pattern.compare(Some(value), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
    let difference = |Mismatch { path, spot, wanted, found, .. }| {
        let found = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
        let text = if value.is_string() {
            format!("convert: expected {}, found {found}", describe(pattern))
        } else {
            format!("convert: {path}: expected {wanted}, found {found}")
        };
        Difference::new(spot, text)
    };
    mismatches.into_iter().map(difference).collect()
}

/// Returns the reason in a message: the operator's text about one object, or the whole message.
fn reason(message: &str) -> String {
    let own = message.split_once(CANNOT).and_then(|(_, rest)| rest.split_once(": "));
    own.map_or(message, |(_, reason)| reason).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_the_function_says() {
        let message = "conversion webhook for a.io/v1, Kind=Thing failed: \"a\" in default cannot be converted to a.io/v2: no: way";
        assert_eq!(reason(message), "no: way");
        assert_eq!(
            reason("conversion webhook for a.io/v1 failed: refused"),
            "conversion webhook for a.io/v1 failed: refused"
        );
    }
}
