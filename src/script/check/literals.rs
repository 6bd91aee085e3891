//! Calls that certainly fail because of literal arguments: templates, patterns, quantities, times, kinds, variables.

mod outside;
mod selectors;

use std::path::Path;

use rhai::Position;
use url::Url;

use super::facts::{Argument, Use, What};
use super::program::Code;
use super::report::Report;
use super::source::spot_of;
use super::suggest::{closest, did_you_mean};
use crate::kit::duration;
use crate::object::Selector;
use crate::object::quantity::Quantity;
use crate::script::functions::{moments, patterns, templates as template_function};
use crate::script::interface::declaration::Declaration;
use crate::script::interface::problem::Severity;
use crate::script::outside::is_allowed;
use crate::script::sources::template_files::{Rendered, used_by};

use outside::Wrong;

/// The files of a folder that are considered for a suggestion.
const MAX_NEIGHBOURS: usize = 1_000;

/// The hint for a text that is no address.
const ADDRESS: &str = "an address is written like \"https://api.example.com/v1\"";

/// Reports the calls of host functions that cannot succeed.
pub(super) fn check(code: &Code, declaration: &Declaration, report: &mut Report) {
    for usage in std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses) {
        let What::Call { namespace, name, arguments, .. } = &usage.what else { continue };
        let is_own = namespace.is_empty() && code.functions(name).next().is_some();
        if let ([module], "run", [Argument::Text(program, _), Argument::List(given), ..]) =
            (&namespace[..], name.as_str(), &arguments[..])
            && module == "exec"
            && let Some((argument, wrong)) = outside::refused_arguments(declaration, program, given)
        {
            let (text, position) = argument.unwrap_or((program, Position::NONE));
            report_finding(code, usage, position, text, wrong, report);
        }
        if let ([module], "list" | "watch_until") = (&namespace[..], name.as_str())
            && module == "k8s"
        {
            for wrong in arguments.iter().flat_map(selectors::wrong_labels) {
                report_finding(code, usage, wrong.position, &wrong.text, (wrong.message, Some(wrong.hint)), report);
            }
        }
        for (index, argument) in arguments.iter().enumerate().filter(|_| !is_own) {
            let Argument::Text(text, position) = argument else { continue };
            if let Some(wrong) =
                judge(declaration, namespace.first().map(String::as_str), name, (index, arguments.len()), text)
            {
                report_finding(code, usage, *position, text, wrong, report);
            }
        }
    }
}

/// Returns the templates that code renders.
pub(super) fn templates<'a>(codes: impl Iterator<Item = &'a Code>) -> Rendered {
    let mut rendered = Rendered::default();
    for code in codes {
        for usage in std::iter::once(&code.top).chain(&code.units).flat_map(|unit| &unit.uses) {
            let What::Call { namespace, name, arguments, .. } = &usage.what else { continue };
            if !namespace.is_empty() || code.functions(name).next().is_some() {
                continue;
            }
            if let ("template_text", Some(Argument::Text(text, _))) = (name.as_str(), arguments.first()) {
                rendered.add(used_by(text));
            }
            if name != "template" {
                continue;
            }
            match arguments.first() {
                Some(Argument::Text(text, _)) => drop(rendered.names.insert(text.clone())),
                _ => rendered.is_open = true,
            }
        }
    }
    rendered
}

