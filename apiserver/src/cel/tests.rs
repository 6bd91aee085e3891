//! Tests of expressions and their values.

mod checked;
mod evaluated;

use std::sync::Arc;

use super::{Authorizer, Environment, Mistake, Object, Program, Type, Value};

/// Returns an environment with a `self` of some members.
fn environment() -> Environment {
    let object = |name: &str, fields: Vec<(&str, Type)>| {
        let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        Type::Object(Object { name: name.to_owned(), fields }.into())
    };
    let spec = object("selfType.spec", vec![("n", Type::Int), ("s", Type::String), ("d", Type::Duration)]);
    let own = object(
        "selfType",
        vec![
            ("spec", spec),
            ("list", Type::list(Type::Int)),
            ("texts", Type::list(Type::String)),
            ("map", Type::map(Type::String, Type::Int)),
            ("any", Type::Dyn),
        ],
    );
    Environment::new([
        ("self", own),
        ("t", Type::Timestamp),
        ("authorizer", Type::Library("kubernetes.authorization.Authorizer")),
    ])
}

fn compile(text: &str) -> Result<Program, Mistake> {
    environment().compile(text, &())
}

fn variables() -> Vec<(&'static str, Value)> {
    let own = serde_json::json!({"spec": {"n": 3, "s": "abc"}, "list": [3, 1, 2], "texts": ["b", "a"], "map": {"x": 1, "y": 2}, "any": "50%"});
    let authorizer = Authorizer {
        decide: Arc::new(|check, verb| verb == "get" && check.authorizer.account.is_none()),
        account: None,
    };
    vec![
        ("authorizer", Value::Authorizer(Arc::new(authorizer))),
        ("self", Value::of_json(&own)),
        ("t", Value::Timestamp("2023-07-14T10:30:45.123Z".parse().unwrap())),
    ]
}

/// Returns the value of an expression as a text, or the error.
fn evaluated(text: &str) -> Result<Value, String> {
    let program = compile(text).map_err(|mistake| mistake.to_string())?;
    program.evaluate(&variables(), 1_000_000).0.map_err(|error| error.to_string())
}
