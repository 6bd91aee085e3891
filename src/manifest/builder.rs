//! An operator while its manifest is read, and the options that bindings inherit.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::handling::{ErrorMode, Policy};
use crate::kit::source::SourcePosition;
use crate::object::Selector;
use crate::script::{BindingKind, Limits};

use super::budgets::Budgets;
use super::diagnostic::Severity;
use super::operator::{NamedKind, Operator, Unsupported};
use super::reader::{Fields, Item, Reader};
use super::suggest::nearest;
use super::tree::SourceSpan;

/// An operator while its manifest is read.
pub(super) struct OperatorBuilder<'r> {
    /// The source of the manifest, which collects the diagnostics.
    pub reader: &'r Reader,
    /// The operator as read so far.
    pub operator: Operator,
    /// The budgets of all calls.
    pub budgets: Budgets,
    /// The bindings whose code was not found, which was reported; further errors about it are suppressed.
    pub lost: BTreeSet<usize>,
    /// The same for expressions.
    pub lost_expressions: BTreeSet<usize>,
    /// Whether too little is known to check the scripts.
    pub is_unready: bool,
    /// Webhooks by the value of `on` and the id, with the line of the first one.
    pub webhook_ids: HashMap<(&'static str, String), usize>,
    /// The first list of webhooks.
    pub webhooks_at: Option<(SourceSpan, String)>,
    /// Whether the directory of scripts does not exist, so that no script can be found.
    pub is_rootless: bool,
    missing: BTreeSet<PathBuf>,
}

/// The options that bindings inherit from their block.
#[derive(Debug, Clone, Default)]
pub(super) struct Block<'a> {
    /// The kinds.
    pub selectors: Vec<Selector>,
    /// The file of their functions.
    pub script: Script,
    /// The filter by labels.
    pub labels: Option<Item<'a>>,
    /// The filter by annotations.
    pub annotations: Option<Item<'a>>,
    /// The filter by an expression.
    pub when: Option<Item<'a>>,
}

/// The file of functions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Script {
    /// No file is given.
    #[default]
    None,
    /// The given file cannot be used, which was reported.
    Lost,
    /// A file, relative to the directory of scripts.
    File(PathBuf),
}

impl Script {
    /// Returns the file, if it can be used.
    pub(super) fn file(&self) -> Option<PathBuf> {
        if let Self::File(file) = self { Some(file.clone()) } else { None }
    }

    /// Returns the file, or `Lost` if the kind of its bindings is unknown: their code cannot be checked then.
    #[must_use]
    pub(super) fn unless(self, is_unknown: bool) -> Self {
        if is_unknown { Self::Lost } else { self }
    }
}

/// The keys of policies.
pub(super) const POLICY: [&str; 4] = ["retries", "timeout", "backoff", "errors"];

impl<'r> OperatorBuilder<'r> {
    /// Returns the builder of an empty operator.
    pub(super) fn new(reader: &'r Reader) -> Self {
        let operator =
            Operator { file: reader.source.name.clone(), text: Arc::clone(&reader.source.text), ..Operator::default() };
        Self {
            reader,
            operator,
            budgets: Budgets::default(),
            lost: BTreeSet::new(),
            lost_expressions: BTreeSet::new(),
            is_unready: false,
            webhook_ids: HashMap::new(),
            webhooks_at: None,
            is_rootless: false,
            missing: BTreeSet::new(),
        }
    }

    /// Returns a position in the manifest for messages about scripts.
    pub(super) fn place(&self, spot: SourceSpan) -> SourcePosition {
        spot.in_file(&self.reader.source.name)
    }

    /// Records the position of a kind.
    pub(super) fn name_kind(&mut self, selector: &Selector, item: &Item<'_>) {
        let place = self.reader.source.diagnostic(Severity::Warning, item.spot(), "", None).at_path(&item.path);
        let text = item.node.text().map_or_else(|| selector.to_string(), str::to_owned);
        self.operator.kinds.push(NamedKind { selector: selector.clone(), text, place });
    }

    /// Records a part that this version cannot run.
    pub(super) fn unsupported(&mut self, severity: Severity, item: &Item<'_>, what: &'static str) {
        let hint = Some("leave it out, or use a version that supports it".to_owned());
        let place = self.reader.source.diagnostic(severity, item.key, "", hint).at_path(&item.path);
        self.operator.unsupported.push(Unsupported { what, place });
    }

