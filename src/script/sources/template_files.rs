//! The templates of an operator, read once, so that a revision always renders the same texts.
//!
//! Literal names in scripts and in templates name single files. If a name is computed, all files below the root with
//! usual endings are read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::files;

/// The endings of templates whose names are computed.
const EXTENSIONS: [&str; 9] = ["j2", "jinja", "jinja2", "tpl", "tmpl", "yaml", "yml", "json", "txt"];

/// Limit of files that are read because a name is computed; others are read when they are rendered.
const MAX_FILES: usize = 1_000;

/// Templates by their names below the root.
pub(crate) type Templates = BTreeMap<String, Arc<str>>;

/// The names of the templates that scripts render.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// Literal names.
    pub names: BTreeSet<String>,
    /// Whether other names are computed.
    pub is_open: bool,
}

impl Rendered {
    /// Adds the names of others.
    pub(crate) fn add(&mut self, others: Self) {
        self.names.extend(others.names);
        self.is_open |= others.is_open;
    }
}

/// Reads the templates of scripts. Missing ones are reported by the check of the scripts, or when they are rendered.
pub(crate) fn read(root: &Path, rendered: &Rendered) -> Templates {
    let mut templates = Templates::new();
    let (mut pending, mut is_open, mut has_all) = (rendered.names.clone(), rendered.is_open, false);
    loop {
        while let Some(name) = pending.pop_first() {
            if let Ok(text) = files::read(root, "template", &name) {
                let used = used_by(&text);
                is_open |= used.is_open;
                templates.insert(name, text.into());
                pending.extend(used.names.into_iter().filter(|name| !templates.contains_key(name)));
            }
        }
        if !is_open || has_all {
            return templates;
        }
        has_all = true;
        add_all(root, "", &mut pending);
        pending.retain(|name| !templates.contains_key(name));
    }
}

/// Returns the templates that a template includes, extends or imports.
pub(crate) fn used_by(text: &str) -> Rendered {
    static TAG: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?s)\{%[-+]?\s*(?:include|extends|import|from)\b(.*?)%\}").expect("the pattern is valid")
    });
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""([^"]*)"|'([^']*)'"#).expect("the pattern is valid"));
    let mut used = Rendered::default();
    for tag in TAG.captures_iter(text) {
        let names =
            NAME.captures_iter(&tag[1]).filter_map(|name| Some(name.get(1).or(name.get(2))?.as_str().to_owned()));
        let before = used.names.len();
        used.names.extend(names);
        used.is_open |= used.names.len() == before && !NAME.is_match(&tag[1]);
    }
    used
}

/// Adds the names of all templates below a folder.
fn add_all(root: &Path, folder: &str, templates: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    for name in names.into_iter().filter(|name| !name.starts_with('.')) {
        if templates.len() >= MAX_FILES {
            return;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let is_template =
            Path::new(&path).extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        if root.join(&path).is_dir() {
            add_all(root, &path, templates);
        } else if is_template {
            templates.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_with_all_that_they_use() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a.yaml", "{% include 'parts/b.conf' %} {%- extends \"c.j2\" -%} {% if x %}'no.yaml'{% endif %}");
        write("parts/b.conf", "{% include ['a.yaml', 'missing'] ignore missing %}");
        write("c.j2", "");
        write("no.yaml", "");
        write(".git/x.yaml", "");
        write("other.conf", "{% include name %}");
        let read = |names: &[&str], is_open| {
            let rendered = Rendered { names: names.iter().map(|name| (*name).to_owned()).collect(), is_open };
            super::read(folder.path(), &rendered).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(read(&["a.yaml"], false), ["a.yaml", "c.j2", "parts/b.conf"]);
        assert_eq!(read(&[], true), ["a.yaml", "c.j2", "no.yaml", "parts/b.conf"]);
        assert_eq!(read(&["other.conf"], false), ["a.yaml", "c.j2", "no.yaml", "other.conf", "parts/b.conf"]);
        assert!(read(&["missing"], false).is_empty());
    }
}
