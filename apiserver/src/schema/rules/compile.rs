//! Compiles the rules of a schema, and reports invalid ones.

use serde_json::json;

use super::compiled::Compiled;
use super::declaration::{self, Declaration};
use crate::cel::{Environment, Mistake, Program, Type};
use crate::http::api_error::FieldError;
use crate::schema::field_error;
use crate::schema::node::{Additional, ListType, Node, Rule};

/// Cost limit of one expression, multiplied by its evaluations for one object.
const MAX_RULE_COST: u64 = 10_000_000;
/// Cost limit of all expressions of a schema together.
const MAX_SCHEMA_COST: u64 = 100_000_000;
/// Number of rules listed if the total cost is too high.
const NAMED: usize = 4;

/// The result of the compilation.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The errors.
    pub(crate) causes: Vec<FieldError>,
    /// Messages about rules that this server cannot evaluate, with the reasons.
    pub(crate) unenforced: Vec<String>,
}

/// Compiles all rules of a schema with this field.
pub(crate) fn compile(root: &mut Node, field: &str) -> Report {
    let mut compiler = Compiler { report: Report::default(), total: 0, expensive: Vec::new() };
    compiler.node(root, SchemaLocation { field: field.to_owned(), count: Some(1), uncorrelated: None, is_root: true });
    compiler.conclude(field);
    compiler.report
}

/// The position of a node.
struct SchemaLocation {
    /// The field of the schema.
    field: String,
    /// The maximum number of its values in an object; `None` if unlimited.
    count: Option<u64>,
    /// The field of the nearest ancestor whose items cannot be correlated with the old object.
    uncorrelated: Option<String>,
    is_root: bool,
}

impl SchemaLocation {
    fn below(&self, field: String, count: Option<u64>) -> Self {
        let count = self.count.zip(count).map(|(own, count)| own.saturating_mul(count));
        Self { field, count, uncorrelated: self.uncorrelated.clone(), is_root: false }
    }
}

struct Compiler {
    report: Report,
    total: u64,
    expensive: Vec<(u64, String)>,
}

impl Compiler {
    fn node(&mut self, node: &mut Node, location: SchemaLocation) {
        if !node.rules.is_empty() {
            self.rules(node, &location);
        }
        let (max_items, max_properties) = (node.limits.items.most, node.limits.properties.most);
        if let Some(item) = &mut node.items {
            let mut below = location.below(format!("{}.items", location.field), max_items);
            // Only items with keys can be correlated.
            if !matches!(node.list_type, ListType::Map(_)) {
                below.uncorrelated = Some(location.field.clone());
            }
            self.node(item, below);
        }
        if let Additional::Of(values) = &mut node.additional {
            self.node(values, location.below(format!("{}.additionalProperties", location.field), max_properties));
        }
        for (name, property) in &mut node.properties {
            self.node(property, location.below(format!("{}.properties[{name}]", location.field), Some(1)));
        }
    }

    fn rules(&mut self, node: &mut Node, location: &SchemaLocation) {
        let at = format!("{}.x-kubernetes-validations", location.field);
        let Some(declared) = declaration::declare(node, location.is_root || node.is_embedded) else {
            let text = "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: \
                        unable to convert structural schema to CEL declarations";
            self.report.causes.push(FieldError::new("InternalError", at, text.to_owned()));
            return;
        };
        for (index, rule) in node.rules.iter_mut().enumerate() {
            rule.compiled = self.rule(rule, &declared, &format!("{at}[{index}]"), location);
        }
    }

