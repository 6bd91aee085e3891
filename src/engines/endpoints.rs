//! The endpoints of a process for Kubernetes and Prometheus: probes as in kopf, readiness, liveness, metrics, and the
//! state of the operators.
//!
//! The answers are made here; `server` listens, and `client` asks another process.

pub(crate) mod client;
pub(crate) mod server;
pub(crate) mod url;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::telemetry::Metrics;

use super::activities::probes::{Probes, Results};
use super::health::Health;
use super::hooks::Hooks;
use super::status::StatusBoard;

pub use url::LivenessUrl;

/// The endpoints of the operators of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Endpoints {
    probes: Arc<Mutex<BTreeMap<String, Arc<Probes>>>>,
    /// The operators that have started so far, also those that have ended.
    started: Arc<watch::Sender<BTreeSet<String>>>,
    /// The health of the operators.
    pub health: Health,
    /// The metrics of the operators.
    pub metrics: Metrics,
    /// The state of the operators.
    pub board: StatusBoard,
    /// The hooks of operators that have no listener of their own.
    pub hooks: Hooks,
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operators: Vec<String> = self.probes.lock().keys().cloned().collect();
        formatter
            .debug_struct("Endpoints")
            .field("operators", &operators)
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// An operator among the endpoints, until it is dropped.
pub struct Registration {
    endpoints: Endpoints,
    operator: String,
}

/// The path of the state of the operators.
pub(crate) const STATUS: &str = "/status";

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: TEXT, body: body.into() }
    }
}

impl Endpoints {
    /// Adds the probes of an operator.
    pub fn register(&self, operator: &str, probes: Probes) -> Registration {
        self.probes.lock().insert(operator.to_owned(), Arc::new(probes));
        self.started.send_if_modified(|started| started.insert(operator.to_owned()));
        Registration { endpoints: self.clone(), operator: operator.to_owned() }
    }

    /// Waits until these operators have started.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn started(&self, operators: &BTreeSet<String>) {
        // The sender lives as long as this handle.
        drop(self.started.subscribe().wait_for(|started| operators.is_subset(started)).await);
    }

    /// Tells whether a path is one of the endpoints. Their paths precede those of hooks.
    pub fn is_endpoint(path: &str, probes: &str) -> bool {
        path == probes || ["/readyz", "/livez", "/metrics", STATUS].contains(&path)
    }

    /// Returns the answer for a path. `probes` is the path of the probes; it precedes the others.
    pub async fn answer(&self, path: &str, probes: &str) -> Answer {
        match path {
            path if path == probes => {
                self.probes().await.unwrap_or_else(|| Answer::text(503, "no operator is running\n"))
            }
            "/readyz" => {
                let mut answer = health(self.health.unready());
                for note in self.health.notes() {
                    answer.body = format!("{}note: {note}\n", answer.body);
                }
                answer
            }
            "/livez" => health(self.health.dead()),
            "/metrics" => Answer { status: 200, content_type: Metrics::CONTENT_TYPE, body: self.metrics.text() },
            STATUS => Answer { status: 200, content_type: JSON, body: self.status() },
            _ => Answer::text(404, format!("there are {probes}, /readyz, /livez, /metrics, and /status\n")),
        }
    }

    fn status(&self) -> String {
        // The document consists of texts and numbers only.
        serde_json::to_string(&self.board.status(&self.health)).unwrap_or_default()
    }

    /// Returns the answer with the results of all probes; `None` if no operator runs.
    ///
    /// With several operators, the ids of probes begin with the name of their operator.
    pub async fn probes(&self) -> Option<Answer> {
        let operators: Vec<(String, Arc<Probes>)> =
            self.probes.lock().iter().map(|(name, probes)| (name.clone(), Arc::clone(probes))).collect();
        if operators.is_empty() {
            return None;
        }
        let has_prefix = operators.len() > 1;
        let runs = operators.iter().map(|(_, probes)| probes.results());
        let mut body = Map::new();
        for ((operator, _), ended) in operators.iter().zip(futures::future::join_all(runs).await) {
            match ended {
                Ok(results) => collect(&mut body, &results, has_prefix.then_some(operator.as_str())),
                Err(error) if has_prefix => {
                    return Some(Answer::text(500, format!("operator '{operator}': {error}\n")));
                }
                Err(error) => return Some(Answer::text(500, format!("{error}\n"))),
            }
        }
        Some(Answer { status: 200, content_type: JSON, body: Value::Object(body).to_string() })
    }
}

fn collect(body: &mut Map<String, Value>, results: &Results, prefix: Option<&str>) {
    for (id, result) in results {
        let id = prefix.map_or_else(|| id.clone(), |prefix| format!("{prefix}/{id}"));
        body.insert(id, result.clone());
    }
}

