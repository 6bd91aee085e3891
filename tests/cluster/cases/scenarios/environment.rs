//! The environment of a scenario: its own namespaces in the cluster, and the binary with its log.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use kopfd::handling::{Handler, On};
use kopfd::scenario::{
    Expectation, ManualPatch, Observations, ObservedObject, Question, Scenario, Step, Subject, Target, Timeline, verify,
};
use serde_json::{Value, json};

use super::log;
use crate::harness::{Kind, Launch, Operator, TestContext, last_handled};

/// How long the log must be silent before the scenario continues.
const QUIET: Duration = Duration::from_secs(1);

/// Time limit of an expectation: the garbage collector needs time.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The annotations that stay when nothing is in progress.
const RESTING: [&str; 3] = ["last-handled-configuration", "kopf-managed", "touch-dummy"];

/// One scenario on the real cluster.
pub(crate) struct RealEnvironment<'s, 'c> {
    context: &'s TestContext<'c>,
    /// The scenario.
    pub(crate) scenario: &'s Scenario,
    /// The namespace used for `default`, and the prefix of others.
    base: String,
    launch: Launch,
    operator: RefCell<Option<Rc<Operator>>>,
    /// The length of the log when the current operator started.
    begun: Cell<usize>,
    resources: RefCell<Vec<Resource>>,
    applied: RefCell<Vec<Applied>>,
}

/// An applied object.
struct Applied {
    path: String,
    /// Whether its kind belongs to the example, so that the operator handles it.
    is_handled: bool,
}

/// A kind from discovery.
#[derive(Clone)]
struct Resource {
    kind: Kind,
    /// Its other names.
    names: Vec<String>,
}

impl<'s, 'c> RealEnvironment<'s, 'c> {
    /// Creates the environment of the n-th scenario of a case.
    pub(crate) fn new(context: &'s TestContext<'c>, scenario: &'s Scenario, number: usize) -> Self {
        assert!(scenario.namespaces.is_empty(), "{}: patterns of namespaces are not translated", scenario.name);
        let base = format!("{}-{number}", context.namespace);
        context.make_namespace(&base);
        let [operator] = scenario.operators.as_slice() else { panic!("{}: one operator is played", scenario.name) };
        let launch = context.launch_source(&operator.file);
        let launch = Launch {
            namespaces: vec![base.clone(), format!("{base}-*")],
            options: ["--verbose", "--log-format=json"].map(String::from).to_vec(),
            log: context.directory().join(format!("scenario-{number}.log")),
            ..launch
        };
        let launch = context.with_derived_rights(launch);
        Self {
            context,
            scenario,
            base,
            launch,
            operator: RefCell::default(),
            begun: Cell::default(),
            resources: RefCell::default(),
            applied: RefCell::default(),
        }
    }

    /// Applies the initial objects.
    pub(crate) fn give(&self) {
        self.scenario.given.iter().for_each(|given| self.apply(&given.object));
    }

    /// Starts the operator, and waits until it watches.
    pub(crate) fn start(&self) {
        self.begun.set(self.log().len());
        let operator = self.context.start(&self.launch);
        self.operator.replace(Some(Rc::clone(&operator)));
        let declared = &self.scenario.operators[0];
        let mut lines = Vec::new();
        if declared.object_handlers().next().is_some() {
            lines.push(" watches ");
        }
        if !declared.webhooks.is_empty() {
            lines.extend(["The ValidatingWebhookConfiguration '", "The MutatingWebhookConfiguration '"]);
        }
        assert!(!lines.is_empty(), "{}: its log tells when the operator is ready", self.scenario.name);
        self.context.eventually("the operator is ready", || {
            let log = operator.log();
            lines.iter().all(|line| log[self.begun.get()..].contains(line)).then_some(())
        });
    }

    /// Stops the operator as a user would.
    pub(crate) fn stop(&self) {
        self.context.stop(&self.operator.take().expect("the operator runs"));
    }

    /// Kills the operator.
    pub(crate) fn kill(&self) {
        self.context.kill(&self.operator.take().expect("the operator runs"));
    }

    /// Waits until the operator has handled the current state of applied objects, and logs nothing for a moment.
    pub(crate) fn settle(&self, step: &Step) {
        let seen = Cell::new((self.log().len(), Instant::now()));
        self.context.eventually_within(TIMEOUT, &self.of(step), || {
            let length = self.log().len();
            if length != seen.get().0 || self.applied.borrow().iter().any(|applied| self.is_in_progress(applied)) {
                seen.set((length, Instant::now()));
            }
            (seen.get().1.elapsed() >= QUIET).then_some(())
        });
    }