fn judge(
    declaration: &Declaration,
    module: Option<&str>,
    name: &str,
    (index, count): (usize, usize),
    text: &str,
) -> Option<Wrong> {
    match (module, name, index) {
        (None, "template", 0) => {
            let wrong = template_function::check(&declaration.root, text).err()?;
            Some((wrong.message, neighbour(&declaration.root, text).or(wrong.hint)))
        }
        (None, "template_text", 0) => template_function::check_text(text)
            .err()
            .map(|message| (message, Some(template_function::SYNTAX.to_owned()))),
        (None, "env", 0) => forbidden_variable(declaration, text),
        (None, "quantity", 0) => {
            let hint = "a quantity is a number, maybe with a suffix: `500Mi`, `100m`, `2k`";
            Quantity::parse(text).err().map(|error| (error.to_string(), Some(hint.to_owned())))
        }
        (None, "duration" | "sleep", 0) | (None, "temporary", 1) => {
            let hint = "write seconds as a number, or a text with units such as \"1h30m\"";
            duration::parse(text).is_err().then(|| (format!("{text:?} is no duration"), Some(hint.to_owned())))
        }
        (None, "time", 0) if count == 1 => {
            let hint = "a text of another form takes the form as second argument: `time(\"31.12.2020\", \"%d.%m.%Y\")`";
            moments::moment(text).err().map(|message| (message, Some(hint.to_owned())))
        }
        (Some("regex"), name, 0) if name != "escape" => {
            let hint =
                "a sign that is meant as it is needs a backslash, which is written `\\\\` in double quotes: \"\\\\(\"";
            patterns::compile(text).err().map(|message| (message, Some(hint.to_owned())))
        }
        (Some("k8s"), "get" | "exists" | "list" | "patch" | "patch_status" | "scale" | "wait" | "watch_until", 0)
        | (Some("k8s"), "can", 1) => wrong_kind(text),
        (Some("http"), "get" | "post" | "put" | "patch" | "delete" | "pages", 0) | (Some("http"), "request", 1) => {
            forbidden_host(declaration, text)
        }
        (Some("k8s"), "delete", 0) if count > 1 => wrong_kind(text),
        (Some("sql"), "query" | "execute" | "transaction" | "ident" | "literal", 0) => {
            outside::unlisted_connection(declaration, text)
        }
        (Some("exec"), "run", 0) => outside::unlisted_program(declaration, text),
        (Some("file"), "read" | "read_bytes", 0) => outside::unlisted_file(declaration, text),
        (Some("file"), "list", 0) => outside::unlisted_files(declaration, text),
        _ => None,
    }
}

/// Returns a hint with the existing file that was probably meant by a missing one.
fn neighbour(root: &Path, name: &str) -> Option<String> {
    let (folder, wanted) = name.rsplit_once('/').map_or(("", name), |(folder, file)| (folder, file));
    if folder.split('/').any(|part| part == "..") || root.join(name).exists() {
        return None;
    }
    let entries = std::fs::read_dir(root.join(folder)).ok()?.take(MAX_NEIGHBOURS);
    let names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let meant = closest(wanted, names.iter().map(String::as_str))?;
    let slash = if folder.is_empty() { "" } else { "/" };
    Some(format!("did you mean `{folder}{slash}{meant}`?"))
}

fn forbidden_variable(declaration: &Declaration, name: &str) -> Option<Wrong> {
    let listed = &declaration.allow.env;
    let hint = || {
        let meant = did_you_mean(name, listed.iter().map(String::as_str));
        meant.unwrap_or_else(|| format!("list it in the manifest: `allow: {{env: [{name}]}}`"))
    };
    let is_listed = listed.iter().any(|known| known == name);
    (!is_listed).then(|| (format!("the variable {name} is not listed under `allow.env`"), Some(hint())))
}

fn forbidden_host(declaration: &Declaration, text: &str) -> Option<Wrong> {
    let url = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(_) => return Some((format!("{text:?} does not begin with https:// or http://"), Some(ADDRESS.to_owned()))),
        Err(_) if !text.contains("://") => {
            let rest = text.trim_start_matches('/');
            return Some((
                format!("{text:?} does not begin with https:// or http://"),
                Some(format!("write \"https://{rest}\"")),
            ));
        }
        Err(error) => return Some((format!("{text:?} is no address: {error}"), Some(ADDRESS.to_owned()))),
    };
    let listed = &declaration.allow.http;
    if is_allowed(listed, &url) {
        return None;
    }
    let host = url.port().map_or_else(
        || url.host_str().unwrap_or_default().to_owned(),
        |port| format!("{}:{port}", url.host_str().unwrap_or_default()),
    );
    let meant = did_you_mean(&host, listed.iter().map(String::as_str));
    let hint = meant.unwrap_or_else(|| format!("list it in the manifest: `allow: {{http: [\"{host}\"]}}`"));
    Some((format!("the host {host} is not listed under `allow.http`"), Some(hint)))
}

fn wrong_kind(text: &str) -> Option<Wrong> {
    let message = match Selector::parse(text) {
        Ok(selector) if selector.is_specific() => return None,
        Ok(_) => format!("{text:?} means more than one kind"),
        Err(error) => format!("{text:?} is no kind: {error}"),
    };
    Some((message, Some("a kind is written like `v1/pods`, `deployments.apps`, or `batch/v1/CronJob`".to_owned())))
}

fn report_finding(
    code: &Code,
    usage: &Use,
    position: Position,
    text: &str,
    (message, hint): Wrong,
    report: &mut Report,
) {
    let position = if position.is_none() { usage.position } else { position };
    let spot = spot_of(position, text.chars().count() + 2);
    report.add(code.source.problem(Severity::Error, spot, message, hint));
}
