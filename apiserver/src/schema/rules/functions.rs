//! The functions of Kubernetes that the language itself has not: lists, patterns, quantities, and addresses.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError, Value};
use regex::Regex;

use kopfd_base::quantity::Quantity;

type List = Arc<Vec<Value>>;
type Text = Arc<String>;

/// Adds the functions to a context.
pub(super) fn add_to(context: &mut Context<'_, '_>) {
    let added = [
        context.add_function("isSorted", is_sorted),
        context.add_function("sum", sum),
        context.add_function("find", find),
        context.add_function("findAll", find_all),
        context.add_function("isQuantity", |text: Text| Quantity::parse(&text).is_ok()),
        context.add_function("quantity", quantity),
        context.add_function("isGreaterThan", |This(this): This<f64>, other: f64| this > other),
        context.add_function("isLessThan", |This(this): This<f64>, other: f64| this < other),
        context.add_function("compareTo", |This(this): This<f64>, other: f64| this.partial_cmp(&other).map_or(0, |order| order as i64)),
        context.add_function("asApproximateFloat", |This(this): This<f64>| this),
        context.add_function("asInteger", |This(this): This<f64>| this as i64),
        context.add_function("isInteger", |This(this): This<f64>| this.fract() == 0.0),
        context.add_function("isIP", |text: Text| text.parse::<IpAddr>().is_ok()),
        context.add_function("isCIDR", |text: Text| super::super::formats::fits("cidr", &text)),
        context.add_function("isURL", |text: Text| super::super::formats::fits("uri", &text)),
    ];
    debug_assert!(added.iter().all(Result::is_ok), "no function has the name of one of the language");
}

fn failed(function: &str, message: impl ToString) -> ExecutionError {
    ExecutionError::FunctionError { function: function.to_owned(), message: message.to_string() }
}

fn is_sorted(This(list): This<List>) -> bool {
    list.windows(2).all(|pair| !matches!(pair[0].partial_cmp(&pair[1]), Some(Ordering::Greater) | None))
}

fn sum(This(list): This<List>) -> Result<Value, ExecutionError> {
    let mut whole = 0_i64;
    let mut fraction = 0.0;
    let mut is_float = false;
    for item in list.iter() {
        match item {
            Value::Int(number) => whole = whole.checked_add(*number).ok_or_else(|| failed("sum", "the sum is too large"))?,
            Value::Float(number) => {
                is_float = true;
                fraction += number;
            }
            _ => return Err(failed("sum", "only numbers can be added")),
        }
    }
    Ok(if is_float { Value::Float(fraction + whole as f64) } else { Value::Int(whole) })
}

fn find(This(text): This<Text>, pattern: Text) -> Result<Value, ExecutionError> {
    let pattern = Regex::new(&pattern).map_err(|error| failed("find", error))?;
    Ok(Value::from(pattern.find(&text).map_or("", |found| found.as_str())))
}

fn find_all(This(text): This<Text>, pattern: Text) -> Result<Value, ExecutionError> {
    let pattern = Regex::new(&pattern).map_err(|error| failed("findAll", error))?;
    Ok(Value::List(Arc::new(pattern.find_iter(&text).map(|found| Value::from(found.as_str())).collect())))
}

fn quantity(text: Text) -> Result<Value, ExecutionError> {
    Quantity::parse(&text).map(|quantity| Value::Float(quantity.as_f64())).map_err(|error| failed("quantity", error))
}
