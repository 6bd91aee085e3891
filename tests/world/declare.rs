//! Handlers and storages of the vectors.

use std::sync::Arc;
use std::time::Duration;

use kopfd::handling::contradiction::{self, Contradiction};
use kopfd::handling::spawning::Cancellation;
use kopfd::handling::{ErrorMode, Filters, Handler, Lifecycle, Matcher, On, Policy};
use kopfd::object::{EventKind, FieldPath, Resource, Selector};
use kopfd::persistence::{
    DiffbaseAnnotations, DiffbaseStatus, DiffbaseStorage, ProgressAnnotations, ProgressStatus, ProgressStorage,
    Storages,
};
use serde_json::Value;

use super::callbacks::Callbacks;

/// The behaviour of the handlers of one case.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) handlers: Vec<Arc<Handler>>,
    pub(crate) scripts: Vec<Script>,
    pub(crate) callbacks: Callbacks,
}

/// The behaviour of one handler; the number of its target is its index among the scripts.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// The id in the vectors: without the field.
    pub(crate) id: String,
    /// The declared id: without those of parents.
    pub(crate) name: String,
    /// The declared options.
    pub(crate) options: Value,
    /// The steps of the calls; the last one repeats.
    pub(crate) steps: Vec<Value>,
    /// The sub-handlers registered by each call.
    pub(crate) subs: Vec<Handler>,
    /// The time limits of stopping it, for daemons.
    pub(crate) cancellation: Cancellation,
}

impl Declared {
    /// Returns all handlers of a case.
    pub(crate) fn of(specs: &Value) -> Result<Self, Contradiction> {
        let mut declared = Self::default();
        for spec in specs.as_array().into_iter().flatten() {
            let handler = declared.declare(spec)?;
            declared.handlers.push(Arc::new(handler));
        }
        Ok(declared)
    }

    /// Returns one handler of a cause.
    pub(crate) fn declare(&mut self, spec: &Value) -> Result<Handler, Contradiction> {
        let options = options(spec);
        let on = match spec["on"].as_str().unwrap_or_default() {
            "create" => On::Create,
            "update" => On::Update,
            "delete" => On::Delete { optional: options["optional"] == true },
            "resume" => On::Resume { deleted: options["deleted"] == true },
            "field" => On::Field,
            "event" => On::Event,
            "index" => On::Index,
            "daemon" => On::Daemon,
            "timer" => On::Timer,
            other => panic!("handlers on {other:?} are unknown"),
        };
        let base = text(&spec["id"]).unwrap_or_else(|| "fn".to_owned());
        let kind = text(&spec["resource"]).unwrap_or_else(|| "kopfexamples".to_owned());
        let selector = Selector::parse(&kind).expect("the vectors name kinds well");
        let field = field(&options["field"]);
        let suffixed = field.as_ref().filter(|_| on != On::Index);
        let id = suffixed.map_or_else(|| base.clone(), |field| format!("{base}/{}", field.suffix()));
        let handler = Handler { field, selectors: vec![selector], ..Handler::simple(&id, on) };
        self.complete(handler, base, spec)
    }

    fn declare_sub(&mut self, parent: &Handler, parent_base: &str, spec: &Value) -> Result<Handler, Contradiction> {
        let base = text(&spec["id"]).unwrap_or_default();
        let on = On::Sub { needs_change: parent.on.needs_change() };
        let handler =
            Handler { field: field(&options(spec)["field"]), ..Handler::simple(&format!("{}/{base}", parent.id), on) };
        self.complete(handler, format!("{parent_base}/{base}"), spec)
    }