    /// Waits until an expectation is fulfilled.
    pub(crate) fn expect(&self, step: &Step, expectation: &Expectation) {
        let what = RefCell::new(String::new());
        let started = Instant::now();
        self.context.eventually_within(TIMEOUT + QUIET, &self.of(step), || {
            let account = Account {
                environment: self,
                timeline: log::timeline(&self.log(), |real_namespace| self.declared_namespace(real_namespace)),
            };
            let differences = verify(&account, step.spot, expectation).now_or_never().expect("nothing is waited for");
            let lines: Vec<String> =
                differences.iter().map(|one| format!("line {}: {}", one.spot.line, one.text)).collect();
            *what.borrow_mut() = lines.join("\n");
            assert!(differences.is_empty() || started.elapsed() < TIMEOUT, "{}\n{}", self.of(step), what.borrow());
            differences.is_empty().then_some(())
        });
    }

    /// Applies an object as kubectl would.
    pub(crate) fn apply(&self, object: &Value) {
        let mut object = object.clone();
        let name = object["metadata"]["name"].as_str().expect("objects of scenarios have names").to_owned();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let is_meant = |resource: &Resource| resource.kind.api_version() == version && resource.kind.name == kind;
        let kind = self.context.eventually(&format!("{version} {kind} is served"), || self.resource(is_meant)).kind;
        let name = if kind.selector() == "namespaces" { self.real_namespace(&name) } else { name };
        object["metadata"]["name"] = json!(name);
        let namespace = self.real_namespace(object["metadata"]["namespace"].as_str().unwrap_or("default"));
        if kind.namespaced {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let path = kind.path(&namespace, &name);
        let query = format!("{path}?fieldManager=kubectl&force=true");
        // A new kind is not served at once by all parts of the server.
        self.context.eventually(&format!("{path} is applied"), || {
            match self.context.client().request("PATCH", &query, "application/apply-patch+yaml", Some(&object)) {
                Ok(_) => Some(()),
                Err(failure) if failure.status == 404 => None,
                Err(failure) => panic!("{path} is not applied: {failure}"),
            }
        });
        let has_handlers = self.scenario.operators.iter().any(|operator| operator.object_handlers().next().is_some());
        let is_handled = has_handlers && kind.group.contains('.') && !kind.group.ends_with("k8s.io");
        self.applied.borrow_mut().push(Applied { path, is_handled });
    }

    /// Patches an object.
    pub(crate) fn patch(&self, change: &ManualPatch) {
        let below = change.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let path = format!(
            "{}{below}?fieldManager=kubectl",
            self.find(&change.target).expect("it is clear what is patched").0
        );
        let sent = self.context.client().request("PATCH", &path, change.media, Some(&change.patch));
        sent.unwrap_or_else(|failure| panic!("{} is not patched: {failure}", change.target));
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, target: &Target, propagation: Option<&str>) {
        let path = self.find(target).expect("it is clear what is deleted").0;
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.unwrap_or("Background")});
        let sent = self.context.client().request("DELETE", &path, "application/json", Some(&options));
        sent.unwrap_or_else(|failure| panic!("{target} is not deleted: {failure}"));
    }

    /// Returns the path of the target, its kind, its namespace, and the object if it exists.
    fn find(&self, target: &Target) -> Result<(String, Kind, String, Option<Value>), String> {
        let wanted = target.resource.to_lowercase();
        let kind = self
            .resource(|resource| resource.is_called(&wanted))
            .ok_or_else(|| format!("there is no resource {wanted}"))?
            .kind;
        let namespaces = target
            .namespace
            .as_ref()
            .map_or_else(|| self.namespaces(), |namespace| vec![self.real_namespace(namespace)]);
        let mut found = namespaces.iter().filter_map(|namespace| {
            let path = kind.path(namespace, &target.name);
            let object = self.context.client().get(&path)?;
            Some((path, kind.clone(), namespace.clone(), Some(object)))
        });
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Ok((kind.path(&namespaces[0], &target.name), kind.clone(), namespaces[0].clone(), None)),
            (Some(_), Some(_)) => Err(format!("{target} is ambiguous")),
        }
    }

    fn namespaces(&self) -> Vec<String> {
        let all = self.context.client().list("/api/v1/namespaces");
        let names = all.iter().filter_map(|namespace| namespace["metadata"]["name"].as_str());
        let below = format!("{}-", self.base);
        std::iter::once(self.base.clone())
            .chain(names.filter(|name| name.starts_with(&below)).map(str::to_owned))
            .collect()
    }

    /// Returns the namespace in the cluster for one of the scenario.
    fn real_namespace(&self, declared_namespace: &str) -> String {
        if declared_namespace == "default" { self.base.clone() } else { format!("{}-{declared_namespace}", self.base) }
    }

    /// Returns the namespace of the scenario for one in the cluster.
    fn declared_namespace(&self, real_namespace: &str) -> String {
        match real_namespace.strip_prefix(&self.base) {
            Some("") => "default".to_owned(),
            Some(rest) => rest.trim_start_matches('-').to_owned(),
            None => real_namespace.to_owned(),
        }
    }

    /// Finds a kind; unknown ones are discovered.
    fn resource(&self, is_meant: impl Fn(&Resource) -> bool) -> Option<Resource> {
        let known = self.resources.borrow().iter().find(|resource| is_meant(resource)).cloned();
        known.or_else(|| {
            self.resources.replace(discover(self.context));
            self.resources.borrow().iter().find(|resource| is_meant(resource)).cloned()
        })
    }

    fn is_in_progress(&self, applied: &Applied) -> bool {
        let Some(object) = self.context.client().get(&applied.path) else { return false };
        let metadata = &object["metadata"];
        let is_record =
            |key: &String| key.strip_prefix("kopf.zalando.org/").is_some_and(|name| !RESTING.contains(&name));
        let has_records =
            metadata["annotations"].as_object().is_some_and(|annotations| annotations.keys().any(is_record));
        has_records
            || metadata.get("deletionTimestamp").is_some()
            || (applied.is_handled && !self.is_up_to_date(&object))
    }

    /// Tells whether this operator run has seen an object, and its current spec is stored as handled, if it has change
    /// handlers.
    fn is_up_to_date(&self, object: &Value) -> bool {
        let uid = object["metadata"]["uid"].as_str().expect("objects of a server have unique ids");
        let is_seen = self.log()[self.begun.get()..].contains(uid);
        let follows = |handler: &Handler| matches!(handler.on, On::Update | On::Field);
        let follows_changes = self.scenario.operators.iter().flat_map(|operator| &operator.handlers).any(follows);
        let is_handled = |essence: Value| !follows_changes || essence["spec"] == object["spec"];
        is_seen && last_handled(object).is_some_and(is_handled)
    }

    fn log(&self) -> String {
        std::fs::read(&self.launch.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn of(&self, step: &Step) -> String {
        format!("{}: {}: line {}: {}", self.scenario.file().display(), self.scenario.name, step.spot.line, step.title)
    }
}

impl Resource {
    fn is_called(&self, name: &str) -> bool {
        name == self.kind.selector() || name == self.kind.plural || self.names.iter().any(|other| other == name)
    }
}

/// Returns all kinds of the cluster in their preferred versions.
fn discover(context: &TestContext<'_>) -> Vec<Resource> {
    let groups = context.client().get("/apis").expect("groups are discovered");
    let groups = groups["groups"].as_array().expect("groups are a list").iter();
    let versions = groups.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str()).map(str::to_owned);
    std::iter::once("v1".to_owned()).chain(versions).flat_map(|version| resources_of(context, &version)).collect()
}

