//! The files of custom resource definitions in `spec.crds`.

use std::path::PathBuf;
use std::sync::Arc;

use super::builder::plain;
use super::reader::{Item, Reader};
use super::source::{Source, directory_of};
use super::tree::{self, Node};

/// Reads one item of `spec.crds`: the file must exist, be YAML, and contain a definition.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Option<(PathBuf, Arc<str>)> {
    let text = reader.owned(item)?;
    let path = directory_of(&reader.source.name).join(&text);
    let source = match Source::read(&path) {
        Ok(source) => source,
        Err(diagnostic) if diagnostic.place.line == 0 => {
            let why = diagnostic.message.trim_start_matches("cannot read the file: ").to_owned();
            reader.error_with(
                item,
                format!("cannot read `{text}`: {why}"),
                format!("it is looked for at {}", plain(&path).display()),
            );
            return None;
        }
        Err(diagnostic) => {
            reader.error_with(item, format!("`{text}`: {}", diagnostic.message), "save it in the encoding UTF-8");
            return None;
        }
    };
    match tree::parse(&source) {
        Err(mistake) => {
            let message = format!("`{text}` in line {}: {}", mistake.spot.line, mistake.message);
            reader.error_with(item, message, "mend the file, or leave it out");
            None
        }
        Ok(documents) => {
            if !documents.iter().any(|document| is_definition(&document.root)) {
                let hint =
                    "its `kind` is CustomResourceDefinition, of `apiextensions.k8s.io/v1`, with a group and names";
                reader.error_with(item, format!("`{text}` holds no custom resource definition"), hint);
                return None;
            }
            Some((path, source.text))
        }
    }
}

fn is_definition(root: &Node) -> bool {
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    let names = root.get("spec").and_then(|spec| spec.get("names"));
    text(root.get("kind")).as_deref() == Some("CustomResourceDefinition")
        && text(root.get("apiVersion")).as_deref() == Some("apiextensions.k8s.io/v1")
        && text(root.get("spec").and_then(|spec| spec.get("group"))).is_some()
        && text(names.and_then(|names| names.get("plural"))).is_some()
}