fn health(reasons: std::collections::BTreeSet<String>) -> Answer {
    if reasons.is_empty() {
        return Answer::text(200, "ok\n");
    }
    Answer::text(503, reasons.into_iter().collect::<Vec<_>>().join("\n") + "\n")
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.endpoints.probes.lock().remove(&self.operator);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::engines::activities::Activities;
    use crate::engines::effects::Scripts;
    use crate::engines::events::EventStream;
    use crate::handling::{Handler, On, Verdict};
    use crate::kit::{Clock, Stop};
    use crate::manifest::Settings;
    use crate::manifest::operator::{Activity, Moment};
    use crate::object::Patch;
    use crate::script::{Call, Evaluation, Returned, Subject};

    /// Handlers return their ids; the one with the id `bad` fails, and `silent` returns nothing.
    struct Ids;

    impl Scripts for Ids {
        fn call<'a>(&'a self, handler: &'a Handler, _: Call) -> BoxFuture<'a, Returned> {
            let verdict = match handler.id.as_str() {
                "bad" => Verdict::Permanent { text: "no disk".to_owned() },
                "silent" => Verdict::Returned(None),
                id => Verdict::Returned(Some(json!(id))),
            };
            std::future::ready(Returned::new(verdict, Patch::default())).boxed()
        }

        fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
            std::future::ready(Ok(true)).boxed()
        }
    }

    fn register(endpoints: &Endpoints, operator: &str, ids: &[&str]) -> Registration {
        let declared =
            ids.iter().map(|id| Activity { handler: Handler::simple(id, On::Activity), moment: Moment::Probe });
        let settings = Settings::default();
        let activities =
            Activities::new(Arc::new(Ids), declared.collect(), &settings, Clock::system(), EventStream::default());
        endpoints.register(operator, Probes::new(Arc::new(activities), Stop::new()))
    }

    async fn ask(endpoints: &Endpoints, path: &str) -> (u16, String) {
        let answer = endpoints.answer(path, "/healthz").await;
        (answer.status, answer.body)
    }

    #[tokio::test(start_paused = true)]
    async fn probes_of_several_operators_have_their_names_as_prefixes() {
        let endpoints = Endpoints::default();
        assert_eq!(ask(&endpoints, "/healthz").await, (503, "no operator is running\n".to_owned()));
        let one = register(&endpoints, "one", &["alive", "silent"]);
        assert_eq!(ask(&endpoints, "/healthz").await, (200, r#"{"alive":"alive"}"#.to_owned()));
        let other = register(&endpoints, "other", &[]);
        assert_eq!(ask(&endpoints, "/healthz").await, (200, r#"{"one/alive":"alive"}"#.to_owned()));
        drop(other);
        let broken = register(&endpoints, "broken", &["bad"]);
        let text = "operator 'broken': the probe 'bad' has failed: no disk\n";
        assert_eq!(ask(&endpoints, "/healthz").await, (500, text.to_owned()));
        drop((one, broken));
        assert_eq!(ask(&endpoints, "/healthz").await.0, 503);
        endpoints.started(&["one", "other", "broken"].map(str::to_owned).into()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn other_paths_are_those_of_health_and_metrics() {
        let endpoints = Endpoints::default();
        assert_eq!(ask(&endpoints, "/readyz").await, (200, "ok\n".to_owned()));
        let gates =
            (endpoints.health.gate("index 'a' is being filled"), endpoints.health.gate("operator 'b' is starting"));
        assert_eq!(
            ask(&endpoints, "/readyz").await,
            (503, "index 'a' is being filled\noperator 'b' is starting\n".to_owned())
        );
        assert_eq!(ask(&endpoints, "/livez").await, (200, "ok\n".to_owned()));
        drop(gates);
        endpoints.health.note("files", Some("operator.yaml:1:1: a mistake".to_owned()));
        assert_eq!(ask(&endpoints, "/readyz").await, (200, "ok\nnote: operator.yaml:1:1: a mistake\n".to_owned()));
        endpoints.health.note("files", None);
        assert_eq!(ask(&endpoints, "/readyz").await, (200, "ok\n".to_owned()));
        assert!(ask(&endpoints, "/metrics").await.1.contains("kopfd_build_info{"));
        let (code, status) = ask(&endpoints, "/status").await;
        assert!(
            code == 200 && status.contains(r#""kind":"Status""#) && status.contains(r#""operators":[]"#),
            "{code}: {status}"
        );
        assert_eq!(ask(&endpoints, "/elsewhere").await.0, 404);
        // The path of the URL precedes the others.
        let answer = endpoints.answer("/livez", "/livez").await;
        assert_eq!(answer.status, 503);
    }
}
