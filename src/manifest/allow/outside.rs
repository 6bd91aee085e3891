//! The programs and files of the machine that scripts may reach: `allow.exec` and `allow.files`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::script::outside::files::FilePattern;
use crate::script::outside::programs::{AllowedProgram, DEFAULT_OUTPUT, DEFAULT_TIME};

use super::super::reader::{Fields, Item, Reader};

/// The highest output of a program: all of it is in memory.
const MAX_OUTPUT: u64 = 256 << 20;

const PROGRAM: &str = "write such as `helm: {path: /usr/bin/helm, args: [upgrade, --install, \"*\"]}`";
const FILE: &str = "write an absolute path, maybe with `*`, such as `/etc/app/*.yaml` or `/etc/app/**/*`";

/// Reads the programs.
pub(super) fn programs(reader: &Reader, fields: &Fields<'_>) -> BTreeMap<String, AllowedProgram> {
    let Some(item) = fields.get("exec") else { return BTreeMap::new() };
    let Some(entries) = item.entries() else {
        reader.mistyped(&item, "a mapping of programs by name", PROGRAM);
        return BTreeMap::new();
    };
    entries.into_iter().filter_map(|(name, item)| Some((name.to_owned(), program(reader, &item)?))).collect()
}

fn program(reader: &Reader, item: &Item<'_>) -> Option<AllowedProgram> {
    let fields = reader.fields(item, "an allowed program", &["path", "args", "time", "output"])?;
    let path = reader.required(&fields, "path", PROGRAM).and_then(|item| path(reader, &item));
    let args = reader.list_of(&fields, "args").iter().filter_map(|item| argument(reader, item)).collect();
    let (mut time, mut output) = (DEFAULT_TIME, DEFAULT_OUTPUT);
    reader.set(&fields, "time", &mut time, time_of);
    reader.set(&fields, "output", &mut output, |reader, item| {
        reader.size_up_to(item, MAX_OUTPUT, "all of the output is kept in memory")
    });
    Some(AllowedProgram { path: path?, args, time, output })
}

fn path(reader: &Reader, item: &Item<'_>) -> Option<PathBuf> {
    let text = reader.owned(item)?;
    let is_plain = text.starts_with('/') && !text.ends_with('/') && !text.contains('\0');
    if is_plain {
        return Some(text.into());
    }
    let hint = "write the absolute path of its file: programs are not looked for";
    reader.error_with(item, format!("`{text}` is not the path of a program"), hint);
    None
}

fn argument(reader: &Reader, item: &Item<'_>) -> Option<String> {
    // An empty argument is an argument.
    if item.node.text() == Some("") { Some(String::new()) } else { reader.owned(item) }
}

fn time_of(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    reader.duration_above_zero(item, "leave it out for the default of one minute")
}

/// Reads the patterns of files.
pub(super) fn files(reader: &Reader, fields: &Fields<'_>) -> Vec<FilePattern> {
    let read = |item: &Item<'_>| {
        let text = reader.owned(item)?;
        match FilePattern::parse(&text) {
            Ok(pattern) => Some(pattern),
            Err(problem) => {
                let hint = if text.ends_with('/') {
                    format!("for the files in the directory, write `{text}*`")
                } else {
                    FILE.to_owned()
                };
                reader.error_with(item, format!("`{text}` cannot be allowed: {problem}"), hint);
                None
            }
        }
    };
    reader.list_of(fields, "files").iter().filter_map(read).collect()
}
