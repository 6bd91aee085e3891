//! One document of a scenario file: from its top to its steps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::manifest::reader::{Fields, Item, Reader};
use crate::manifest::source::{Source, reason};
use crate::manifest::tree::{Kind, Node, Spot};
use crate::manifest::{self, Diagnostic, Operator, Severity};
use crate::object::{namespace, yaml};
use crate::script::{self, Expression};

use super::story::{Given, Scenario, Seeds};
use super::{expressions, steps};

/// The version of scenarios.
pub const API_VERSION: &str = "kopfd.dev/v1";
/// The kind of scenarios.
pub const KIND: &str = "Scenario";

/// The moment at which scenarios begin that do not say another one.
const START: &str = "2020-01-01T00:00:00Z";

/// What the top of a scenario is like.
const HEAD: &str = "a scenario begins with `apiVersion: kopfd.dev/v1` and `kind: Scenario`";

/// Tells whether a document is a scenario.
pub fn is_scenario(root: &Node) -> bool {
    let has = |key: &str, wanted: &str| root.get(key).and_then(Node::text) == Some(wanted);
    has("apiVersion", API_VERSION) && has("kind", KIND)
}

/// What is known while a scenario is read.
pub struct Draft<'r> {
    /// Where it comes from, and where mistakes go.
    pub reader: &'r Reader,
    /// The directories that files are looked for in.
    places: Vec<PathBuf>,
    /// The expressions of all matchers.
    pub expressions: RefCell<Vec<Expression>>,
    /// The ids of the operators' handlers of changes and events; none as long as they are not known.
    pub handlers: Vec<String>,
    /// What is wrong with the operators.
    pub of_operators: Vec<Diagnostic>,
}

