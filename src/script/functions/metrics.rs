//! `metric::`: what scripts count, for `/metrics`.

use std::collections::BTreeMap;

use rhai::{Dynamic, Engine, FuncRegistration, Module};
use serde_json::Value;

use super::options::{self, json, placed, text};
use super::support::{Native, Thrown, shown, wrong};
use crate::script::limits::allocator;
use crate::script::outside::measures::{Measure, Sample};
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

/// The kind of its errors.
const KIND: &str = "metric";

/// Limit of the labels of a series.
const MAX_LABELS: usize = 10;

/// Limit of a label value, in characters. Longer ones are cut.
const MAX_VALUE: usize = 128;

/// The option of `metric::observe`.
const BUCKETS: &str = "buckets";

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    let module_ref = &mut module;
    FuncRegistration::new("inc").set_into_module(module_ref, |native: Native<'_>, name: Dynamic| {
        placed(&native, record(&native, "metric::inc", &name, None, Ok(Measure::Add(1.0))))
    });
    FuncRegistration::new("inc").set_into_module(module_ref, |native: Native<'_>, name: Dynamic, labels: Dynamic| {
        placed(&native, record(&native, "metric::inc", &name, Some(&labels), Ok(Measure::Add(1.0))))
    });
    FuncRegistration::new("remove").set_into_module(module_ref, |native: Native<'_>, name: Dynamic| {
        placed(&native, record(&native, "metric::remove", &name, None, Ok(Measure::Remove)))
    });
    FuncRegistration::new("remove").set_into_module(
        module_ref,
        |native: Native<'_>, name: Dynamic, labels: Dynamic| {
            placed(&native, record(&native, "metric::remove", &name, Some(&labels), Ok(Measure::Remove)))
        },
    );
    number(module_ref, "add", "metric::add", Measure::Add);
    number(module_ref, "set", "metric::set", Measure::Set);
    number(module_ref, "observe", "metric::observe", |value| Measure::Observe(value, None));
    FuncRegistration::new("observe").set_into_module(
        module_ref,
        |native: Native<'_>, name: Dynamic, value: Dynamic, labels: Dynamic, options: Dynamic| {
            let function = "metric::observe";
            let measure = bounds(function, &options)
                .and_then(|bounds| Ok(Measure::Observe(of_number(function, "the value", &value)?, bounds)));
            placed(&native, record(&native, function, &name, Some(&labels), measure))
        },
    );
    FuncRegistration::new("describe")
        .set_into_module(module_ref, |native: Native<'_>, name: Dynamic, help: Dynamic| {
            placed(&native, describe(&native, &name, &help))
        });
    engine.register_static_module("metric", module.into());
}

/// Adds a function of a name, a number, and labels that may be left out.
fn number(module: &mut Module, name: &str, function: &'static str, measure: fn(f64) -> Measure) {
    FuncRegistration::new(name).set_into_module(module, move |native: Native<'_>, name: Dynamic, value: Dynamic| {
        placed(&native, record(&native, function, &name, None, of_number(function, "the value", &value).map(measure)))
    });
    FuncRegistration::new(name).set_into_module(
        module,
        move |native: Native<'_>, name: Dynamic, value: Dynamic, labels: Dynamic| {
            placed(
                &native,
                record(&native, function, &name, Some(&labels), of_number(function, "the value", &value).map(measure)),
            )
        },
    );
}

/// `metric::inc|remove(name, [labels])`, `metric::add|set|observe(name, value, [labels])`: changes a series.
fn record(
    native: &Native<'_>,
    function: &str,
    name: &Dynamic,
    labels: Option<&Dynamic>,
    measure: Result<Measure, Thrown>,
) -> Result<(), Thrown> {
    let context = Context::of(native)?;
    context.acts(function)?;
    let (name, measure) = (text(function, "the name", name)?, measure?);
    let labels = labels.map_or_else(|| Ok(BTreeMap::new()), |labels| read_labels(function, labels))?;
    let Some(measures) = context.outside().measures.clone() else { return Ok(()) };
    let recorded = context.span().in_scope(|| {
        // The metrics of the process outlive the call.
        allocator::uncounted(|| measures.record(Sample { name: name.clone(), labels: labels.clone(), measure }))
    });
    recorded.map_err(|problem| Failure::host(KIND, format!("`{function}`: {problem}")).into())
}

/// `metric::describe(name, help)`: sets the description of a metric.
fn describe(native: &Native<'_>, name: &Dynamic, help: &Dynamic) -> Result<(), Thrown> {
    let function = "metric::describe";
    let context = Context::of(native)?;
    context.acts(function)?;
    let (name, help) = (text(function, "the name", name)?, text(function, "the description", help)?);
    let help: String = help.chars().take(MAX_VALUE * 2).collect();
    let Some(measures) = context.outside().measures.clone() else { return Ok(()) };
    let described = allocator::uncounted(|| measures.describe(&name, &help));
    described.map_err(|problem| Failure::host(KIND, format!("`{function}`: {problem}")).into())
}

