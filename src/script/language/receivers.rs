//! Methods with callbacks on variables that the callbacks use themselves, such as `m.items.filter(|item| item <
//! m.limit)`.
//!
//! While a chain runs, the interpreter locks the variable at its beginning if a closure has captured it, so that the
//! closure could not read it. Therefore the variable at the beginning of such a chain is renamed when the script is
//! compiled, and reading the new name gives a [`Receiver`]: a reference to the variable or to a part of it, which locks
//! it only for single reads and writes. Methods run on a copy; if they change their value, the copy is written back.

use std::any::TypeId;
use std::collections::BTreeSet;

use rhai::{
    Array, Dynamic, Engine, EvalAltResult, EvalContext, FnPtr, ImmutableString, Map, NativeCallContext, Position,
};

use super::convert;
use crate::script::values::script_error::Failure;

/// The suffix of renamed variables. Scripts cannot use it in names.
pub(crate) const MARK: char = '\'';

/// The methods of lists and maps that do not change them. All other methods count as changing.
const READING: [&str; 43] = [
    "all",
    "contains",
    "copy",
    "difference",
    "extract",
    "filter",
    "find",
    "find_map",
    "flatten",
    "get",
    "group_by",
    "index_of",
    "intersection",
    "is_empty",
    "items",
    "join",
    "keys",
    "len",
    "map",
    "max",
    "merge",
    "min",
    "omit",
    "order",
    "order_by",
    "order_desc",
    "pick",
    "reduce",
    "reduce_rev",
    "reversed",
    "some",
    "sorted",
    "sorted_by",
    "sum",
    "to_debug",
    "to_json",
    "to_map",
    "to_string",
    "union",
    "unique",
    "unique_by",
    "values",
    "zip",
];

/// The maximum number of arguments of methods of lists and maps, without the receiver.
const MAX_ARGUMENTS: usize = 3;

type Thrown = Box<EvalAltResult>;

/// Returns the original name of a renamed variable.
pub(crate) fn written(name: &str) -> Option<&str> {
    name.strip_suffix(MARK)
}

/// Returns the value at the beginning of a chain with callbacks. Variables with lists and maps become receivers;
/// constants, handles and plain values are copied.
///
/// A closure captures the name even if it has its own variable with this name. Then there may be none outside.
pub(crate) fn resolve(name: &str, marked: &str, context: &mut EvalContext<'_, '_, '_, '_, '_, '_>) -> Option<Dynamic> {
    let scope = context.scope_mut();
    let Some(value) = scope.get(name) else {
        return scope.get(marked).cloned();
    };
    let is_container = value.is_array() || value.is_map();
    if !is_container || value.is_read_only() {
        return Some(value.flatten_clone());
    }
    let value = scope.get_mut(name)?;
    if !value.is_shared() {
        *value = std::mem::take(value).into_shared();
    }
    Some(Dynamic::from(Receiver { variable: value.clone(), name: name.into(), path: Vec::new() }))
}

/// A variable with a list or a map, or a list or map in it.
#[derive(Clone)]
pub(crate) struct Receiver {
    /// A shared value.
    variable: Dynamic,
    name: ImmutableString,
    path: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Key(ImmutableString),
    Index(usize),
}

impl Receiver {
    fn below(&self, step: Step) -> Self {
        let path = self.path.iter().cloned().chain([step]).collect();
        Self { variable: self.variable.clone(), name: self.name.clone(), path }
    }

    /// Returns a copy of the value; `()` if a closure has removed it.
    fn read(&self) -> Result<Dynamic, Thrown> {
        if self.variable.is_locked() {
            return Err(in_use(&self.name));
        }
        Ok(read_at(&self.variable, &self.path).unwrap_or_default())
    }

    fn write(&mut self, value: Dynamic) -> Result<(), Thrown> {
        if self.variable.is_locked() {
            return Err(in_use(&self.name));
        }
        if write_at(&mut self.variable, &self.path, value) {
            Ok(())
        } else {
            Err(Failure::argument(format!("a closure has removed what is being changed in `{}`", self.name)).into())
        }
    }

