//! A small environment for scripts: one operator, one object, a host in virtual time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopfd::handling::progress::BrokenRecord;
use kopfd::handling::{
    Candidate, Change, Filters, Handler, Lifecycle, On, Policy, Predicate, Reason, Record, Records, Verdict,
};
use kopfd::kit::source::SourcePosition;
use kopfd::kit::{Clock, Stop};
use kopfd::object::{Body, Patch, Resource};
use kopfd::script::{
    Binding, BindingKind, Call, Code, Declaration, Evaluation, Expression, Host, Installed, Limits, Object, ObjectMemo,
    Options, Problem, Program, Returned, Subhandling, Subject, Threads,
};
use serde_json::{Value, json};
use tokio::task::LocalSet;

pub(crate) const START: &str = "2020-01-01T00:00:00Z";

/// A builder of an operator.
pub(crate) struct Operator {
    folder: tempfile::TempDir,
    pub(crate) declaration: Declaration,
}

impl Operator {
    /// Returns an operator with this `main.rhai`.
    pub(crate) fn new(main: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let declaration =
            Declaration { root: folder.path().to_owned(), operator: "kopfd".into(), ..Declaration::default() };
        Self { folder, declaration }.with_file("main.rhai", main)
    }

    pub(crate) fn with_file(self, name: &str, text: &str) -> Self {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Binds a function of `main.rhai`, with these limits.
    pub(crate) fn binds(mut self, name: &str, limits: Limits) -> Self {
        let code = Code::Function { file: "main.rhai".into(), name: name.into() };
        self.declaration.bindings.push(binding(name, code, limits));
        self
    }

    /// Binds an inline text of the manifest at line 10, column 8.
    pub(crate) fn runs(mut self, text: &str) -> Self {
        let place = SourcePosition { file: "operator.yaml".into(), line: 10, column: 8 };
        let code = Code::Inline { text: text.into(), place, file: Some("main.rhai".into()) };
        self.declaration.bindings.push(binding("inline", code, Limits::default()));
        self
    }

    /// Binds an inline text of the manifest for another kind than changes.
    pub(crate) fn runs_for(mut self, kind: BindingKind, text: &str) -> Self {
        self = self.runs(text);
        if let Some(binding) = self.declaration.bindings.last_mut() {
            binding.kind = kind;
        }
        self
    }

    pub(crate) fn asks(mut self, text: &str, has_value: bool) -> Self {
        let place = SourcePosition { file: "operator.yaml".into(), line: 20, column: 12 };
        let (kind, file) = (BindingKind::Change, Some("main.rhai".into()));
        self.declaration.expressions.push(Expression {
            text: text.into(),
            place,
            kind,
            has_value,
            file,
            is_delay: false,
        });
        self
    }

    pub(crate) async fn start(self) -> World {
        self.start_on(Threads::Current).await.unwrap()
    }

    pub(crate) async fn start_on(self, threads: Threads) -> Result<World, Vec<Problem>> {
        self.start_with(Options { threads, ..Options::default() }).await
    }

    pub(crate) async fn start_with(self, options: Options) -> Result<World, Vec<Problem>> {
        self.start_at(options, Clock::starting_at(START.parse().unwrap())).await
    }

    pub(crate) async fn start_at(self, options: Options, clock: Clock) -> Result<World, Vec<Problem>> {
        let host = Host::start(Options { clock, ..options }).unwrap();
        let program = Program::load(self.declaration.clone())?;
        let installed = host.install(Arc::new(program)).await?;
        Ok(World {
            host: Arc::new(host),
            installed: Arc::new(installed),
            records: Arc::default(),
            body: object(),
            _folder: self.folder,
        })
    }
}

fn binding(id: &str, code: Code, limits: Limits) -> Binding {
    Binding {
        id: id.into(),
        code,
        kind: BindingKind::Change,
        limits,
        place: SourcePosition::default(),
        param: Value::Null,
    }
}

/// Returns the handled object.
pub(crate) fn object() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Example",
        "metadata": {"name": "obj", "namespace": "ns", "uid": "u-1", "labels": {"app": "web", "tier": "db"}},
        "spec": {"size": 3, "name": "x", "none": null, "list": [1, 2, {"a": "b"}], "nested": {"deep": {"leaf": true}}},
    })
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Stored(pub BTreeMap<String, Record>);