fn of_number(function: &str, what: &str, value: &Dynamic) -> Result<f64, Thrown> {
    let number = value.as_float().or_else(|_| value.as_int().map(|number| number as f64));
    number.map_err(|_| wrong(function, format!("{what} must be a number, not {}", shown(value))))
}

/// Returns the labels, without values `()`: an empty label equals a missing one.
fn read_labels(function: &str, labels: &Dynamic) -> Result<BTreeMap<String, String>, Thrown> {
    let entries = match json(function, labels)? {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(entries) if entries.len() <= MAX_LABELS => entries,
        Value::Object(entries) => {
            return Err(wrong(function, format!("{} labels are too many: at most {MAX_LABELS}", entries.len())));
        }
        _ => return Err(wrong(function, "the labels must be a map")),
    };
    let mut read = BTreeMap::new();
    for (name, value) in entries {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text.chars().take(MAX_VALUE).collect(),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(wrong(function, format!("the label `{name}` must be a text")));
            }
        };
        read.insert(name, value);
    }
    Ok(read)
}

/// Returns the upper bounds of a histogram, from the options.
fn bounds(function: &'static str, options: &Dynamic) -> Result<Option<Vec<f64>>, Thrown> {
    let options = options::Options::read(function, &[BUCKETS], Some(options))?;
    match options.value(BUCKETS) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let bounds: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
            bounds.map(Some).ok_or_else(|| options.wrong(BUCKETS, "a list of numbers"))
        }
        Some(_) => Err(options.wrong(BUCKETS, "a list of numbers")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use rhai::{Dynamic, EvalAltResult};

    use super::*;
    use crate::script::language::convert;
    use crate::script::outside::Outside;
    use crate::script::outside::measures::Measures;
    use crate::script::runtime::context::testing::{environment, run, run_as};
    use crate::script::runtime::context::{Environment, Mode};

    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl Measures for Noted {
        fn record(&self, sample: Sample) -> Result<(), String> {
            if sample.name == "wrong" {
                return Err("it is wrong".to_owned());
            }
            self.0.lock().push(format!("{} {:?} {:?}", sample.name, sample.labels, sample.measure));
            Ok(())
        }

        fn describe(&self, name: &str, help: &str) -> Result<(), String> {
            self.0.lock().push(format!("{name}: {help}"));
            Ok(())
        }
    }

    async fn noted(mode: Mode, script: &str) -> (Result<Dynamic, Box<EvalAltResult>>, Vec<String>) {
        let noted = Arc::<Noted>::default();
        let outside = Outside { measures: Some(Arc::clone(&noted) as _), ..Outside::default() };
        let result = run_as(mode, Environment { outside, ..environment() }, script).await;
        let lines = noted.0.lock().clone();
        (result, lines)
    }

    #[tokio::test(start_paused = true)]
    async fn samples_have_names_labels_and_values() {
        let script = r#"
            metric::inc("a"); metric::inc("a", #{ x: "1", y: (), z: true }); metric::add("a", 2.5, #{ n: 7 });
            metric::set("b", 3); metric::observe("c", 0.5, #{}, #{ buckets: [1, 2.5] }); metric::observe("c", 1);
            metric::remove("b", #{ x: "1" }); metric::describe("a", "A thing");
        "#;
        let (result, lines) = noted(Mode::Function, script).await;
        drop(result.unwrap());
        let expected = [
            "a {} Add(1.0)",
            "a {\"x\": \"1\", \"z\": \"true\"} Add(1.0)",
            "a {\"n\": \"7\"} Add(2.5)",
            "b {} Set(3.0)",
            "c {} Observe(0.5, Some([1.0, 2.5]))",
            "c {} Observe(1.0, None)",
            "b {\"x\": \"1\"} Remove",
            "a: A thing",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_can_be_caught() {
        let caught = |call: &str| format!("try {{ {call}; }} catch (e) {{ return [e.kind, e.message]; }}");
        for (call, kind, message) in [
            ("metric::inc(\"wrong\")", "metric", "`metric::inc`: it is wrong"),
            ("metric::inc(1)", "argument", "`metric::inc`: the name must be a text, not 1"),
            ("metric::set(\"a\", \"1\")", "argument", "`metric::set`: the value must be a number, not 1"),
            ("metric::inc(\"a\", 1)", "argument", "`metric::inc`: the labels must be a map"),
            ("metric::inc(\"a\", #{ x: [] })", "argument", "`metric::inc`: the label `x` must be a text"),
            (
                "metric::observe(\"a\", 1, (), #{ buckets: [\"1\"] })",
                "argument",
                "the option `buckets` of `metric::observe` must be a list of numbers",
            ),
        ] {
            let (result, lines) = noted(Mode::Function, &caught(call)).await;
            assert_eq!(convert::to_json(&result.unwrap()).unwrap(), serde_json::json!([kind, message]));
            assert!(lines.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn expressions_count_nothing() {
        for mode in [Mode::Expression, Mode::TopLevel, Mode::Transform] {
            let (result, lines) = noted(mode, "metric::inc(\"a\")").await;
            assert!(result.is_err() && lines.is_empty(), "{mode:?}");
        }
        // Without an operator there is nothing to count for.
        assert!(run("metric::inc(\"a\")").await.is_ok());
    }
}