fn resources_of(context: &TestContext<'_>, group_version: &str) -> Vec<Resource> {
    let root = if group_version == "v1" { "/api" } else { "/apis" };
    // A group of another case may be about to appear.
    let Some(list) = context.client().get(&format!("{root}/{group_version}")) else { return Vec::new() };
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resources = list["resources"].as_array().cloned().unwrap_or_default();
    let read = |resource: &Value| {
        let text = |key: &str| resource[key].as_str().unwrap_or_default().to_owned();
        let mut kind = Kind::of_group(group).named(&text("kind"), &text("name"));
        version.clone_into(&mut kind.version);
        kind.namespaced = resource["namespaced"] == true;
        let short =
            resource["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let names = short.chain([text("singularName"), text("kind").to_lowercase()]).collect();
        Resource { kind, names }
    };
    resources
        .iter()
        .filter(|resource| !resource["name"].as_str().is_some_and(|name| name.contains('/')))
        .map(read)
        .collect()
}

/// The observations for verifying a scenario at one moment.
struct Account<'a, 's, 'c> {
    environment: &'a RealEnvironment<'s, 'c>,
    timeline: Timeline,
}

impl Observations for Account<'_, '_, '_> {
    fn object(&self, target: &Target) -> Result<ObservedObject, String> {
        let (_, kind, namespace, value) = self.environment.find(target)?;
        let namespace = if kind.namespaced { self.environment.declared_namespace(&namespace) } else { String::new() };
        let subject = Subject { group: kind.group, kind: kind.name, namespace, name: target.name.clone() };
        Ok(ObservedObject { subject, plural: kind.plural, value: value.map(Arc::new) })
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn events(&self) -> Vec<Arc<Value>> {
        let in_all = self.environment.namespaces().into_iter();
        in_all
            .flat_map(|namespace| {
                self.environment.context.client().list(&format!("/api/v1/namespaces/{namespace}/events"))
            })
            .map(Arc::new)
            .collect()
    }

    async fn evaluate(&self, _: &Question) -> Result<bool, String> {
        Err("expressions in matchers are not evaluated on the real cluster".to_owned())
    }
}
