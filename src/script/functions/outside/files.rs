//! `file::`: reading the files that `allow.files` names.

use std::sync::Arc;

use rhai::{Array, Dynamic, Engine, FuncRegistration, Module};

use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{Given, Native, Thrown, may_have_bytes, may_have_items};
use crate::script::language::bytes::Bytes;
use crate::script::limits::allocator;
use crate::script::outside::files::{FileError, FilePath, FilePattern, Files, MAX_FILE};
use crate::script::runtime::bounded;
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;

type Function = fn(&Native<'_>, &Dynamic) -> Given;

/// The kind of their errors.
const KIND: &str = "file";

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    let functions: [(&str, Function); 3] = [("read", read), ("read_bytes", read_bytes), ("list", list)];
    for (name, function) in functions {
        let call = move |native: Native<'_>, path: Dynamic| placed(&native, function(&native, &path));
        FuncRegistration::new(name).set_into_module(&mut module, call);
    }
    engine.register_static_module("file", module.into());
}

/// `file::read(path)`: the text of a file.
fn read(native: &Native<'_>, path: &Dynamic) -> Given {
    contents(native, "file::read", path, |bytes| {
        may_have_bytes(native, bytes.len())?;
        std::str::from_utf8(bytes).map(Into::into).map_err(|_| {
            let message = format!(
                "{} is not UTF-8 text; `file::read_bytes` reads it as bytes",
                bounded::shortened(&path.to_string())
            );
            thrown("NotText", message).into()
        })
    })
}

/// `file::read_bytes(path)`: the bytes of a file.
fn read_bytes(native: &Native<'_>, path: &Dynamic) -> Given {
    contents(native, "file::read_bytes", path, |bytes| Ok(Dynamic::from(Bytes(bytes.into()))))
}

/// Reads a file, and copies its contents: the call has not counted text that was read elsewhere.
fn contents(native: &Native<'_>, function: &'static str, path: &Dynamic, copy: impl FnOnce(&[u8]) -> Given) -> Given {
    let context = Context::of(native)?;
    context.acts(function)?;
    let path = text(function, "the path", path)?;
    let path = FilePath::parse(&path).map_err(|wrong| argument(function, &path, wrong))?;
    let allowed = context.allow().files.iter().find(|pattern| pattern.matches(&path)).cloned();
    let allowed =
        allowed.ok_or_else(|| thrown("Forbidden", format!("the file {path} is not listed under `allow.files`")))?;
    let files = files(&context, function)?;
    let limit = MAX_FILE.min(context.budget().memory() / 2);
    let bytes = wait_in(&context, async move { files.read(allowed, path, limit).await })?.map_err(failed)?;
    let copied = bounded::reserve(bytes.len()).and_then(|()| copy(&bytes));
    allocator::uncounted(|| drop(bytes));
    copied
}

/// `file::list(directory)` and `file::list(pattern)`: the paths of the files that may be read.
fn list(native: &Native<'_>, wanted: &Dynamic) -> Given {
    const FUNCTION: &str = "file::list";
    let context = Context::of(native)?;
    context.acts(FUNCTION)?;
    let written = text(FUNCTION, "the path", wanted)?;
    let path = written.strip_suffix('/').unwrap_or(&written);
    let wanted = FilePattern::parse(path).map_err(|wrong| argument(FUNCTION, &written, wrong))?;
    let wanted = if wanted.is_exact() { wanted.contents() } else { wanted };
    let allowed: Vec<FilePattern> =
        context.allow().files.iter().filter(|pattern| pattern.may_overlap(&wanted)).cloned().collect();
    if allowed.is_empty() {
        return Err(thrown("Forbidden", format!("no file of {written} is listed under `allow.files`")).into());
    }
    let files = files(&context, FUNCTION)?;
    let paths = wait_in(&context, async move { files.list(allowed, wanted).await })?.map_err(failed)?;
    may_have_items(native, paths.len())?;
    bounded::reserve(paths.iter().map(|path| path.len() + size_of::<Dynamic>()).sum())?;
    let listed = paths.iter().map(|path| path.as_str().into()).collect::<Array>().into();
    allocator::uncounted(|| drop(paths));
    Ok(listed)
}

/// Returns the files of the machine, and counts a call.
fn files(context: &Context, function: &str) -> Result<Arc<dyn Files>, Thrown> {
    let files = context.outside().files.clone();
    let files = files.ok_or_else(|| Failure::host("unavailable", format!("`{function}` cannot read files here")))?;
    context.budget().count_api_call()?;
    Ok(files)
}

fn argument(function: &str, path: &str, wrong: &str) -> Failure {
    Failure::argument(format!("`{function}`: {:?}: {wrong}", bounded::shortened(path)))
}

fn thrown(reason: &str, message: String) -> Failure {
    Failure { reason: Some(reason.to_owned()), ..Failure::host(KIND, message) }
}

fn failed(error: FileError) -> Failure {
    thrown(error.reason.as_str(), error.message)
}
