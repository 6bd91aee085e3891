//! Digests of declarations with their code, which show whether a new revision changes them.
//!
//! The numbers and positions of code differ between revisions, and do not count.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use crate::handling::Handler;
use crate::script::Program;
use crate::script::sources::digest::sha256;

use super::operator::{Daemon, Timer};

/// A digest of a declaration with its code.
pub(crate) type Fingerprint = Arc<str>;

/// Returns the digest of a timer.
pub(crate) fn of_timer(timer: &Timer, program: &Program) -> Fingerprint {
    let handler = unnumbered(&timer.handler);
    digest(&Timer { handler, ..timer.clone() }, timer.handler.target, program)
}

/// Returns the digest of a daemon.
pub(crate) fn of_daemon(daemon: &Daemon, program: &Program) -> Fingerprint {
    let handler = unnumbered(&daemon.handler);
    digest(&Daemon { handler, ..daemon.clone() }, daemon.handler.target, program)
}

/// Returns the digest of a handler.
pub(crate) fn of_handler(handler: &Handler, program: &Program) -> Fingerprint {
    digest(&unnumbered(handler), handler.target, program)
}

fn unnumbered(handler: &Handler) -> Handler {
    Handler { target: 0, function: String::new(), ..handler.clone() }
}

fn digest(declaration: &impl Debug, target: usize, program: &Program) -> Fingerprint {
    static PREDICATE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"Predicate\((\d+)\)").expect("the pattern is valid"));
    let text = format!("{declaration:?}");
    let text = PREDICATE.replace_all(&text, |found: &regex::Captures<'_>| {
        found[1].parse().map_or_else(|_| String::new(), |number| program.digest_of_expression(number))
    });
    let limits =
        program.declaration.bindings.get(target).map(|binding| format!("{:?}", binding.limits)).unwrap_or_default();
    sha256([&*text, "\0", &limits, "\0", &program.digest_of_binding(target)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const MANIFEST: &str = "
apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: demo}
spec:
  resources:
    - resource: v1/configmaps
      script: a.rhai
      timers: [{fn: tick, interval: 10s, when: 'is_on(spec)'}]
      daemons: [{id: follow, run: 'import \"lib/c\" as c; c::greet();'}]
      indexes: [{fn: by_name}]
";

    /// Returns which of the timer, the daemon and the index differ after changes of files.
    fn changed(changes: &[(&str, &str)]) -> Vec<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("operator.yaml", MANIFEST);
        write(
            "a.rhai",
            "import \"b\" as b; fn tick() { b::f(); template(\"t.yaml\"); } fn by_name(name) { return name; } fn is_on(spec) { true }",
        );
        write("b.rhai", "fn f() {}");
        write("lib/c.rhai", "fn greet() {}");
        write("t.yaml", "a: 1");
        let before = fingerprints(folder.path());
        for (name, text) in changes {
            write(name, text);
        }
        let after = fingerprints(folder.path());
        let names = ["timer", "daemon", "index"];
        names
            .into_iter()
            .zip(before.iter().zip(&after))
            .filter(|(_, (before, after))| before != after)
            .map(|(name, _)| name)
            .collect()
    }

    fn fingerprints(folder: &Path) -> [Fingerprint; 3] {
        let mut loaded = crate::manifest::load(&[folder.join("operator.yaml")]);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let operator = loaded.operators.remove(0);
        let program = Program::load(operator.declaration.clone()).unwrap();
        let handler = |index: usize| operator.timers.get(index);
        assert!(handler(1).is_none());
        [
            of_timer(&operator.timers[0], &program),
            of_daemon(&operator.daemons[0], &program),
            of_handler(&operator.indexes[0], &program),
        ]
    }

    #[test]
    fn a_declaration_changes_with_its_options_its_file_and_all_imported_files() {
        let manifest = |from: &str, to: &str| MANIFEST.replace(from, to);
        assert!(changed(&[]).is_empty());
        // The inline text sees the functions of the file.
        assert_eq!(changed(&[("b.rhai", "fn f() { 1 }")]), ["timer", "daemon", "index"]);
        assert_eq!(changed(&[("lib/c.rhai", "fn greet() { 1 }")]), ["daemon"]);
        assert_eq!(changed(&[("operator.yaml", &manifest("interval: 10s", "interval: 20s"))]), ["timer"]);
        assert_eq!(changed(&[("operator.yaml", &manifest("c::greet();", "c::greet(); c::greet();"))]), ["daemon"]);
        assert_eq!(changed(&[("operator.yaml", &manifest("'is_on(spec)'", "'is_on(spec) && true'"))]), ["timer"]);
    }

    #[test]
    fn templates_positions_and_numbers_of_code_do_not_change_a_declaration() {
        assert!(changed(&[("t.yaml", "a: 2")]).is_empty());
        let moved = MANIFEST.replace("spec:\n  resources:\n", "spec:\n  # moved\n  resources:\n    - {resource: v1/secrets, when: 'true', handlers: [{on: create, id: x, run: 'let a = 1;'}]}\n");
        assert!(changed(&[("operator.yaml", &moved)]).is_empty());
    }
}
