//! The results of calls of host functions, and the requests that they send.

use std::collections::BTreeSet;

use rhai::Position;

use super::template;
use super::value::{Fields, Function as FunctionValue, Known, Part, Values};
use super::walk::{Analysis, Frame, argument};
use crate::script::interface::access::{Access, Function, Kind, Namespace};

/// One call of `k8s::`, with its position.
struct Site {
    function: Function,
    code: usize,
    position: Position,
}

impl<'a> Analysis<'a> {
    /// Returns the possible values of a call of a host function.
    pub(super) fn host_call(
        &mut self,
        frame: &mut Frame<'a>,
        namespace: &[&str],
        name: &str,
        arguments: &[Values],
        position: Position,
    ) -> Values {
        match (namespace, name) {
            (["k8s"], "event" | "info" | "warn" | "exception") => {
                self.calls.posts_events = true;
                Values::other()
            }
            (["k8s"], name) => match Function::of(name) {
                Some(function) => self.request(&Site { function, code: frame.code, position }, arguments),
                None => Values::unknown(),
            },
            ([], "template") => self.template(arguments),
            (["yaml"], "parse" | "parse_all") | (["json"], "parse") => parsed(arguments),
            ([], "adopt" | "append_owner") => {
                self.calls.owning.insert(self.binding);
                changed(name, arguments)
            }
            ([], "label" | "remove_owner" | "harmonize_naming" | "adjust_namespace") => changed(name, arguments),
            ([], "Fn") => {
                let code = frame.code;
                let functions =
                    arguments.first().into_iter().flat_map(|name| &name.known).filter_map(|known| match known {
                        Known::Text(name) => {
                            Some(Known::Function(FunctionValue { code, name: name.clone(), captured: Vec::new() }))
                        }
                        _ => None,
                    });
                Values { known: functions.collect(), is_open: false }
            }
            ([], "call") => {
                let Some((first, rest)) = arguments.split_first() else { return Values::unknown() };
                let mut result = Values::unknown();
                for function in first.functions() {
                    result.join(self.apply(function, rest.iter().cloned()));
                }
                result
            }
            ([], "parallel") => {
                let mut results = Values::default();
                let functions = arguments.first().map(Values::items).unwrap_or_default();
                results.is_open = functions.is_open;
                for function in functions.functions() {
                    results.join(self.apply(function, []));
                }
                Values::list(results)
            }
            ([], "subhandler") => {
                for function in arguments.iter().flat_map(Values::functions) {
                    self.subhandler(function, arguments.get(1));
                }
                Values::other()
            }
            _ => {
                self.escape(arguments);
                Values::unknown()
            }
        }
    }

    /// The parameters of a sub-handler are arguments of the host, by their names.
    fn subhandler(&mut self, function: &FunctionValue, options: Option<&Values>) {
        let code = self.codes[function.code];
        let Some(unit) = code.units.iter().find(|unit| unit.name == function.name) else { return };
        let param = options.map_or_else(Values::unknown, |options| options.property("param"));
        let own = unit.params.iter().skip(function.captured.len()).map(|name| argument(name, &param));
        let arguments = function.captured.iter().cloned().chain(own).collect();
        self.call(function.code, unit, arguments);
    }

    fn template(&self, arguments: &[Values]) -> Values {
        let (Some(files), none) = (arguments.first(), Values::other()) else { return Values::unknown() };
        let values = arguments.get(1).unwrap_or(&none);
        let mut objects = Values { is_open: files.is_open, ..Values::default() };
        for known in &files.known {
            match known {
                Known::Text(file) => objects.join(template::objects(self.root, file, values)),
                _ => objects.is_open = true,
            }
        }
        objects
    }

