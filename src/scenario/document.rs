//! Reads one document of a scenario file down to its steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use crate::manifest::reader::{Fields, Item, Reader};
use crate::manifest::source::reason;
use crate::manifest::tree::Node;
use crate::manifest::{self, Diagnostic, Operator, Severity};
use crate::object::namespace;

use super::expressions::Expressions;
use super::model::{InitialObject, Scenario, Seeds};
use super::read_context::ReadContext;
use super::steps;
use super::stubs::{self, Stubs};

/// `apiVersion` of scenarios.
pub const API_VERSION: &str = "kopfd.dev/v1";
/// `kind` of scenarios.
pub const KIND: &str = "Scenario";

/// Virtual time at which scenarios start by default.
const START: &str = "2020-01-01T00:00:00Z";

/// Hint for a wrong header.
const HEADER_HINT: &str = "a scenario begins with `apiVersion: kopfd.dev/v1` and `kind: Scenario`";

/// Tells whether a document is a scenario.
pub(super) fn is_scenario(root: &Node) -> bool {
    let has = |key: &str, wanted: &str| root.get(key).and_then(Node::text) == Some(wanted);
    has("apiVersion", API_VERSION) && has("kind", KIND)
}

/// Reads a document. `names` holds the scenarios of the file so far, with their lines. Diagnostics of the scenario go
/// to the reader; those of its operators are returned.
pub(super) fn read(
    reader: &Reader,
    root: &Node,
    names: &mut BTreeMap<String, usize>,
) -> (Option<Scenario>, Vec<Diagnostic>) {
    let mut context = ReadContext::new(reader);
    let scenario = context.scenario(root, names);
    (scenario, context.operator_diagnostics)
}

