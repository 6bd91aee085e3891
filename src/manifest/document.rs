//! Reads one document of a manifest.

use std::path::PathBuf;

use crate::handling::Policy;
use crate::handling::hook::Hook;
use crate::handling::hook::auth::Check;
use crate::object::Selector;

use super::binding::Ids;
use super::builder::{Block, OperatorBuilder, POLICY, Script, plain};
use super::diagnostic::Severity;
use super::hook_server::HookServer;
use super::reader::{Fields, Item, Reader};
use super::source::{directory_of, reason};
use super::tree::Node;
use super::{allow, connections, crds, selectors, settings_reader, storages};

/// The `apiVersion` of manifests.
pub(super) const API_VERSION: &str = "kopfd.dev/v1";
/// The `kind` of manifests.
pub(super) const KIND: &str = "Operator";

/// The parts of the spec of which an operator needs at least one to have an effect.
const WORK: [&str; 4] = ["resources", "activities", "schedules", "hooks"];

/// Tells whether a document is the manifest of an operator.
pub(super) fn is_operator(root: &Node) -> bool {
    let has = |key: &str, wanted: &str| root.get(key).and_then(Node::text) == Some(wanted);
    has("apiVersion", API_VERSION) && has("kind", KIND)
}

/// Reads a document; the reader collects its errors.
pub(super) fn read<'r>(reader: &'r Reader, root: &Node) -> OperatorBuilder<'r> {
    let mut builder = OperatorBuilder::new(reader);
    builder.operator.declaration.root = directory_of(&reader.source.name);
    let top = Item { node: root, path: String::new(), key: root.spot };
    let Some(fields) = reader.fields(&top, "a manifest", &["apiVersion", "kind", "metadata", "spec"]) else {
        return builder;
    };
    check_head(reader, &fields);
    if let Some(metadata) = reader.required(&fields, "metadata", "add `metadata: {name: my-operator}`") {
        builder.metadata(&metadata);
    }
    if let Some(spec) = reader.required(&fields, "spec", "add `spec:` with at least `resources:`") {
        builder.spec(&spec);
    }
    builder
}

fn check_head(reader: &Reader, fields: &Fields<'_>) {
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let hint = format!("the manifest of an operator begins with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
        if let Some(item) = reader.required(fields, key, &hint)
            && let Some(text) = reader.text(&item)
            && text.value != wanted
        {
            reader.error_with(&item, format!("`{key}` must be `{wanted}`, not `{}`", text.value), hint);
        }
    }
}