    fn request(&mut self, site: &Site, arguments: &[Values]) -> Values {
        match (site.function, arguments) {
            (Function::Create | Function::Update | Function::Apply, [objects, ..]) => {
                self.objects(site, objects);
                objects.clone()
            }
            (Function::Delete, [object]) => {
                self.objects(site, object);
                Values::other()
            }
            (Function::Delete, [object, options]) if is_map(options) && !is_text(object) => {
                self.objects(site, object);
                Values::other()
            }
            (Function::Delete, [kind, name, options]) if is_map(options) => self.named(site, kind, None, name),
            (Function::List, [kind]) => self.list(site, kind, None),
            (Function::List, [kind, options]) if is_map(options) => self.list(site, kind, None),
            (Function::List, [kind, namespace, ..]) => self.list(site, kind, Some(namespace)),
            (Function::Wait, [kind, name, condition, timeout]) if is_duration(timeout) => {
                let by_name = self.named(site, kind, None, name);
                // A text that is not known may be a condition; then a namespace comes before the name.
                if timeout.is_open { by_name.or(self.named(site, kind, Some(name), condition)) } else { by_name }
            }
            (Function::Delete | Function::Get | Function::Exists, [kind, name])
            | (Function::Wait | Function::Patch | Function::PatchStatus | Function::Scale, [kind, name, _]) => {
                self.named(site, kind, None, name)
            }
            (Function::Get | Function::Exists, [kind, namespace, name])
            | (Function::Patch | Function::PatchStatus | Function::Scale, [kind, namespace, name, _])
            | (Function::Delete | Function::Wait, [kind, namespace, name, ..]) => {
                self.named(site, kind, Some(namespace), name)
            }
            (Function::WatchUntil, [kind, rest @ ..]) => self.watched(site, kind, rest),
            (Function::Exec, place) => self.command(site, place),
            (Function::Logs | Function::Evict | Function::Token | Function::Cluster, place) => {
                self.of_fixed_kind(site, place)
            }
            // Other numbers of arguments are errors.
            _ => Values::unknown(),
        }
    }

    /// A request for an object by its kind and name. Returns the object.
    fn named(&mut self, site: &Site, kind: &Values, namespace: Option<&Values>, name: &Values) -> Values {
        let names = names(name);
        for namespace in namespace
            .map_or_else(|| BTreeSet::from([Namespace::Own]), |namespace| namespaces(namespace, &Namespace::Own))
        {
            for kind in kinds(kind) {
                self.note(site, kind, names.clone(), namespace.clone());
            }
        }
        match site.function {
            Function::Exists | Function::Delete => Values::other(),
            Function::Scale => Values::unknown(),
            Function::Get => stored(kind).or(Values::other()),
            _ => stored(kind),
        }
    }

    /// A request for an object of the kind of the function: `[namespace,] name, [options]`, or `namespace, secret,
    /// key`.
    fn of_fixed_kind(&mut self, site: &Site, given: &[Values]) -> Values {
        let kind = site.function.kind().map_or_else(Values::unknown, Values::text);
        match given {
            [name] => drop(self.named(site, &kind, None, name)),
            [name, options] if is_map(options) => drop(self.named(site, &kind, None, name)),
            [namespace, name, ..] => drop(self.named(site, &kind, Some(namespace), name)),
            [] => {}
        }
        Values::unknown()
    }

    /// `k8s::exec([namespace,] pod, arguments, [options])`.
    fn command(&mut self, site: &Site, given: &[Values]) -> Values {
        let kind = site.function.kind().map_or_else(Values::unknown, Values::text);
        let (without, within) = match given {
            [_, _] => (true, false),
            // An unknown value may be the arguments of the command, or a name before them.
            [_, second, _] if is_list(second) => (true, second.is_open),
            [_, second, third] => (second.is_open && (is_map(third) || third.is_open), !is_map(third)),
            [_, _, _, _] => (false, true),
            _ => (false, false),
        };
        if without {
            self.named(site, &kind, None, &given[0]);
        }
        if within {
            self.named(site, &kind, Some(&given[0]), &given[1]);
        }
        Values::unknown()
    }

