//! The limits of templates: fuel counts steps, and one step can make a large text. So the filters that enlarge their
//! input know the size of their result before they make it, and each output, filter and reading of a value checks the
//! memory and the time of the call.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};

use crate::script::limits::allocator;
use crate::script::runtime::progress_hook;

/// Limit of widths and counts in arguments of filters.
const MAX_WIDTH: usize = 100_000;

/// The nesting of values that is checked.
pub(super) const MAX_NESTING: usize = 128;

/// The memory of an item of a list besides its text.
const BYTES_PER_ITEM: usize = 32;

/// Returns how many bytes the result of a filter takes at most.
type Estimate = fn(&[Value]) -> usize;

/// Limits the rendering of templates of an environment.
pub(super) fn set(environment: &mut Environment<'_>) {
    environment.set_formatter(|output, state, value| {
        check()?;
        escape_formatter(output, state, value)
    });
    // The names of the built-in filters that templates cannot write.
    environment.add_filter("replace ", filters::replace);
    environment.add_filter("join ", filters::join);
    environment.add_filter("indent ", filters::indent);
    environment.add_filter("format ", filters::format);
    environment.add_filter("batch ", filters::batch);
    environment.add_filter("slice ", filters::slice);
    environment.add_filter("tojson ", filters::tojson);
    environment.add_filter("pprint ", filters::pprint);
    environment.add_filter("string ", filters::string);
    environment.add_filter("list ", filters::list);
    environment.add_filter("sort ", filters::sort);
    environment.add_filter("upper ", filters::upper);
    environment.add_filter("lower ", filters::lower);
    environment.add_filter("title ", filters::title);
    environment.add_filter("unique ", filters::unique);
    environment.add_filter("reverse ", filters::reverse);
    environment.add_filter("split ", filters::split);
    environment.add_filter("lines ", filters::lines);
    environment.add_filter("map ", filters::map);
    let guarded: [(&'static str, &'static str, Estimate); 19] = [
        ("replace", "replace ", replaced),
        ("join", "join ", joined),
        ("indent", "indent ", indented),
        ("format", "format ", formatted),
        ("batch", "batch ", counted),
        ("slice", "slice ", counted),
        ("tojson", "tojson ", indented_json),
        ("pprint", "pprint ", nested),
        ("string", "string ", twice),
        ("list", "list ", twice),
        ("sort", "sort ", twice),
        ("upper", "upper ", twice),
        ("lower", "lower ", twice),
        ("title", "title ", twice),
        ("unique", "unique ", twice),
        ("reverse", "reverse ", twice),
        ("split", "split ", pieces),
        ("lines", "lines ", pieces),
        ("map", "map ", twice),
    ];
    for (name, original, estimate) in guarded {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| -> Result<Value, Error> {
                check()?;
                let arguments: Vec<Value> = arguments.0.into_iter().map(ValueOrKwargs::into_value).collect();
                if !allocator::reserve(estimate(&arguments)) {
                    return Err(too_large());
                }
                state.apply_filter(original, &arguments)
            },
        );
    }
}

/// Returns values for a template that check the limits of the call whenever one is read.
pub(super) fn context(values: Value) -> Value {
    Value::from_object(Values(values))
}

#[derive(Debug)]
struct Values(Value);

impl Object for Values {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if let Err(error) = check() {
            return Some(error.into());
        }
        self.0.get_item(key).ok().filter(|value| !value.is_undefined())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.try_iter().map_or(Enumerator::NonEnumerable, |keys| Enumerator::Values(keys.collect()))
    }
}

/// Lets other scripts run, and checks that the call may continue.
pub(super) fn check() -> Result<(), Error> {
    if allocator::exceeded().is_some() {
        return Err(too_large());
    }
    if progress_hook::pause() { Ok(()) } else { Err(Error::new(ErrorKind::InvalidOperation, "the call has ended")) }
}

fn too_large() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the result is larger than the call's limit of memory")
}

/// Checks that the call may hold this many bytes more.
pub(super) fn fits(bytes: usize) -> Result<(), Error> {
    if allocator::reserve(bytes) { Ok(()) } else { Err(too_large()) }
}