impl OperatorBuilder<'_> {
    fn metadata(&mut self, item: &Item<'_>) {
        let reader = self.reader;
        let Some(fields) = reader.fields(item, "the metadata", &["name"]) else { return };
        let Some(item) = reader.required(&fields, "name", "the operator's name is its field manager in the cluster")
        else {
            return;
        };
        let Some(name) = reader.owned(&item) else { return };
        // Field managers have at most 128 characters.
        if !storages::is_domain(&name) || name.len() > 128 {
            let hint =
                "use lower-case letters, digits, `-` and `.`, at most 128; begin and end with a letter or a digit";
            reader.error_with(&item, format!("`{name}` cannot be the name of an operator"), hint);
            return;
        }
        self.operator.declaration.operator.clone_from(&name);
        self.operator.name = name;
        self.operator.place = self.place(item.spot());
        self.operator.snippet = reader.source.snippet(item.spot());
    }

    fn spec(&mut self, item: &Item<'_>) {
        let reader = self.reader;
        let known = [
            "scripts",
            "crds",
            "defaults",
            "limits",
            "allow",
            "connections",
            "settings",
            "resources",
            "activities",
            "schedules",
            "hooks",
        ];
        let special = |key: &str| match key {
            "namespaces" | "namespace" | "clusterwide" => {
                let hint = "the scope is given at the start: `kopfd -n PATTERN`, or `-A` for all namespaces";
                Some((format!("`{key}` is not a part of the manifest"), hint.to_owned()))
            }
            "handlers" | "timers" | "daemons" | "indexes" | "webhooks" | "reconcile" | "resource" => {
                let hint = "put it into a block of `resources`: `resources: [{resource: …, handlers: […]}]`";
                Some((format!("`{key}` does not stand directly in `spec`"), hint.to_owned()))
            }
            "startup" | "cleanup" | "login" | "probe" => Some((
                format!("`{key}` does not stand directly in `spec`"),
                format!("put it into `activities`: `activities: {{{key}: […]}}`"),
            )),
            _ => None,
        };
        let Some(fields) = reader.fields_but(item, "the spec", &known, special) else { return };
        self.scripts(&fields);
        self.common(&fields);
        for key in WORK {
            let Some(item) = fields.get(key) else { continue };
            match key {
                "resources" => reader.list(&item).iter().for_each(|item| self.block(item)),
                "activities" => self.activities(&item),
                "schedules" => self.schedules(&item),
                _ => self.hooks(&item),
            }
        }
        let is_empty = WORK.iter().all(|key| !fields.mentions(key));
        if is_empty && !reader.has_errors() {
            reader.warn(item, "the operator does nothing", "add `resources`, `activities`, `schedules`, or `hooks`");
        }
        self.check_server(&fields);
        self.check_hook_server(&fields);
    }

    fn scripts(&mut self, fields: &Fields<'_>) {
        let Some(item) = fields.get("scripts") else { return };
        let Some(text) = self.reader.owned(&item) else { return };
        let path = PathBuf::from(&text);
        self.is_rootless = true;
        if !self.is_inside(&item, &path) {
            return;
        }
        let root = self.operator.declaration.root.join(path);
        if root.is_dir() {
            self.operator.declaration.root = root;
            self.is_rootless = false;
            return;
        }
        let why = match root.metadata() {
            Ok(_) => "it is not a directory".to_owned(),
            Err(error) => reason(&error),
        };
        let hint = format!("it is looked for at {}", plain(&root).display());
        self.reader.error_with(&item, format!("cannot read the directory `{text}`: {why}"), hint);
    }

    fn common(&mut self, fields: &Fields<'_>) {
        let reader = self.reader;
        if let Some(item) = fields.get("settings") {
            self.operator.settings = settings_reader::read(reader, &item);
        }
        let limits = fields.get("limits");
        if let Some(item) = &limits {
            self.budgets.read(reader, item);
        }
        if let Some(item) = fields.get("defaults") {
            let known = [&POLICY[..], &["limits"]].concat();
            if let Some(fields) = reader.fields(&item, "the defaults", &known) {
                self.operator.defaults = self.policy(&fields, &Policy::default());
                match (fields.get("limits"), limits) {
                    (Some(item), Some(_)) => {
                        reader.key_error(
                            &item,
                            "`limits` are given twice, here and in `spec.limits`",
                            "leave one of them out",
                        );
                    }
                    (Some(item), None) => self.budgets.read(reader, &item),
                    (None, _) => {}
                }
            }
        }
        if let Some(item) = fields.get("allow") {
            self.operator.declaration.allow = allow::read(reader, &item);
        }
        if let Some(item) = fields.get("connections") {
            self.operator.declaration.allow.connections = connections::read(reader, &item);
        }
        let crds = reader.list_of(fields, "crds");
        (self.operator.crds, self.operator.definitions) =
            crds.iter().filter_map(|item| crds::read(reader, item)).unzip();
    }

    /// Webhooks need a server, which a startup activity may set. Invalid settings may have been meant to name one.
    fn check_server(&mut self, fields: &Fields<'_>) {
        let has_webhooks = !self.operator.webhooks.is_empty() || !self.operator.conversions.is_empty();
        let may_be_set =
            self.operator.activities.iter().any(|activity| activity.moment == super::operator::Moment::Startup);
        let has_server = self.operator.settings.admission.server.is_some();
        let is_misspelt = fields.get("settings").is_none() && fields.mentions("settings");
        if !has_webhooks || has_server || may_be_set || is_misspelt || self.reader.has_errors_in("spec.settings") {
            return;
        }
        let Some((spot, path)) = self.webhooks_at.clone() else { return };
        let hint =
            "add `settings: {admission: {server: {kind: autoServer}}}` to `spec`: the API server must reach them";
        let missing =
            self.reader.source.diagnostic(Severity::Error, spot, "the webhooks have no server", Some(hint.to_owned()));
        self.operator.missing_server = Some(missing.at_path(&path));
    }

    /// Only a listener that asks for certificates receives them. A startup activity may set one.
    fn check_hook_server(&self, fields: &Fields<'_>) {
        let needs = |hook: &Hook| hook.checks.iter().any(|check| matches!(check, Check::Certificate { .. }));
        let may_be_set =
            self.operator.activities.iter().any(|activity| activity.moment == super::operator::Moment::Startup);
        let verifies = self.operator.settings.hooks.server.as_ref().is_some_and(HookServer::verifies_clients);
        let Some(hook) = self.operator.hooks.iter().find(|hook| needs(hook)).filter(|_| !verifies && !may_be_set)
        else {
            return;
        };
        let Some(item) = fields.get("hooks").filter(|_| !self.reader.has_errors_in("spec.settings")) else { return };
        let message =
            format!("the hook `{}` wants client certificates, but no listener asks for them", hook.handler.id);
        let hint =
            "add `settings: {hooks: {server: {port: 8443, certfile: …, pkeyfile: …, verifyCafile: …}}}` to `spec`";
        self.reader.key_error(&item, message, hint);
    }

    fn block(&mut self, item: &Item<'_>) {
        let reader = self.reader;
        let lists = ["handlers", "timers", "daemons", "indexes", "webhooks"];
        let known = [&["resource", "script", "labels", "annotations", "when", "reconcile"][..], &lists].concat();
        let special = |key: &str| match key {
            "on" | "fn" | "run" | "id" | "field" | "param" | "retries" | "timeout" | "backoff" | "errors"
            | "limits" => {
                let hint = "put it into a binding: `handlers: [{on: create, fn: name}]`";
                Some((format!("`{key}` does not stand directly in a resource block"), hint.to_owned()))
            }
            _ => None,
        };
        let Some(fields) = reader.fields_but(item, "a resource block", &known, special) else { return };
        let hint = "name the kind, such as `resource: databases.example.com`";
        let resource = reader.required(&fields, "resource", hint);
        let block = Block {
            selectors: resource.map(|item| self.selectors(&item)).unwrap_or_default(),
            script: self.script(&fields, &Script::None),
            labels: fields.get("labels"),
            annotations: fields.get("annotations"),
            when: fields.get("when"),
        };
        self.check_block_filters(&block);
        if !fields.mentions("reconcile") && lists.iter().all(|key| !fields.mentions(key)) {
            reader.warn(
                item,
                "the block does nothing",
                "add `handlers`, `timers`, `daemons`, `indexes`, `webhooks`, or `reconcile`",
            );
        }
        self.bindings(&fields, &block);
    }

    fn selectors(&mut self, item: &Item<'_>) -> Vec<Selector> {
        let found = selectors::read_all(self.reader, item);
        for (selector, item) in &found {
            self.name_kind(selector, item);
        }
        found.into_iter().map(|(selector, _)| selector).collect()
    }

    fn bindings(&mut self, fields: &Fields<'_>, block: &Block<'_>) {
        let reader = self.reader;
        // Indexes are arguments of scripts: without them, correct scripts would get errors.
        self.is_unready |=
            fields.mentions("indexes") && fields.get("indexes").is_none_or(|item| item.items().is_none());
        let (mut ids, mut index_ids) = (Ids::default(), Ids::default());
        let mut is_converted = false;
        for item in reader.list_of(fields, "handlers") {
            self.handler(&item, block, &mut ids);
        }
        for item in reader.list_of(fields, "timers") {
            self.timer(&item, block, &mut ids);
        }
        for item in reader.list_of(fields, "daemons") {
            self.daemon(&item, block, &mut ids);
        }
        for item in reader.list_of(fields, "indexes") {
            self.index(&item, block, &mut index_ids);
        }
        if let Some(item) = fields.get("webhooks") {
            self.webhooks_at.get_or_insert((item.key, item.path));
        }
        for item in reader.list_of(fields, "webhooks") {
            if is_converted && item.node.get("on").and_then(|on| on.text()) == Some("convert") {
                reader.error_with(
                    &item,
                    "a block has one conversion webhook",
                    "it is called for all versions: tell them apart by `version`",
                );
                continue;
            }
            is_converted |= self.webhook(&item, block);
        }
        if let Some(item) = fields.get("reconcile") {
            self.reconcile(&item, block, &mut ids);
            self.unsupported(Severity::Error, &item, "reconciliations");
        }
    }

    /// Returns the code that the script host compiles and checks: all except the code known to be lost.
    pub(super) fn checkable(&self) -> crate::script::Declaration {
        let mut declaration = self.operator.declaration.clone();
        let mut number = 0;
        declaration.bindings.retain(|_| {
            number += 1;
            !self.lost.contains(&(number - 1))
        });
        number = 0;
        declaration.expressions.retain(|_| {
            number += 1;
            !self.lost_expressions.contains(&(number - 1))
        });
        declaration
    }
}
