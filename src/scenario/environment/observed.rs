//! The observations of an environment that expectations are verified against.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::storage::resource::Resource;

use super::super::expressions::{Interpreter, Question};
use super::super::metrics::{self, Sample};
use super::super::model::Target;
use super::super::timeline::{Subject, Timeline};
use super::super::verify::{Exited, Observations, ObservedObject, ProbeAnswer};
use super::{Environment, objects};

impl Observations for Environment {
    fn object(&self, target: &Target) -> Result<ObservedObject, String> {
        let found = self.find(target)?;
        let kind = &found.served.kind;
        let (namespace, name) = found.key.clone();
        let subject = Subject { group: kind.group.clone(), kind: kind.kind.clone(), namespace, name };
        Ok(ObservedObject { subject, plural: kind.plural.clone(), value: found.value() })
    }

    fn has_existed(&self, observed: &ObservedObject, namespace: Option<&str>) -> bool {
        let is_in_namespace = |subject: &Subject| namespace.is_none_or(|namespace| namespace == subject.namespace);
        subjects(self, &observed.subject)
            .any(|subject| subject.name == observed.subject.name && is_in_namespace(&subject))
    }

    fn names(&self, subject: &Subject) -> Vec<String> {
        subjects(self, subject).map(|subject| subject.name).collect()
    }

    fn index(&self, name: &str) -> Result<Value, String> {
        let run = self.run.try_lock().map_err(|_| "the operator is starting".to_owned())?;
        let run = run.as_ref().ok_or_else(|| "the operator is stopped".to_owned())?;
        let found = run.indexes().into_iter().find_map(|indexes| indexes.get(name).map(|index| index.to_value()));
        found.ok_or_else(|| "the operator has no such index".to_owned())
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn tasks(&self, subject: &Subject) -> Result<Vec<String>, String> {
        let running = Arc::clone(&self.running_tasks.lock());
        let ids = running.lock().iter().filter(|(of, _)| of == subject).map(|(_, handler)| handler.clone()).collect();
        Ok(ids)
    }

    fn events(&self) -> Vec<Arc<Value>> {
        let events = Resource { group: String::new(), plural: "events".to_owned() };
        self.api.list(&events, None).into_iter().map(|(_, stored)| Arc::clone(&stored.value)).collect()
    }

    fn metrics(&self) -> Result<Vec<Sample>, String> {
        Ok(metrics::samples(&self.endpoints.lock().metrics.text()))
    }

    fn exit(&self) -> Option<Exited> {
        self.exit.lock().clone()
    }

    fn pauses(&self) -> Vec<String> {
        let endpoints = self.endpoints.lock().clone();
        let status = endpoints.board.status(&endpoints.health);
        status.operators.into_iter().flat_map(|operator| operator.paused).collect()
    }

    async fn probes(&self) -> Option<ProbeAnswer> {
        let endpoints = self.endpoints.lock().clone();
        let answer = endpoints.probes().await?;
        Some(ProbeAnswer { status: answer.status, body: answer.body })
    }

    async fn evaluate(&self, question: &Question) -> Result<bool, String> {
        let start = || Interpreter::start(&self.scenario.expressions, self.clock.clone(), self.seed);
        self.interpreter.get_or_try_init(start).await?.evaluate(question).await
    }
}

/// Returns all objects of a kind that ever existed, as far as known.
fn subjects(environment: &Environment, like: &Subject) -> impl Iterator<Item = Subject> + use<> {
    objects::subjects(&environment.api, &environment.scenario, &environment.timeline, like)
}
