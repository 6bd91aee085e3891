//! Reads the stubs of programs and files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::declared::ProgramStub;
use crate::manifest::reader::{Fields, Item, Reader};
use crate::manifest::tree::Kind;
use crate::script::outside::files::FilePath;
use crate::script::outside::programs::Finished;

const PROGRAM: &str = "write such as `{program: helm, args: [upgrade, \"*\"], code: 0, stdout: done}`";

/// Reads the keys `exec` and `files` of `given`.
pub(super) fn read(reader: &Reader, fields: &Fields<'_>) -> (Vec<ProgramStub>, BTreeMap<String, Option<Vec<u8>>>) {
    let programs = reader.list_of(fields, "exec").iter().filter_map(|item| program(reader, item)).collect();
    let files = fields.get("files").map(|item| files(reader, &item)).unwrap_or_default();
    (programs, files)
}

fn program(reader: &Reader, item: &Item<'_>) -> Option<ProgramStub> {
    let known = ["program", "args", "times", "takes", "fails", "code", "stdout", "stderr", "files"];
    let fields = reader.fields(item, "a stub of a program", &known)?;
    let program = reader.required(&fields, "program", PROGRAM).and_then(|item| reader.owned(&item))?;
    let args = fields.get("args").map(|item| reader.list(&item).iter().filter_map(|item| reader.owned(item)).collect());
    let bytes = |key: &str| fields.get(key).and_then(|item| contents(reader, &item)).unwrap_or_default();
    let files = fields.get("files").map(|item| entries(reader, &item)).unwrap_or_default();
    let files =
        files.into_iter().filter_map(|(name, item)| Some((name.to_owned(), contents(reader, &item)?))).collect();
    let code = fields.get("code").and_then(|item| reader.whole(&item, i64::from(i32::MIN)));
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
    Some(ProgramStub {
        program,
        args,
        times: fields.get("times").and_then(|item| reader.whole(&item, 1)).map(|times| times as usize),
        takes: fields.get("takes").and_then(|item| reader.duration(&item)).unwrap_or_default(),
        fails: reader.string(&fields, "fails"),
        finished: Finished { code, stdout: bytes("stdout"), stderr: bytes("stderr"), files },
    })
}

fn files(reader: &Reader, item: &Item<'_>) -> BTreeMap<String, Option<Vec<u8>>> {
    let file = |(path, item): (&str, Item<'_>)| {
        if let Err(problem) = FilePath::parse(path) {
            reader.key_error(&item, format!("`{path}` cannot be a file: {problem}"), "write an absolute path");
            return None;
        }
        let contents = if matches!(item.node.kind, Kind::Null) { None } else { Some(contents(reader, &item)?) };
        Some((path.to_owned(), contents))
    };
    entries(reader, item).into_iter().filter_map(file).collect()
}

fn entries<'a>(reader: &Reader, item: &Item<'a>) -> Vec<(&'a str, Item<'a>)> {
    let entries = item.entries();
    if entries.is_none() {
        reader.mistyped(item, "a mapping of texts by path", "write such as `{config.yaml: \"replicas: 3\"}`");
    }
    entries.unwrap_or_default()
}

/// Reads a text, or `{base64: …}`.
pub(super) fn contents(reader: &Reader, item: &Item<'_>) -> Option<Vec<u8>> {
    if !matches!(item.node.kind, Kind::Map(_)) {
        return if item.node.text() == Some("") {
            Some(Vec::new())
        } else {
            reader.owned(item).map(String::into_bytes)
        };
    }
    let fields = reader.fields(item, "a mapping of bytes", &["base64"])?;
    let item = reader.required(&fields, "base64", "write a text, or bytes as `{base64: AAEC}`")?;
    let text = reader.owned(&item)?;
    let bytes = STANDARD.decode(&text).ok();
    if bytes.is_none() {
        reader.error_with(&item, format!("`{text}` is not base64"), "write a text, or bytes as `{base64: AAEC}`");
    }
    bytes
}