    /// `k8s::watch_until(kind, [namespace,] name | options, function, [timeout])`.
    fn watched(&mut self, site: &Site, kind: &Values, rest: &[Values]) -> Values {
        let Some(position) = rest.iter().position(|argument| argument.functions().next().is_some()) else {
            self.escape(rest);
            return Values::unknown();
        };
        let is_by_name = |what: &Values| !is_map(what) || what.is_open;
        let seen = match &rest[..position] {
            [what] if is_by_name(what) => self.named(site, kind, None, what),
            [_] => self.list(site, kind, None),
            [namespace, what] if is_by_name(what) => self.named(site, kind, Some(namespace), what),
            [namespace, _] => self.list(site, kind, Some(namespace)),
            _ => Values::unknown(),
        };
        let functions: Vec<FunctionValue> = rest[position].functions().cloned().collect();
        for function in &functions {
            self.apply(function, std::iter::once(seen.clone()));
        }
        seen
    }

    fn list(&mut self, site: &Site, kind: &Values, namespace: Option<&Values>) -> Values {
        let all = Namespace::All;
        for namespace in
            namespace.map_or_else(|| BTreeSet::from([all.clone()]), |namespace| namespaces(namespace, &all))
        {
            for kind in kinds(kind) {
                self.note(site, kind, None, namespace.clone());
            }
        }
        Values::list(stored(kind))
    }

    /// A request with objects, which may be in nested lists.
    fn objects(&mut self, site: &Site, objects: &Values) {
        if objects.is_open {
            self.note(site, Kind::Unknown, None, Namespace::Computed);
        }
        for known in &objects.known {
            match known {
                Known::Map(fields) => self.object(site, fields),
                Known::Stored(kind) => self.note(site, Kind::Text(kind.clone()), None, Namespace::Computed),
                Known::Part(Part::Object) => self.note(site, Kind::Handled(self.binding), None, Namespace::Own),
                Known::List(items) => self.objects(site, items),
                // Everything else is an error.
                Known::Other | Known::Text(_) | Known::Partial(_) | Known::Part(_) | Known::Function(_) => {}
            }
        }
    }

    fn object(&mut self, site: &Site, fields: &Fields) {
        let object = Values::from(Known::Map(fields.clone()));
        let metadata = object.property("metadata");
        let (names, found) =
            (names(&metadata.property("name")), namespaces(&metadata.property("namespace"), &Namespace::Own));
        for kind in kinds_of_objects(&object.property("apiVersion"), &object.property("kind"), self.binding) {
            for namespace in &found {
                self.note(site, kind.clone(), names.clone(), namespace.clone());
            }
        }
    }

    fn note(&mut self, site: &Site, kind: Kind, names: Option<BTreeSet<String>>, namespace: Namespace) {
        let length = site.function.name().len();
        let place = self.place(site.code, site.position, length);
        self.found(Access { place, length, function: site.function, kind, names, namespace });
    }
}

/// Returns the content of a text.
fn parsed(arguments: &[Values]) -> Values {
    let Some(texts) = arguments.first() else { return Values::unknown() };
    let mut objects = Values { is_open: texts.is_open, ..Values::default() };
    for known in &texts.known {
        match known {
            Known::Text(text) | Known::Partial(text) => {
                for object in template::parsed(text) {
                    objects.join(object);
                }
            }
            _ => objects.is_open = true,
        }
    }
    let all = Values::list(objects.clone());
    objects.or(all)
}

/// Returns objects as `adopt` and its family return them. With options, other names and namespaces may be set.
fn changed(function: &str, arguments: &[Values]) -> Values {
    let Some(objects) = arguments.first() else { return Values::unknown() };
    let mut objects = objects.clone();
    let may_rename = arguments.len() > 1 && !matches!(function, "append_owner" | "remove_owner" | "label");
    if may_rename {
        for part in ["name", "namespace"] {
            open_metadata(&mut objects, part);
        }
    }
    objects
}