    fn complete(&mut self, handler: Handler, base: String, spec: &Value) -> Result<Handler, Contradiction> {
        let options = options(spec);
        let target = self.scripts.len();
        // Every declaration of the vectors has its own function; stories may name a shared one.
        let function = text(&spec["function"]).unwrap_or_else(|| format!("function {target}"));
        let handler = Handler { target, function, filters: self.filters(options), policy: policy(options), ..handler };
        if let Some(contradiction) = contradiction::find(&handler) {
            return Err(contradiction);
        }
        let cancellation = Cancellation {
            backoff: duration(&options["cancellation_backoff"]),
            timeout: duration(&options["cancellation_timeout"]),
            polling: duration(&options["cancellation_polling"]).unwrap_or(Duration::from_mins(1)),
        };
        let steps = spec["script"].as_array().cloned().or_else(|| spec.get("outcome").map(|step| vec![step.clone()]));
        let name = text(&spec["id"]).unwrap_or_else(|| base.clone());
        let steps = steps.unwrap_or_default();
        self.scripts.push(Script {
            id: base.clone(),
            name,
            options: options.clone(),
            steps,
            subs: Vec::new(),
            cancellation,
        });
        for sub in spec["subs"].as_array().into_iter().flatten() {
            let sub = self.declare_sub(&handler, &base, sub)?;
            self.scripts[target].subs.push(sub);
        }
        Ok(handler)
    }

    fn filters(&mut self, options: &Value) -> Filters {
        let mut map = |key: &str| -> Vec<(String, Matcher)> {
            let patterns = options[key].as_object().into_iter().flatten();
            patterns.map(|(key, pattern)| (key.clone(), self.matcher(pattern, true))).collect()
        };
        let (labels, annotations) = (map("labels"), map("annotations"));
        let mut side = |key: &str| {
            Some(&options[key]).filter(|pattern| !pattern.is_null()).map(|pattern| self.matcher(pattern, false))
        };
        let (value, old, new) = (side("value"), side("old"), side("new"));
        let when = options.get("when").map(|spec| self.callbacks.add(spec, false));
        Filters { labels, annotations, value, old, new, when }
    }

    fn matcher(&mut self, pattern: &Value, is_null_if_absent: bool) -> Matcher {
        match pattern.get("$filter").and_then(Value::as_str) {
            Some("PRESENT") => Matcher::Present,
            Some("ABSENT") => Matcher::Absent,
            Some(other) => panic!("the filter {other:?} is unknown"),
            None if pattern.get("$fn").is_some() => Matcher::When(self.callbacks.add(pattern, is_null_if_absent)),
            None => Matcher::Equals(pattern.clone()),
        }
    }
}

/// Returns the options, which some vectors have next to the id, others below it.
fn options(spec: &Value) -> &Value {
    spec.get("options").unwrap_or(spec)
}

/// Returns the duration of seconds in the vectors, if it is one; out-of-range values are cut.
pub(crate) fn duration(seconds: &Value) -> Option<Duration> {
    seconds.as_f64().map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn policy(options: &Value) -> Policy {
    let errors = options["errors"].as_str().map(|word| match word {
        "ignored" => ErrorMode::Ignored,
        "temporary" => ErrorMode::Temporary,
        "permanent" => ErrorMode::Permanent,
        other => panic!("the error mode {other:?} is unknown"),
    });
    let (retries, timeout, backoff) =
        (options["retries"].as_u64(), duration(&options["timeout"]), duration(&options["backoff"]));
    Policy { retries, timeout, backoff, errors }
}

/// Returns the keys of a field, which vectors have as dotted texts or as lists.
pub(crate) fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Array(keys) => keys.iter().filter_map(text).collect(),
        _ => text(value).unwrap_or_default().split('.').map(str::to_owned).collect(),
    }
}

fn field(value: &Value) -> Option<FieldPath> {
    (!value.is_null()).then(|| FieldPath::of_keys(keys(value)))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns the event kind of a watch event's type.
pub(crate) fn event_kind(event_type: &Value) -> EventKind {
    match event_type.as_str() {
        None => EventKind::Listed,
        Some("ADDED") => EventKind::Added,
        Some("DELETED") => EventKind::Deleted,
        Some(_) => EventKind::Modified,
    }
}

/// Returns a lifecycle by its name; kopf's default without a name.
pub(crate) fn lifecycle(name: &Value) -> Lifecycle {
    match name.as_str().unwrap_or("asap") {
        "asap" => Lifecycle::Asap,
        "all_at_once" => Lifecycle::AllAtOnce,
        "one_by_one" => Lifecycle::OneByOne,
        "randomized" => Lifecycle::Randomized,
        "shuffled" => Lifecycle::Shuffled,
        other => panic!("the lifecycle {other:?} is unknown"),
    }
}

/// Returns the kind of the vectors.
pub(crate) fn resource(subresources: &Value) -> Arc<Resource> {
    Arc::new(Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        kind: "KopfExample".into(),
        singular: "kopfexample".into(),
        subresources: subresources.as_array().into_iter().flatten().filter_map(text).collect(),
        namespaced: true,
        preferred: true,
        verbs: ["list", "watch", "patch"].map(str::to_owned).to_vec(),
        ..Resource::default()
    })
}