    /// Returns a part of the value: a receiver if it is a list or a map, else its value.
    fn part(&self, step: Step) -> Result<Dynamic, Thrown> {
        let part = self.below(step);
        let value = part.read()?;
        Ok(if value.is_array() || value.is_map() { Dynamic::from(part) } else { value })
    }

    fn get(&mut self, key: ImmutableString) -> Result<Dynamic, Thrown> {
        let value = self.read()?;
        match value.as_array_ref() {
            Ok(items) if key == "len" => Ok((items.len() as i64).into()),
            Ok(items) if key == "is_empty" => Ok(items.is_empty().into()),
            Ok(_) => Err(Failure::argument(format!("a list has no `{key}`: its items are numbered")).into()),
            Err(_) => self.part(Step::Key(key)),
        }
    }

    fn get_at(&mut self, index: i64) -> Result<Dynamic, Thrown> {
        let value = self.read()?;
        let Ok(items) = value.as_array_ref() else {
            return Err(Failure::argument("a map has no numbered items: use its keys").into());
        };
        let length = items.len() as i64;
        let position = if index < 0 { length + index } else { index };
        let position = usize::try_from(position).ok().filter(|position| *position < items.len());
        let position =
            position.ok_or_else(|| Box::new(EvalAltResult::ErrorArrayBounds(items.len(), index, Position::NONE)))?;
        self.part(Step::Index(position))
    }

    /// After a call in a chain, the interpreter writes the read value back; a receiver was already changed in place.
    fn set(&mut self, key: ImmutableString, value: Dynamic) -> Result<(), Thrown> {
        self.write_back(Step::Key(key), value)
    }

    fn set_at(&mut self, index: i64, value: Dynamic) -> Result<(), Thrown> {
        match self.get_at(index)?.read_lock::<Self>() {
            Some(_) => Ok(()),
            None => self.write_back(Step::Index(usize::try_from(index).unwrap_or_default()), value),
        }
    }

    fn write_back(&mut self, step: Step, value: Dynamic) -> Result<(), Thrown> {
        let mut part = self.below(step);
        if value.is::<Self>() || same(&part.read()?, &value) { Ok(()) } else { part.write(value) }
    }

    /// Runs a method on a copy of the value. If that changes the copy, it becomes the value, unless a closure has
    /// changed the value, too.
    fn call(&mut self, native: &NativeCallContext<'_>, rest: &mut [Dynamic]) -> Result<Dynamic, Thrown> {
        let name = native.fn_name();
        let before = self.read()?;
        let mut copy = before.clone();
        let result = call(native, &mut copy, rest)?;
        if READING.contains(&name) || same(&before, &copy) {
            return Ok(result);
        }
        if !same(&before, &self.read()?) {
            let message = format!("`{name}` changes `{}`, and a closure that it calls changes it, too", self.name);
            return Err(Failure::host("in-use", format!("{message}: change a copy in the closure")).into());
        }
        self.write(copy)?;
        Ok(result)
    }
}

/// Calls a method of a list or map, or a function in a map.
fn call(native: &NativeCallContext<'_>, value: &mut Dynamic, rest: &mut [Dynamic]) -> Result<Dynamic, Thrown> {
    let held = value.as_map_ref().ok().and_then(|map| map.get(native.fn_name())?.clone().try_cast::<FnPtr>());
    if let Some(function) = held {
        return function.call_raw(native, Some(value), rest);
    }
    let mut arguments = vec![value];
    arguments.extend(rest.iter_mut());
    native.call_native_fn_raw(native.fn_name(), true, &mut arguments)
}

fn read_at(value: &Dynamic, path: &[Step]) -> Option<Dynamic> {
    let Some((step, rest)) = path.split_first() else { return Some(value.flatten_clone()) };
    match step {
        Step::Key(key) => read_at(value.as_map_ref().ok()?.get(key.as_str())?, rest),
        Step::Index(index) => read_at(value.as_array_ref().ok()?.get(*index)?, rest),
    }
}