impl ReadContext<'_> {
    fn scenario(&mut self, root: &Node, names: &mut BTreeMap<String, usize>) -> Option<Scenario> {
        let reader = self.reader;
        let top = Item { node: root, path: String::new(), key: root.spot };
        let fields = reader.fields(&top, "a scenario", &["apiVersion", "kind", "metadata", "spec"])?;
        for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if let Some(item) = reader.required(&fields, key, HEADER_HINT)
                && let Some(text) = reader.text(&item)
                && text.value != wanted
            {
                reader.error_with(&item, format!("`{key}` must be `{wanted}`, not `{}`", text.value), HEADER_HINT);
            }
        }
        let name = reader.required(&fields, "metadata", "add `metadata: {name: what it shows}`").and_then(|item| {
            let fields = reader.fields(&item, "the metadata", &["name"])?;
            let item = reader.required(&fields, "name", "describe in a few words what the scenario shows")?;
            let name = reader.owned(&item)?;
            if let Some(line) = names.insert(name.clone(), item.spot().line) {
                let hint = "names must be unique: `--filter` selects scenarios by name";
                reader.error_with(&item, format!("the scenario in line {line} has the same name"), hint);
            }
            Some(name)
        });
        let spec = reader.required(&fields, "spec", "add `spec:` with `operator:` and `steps:`")?;
        let scenario = self.spec(&spec, root.spot.line)?;
        Some(Scenario { name: name?, ..scenario })
    }

    fn spec(&mut self, item: &Item<'_>, line: usize) -> Option<Scenario> {
        let reader = self.reader;
        let known = ["operator", "given", "namespaces", "start", "seeds", "steps"];
        let fields = reader.fields(item, "the spec", &known)?;
        let operators =
            reader.required(&fields, "operator", "name the manifest of the operator: `operator: ../operator.yaml`");
        let operators = operators.and_then(|item| self.operators(&item));
        let declared = operators.iter().flat_map(|operators| operators.iter());
        let handlers = declared.clone().flat_map(|operator| {
            let activities = operator.activities.iter().map(|activity| &activity.handler);
            let schedules = operator.schedules.iter().map(|schedule| &schedule.handler);
            let webhooks = operator.webhooks.iter().map(|webhook| &webhook.handler);
            operator
                .object_handlers()
                .chain(activities)
                .chain(schedules)
                .chain(webhooks)
                .map(|handler| handler.id.clone())
        });
        self.handlers = handlers.collect();
        self.indexes = declared.flat_map(|operator| operator.declaration.indexes.iter().cloned()).collect();
        // A function bound to several reasons counts as one handler.
        self.handlers.sort();
        self.handlers.dedup();
        if has_reloads(&fields) {
            // Other revisions may have other handlers.
            (self.handlers, self.indexes) = (Vec::new(), Vec::new());
        }
        let mut given = operators.as_ref().map(|operators| self.definitions(operators, &fields)).unwrap_or_default();
        let (objects, stubs) = fields.get("given").map(|item| self.given(&item)).unwrap_or_default();
        given.extend(objects);
        let namespaces = reader.list_of(&fields, "namespaces").iter().filter_map(|item| self.namespace(item)).collect();
        let start = fields.get("start").map_or_else(|| START.parse().ok(), |item| self.timestamp(&item));
        let seeds = fields.get("seeds").map(|item| self.seeds(&item)).unwrap_or_default();
        let steps = reader.required(
            &fields,
            "steps",
            "add the steps: `steps: [{apply: {file: obj.yaml}}, {settle: {within: 5m}}]`",
        );
        let steps = steps.map(|item| steps::read(self, &item)).unwrap_or_default();
        let expressions = Expressions::read(self.expressions.take());
        for problem in expressions.problems() {
            reader.report(
                Severity::Error,
                problem.place.span(problem.length),
                "",
                problem.message.clone(),
                problem.hint.clone(),
            );
        }
        Some(Scenario {
            name: String::new(),
            source: reader.source.clone(),
            line,
            operators: operators?,
            given,
            stubs,
            namespaces,
            start: start?,
            seeds,
            expressions,
            has_derived_rights: false,
            records_http: false,
            steps,
        })
    }

    fn operators(&mut self, item: &Item<'_>) -> Option<Arc<Vec<Operator>>> {
        let path = self.file(item)?;
        let loaded = manifest::load(std::slice::from_ref(&path));
        self.add_search_path(path);
        let mut diagnostics = loaded.diagnostics;
        diagnostics.retain(Diagnostic::is_error);
        if diagnostics.is_empty() {
            diagnostics
                .extend(loaded.operators.iter().flat_map(Operator::refuse_unsupported).filter(Diagnostic::is_error));
        }
        if diagnostics.is_empty() {
            return Some(Arc::new(loaded.operators));
        }
        self.operator_diagnostics.extend(diagnostics);
        None
    }

    /// Returns the objects in the `crds` files of the operators' manifests.
    fn definitions(&self, operators: &[Operator], fields: &Fields<'_>) -> Vec<InitialObject> {
        let Some(item) = fields.get("operator") else { return Vec::new() };
        let spot = item.node.spot;
        let of = |file: &PathBuf| {
            let objects = self.objects_of_file(file, &item);
            let file = Some(file.clone());
            objects
                .into_iter()
                .map(move |object| InitialObject { object, spot, file: file.clone() })
                .collect::<Vec<_>>()
        };
        operators.iter().flat_map(|operator| &operator.crds).flat_map(of).collect()
    }

    /// Returns the objects and the stubs of `given`: a list of objects, or a mapping with `objects` and stubs.
    fn given(&self, item: &Item<'_>) -> (Vec<InitialObject>, Stubs) {
        let reader = self.reader;
        if !stubs::is_stubbed_given(item) {
            return (reader.list(item).iter().flat_map(|item| self.initial_objects(item)).collect(), Stubs::default());
        }
        let Some(fields) = reader.fields(item, "what is given", &["objects", "http", "exec", "files", "sql", "pods"])
        else {
            return Default::default();
        };
        let objects = reader.list_of(&fields, "objects").iter().flat_map(|item| self.initial_objects(item)).collect();
        (objects, stubs::read(reader, &fields))
    }

    /// Returns the objects of an item of `given`.
    fn initial_objects(&self, item: &Item<'_>) -> Vec<InitialObject> {
        let spot = item.spot();
        let file = item.node.text().map(PathBuf::from);
        self.objects(item).into_iter().map(|object| InitialObject { object, spot, file: file.clone() }).collect()
    }

    fn namespace(&self, item: &Item<'_>) -> Option<namespace::Pattern> {
        self.reader.text(item).map(|text| namespace::Pattern::of_globs(&text.value))
    }

    fn timestamp(&self, item: &Item<'_>) -> Option<Timestamp> {
        let text = self.reader.text(item)?;
        let moment = text.value.parse();
        if moment.is_err() {
            self.reader.error_with(
                item,
                format!("`{}` is not a timestamp", text.value),
                "write such as `2024-02-29T12:00:00Z`",
            );
        }
        moment.ok()
    }

    fn seeds(&self, item: &Item<'_>) -> Seeds {
        let reader = self.reader;
        let Some(fields) = reader.fields(item, "the seeds", &["skip", "ignore", "ignoreResources"]) else {
            return Seeds::default();
        };
        let list = |key: &str| reader.list_of(&fields, key).iter().filter_map(|item| reader.owned(item)).collect();
        Seeds {
            skip: reader.string(&fields, "skip"),
            ignore: list("ignore"),
            ignore_resources: list("ignoreResources"),
        }
    }
}

/// Returns the message for a path that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {}", path.display(), reason(error))
}

/// Tells whether a step changes the files of the operators.
fn has_reloads(fields: &Fields<'_>) -> bool {
    let steps = fields.get("steps").map(|item| item.node.to_value());
    steps
        .as_ref()
        .and_then(serde_json::Value::as_array)
        .is_some_and(|steps| steps.iter().any(|step| step.get("reload").is_some()))
}
