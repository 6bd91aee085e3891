//! Validation rules of schemas: expressions over the new and the old value of a node.
//!
//! There is neither static typing nor a limit of cost; rules that need functions which are missing here are told as not enforced.

mod functions;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::Key;
use cel::{Context, Env, ExecutionError, Program, extensions};
use serde_json::Value;

use super::node::{Additional, Node, Rule, Type};
use super::structure::walk;
use crate::Cause;
use crate::causes::Place;

/// A rule that can be evaluated.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    rule: Arc<Program>,
    message: Option<Arc<Program>>,
    uses_old: bool,
}

/// Why a rule cannot be evaluated.
#[derive(Debug)]
pub(super) enum Unfit {
    /// A real server may take it, this one cannot.
    Unsupported(String),
    /// No server can.
    Wrong {
        /// Which expression it is: `rule` or `messageExpression`.
        expression: &'static str,
        /// Its text.
        text: String,
        /// What is wrong.
        why: String,
    },
}

static LANGUAGE: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib().with_optional_support(true);
    env.add_extension(extensions::strings).expect("the library is added once");
    Arc::new(env)
});

/// Functions of real servers that are missing here.
const MISSING: [&str; 17] = [
    "duration",
    "timestamp",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "semver",
    "isSemver",
    "containsIP",
    "containsCIDR",
    "validate",
];

/// Compiles a rule.
pub(super) fn compile(rule: &Rule) -> Result<Compiled, Unfit> {
    let program = compile_one("rule", &rule.rule)?;
    let message = rule.message_expression.as_deref().map(|text| compile_one("messageExpression", text)).transpose()?;
    let uses_old = program.references().has_variable("oldSelf");
    Ok(Compiled { rule: Arc::new(program), message: message.map(Arc::new), uses_old })
}

fn compile_one(expression: &'static str, text: &str) -> Result<Program, Unfit> {
    let wrong = |why: String| Unfit::Wrong { expression, text: text.to_owned(), why };
    let program = LANGUAGE.compile(text).map_err(|errors| wrong(errors.to_string()))?;
    let references = program.references();
    if let Some(name) = MISSING.iter().find(|name| references.has_function(name)) {
        return Err(Unfit::Unsupported(format!("the function {name} is missing")));
    }
    Ok(program)
}

/// Evaluates the rules of a node and of all below it.
pub(super) fn check(node: &Node, new: &Value, old: Option<&Value>, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut context = Context::with_env(Arc::clone(&LANGUAGE));
    functions::add_to(&mut context);
    check_in(&context, node, new, old, place, causes);
}

fn check_in(context: &Context<'_, '_>, node: &Node, new: &Value, old: Option<&Value>, place: &Place<'_>, causes: &mut Vec<Cause>) {
    if !node.rules.is_empty() && !new.is_null() {
        let is_root = matches!(place, Place::Root);
        let current = convert(Some(node), new, is_root);
        let before = old.filter(|old| !old.is_null()).map(|old| convert(Some(node), old, is_root));
        for rule in &node.rules {
            causes.extend(check_rule(context, rule, &current, before.as_ref(), old == Some(new), place));
        }
    }
    walk(node, new, old, place, &mut |node, new, old, place| check_in(context, node, new, old, place, causes));
}

fn check_rule(
    context: &Context<'_, '_>,
    rule: &Rule,
    current: &cel::Value,
    before: Option<&cel::Value>,
    is_unchanged: bool,
    place: &Place<'_>,
) -> Option<Cause> {
    let compiled = rule.compiled.as_ref()?;
    if compiled.uses_old && before.is_none() && !rule.is_old_self_optional {
        return None;
    }
    let mut scope = context.new_inner_scope();
    scope.add_variable_from_value("self", current.clone());
    match before {
        _ if rule.is_old_self_optional => scope.add_variable_from_value("oldSelf", optional(before)),
        Some(before) => scope.add_variable_from_value("oldSelf", before.clone()),
        None => {}
    }
    let text = match compiled.rule.execute(&scope) {
        Ok(cel::Value::Bool(true)) => return None,
        // What a stricter schema would refuse may stay as long as nobody touches it.
        _ if is_unchanged && !compiled.uses_old => return None,
        Ok(_) => message(rule, compiled, &scope),
        Err(error) => {
            let subject = rule.message.as_deref().unwrap_or(&rule.rule);
            return Some(cause(rule, place, &format!("{} evaluating rule: {subject}", error_text(&error))));
        }
    };
    Some(cause(rule, place, &text))
}