/// Returns the bytes of a value, but no more than about the limit of the call.
pub(super) fn size(value: &Value, level: usize) -> usize {
    if let Some(text) = value.as_str() {
        return text.len();
    }
    if level > MAX_NESTING {
        return usize::MAX;
    }
    let Ok(items) = value.try_iter() else { return BYTES_PER_ITEM };
    let is_map = value.kind() == minijinja::value::ValueKind::Map;
    let limit = usize::try_from(allocator::running().limit).unwrap_or(usize::MAX);
    let mut bytes = 0usize;
    for item in items {
        let inner = if is_map { value.get_item(&item).map_or(0, |value| size(&value, level + 1)) } else { 0 };
        bytes = bytes.saturating_add(size(&item, level + 1)).saturating_add(inner).saturating_add(BYTES_PER_ITEM);
        if bytes > limit {
            break;
        }
    }
    bytes
}

fn of(arguments: &[Value], index: usize) -> usize {
    arguments.get(index).map_or(0, |value| size(value, 0))
}

fn texts(arguments: &[Value], index: usize) -> &str {
    arguments.get(index).and_then(Value::as_str).unwrap_or_default()
}

fn twice(arguments: &[Value]) -> usize {
    of(arguments, 0).saturating_mul(2)
}

fn replaced(arguments: &[Value]) -> usize {
    let (text, find) = (texts(arguments, 0), texts(arguments, 1));
    text.matches(find).count().saturating_mul(of(arguments, 2)).saturating_add(of(arguments, 0))
}

fn joined(arguments: &[Value]) -> usize {
    let separator = of(arguments, 1);
    let count = arguments.first().map_or(0, |value| value.len().unwrap_or_else(|| texts(arguments, 0).chars().count()));
    count.saturating_mul(separator).saturating_add(twice(arguments))
}

fn pieces(arguments: &[Value]) -> usize {
    let (text, separator) = (texts(arguments, 0), texts(arguments, 1));
    let count = if separator.is_empty() {
        text.split_whitespace().count().max(text.lines().count())
    } else {
        text.matches(separator).count()
    };
    count.saturating_mul(BYTES_PER_ITEM).saturating_add(twice(arguments))
}

/// Returns the largest number among the arguments, also by keyword.
fn number(arguments: &[Value]) -> usize {
    let of_value = |value: &Value| value.as_usize().unwrap_or_default();
    let named = |value: &Value| {
        let keys = value.try_iter().ok().filter(|_| value.kind() == minijinja::value::ValueKind::Map);
        keys.into_iter()
            .flatten()
            .filter_map(|key| value.get_item(&key).ok())
            .map(|value| of_value(&value))
            .max()
            .unwrap_or_default()
    };
    arguments.iter().skip(1).map(|value| of_value(value).max(named(value))).max().unwrap_or_default()
}

fn indented(arguments: &[Value]) -> usize {
    let lines = texts(arguments, 0).lines().count() + 2;
    lines.saturating_mul(number(arguments).max(4)).saturating_add(twice(arguments))
}

/// JSON escapes a control character by six bytes.
fn nested(arguments: &[Value]) -> usize {
    of(arguments, 0).saturating_mul(6)
}

fn indented_json(arguments: &[Value]) -> usize {
    let items = of(arguments, 0) / BYTES_PER_ITEM + 1;
    let width = if number(arguments) > MAX_WIDTH { usize::MAX } else { number(arguments) * MAX_NESTING };
    if number(arguments) == 0 {
        nested(arguments)
    } else {
        items.saturating_mul(width).saturating_add(nested(arguments))
    }
}

fn counted(arguments: &[Value]) -> usize {
    if number(arguments) > MAX_WIDTH {
        usize::MAX
    } else {
        twice(arguments).saturating_add(number(arguments) * BYTES_PER_ITEM)
    }
}

/// Widths are numbers in the format, or arguments.
fn formatted(arguments: &[Value]) -> usize {
    let format = texts(arguments, 0);
    let widths = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widest = widths.map(|digits| digits.parse().unwrap_or(usize::MAX)).max().unwrap_or_default();
    let given = if format.contains('*') { number(arguments) } else { 0 };
    if widest.max(given) > MAX_WIDTH {
        return usize::MAX;
    }
    let conversions = format.matches('%').count();
    let values: usize = (0..arguments.len()).map(|index| of(arguments, index)).fold(0, usize::saturating_add);
    conversions.saturating_mul(widest.max(given) * 4).saturating_add(values.saturating_mul(2))
}
