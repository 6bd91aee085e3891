//! Programs and files that the manifest does not allow.

use rhai::Position;

use super::super::suggest::did_you_mean;
use crate::script::interface::declaration::Declaration;
use crate::script::outside::files::{FilePath, FilePattern};
use crate::script::outside::programs::refusal;

/// A problem of a text, and a hint.
pub(super) type Wrong = (String, Option<String>);

/// Judges the name of a program.
pub(super) fn unlisted_program(declaration: &Declaration, name: &str) -> Option<Wrong> {
    let listed = &declaration.allow.exec;
    if listed.contains_key(name) {
        return None;
    }
    let meant = did_you_mean(name, listed.keys().map(String::as_str));
    let file = name.rsplit('/').next().unwrap_or(name);
    let entry = || {
        format!(
            "list it in the manifest, with its absolute path: `allow: {{exec: {{{file}: {{path: /usr/bin/{file}, args: [\"*\"]}}}}}}`"
        )
    };
    Some((format!("the program {name} is not listed under `allow.exec`"), Some(meant.unwrap_or_else(entry))))
}

/// Judges the name of a connection.
pub(super) fn unlisted_connection(declaration: &Declaration, name: &str) -> Option<Wrong> {
    let listed = &declaration.allow.connections;
    if listed.contains_key(name) {
        return None;
    }
    let meant = did_you_mean(name, listed.keys().map(String::as_str));
    let entry = || {
        let database =
            "driver: postgres, url: \"postgres://orders.svc/main\", passwordFrom: {secret: orders, key: password}";
        format!("declare it in the manifest: `connections: {{{name}: {{{database}}}}}`")
    };
    Some((format!("the connection {name} is not listed under `connections`"), Some(meant.unwrap_or_else(entry))))
}

/// Judges the arguments of a program, as far as they are plain texts. Returns the first wrong one; nothing if one is
/// missing.
pub(super) fn refused_arguments<'a>(
    declaration: &Declaration,
    program: &str,
    given: &'a [Option<(String, Position)>],
) -> Option<(Option<(&'a str, Position)>, Wrong)> {
    let allowed = declaration.allow.exec.get(program)?;
    let arguments: Vec<Option<&str>> = given.iter().map(|item| item.as_ref().map(|(text, _)| text.as_str())).collect();
    let refusal = refusal(&allowed.args, &arguments)?;
    let argument =
        refusal.index.and_then(|index| given.get(index)?.as_ref()).map(|(text, position)| (text.as_str(), *position));
    let args = allowed.args.iter().map(|arg| format!("{arg:?}")).collect::<Vec<_>>().join(", ");
    let hint = format!("the manifest allows `args: [{args}]` in `allow.exec.{program}`");
    Some((argument, (format!("{program} is not allowed with these arguments: {}", refusal.message), Some(hint))))
}

/// Judges the path of a file.
pub(super) fn unlisted_file(declaration: &Declaration, text: &str) -> Option<Wrong> {
    let path = match FilePath::parse(text) {
        Ok(path) => path,
        Err(problem) => {
            return Some((format!("{text:?} is no path of a file: {problem}"), Some(absolute("config.yaml"))));
        }
    };
    let listed = &declaration.allow.files;
    if listed.iter().any(|pattern| pattern.matches(&path)) {
        return None;
    }
    let exact: Vec<String> = listed.iter().filter(|pattern| pattern.is_exact()).map(ToString::to_string).collect();
    let hint = did_you_mean(text, exact.iter().map(String::as_str));
    Some((format!("the file {text} is not listed under `allow.files`"), Some(hint.unwrap_or_else(|| entry(text)))))
}

/// Judges the directory or the pattern of a list.
pub(super) fn unlisted_files(declaration: &Declaration, text: &str) -> Option<Wrong> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let wanted = match FilePattern::parse(path) {
        Ok(wanted) if wanted.is_exact() => wanted.contents(),
        Ok(wanted) => wanted,
        Err(problem) => return Some((format!("{text:?} is no path of files: {problem}"), Some(absolute("*.yaml")))),
    };
    let is_listed = declaration.allow.files.iter().any(|pattern| pattern.may_overlap(&wanted));
    (!is_listed).then(|| (format!("no file of {text} is listed under `allow.files`"), Some(entry(&wanted.to_string()))))
}

fn absolute(file: &str) -> String {
    format!("write the whole path, as the manifest lists it, such as \"/etc/app/{file}\"")
}

fn entry(path: &str) -> String {
    format!("list it in the manifest: `allow: {{files: [{path:?}]}}`")
}