    fn rule(&mut self, rule: &Rule, declared: &Declaration, at: &str, location: &SchemaLocation) -> Option<Compiled> {
        let own = declared.kind("selfType");
        let old = if rule.is_old_self_optional == Some(true) { Type::optional(own.clone()) } else { own.clone() };
        let environment = Environment::new([("self", own), ("oldSelf", old)]);
        let count = location.count.unwrap_or_else(|| declaration::max_occurrences(declared.min_bytes));
        let Some(program) = self.expression(&environment, rule, declared, &format!("{at}.rule"), &Expected::RULE)
        else {
            self.check_optional(rule, false, at);
            return None;
        };
        self.observe("estimated rule cost", program.max_cost().saturating_mul(count), &format!("{at}.rule"));
        let message = rule.message_expression.as_ref().and_then(|_| {
            let field = format!("{at}.messageExpression");
            let message = self.expression(&environment, rule, declared, &field, &Expected::MESSAGE)?;
            self.observe("estimated messageExpression cost", message.max_cost(), &field);
            Some(message)
        });
        let uses_old = program.uses("oldSelf");
        if let (true, Some(above)) = (uses_old, &location.uncorrelated) {
            let text = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
            self.report.causes.push(field_error::invalid(format!("{at}.rule"), &json!(rule.expression), text));
        }
        self.check_optional(rule, uses_old, at);
        Some(Compiled { rule: program, message, uses_old })
    }

    fn expression(
        &mut self,
        environment: &Environment,
        rule: &Rule,
        sizes: &Declaration,
        field: &str,
        expected: &Expected,
    ) -> Option<Program> {
        let text = (expected.text_of)(rule);
        let why = match environment.compile(text, sizes) {
            Ok(program) if *program.result() == expected.kind => return Some(program),
            Ok(_) => expected.text.to_owned(),
            Err(Mistake::Wrong(issues)) => format!("{}: {issues}", expected.lead),
            Err(Mistake::Constant(error)) => format!("{}: {error}", expected.constant_lead),
            Err(Mistake::Unsupported(why)) => {
                self.report.unenforced.push(format!("{field}: {text:?} is not enforced: {why}"));
                return None;
            }
        };
        self.report.causes.push(FieldError::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {why}", shown(rule)),
        ));
        None
    }

    fn check_optional(&mut self, rule: &Rule, uses_old: bool, at: &str) {
        if let (false, Some(optional)) = (uses_old, rule.is_old_self_optional) {
            let text = "may not be set if oldSelf is not used in rule";
            self.report.causes.push(field_error::invalid(format!("{at}.optionalOldSelf"), &json!(optional), text));
        }
    }

    fn observe(&mut self, what: &str, cost: u64, field: &str) {
        if cost > MAX_RULE_COST {
            self.report.causes.push(field_error::forbidden(field, too_expensive(what, cost, MAX_RULE_COST)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_SCHEMA_COST / 100 {
            self.expensive.push((cost, field.to_owned()));
        }
    }

    fn conclude(&mut self, field: &str) {
        if self.total <= MAX_SCHEMA_COST {
            return;
        }
        self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, at) in self.expensive.iter().take(NAMED) {
            let text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.report.causes.push(field_error::forbidden(at, text));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.report.causes.push(field_error::forbidden(field, too_expensive(what, self.total, MAX_SCHEMA_COST)));
    }
}

/// The expected type of an expression.
struct Expected {
    /// Selects the expression of a rule.
    text_of: fn(&Rule) -> &str,
    kind: Type,
    /// The prefix of compile errors.
    lead: &'static str,
    /// The prefix of errors in constant parts.
    constant_lead: &'static str,
    /// The message for another type.
    text: &'static str,
}

impl Expected {
    const RULE: Self = Self {
        text_of: |rule| &rule.expression,
        kind: Type::Bool,
        lead: "compilation failed",
        constant_lead: "program instantiation failed",
        text: "cel expression must evaluate to a bool",
    };
    const MESSAGE: Self = Self {
        text_of: |rule| rule.message_expression.as_deref().unwrap_or_default(),
        kind: Type::String,
        lead: "messageExpression compilation failed",
        constant_lead: "messageExpression instantiation failed",
        text: "messageExpression must evaluate to a string",
    };
}

/// Returns a rule in the form of Go: all its fields, with HTML escaping.
fn shown(rule: &Rule) -> String {
    let text =
        |text: &str| json!(text).to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(&rule.expression),
        text(rule.message.as_deref().unwrap_or_default()),
        text(rule.message_expression.as_deref().unwrap_or_default()),
        if rule.reason == "FieldValueInvalid" { json!(null) } else { json!(rule.reason) },
        text(&rule.field_path),
        json!(rule.is_old_self_optional),
    )
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        100.0.. => "more than 100x".to_owned(),
        ..1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where \
         arrays, maps, and strings are declared)"
    )
}