/// Makes a part of the metadata unknown, also in lists.
fn open_metadata(objects: &mut Values, part: &str) {
    let known = std::mem::take(&mut objects.known).into_iter().map(|known| match known {
        Known::List(mut items) => {
            open_metadata(&mut items, part);
            Known::List(items)
        }
        Known::Map(mut fields) => {
            let mut metadata = fields.entries.get("metadata").cloned().unwrap_or_default();
            if !metadata.known.iter().any(|known| matches!(known, Known::Map(_))) {
                metadata = Known::Map(Fields::default()).into();
            }
            metadata.set(&[Some(part)], &Values::unknown());
            fields.entries.insert("metadata".to_owned(), metadata);
            Known::Map(fields)
        }
        other => other,
    });
    objects.known = known.collect();
}

/// Tells whether a value may be a number of seconds, or a text with a unit.
fn is_duration(values: &Values) -> bool {
    let begins_with_digit = |known: &Known| match known {
        Known::Text(text) => text.starts_with(|first: char| first.is_ascii_digit()),
        known => matches!(known, Known::Other | Known::Map(_)),
    };
    values.is_open || values.known.iter().any(begins_with_digit)
}

fn is_map(values: &Values) -> bool {
    !values.is_open && values.known.iter().all(|known| matches!(known, Known::Map(_)))
}

fn is_list(values: &Values) -> bool {
    values.known.iter().any(|known| matches!(known, Known::List(_)))
}

fn is_text(values: &Values) -> bool {
    values.known.iter().any(|known| matches!(known, Known::Text(_)))
}

/// Returns the kinds that a text may name.
fn kinds(kind: &Values) -> BTreeSet<Kind> {
    let known = kind.known.iter().filter_map(|known| match known {
        Known::Text(text) => Some(Kind::Text(text.clone())),
        // Anything else is an error.
        Known::Other | Known::Map(_) | Known::List(_) | Known::Function(_) => None,
        Known::Partial(_) | Known::Part(_) | Known::Stored(_) => Some(Kind::Unknown),
    });
    known.chain(kind.is_open.then_some(Kind::Unknown)).collect()
}

/// Returns the kinds of objects by their two fields.
fn kinds_of_objects(api_version: &Values, kind: &Values, binding: usize) -> BTreeSet<Kind> {
    let mut found = BTreeSet::new();
    if api_version.is_open || kind.is_open {
        found.insert(Kind::Unknown);
    }
    for api_version in &api_version.known {
        for kind in &kind.known {
            match (api_version, kind) {
                (Known::Text(api_version), Known::Text(kind)) => {
                    found.insert(Kind::Text(format!("{api_version}/{kind}")));
                }
                (Known::Part(Part::ApiVersion), Known::Part(Part::Kind)) => drop(found.insert(Kind::Handled(binding))),
                // An object without one of them is an error.
                (Known::Other, _) | (_, Known::Other) => {}
                _ => drop(found.insert(Kind::Unknown)),
            }
        }
    }
    found
}

/// Returns the names that a value may be; `None` if it is computed, or chosen by the server.
fn names(name: &Values) -> Option<BTreeSet<String>> {
    let texts = name.known.iter().map(|known| match known {
        Known::Text(text) => Some(text.clone()),
        _ => None,
    });
    if name.is_open || name.known.is_empty() { None } else { texts.collect() }
}

/// Returns the namespaces that a value may be; `omitted` stands for `()`.
fn namespaces(namespace: &Values, omitted: &Namespace) -> BTreeSet<Namespace> {
    let known = namespace.known.iter().map(|known| match known {
        Known::Text(text) if text.is_empty() => omitted.clone(),
        Known::Text(text) => Namespace::Named(text.clone()),
        Known::Part(Part::Namespace) => Namespace::Own,
        Known::Other => omitted.clone(),
        _ => Namespace::Computed,
    });
    let is_empty = namespace.known.is_empty() && !namespace.is_open;
    known.chain(namespace.is_open.then_some(Namespace::Computed)).chain(is_empty.then(|| omitted.clone())).collect()
}

/// Returns the objects of some kinds.
fn stored(kind: &Values) -> Values {
    let known = kind.known.iter().filter_map(|known| match known {
        Known::Text(text) => Some(Known::Stored(text.clone())),
        _ => None,
    });
    Values { known: known.collect(), is_open: kind.is_open }
}