/// Returns whether the path exists.
fn write_at(value: &mut Dynamic, path: &[Step], written: Dynamic) -> bool {
    let Some((step, rest)) = path.split_first() else {
        if let Some(mut place) = value.write_lock::<Dynamic>() {
            *place = written;
            return true;
        }
        return false;
    };
    match step {
        Step::Key(key) if rest.is_empty() => value.as_map_mut().is_ok_and(|mut map| {
            map.insert(key.as_str().into(), written);
            true
        }),
        Step::Key(key) => value
            .as_map_mut()
            .is_ok_and(|mut map| map.get_mut(key.as_str()).is_some_and(|part| write_at(part, rest, written))),
        Step::Index(index) => value
            .as_array_mut()
            .is_ok_and(|mut items| items.get_mut(*index).is_some_and(|part| write_at(part, rest, written))),
    }
}

/// Tells whether two values are the same data; functions are the same if they have one name.
fn same(a: &Dynamic, b: &Dynamic) -> bool {
    if let (Ok(a), Ok(b)) = (a.as_array_ref(), b.as_array_ref()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b));
    }
    if let (Ok(a), Ok(b)) = (a.as_map_ref(), b.as_map_ref()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|((key, a), (other, b))| key == other && same(a, b));
    }
    match (convert::to_json(a), convert::to_json(b)) {
        (Ok(x), Ok(y)) => x == y && a.type_id() == b.type_id(),
        _ => a.type_id() == b.type_id() && a.to_string() == b.to_string(),
    }
}

/// Returns the error about a variable that is locked by a native function, whose closure reads it.
pub(crate) fn in_use(name: &str) -> Thrown {
    Failure::host("in-use", in_use_text(&format!("`{name}`"))).into()
}

/// Returns the text of that error.
pub(crate) fn in_use_text(what: &str) -> String {
    format!("{what} is in use by the method that calls this closure: give the closure a copy, made before the call")
}

/// Registers the methods of receivers: those of lists and maps.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Receiver>("Receiver");
    pure!(get engine, Receiver::get);
    pure!(set engine, Receiver::set);
    pure!(get engine, Receiver::get_at);
    pure!(set engine, Receiver::set_at);
    for (name, arguments) in methods(engine) {
        match arguments {
            0 => pure!(engine, &name, |native: NativeCallContext<'_>, it: &mut Receiver| it.call(&native, &mut [])),
            1 => pure!(engine, &name, |native: NativeCallContext<'_>, it: &mut Receiver, a: Dynamic| it
                .call(&native, &mut [a])),
            2 => pure!(engine, &name, |native: NativeCallContext<'_>, it: &mut Receiver, a: Dynamic, b: Dynamic| {
                it.call(&native, &mut [a, b])
            }),
            _ => pure!(engine, &name, |native: NativeCallContext<'_>,
                                       it: &mut Receiver,
                                       a: Dynamic,
                                       b: Dynamic,
                                       c: Dynamic| {
                it.call(&native, &mut [a, b, c])
            }),
        };
    }
}

/// Returns the names of the methods of lists and maps, with the numbers of their arguments.
fn methods(engine: &Engine) -> BTreeSet<(String, usize)> {
    let receivers = [TypeId::of::<Array>(), TypeId::of::<Map>()];
    let all = engine.collect_fn_metadata(
        None,
        |info| {
            let metadata = info.metadata;
            let is_method = metadata.param_types.first().is_some_and(|first| receivers.contains(first));
            let is_named = metadata.name.starts_with(|c: char| c.is_ascii_alphabetic()) && !metadata.name.contains('$');
            (info.namespace.is_empty() && is_method && is_named)
                .then(|| (metadata.name.to_string(), metadata.num_params - 1))
        },
        true,
    );
    all.into_iter().filter(|(_, arguments)| *arguments <= MAX_ARGUMENTS).collect()
}
