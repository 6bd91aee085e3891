//! `template(file, map)`: a file with Jinja syntax, rendered, and read as YAML; and `template_text(text, map)`: a text,
//! rendered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext};
use serde_json::Value;

use super::options::{json, text};
use super::{template_filters, template_limits};
use crate::object::yaml;
use crate::script::language::convert;
use crate::script::limits::allocator;
use crate::script::runtime::bounded::{self, Parsed, Text};
use crate::script::runtime::context::Context;
use crate::script::sources::files::{self, Unreadable};
use crate::script::sources::template_files::Templates;
use crate::script::values::script_error::Failure;

/// Limit of steps of one rendering. A template that needs more has an endless loop.
const FUEL: u64 = 5_000_000;
/// Limit of nested includes and macros: each takes native stack.
const RECURSION: usize = 30;
/// Limit of the bytes of a template that is no file: nothing interrupts its compilation.
const MAX_TEXT: usize = 256 << 10;

/// Registers the function.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_fn("template", |native: NativeCallContext<'_>, file: Dynamic, values: Dynamic| {
        template(&native, &file, &values)
    });
    engine.register_fn("template", |native: NativeCallContext<'_>, file: Dynamic| {
        template(&native, &file, &Dynamic::UNIT)
    });
    engine.register_fn("template_text", |native: NativeCallContext<'_>, text: Dynamic, values: Dynamic| {
        template_text(&native, &text, &values)
    });
    engine.register_fn("template_text", |native: NativeCallContext<'_>, text: Dynamic| {
        template_text(&native, &text, &Dynamic::UNIT)
    });
}

/// `template(file, map)`: the objects of a template below the folder of scripts. One document gives its object, several
/// give an array; empty documents are dropped; without any document the value is `()`.
///
/// The map's keys are the variables. Undefined variables are errors, including `()` values; nothing is escaped, `{{ x |
/// tojson }}` quotes safely. Includes are looked up like the file itself.
fn template(native: &NativeCallContext<'_>, file: &Dynamic, values: &Dynamic) -> Result<Dynamic, Box<EvalAltResult>> {
    let context = Context::of(native)?;
    let file = text("template", "the file", file)?;
    let values = values_of("template", values)?;
    let max = native.engine().max_string_size();
    let rendered = render(context.root(), context.templates(), &file, &values, max).map_err(|message| {
        allocator::exceeded().map_or_else(|| Failure::host("template", message).into(), bounded::refused)
    })?;
    bounded::pause()?;
    let documents: Vec<Parsed<false>> = yaml::parse_as(&rendered).map_err(|error| {
        Failure::host("template", format!("the text that {file} was rendered to is not YAML: {error}"))
    })?;
    Ok(match documents.as_slice() {
        [] => Dynamic::UNIT,
        [Parsed(one)] => convert::to_dynamic(one),
        several => several.iter().map(|Parsed(one)| convert::to_dynamic(one)).collect::<rhai::Array>().into(),
    })
}

fn values_of(function: &str, values: &Dynamic) -> Result<Value, Box<EvalAltResult>> {
    match json(function, values)? {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        values @ Value::Object(_) => Ok(values),
        _ => Err(Failure::argument(format!("`{function}`: the values must be a map")).into()),
    }
}

/// `template_text(text, map)`: a text with Jinja syntax, rendered to a text, with the same rules as `template`.
///
/// The text may come from an object, whose author must not read all files: it can include only the templates that
/// scripts render.
fn template_text(
    native: &NativeCallContext<'_>,
    template: &Dynamic,
    values: &Dynamic,
) -> Result<Dynamic, Box<EvalAltResult>> {
    let context = Context::of(native)?;
    let template = text("template_text", "the template", template)?;
    if template.len() > MAX_TEXT {
        return Err(Failure::argument(format!("`template_text`: a template has at most {MAX_TEXT} bytes")).into());
    }
    let values = values_of("template_text", values)?;
    let mut rendered = Text::up_to(native.engine().max_string_size());
    let environment = closed_environment(context.templates());
    let result = environment.template_from_str(&template).and_then(|template| {
        template.render_captured_to(template_limits::context(template_value(&values)), &mut rendered).map(drop)
    });
    result.map_err(|error| {
        let message = explain(TEXT, &error);
        allocator::exceeded().map_or_else(|| Failure::host("template", message).into(), bounded::refused)
    })?;
    bounded::pause()?;
    Ok(rendered.into_string().into())
}

/// Checks that a text can be parsed as a template.
///
/// # Errors
/// The problem.
pub(crate) fn check_text(template: &str) -> Result<(), String> {
    closed_environment(&Arc::default()).template_from_str(template).map(drop).map_err(|error| explain(TEXT, &error))
}

/// The name of a template that is no file.
const TEXT: &str = "text";

/// Checks that a template exists and can be parsed.
///
/// # Errors
/// The problem.
pub(crate) fn check(root: &Path, file: &str) -> Result<(), Unreadable> {
    files::read(root, "template", file)?;
    let compiled = environment(root, &Arc::default()).get_template(file).map(drop);
    compiled.map_err(|error| Unreadable::new(explain(file, &error)).hint(SYNTAX))
}

/// The hint for a template that cannot be parsed.
pub(crate) const SYNTAX: &str =
    "templates have the syntax of Jinja: a value is written `{{ name }}`, a statement `{% if name %} … {% endif %}`";

fn render(root: &Path, templates: &Arc<Templates>, file: &str, values: &Value, max: usize) -> Result<String, String> {
    let mut text = Text::up_to(max);
    let environment = environment(root, templates);
    let template = environment.get_template(file);
    let rendered = template
        .and_then(|template| template.render_captured_to(template_limits::context(template_value(values)), &mut text));
    rendered.map_err(|error| explain(file, &error))?;
    Ok(text.into_string())
}

/// Returns an environment that reads no files.
fn closed_environment(templates: &Arc<Templates>) -> Environment<'static> {
    let mut environment = limited_environment();
    let templates = Arc::clone(templates);
    environment.set_loader(move |name| Ok(templates.get(name).map(ToString::to_string)));
    environment
}

fn limited_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    template_limits::set(&mut environment);
    template_filters::add(&mut environment);
    environment
}

fn environment(root: &Path, templates: &Arc<Templates>) -> Environment<'static> {
    let mut environment = limited_environment();
    let (root, templates) = (root.to_owned(), Arc::clone(templates));
    environment.set_loader(move |name| {
        if let Some(text) = templates.get(name) {
            return Ok(Some(text.to_string()));
        }
        files::read(&root, "template", name)
            .map(Some)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.message))
    });
    environment
}

fn template_value(value: &Value) -> minijinja::Value {
    match value {
        // `None` in the text would be read as a YAML string. Scripts do not distinguish `()` from an absent key either.
        Value::Null => minijinja::Value::UNDEFINED,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(integer)) => integer.into(),
            (None, None) => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.into(),
        Value::Array(items) => items.iter().map(template_value).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), template_value(value))).collect::<BTreeMap<_, _>>().into()
        }
    }
}

/// The engine's own text repeats the kind of the error; a reader needs the position and the problem.
fn explain(file: &str, error: &Error) -> String {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too many steps".to_owned(),
        (_, Some(detail)) if error.kind() == ErrorKind::InvalidOperation => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    match (error.name(), error.line()) {
        (name, Some(line)) => format!("{}:{line}: {what}", name.filter(|name| *name != "<string>").unwrap_or(file)),
        _ => what,
    }
}