    /// Returns the file of functions in these fields, or the inherited one.
    pub(super) fn script(&mut self, fields: &Fields<'_>, inherited: &Script) -> Script {
        let Some(item) = fields.get("script") else { return inherited.clone() };
        let Some(text) = self.reader.text(&item) else { return Script::Lost };
        let file = PathBuf::from(&text.value);
        if !self.is_inside(&item, &file) {
            return Script::Lost;
        }
        if self.is_rootless {
            return Script::Lost;
        }
        let path = self.operator.declaration.root.join(&file);
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => Script::File(file),
            outcome => {
                // A missing file is reported once, however many bindings name it.
                if self.missing.insert(path.clone()) {
                    let why =
                        outcome.map_or_else(|error| super::source::reason(&error), |_| "it is not a file".to_owned());
                    let hint = match neighbour(&path) {
                        Some(suggestion) => format!("did you mean `{}`?", file.with_file_name(suggestion).display()),
                        None => format!("it is looked for at {}", plain(&path).display()),
                    };
                    self.reader.error_with(&item, format!("cannot read the script `{}`: {why}", text.value), hint);
                }
                Script::Lost
            }
        }
    }

    /// Tells whether a path stays inside of the directory of scripts; if not, reports an error.
    pub(super) fn is_inside(&self, item: &Item<'_>, path: &Path) -> bool {
        let root = &self.operator.declaration.root;
        let hint = "scripts and templates are found inside of `spec.scripts` only";
        if path.is_absolute() {
            self.reader.error_with(item, format!("the path `{}` is absolute", path.display()), hint);
            return false;
        }
        if path.components().any(|component| component == std::path::Component::ParentDir) {
            self.reader.error_with(item, format!("the path `{}` contains `..`", path.display()), hint);
            return false;
        }
        let leads_out = root
            .join(path)
            .canonicalize()
            .is_ok_and(|real| root.canonicalize().is_ok_and(|root| !real.starts_with(root)));
        if leads_out {
            self.reader.error_with(item, format!("`{}` is a link that leads out of the scripts", path.display()), hint);
        }
        !leads_out
    }

    /// Reads an error policy, with defaults for missing options.
    pub(super) fn policy(&self, fields: &Fields<'_>, defaults: &Policy) -> Policy {
        let reader = self.reader;
        let mut policy = defaults.clone();
        if let Some(retries) = fields.get("retries").and_then(|item| reader.whole(&item, 0)) {
            policy.retries = Some(retries as u64);
        }
        if let Some(timeout) = fields.get("timeout").and_then(|item| reader.duration(&item)) {
            policy.timeout = Some(timeout);
        }
        if let Some(backoff) = fields.get("backoff").and_then(|item| reader.duration(&item)) {
            policy.backoff = Some(backoff);
        }
        if let Some(item) = fields.get("errors") {
            policy.errors = match reader.word(&item, &["temporary", "permanent", "ignored"]) {
                Some("temporary") => Some(ErrorMode::Temporary),
                Some("permanent") => Some(ErrorMode::Permanent),
                Some(_) => Some(ErrorMode::Ignored),
                None => policy.errors,
            };
        }
        policy
    }

    /// Reads the budgets of one call. Webhooks have their own deadline, and daemons none.
    pub(super) fn limits(&self, fields: &Fields<'_>, kind: BindingKind, deadline: Option<Duration>) -> Limits {
        let mut budgets = self.budgets.clone();
        let general = budgets.time.take();
        if let Some(item) = fields.get("limits") {
            budgets.read(self.reader, &item);
        }
        let time = match (budgets.time, kind) {
            (Some(own), _) => Some(own),
            (None, BindingKind::Daemon) => None,
            (None, _) => deadline.or(general).or(Limits::default().time),
        };
        Limits { time, ..budgets.limits() }
    }
}

/// Returns the name of an existing script that was probably meant by a missing one.
fn neighbour(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_string_lossy().into_owned();
    let entries = std::fs::read_dir(path.parent()?).ok()?;
    let names = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "rhai"));
    // A directory may be huge; for a suggestion the first names are enough.
    let names: Vec<String> = names.take(1_000).collect();
    nearest(&wanted, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Returns a path without a leading `./`.
pub(super) fn plain(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}
