//! The observations that expectations are verified against.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use super::super::expressions::Question;
use super::super::metrics::Sample;
use super::super::model::Target;
use super::super::timeline::{Subject, Timeline};

/// The source of the observations for expectations: the embedded server, or a real cluster.
pub trait Observations {
    /// Finds an object by its name.
    ///
    /// # Errors
    /// If the name is ambiguous or the resource unknown.
    fn object(&self, target: &Target) -> Result<ObservedObject, String>;

    /// Returns the timeline so far.
    fn timeline(&self) -> &Timeline;

    /// Returns the ids of the running timers and daemons of an object.
    ///
    /// # Errors
    /// If they are not known.
    fn tasks(&self, _subject: &Subject) -> Result<Vec<String>, String> {
        Err("the running timers and daemons are known in virtual time only".to_owned())
    }

    /// Returns all Kubernetes events.
    fn events(&self) -> Vec<Arc<Value>>;

    /// Returns the content of an index.
    ///
    /// # Errors
    /// If it cannot be observed.
    fn index(&self, _name: &str) -> Result<Value, String> {
        Err("indexes are in the memory of the operator, and cannot be observed here".to_owned())
    }

    /// Returns the samples of the operators' metrics.
    ///
    /// # Errors
    /// If they cannot be observed.
    fn metrics(&self) -> Result<Vec<Sample>, String> {
        Err("the metrics are in the memory of the operator, and cannot be observed here".to_owned())
    }

    /// Tells whether an object ever existed, as far as known.
    fn has_existed(&self, _seen: &ObservedObject, _namespace: Option<&str>) -> bool {
        true
    }

    /// Returns the names of all objects of a kind that ever existed, as far as known.
    fn names(&self, _subject: &Subject) -> Vec<String> {
        Vec::new()
    }

    /// Returns the last end of the operators, if they have ended.
    fn exit(&self) -> Option<Exited> {
        None
    }

    /// Returns why the operators are paused; empty if they are not.
    fn pauses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the answer of the probes; `None` if the operators do not run.
    fn probes(&self) -> impl Future<Output = Option<ProbeAnswer>> {
        std::future::ready(None)
    }

    /// Evaluates an expression of the scenario. Its error is the text of the failure.
    fn evaluate(&self, question: &Question) -> impl Future<Output = Result<bool, String>>;
}

/// An end of the operators.
#[derive(Debug, Clone)]
pub struct Exited {
    /// The exit code.
    pub code: u8,
    /// The error; empty without one.
    pub message: String,
}

/// The answer of the liveness endpoint.
#[derive(Debug, Clone)]
pub struct ProbeAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The results as JSON, or the text of a failure.
    pub body: String,
}

/// An object that was looked up, whether it exists or not.
#[derive(Debug, Clone)]
pub struct ObservedObject {
    /// If the object does not exist, the namespace is that in which it was looked up.
    pub subject: Subject,
    /// Plural name of its kind.
    pub plural: String,
    /// `None` if it does not exist.
    pub value: Option<Arc<Value>>,
}