/// Reads a document of a file, whose scenarios so far have these names, with their lines. What is wrong with it goes to the reader; what is wrong with its operators is returned.
pub fn read(reader: &Reader, root: &Node, names: &mut BTreeMap<String, usize>) -> (Option<Scenario>, Vec<Diagnostic>) {
    let here = directory_of(&reader.source.name);
    let mut draft = Draft { reader, places: vec![here], expressions: RefCell::default(), handlers: Vec::new(), of_operators: Vec::new() };
    let scenario = draft.scenario(root, names);
    (scenario, draft.of_operators)
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

impl Draft<'_> {
    fn scenario(&mut self, root: &Node, names: &mut BTreeMap<String, usize>) -> Option<Scenario> {
        let reader = self.reader;
        let top = Item { node: root, path: String::new(), key: root.spot };
        let fields = reader.fields(&top, "a scenario", &["apiVersion", "kind", "metadata", "spec"])?;
        for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if let Some(item) = reader.required(&fields, key, HEAD)
                && let Some(text) = reader.text(&item)
                && text.value != wanted
            {
                reader.error_with(&item, format!("`{key}` must be `{wanted}`, not `{}`", text.value), HEAD);
            }
        }
        let name = reader.required(&fields, "metadata", "add `metadata: {name: what it shows}`").and_then(|item| {
            let fields = reader.fields(&item, "the metadata", &["name"])?;
            let item = reader.required(&fields, "name", "say in a few words what the scenario shows")?;
            let name = reader.owned(&item)?;
            if let Some(line) = names.insert(name.clone(), item.spot().line) {
                let hint = "name each by what it shows: the name chooses it for `--filter`";
                reader.error_with(&item, format!("the scenario in line {line} has this name, too"), hint);
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
        let operators = reader.required(&fields, "operator", "name the manifest of the operator: `operator: ../operator.yaml`");
        let operators = operators.and_then(|item| self.operators(&item));
        let declared = operators.iter().flat_map(|operators| operators.iter());
        self.handlers = declared.flat_map(|operator| &operator.handlers).map(|handler| handler.id.clone()).collect();
        // One function for several reasons is one handler for each of them.
        self.handlers.sort();
        self.handlers.dedup();
        let mut given = operators.as_ref().map(|operators| self.definitions(operators, &fields)).unwrap_or_default();
        given.extend(reader.list_of(&fields, "given").iter().flat_map(|item| self.given(item)));
        let namespaces = reader.list_of(&fields, "namespaces").iter().filter_map(|item| self.namespace(item)).collect();
        let start = fields.get("start").map_or_else(|| START.parse().ok(), |item| self.moment(&item));
        let seeds = fields.get("seeds").map(|item| self.seeds(&item)).unwrap_or_default();
        let steps = reader.required(&fields, "steps", "say what happens: `steps: [{apply: {file: obj.yaml}}, {settle: {within: 5m}}]`");
        let steps = steps.map(|item| steps::read(self, &item)).unwrap_or_default();
        let expressions = self.expressions.take();
        self.check(&expressions);
        Some(Scenario {
            name: String::new(),
            source: reader.source.clone(),
            line,
            operators: operators?,
            given,
            namespaces,
            start: start?,
            seeds,
            expressions,
            steps,
        })
    }

    /// Tells what is wrong with the expressions of matchers.
    fn check(&self, expressions: &[Expression]) {
        for problem in script::check(&expressions::declaration(expressions.to_vec())) {
            let spot = Spot { line: problem.line, column: problem.column, length: problem.length };
            self.reader.tell(Severity::Error, spot, "", problem.message, problem.hint);
        }
    }

    fn operators(&mut self, item: &Item<'_>) -> Option<Arc<Vec<Operator>>> {
        let path = self.file(item)?;
        let loaded = manifest::load(std::slice::from_ref(&path));
        self.places.push(if path.is_dir() { path } else { directory_of(&path) });
        let mut found = loaded.diagnostics;
        found.retain(Diagnostic::is_error);
        if found.is_empty() {
            found.extend(loaded.operators.iter().flat_map(Operator::refuse_unsupported).filter(Diagnostic::is_error));
        }
        if found.is_empty() {
            return Some(Arc::new(loaded.operators));
        }
        self.of_operators.extend(found);
        None
    }

    /// Returns the definitions that the manifests of the operators name.
    fn definitions(&self, operators: &[Operator], fields: &Fields<'_>) -> Vec<Given> {
        let Some(item) = fields.get("operator") else { return Vec::new() };
        let spot = item.node.spot;
        let of = |file: &PathBuf| {
            let objects = self.objects_of(file, &item);
            let file = Some(file.clone());
            objects.into_iter().map(move |object| Given { object, spot, file: file.clone() }).collect::<Vec<_>>()
        };
        operators.iter().flat_map(|operator| &operator.crds).flat_map(of).collect()
    }

    /// Returns the objects that an item of `given` stands for.
    fn given(&self, item: &Item<'_>) -> Vec<Given> {
        let spot = item.spot();
        let file = item.node.text().map(PathBuf::from);
        self.objects(item).into_iter().map(|object| Given { object, spot, file: file.clone() }).collect()
    }

    fn namespace(&self, item: &Item<'_>) -> Option<namespace::Pattern> {
        self.reader.text(item).map(|text| namespace::Pattern::of_globs(&text.value))
    }

    fn moment(&self, item: &Item<'_>) -> Option<Timestamp> {
        let text = self.reader.text(item)?;
        let moment = text.value.parse();
        if moment.is_err() {
            self.reader.error_with(item, format!("`{}` is no moment", text.value), "write such as `2024-02-29T12:00:00Z`");
        }
        moment.ok()
    }

    fn seeds(&self, item: &Item<'_>) -> Seeds {
        let reader = self.reader;
        let Some(fields) = reader.fields(item, "the seeds", &["skip", "ignore"]) else { return Seeds::default() };
        let ignore = reader.list_of(&fields, "ignore").iter().filter_map(|item| reader.owned(item)).collect();
        Seeds { skip: reader.string(&fields, "skip"), ignore }
    }

    /// Returns a file beside the scenario, or beside the manifest of its operator.
    fn file(&self, item: &Item<'_>) -> Option<PathBuf> {
        let text = &self.reader.text(item)?.value;
        let candidates: Vec<PathBuf> = self.places.iter().map(|place| plain(&place.join(text))).collect();
        if let Some(found) = candidates.iter().find(|candidate| candidate.exists()) {
            return Some(found.clone());
        }
        let looked: Vec<String> = candidates.iter().map(|candidate| candidate.display().to_string()).collect();
        self.reader.error_with(
            item,
            format!("cannot read `{text}`: it does not exist"),
            format!("it is looked for at {}", looked.join(" and ")),
        );
        None
    }

    /// Returns what an item stands for: the objects of a file that it names, or itself.
    pub fn objects(&self, item: &Item<'_>) -> Vec<Value> {
        match &item.node.kind {
            Kind::Text(_) => self.file(item).map(|file| self.objects_of(&file, item)).unwrap_or_default(),
            Kind::Map(_) => self.object(item).into_iter().collect(),
            _ => {
                let message = format!("`{}` must be a file or an object, not {}", item.name(), item.node.noun());
                self.reader.error_with(item, message, "write the name of a file, or an object with `apiVersion`, `kind` and `metadata`");
                Vec::new()
            }
        }
    }

    fn object(&self, item: &Item<'_>) -> Option<Value> {
        let value = item.node.to_value();
        for (pointer, key) in [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")] {
            if value.pointer(pointer).and_then(Value::as_str).is_none() {
                self.reader.error_with(item, format!("the object has no `{key}`"), "write an object as for kubectl, or `{file: obj.yaml}`");
                return None;
            }
        }
        Some(value)
    }

    /// Returns the objects of a file that an item is about.
    fn objects_of(&self, file: &Path, item: &Item<'_>) -> Vec<Value> {
        let shown = file.display();
        let text = match Source::read(file) {
            Ok(source) => source.text,
            Err(diagnostic) => {
                let hint = diagnostic.hint.unwrap_or_else(|| "files are looked for beside the scenario".to_owned());
                self.reader.error_with(item, format!("`{shown}`: {}", diagnostic.message), hint);
                return Vec::new();
            }
        };
        match yaml::parse(&text) {
            Ok(objects) => objects,
            Err(error) => {
                self.reader.error_with(item, format!("`{shown}` is not YAML: {error}"), "mend the file, or name another one");
                Vec::new()
            }
        }
    }

    /// Returns the objects that a step brings: of `{file: …}`, or itself.
    pub fn brought(&self, item: &Item<'_>) -> Vec<Value> {
        if item.node.get("file").is_none() || item.node.get("kind").is_some() {
            if matches!(item.node.kind, Kind::Map(_)) {
                return self.objects(item);
            }
            let hint = item
                .node
                .text()
                .map_or_else(|| "write `{file: obj.yaml}`, or an object".to_owned(), |text| format!("write `{{file: {text}}}`"));
            self.reader.error_with(item, format!("`{}` must be a mapping, not {}", item.name(), item.node.noun()), hint);
            return Vec::new();
        }
        let Some(fields) = self.reader.fields(item, "what is applied", &["file"]) else { return Vec::new() };
        fields
            .get("file")
            .and_then(|item| Some((self.file(&item)?, item)))
            .map(|(file, item)| self.objects_of(&file, &item))
            .unwrap_or_default()
    }
}

/// Returns a path without the steps that lead out of directories again, as people would write it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if plain.file_name().is_some_and(|name| name != "..") => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    if plain.as_os_str().is_empty() { PathBuf::from(".") } else { plain }
}

/// Returns why a path cannot be read, for messages.
pub fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {}", path.display(), reason(error))
}