fn message(rule: &Rule, compiled: &Compiled, scope: &Context<'_, '_>) -> String {
    let computed = compiled.message.as_ref().and_then(|program| match program.execute(scope) {
        Ok(cel::Value::String(text)) if !text.trim().is_empty() && !text.contains('\n') => Some(text.to_string()),
        _ => None,
    });
    computed.or_else(|| rule.message.clone()).unwrap_or_else(|| format!("failed rule: {}", rule.rule))
}

fn cause(rule: &Rule, place: &Place<'_>, text: &str) -> Cause {
    let lead = match rule.reason.as_str() {
        "FieldValueRequired" => "Required value: ",
        "FieldValueForbidden" => "Forbidden: ",
        "FieldValueDuplicate" => "Duplicate value: ",
        _ => "Invalid value: ",
    };
    let field = format!("{place}{}", rule.field_path);
    let field = field.trim_start_matches('.');
    let field = if field.is_empty() { "<nil>" } else { field };
    Cause::new(&rule.reason, field, format!("{lead}{text}"))
}

fn error_text(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        other => other.to_string(),
    }
}

static SOME: LazyLock<Program> = LazyLock::new(|| LANGUAGE.compile("optional.of(value)").expect("the expression is valid"));
static NONE: LazyLock<Program> = LazyLock::new(|| LANGUAGE.compile("optional.none()").expect("the expression is valid"));

fn optional(value: Option<&cel::Value>) -> cel::Value {
    let mut context = Context::with_env(Arc::clone(&LANGUAGE));
    let program = if let Some(value) = value {
        context.add_variable_from_value("value", value.clone());
        &SOME
    } else {
        &NONE
    };
    program.execute(&context).unwrap_or(cel::Value::Null)
}

/// Returns a value as expressions see it: only what the schema knows, with names that are identifiers.
fn convert(node: Option<&Node>, value: &Value, is_object: bool) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => cel::Value::Bool(*truth),
        Value::Number(number) => match (node.and_then(|node| node.kind), number.as_i64()) {
            (Some(Type::Number), _) | (_, None) => {
                let number = number.as_f64().unwrap_or_default();
                let is_integer = node.is_some_and(|node| node.kind == Some(Type::Integer));
                if is_integer { cel::Value::Int(number as i64) } else { cel::Value::Float(number) }
            }
            (_, Some(whole)) => cel::Value::Int(whole),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            cel::Value::List(Arc::new(items.iter().map(|item| convert(schema, item, false)).collect()))
        }
        Value::Object(members) => {
            let is_object = is_object || node.is_some_and(|node| node.is_embedded);
            let visible = members.iter().filter_map(|(name, member)| convert_member(node, name, member, is_object));
            cel::Value::from(visible.collect::<HashMap<Key, cel::Value>>())
        }
    }
}

fn convert_member(node: Option<&Node>, name: &str, member: &Value, is_object: bool) -> Option<(Key, cel::Value)> {
    let Some(node) = node else { return Some((key(name), convert(None, member, false))) };
    if is_object && ["apiVersion", "kind"].contains(&name) {
        return Some((key(name), convert(None, member, false)));
    }
    if is_object && name == "metadata" {
        let names = ["name", "generateName"].into_iter().filter_map(|name| Some((key(name), convert(None, member.get(name)?, false))));
        return Some((key(name), cel::Value::from(names.collect::<HashMap<Key, cel::Value>>())));
    }
    match (node.properties.get(name), &node.additional) {
        (Some(schema), _) => Some((key(&escape(name)), convert(Some(schema), member, false))),
        (None, Additional::Of(schema)) => Some((key(name), convert(Some(schema), member, false))),
        (None, Additional::Anything) => Some((key(name), convert(None, member, false))),
        (None, Additional::Nothing) => None,
    }
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// Words of the language that no identifier may be.
const RESERVED: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// Returns the name by which expressions reach a member.
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let text = name.replace("__", "__underscores__");
    text.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