/// Returns the storages of a case, with kopf's defaults.
pub(crate) fn storages(diffbase: &Value, progress: &Value, finalizer: &Value) -> Storages {
    let defaults = Storages::default();
    Storages {
        finalizer: text(finalizer).unwrap_or(defaults.finalizer),
        progress: if progress.is_null() { defaults.progress } else { self::progress(progress) },
        diffbase: if diffbase.is_null() { defaults.diffbase } else { self::diffbase(diffbase) },
        secrets: defaults.secrets,
    }
}

fn progress(spec: &Value) -> ProgressStorage {
    let annotations = || {
        let defaults = ProgressAnnotations::default();
        ProgressAnnotations {
            prefix: text(&spec["prefix"]).unwrap_or(defaults.prefix),
            v1: spec["v1"].as_bool().unwrap_or(defaults.v1),
            verbose: spec["verbose"].as_bool().unwrap_or(defaults.verbose),
            touch_key: text(&spec["touch_key"]).unwrap_or(defaults.touch_key),
        }
    };
    let status = || {
        let name = spec["name"].as_str().unwrap_or("kopf");
        let defaults = ProgressStatus::named(name);
        let named = |key: &str, default: Vec<String>| {
            text(&spec[key]).map_or(default, |field| dotted(&field.replace("{name}", name)))
        };
        ProgressStatus {
            field: named("field", defaults.field),
            touch_field: named("touch_field", defaults.touch_field),
        }
    };
    match spec["kind"].as_str().unwrap_or("smart") {
        "smart" => ProgressStorage::Smart { annotations: annotations(), status: status() },
        "annotations" => ProgressStorage::Annotations(annotations()),
        "status" => ProgressStorage::Status(status()),
        "multi" => match spec["storages"].as_array() {
            Some(storages) => ProgressStorage::Multi(storages.iter().map(progress).collect()),
            None => ProgressStorage::Multi(vec![
                ProgressStorage::Annotations(annotations()),
                ProgressStorage::Status(status()),
            ]),
        },
        other => panic!("the storage {other:?} is unknown"),
    }
}

fn diffbase(spec: &Value) -> DiffbaseStorage {
    let ignored_fields = || spec["ignored_fields"].as_array().into_iter().flatten().map(keys).collect();
    match spec["kind"].as_str().unwrap_or("annotations") {
        "annotations" => {
            let defaults = DiffbaseAnnotations::default();
            DiffbaseStorage::Annotations(DiffbaseAnnotations {
                prefix: text(&spec["prefix"]).unwrap_or(defaults.prefix),
                key: text(&spec["key"]).unwrap_or(defaults.key),
                v1: spec["v1"].as_bool().unwrap_or(defaults.v1),
                ignored_fields: ignored_fields(),
            })
        }
        "status" => {
            let name = spec["name"].as_str().unwrap_or("kopf");
            let field = text(&spec["field"]).map(|field| dotted(&field.replace("{name}", name)));
            let field = field.unwrap_or_else(|| DiffbaseStatus::named(name).field);
            DiffbaseStorage::Status(DiffbaseStatus { field, ignored_fields: ignored_fields() })
        }
        "multi" => DiffbaseStorage::Multi(spec["storages"].as_array().into_iter().flatten().map(diffbase).collect()),
        other => panic!("the storage {other:?} is unknown"),
    }
}

fn dotted(field: &str) -> Vec<String> {
    field.split('.').map(str::to_owned).collect()
}