impl Records for Stored {
    fn record(&self, id: &str) -> Result<Option<Record>, BrokenRecord> {
        Ok(self.0.get(id).cloned())
    }
}

pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) installed: Arc<Installed>,
    pub(crate) records: Arc<Stored>,
    pub(crate) body: Value,
    _folder: tempfile::TempDir,
}

impl World {
    /// Returns the object at its first event, with this key of its memo.
    pub(crate) fn object(&self, memo: &str) -> Object {
        let memo = ObjectMemo { key: memo.into(), origin: self.host.operator_memo() };
        let resource = Resource {
            group: "example.com".into(),
            version: "v1".into(),
            plural: "examples".into(),
            ..Resource::default()
        };
        Object { resource: Arc::new(resource), body: Body::from(self.body.clone()), memo }
    }

    /// Returns the creation of the object.
    pub(crate) fn change(&self) -> Arc<Change> {
        Arc::new(Change::between(None, Some(json!({"spec": self.body["spec"]}))))
    }

    /// Returns the subject of the creation, with this memo.
    pub(crate) fn creation(&self, memo: &str) -> Subject {
        Subject::Change { object: self.object(memo), reason: Reason::Create, change: self.change() }
    }

    pub(crate) fn a_call(&self, target: usize) -> Call {
        let started: Timestamp = START.parse().unwrap();
        Call {
            target,
            subject: self.creation("u-1"),
            patch: Patch::default(),
            retry: 0,
            started,
            param: Value::Null,
            subhandling: Some(Subhandling {
                parent: Arc::new(handler("parent")),
                records: Arc::clone(&self.records) as Arc<dyn Records>,
                purpose: Reason::Create,
                lifecycle: Lifecycle::AllAtOnce,
                default_backoff: Duration::from_mins(1),
                defaults: Policy::default(),
            }),
            stop: Stop::new(),
            span: tracing::Span::none(),
        }
    }

    /// Calls a binding for a subject.
    pub(crate) async fn call_for(&self, target: usize, subject: Subject) -> Returned {
        let call = Call { subject, subhandling: None, param: json!({"p": 1}), retry: 2, ..self.a_call(target) };
        self.host.call(&self.installed, call).await
    }

    pub(crate) async fn call(&self, target: usize) -> Returned {
        self.host.call(&self.installed, self.a_call(target)).await
    }

    pub(crate) async fn ask(&self, number: usize, candidate: Candidate) -> Result<bool, String> {
        self.host
            .evaluate(&self.installed, &self.creation("u-1"), Evaluation { predicate: Predicate(number), candidate })
            .await
    }
}

pub(crate) fn handler(id: &str) -> Handler {
    Handler {
        id: id.into(),
        function: id.into(),
        target: 0,
        on: On::Create,
        selectors: Vec::new(),
        field: None,
        filters: Filters::default(),
        policy: Policy::default(),
        param: Value::Null,
    }
}

/// Runs a future in virtual time, in a `LocalSet` for scripts.
pub(crate) fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// Runs the body of a handler, and returns the result of the call.
pub(crate) fn run(text: &str) -> Returned {
    in_virtual_time(async {
        Operator::new("const LIMIT = 5; fn double(x) { x * 2 }").runs(text).start().await.call(0).await
    })
}

/// Runs the body of a handler, and returns its result.
pub(crate) fn result(text: &str) -> Value {
    match run(text).verdict {
        Verdict::Returned(result) => result.unwrap_or_default(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Runs the body of a handler, and returns the patch.
pub(crate) fn patch(text: &str) -> Value {
    let returned = run(text);
    assert!(matches!(returned.verdict, Verdict::Returned(_)), "{text}: {:?}", returned.verdict);
    Value::Object(returned.patch.merge)
}

/// Runs the body of a handler, and returns the text of its failure.
pub(crate) fn failure(text: &str) -> String {
    match run(text).verdict {
        Verdict::Failed { text, .. } => text,
        other => panic!("{text}: {other:?}"),
    }
}
