//! `adopt` and related functions: the changed children, and the refused calls.

use kopfd::object::hierarchy::{self, Adoption, Error, Nested, Reference};
use serde_json::{Map, Value, json};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let found = match call(input) {
        Ok(found) => found,
        Err(error) => json!({"error": class(&error)}),
    };
    if found == *expected { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::NothingHandled(_) | Error::NoName => "LookupError",
        Error::NoUid => "KeyError",
        _ => "TypeError",
    }
}

fn call(input: &Value) -> Result<Value, Error> {
    let options = &input["options"];
    let (forced, strict) = (options["forced"] == true, options["strict"] == true);
    let nested = Nested::parse(&options["nested"])?;
    let objects = input["objs"].clone();
    let handled = |what| input.get("handled").ok_or(Error::NothingHandled(what));
    let owner = || input.get("owner").map_or_else(|| handled("owner"), Ok);
    let argument = |key| match input.get("arg") {
        Some(argument) => Ok(argument),
        None => handled(key).map(|object| &object["metadata"][key]),
    };
    let changed = match input["fn"].as_str().unwrap_or_default() {
        "adopt" => hierarchy::adopt(objects, owner()?, &Adoption { forced, strict, nested }),
        "append_owner_reference" => hierarchy::append_owner_reference(objects, owner()?, &reference(options)),
        "remove_owner_reference" => hierarchy::remove_owner_reference(objects, owner()?),
        "label" => hierarchy::label(objects, &labels(input)?, forced, &nested),
        "harmonize_naming" => {
            hierarchy::harmonize_naming(objects, argument("name")?.as_str().ok_or(Error::NoName)?, forced, strict)
        }
        "adjust_namespace" => hierarchy::adjust_namespace(objects, argument("namespace")?.as_str(), forced),
        "build_object_reference" => return Ok(json!({"result": hierarchy::build_object_reference(&input["body"])})),
        "build_owner_reference" => {
            return Ok(json!({"result": hierarchy::build_owner_reference(&input["body"], &reference(options))}));
        }
        other => panic!("unknown function {other}"),
    };
    Ok(json!({"objs": changed?}))
}

fn labels(input: &Value) -> Result<Map<String, Value>, Error> {
    match input.get("arg") {
        Some(Value::Object(labels)) => Ok(labels.clone()),
        Some(_) => Err(Error::Labels("something else")),
        None => hierarchy::labels_of(input.get("handled").ok_or(Error::NothingHandled("labels"))?),
    }
}

fn reference(options: &Value) -> Reference {
    let flag = |key| options.get(key).map(Value::as_bool);
    let block = flag("block_owner_deletion").or_else(|| flag("blockOwnerDeletion"));
    Reference {
        controller: flag("controller").unwrap_or(Some(true)),
        block_owner_deletion: block.unwrap_or(Some(true)),
    }
}
