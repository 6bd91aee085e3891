//! Parses expressions with the crate `cel`, and converts its trees to ours. Only this module and the macros use the
//! crate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use ::cel::common::ast::{EntryExpr, Expr as Parsed, IdedExpr, LiteralValue, SourceInfo};
use ::cel::{Env, parser::ParseErrors};

use super::ast::{Call, Element, Entry, Expr, Fold, Kind, Select};
use super::macros;
use super::types::Issue;
use super::value::Value;

static PARSER: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::stdlib().with_optional_support(true);
    for one in macros::all() {
        env.add_macro(one).expect("no two macros are for the same call");
    }
    env
});

/// Parses an expression. Returns its tree and the number of its nodes.
///
/// # Errors
/// The syntax errors.
pub(super) fn parse(text: &str) -> Result<(Expr, usize), Vec<Issue>> {
    // The parser panics on some malformed texts instead of reporting them.
    let parser = PARSER.parser();
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse_with_source_info(text)));
    match parsed {
        Ok(Ok((tree, source))) => {
            let mut converter = Converter { source, next_id: 0 };
            let tree = converter.convert(&tree);
            Ok((tree, converter.next_id))
        }
        Ok(Err(errors)) => Err(issues(text, &errors)),
        Err(_) => Err(vec![Issue { offset: 0, text: "Syntax error: the expression cannot be parsed".to_owned() }]),
    }
}

fn issues(text: &str, errors: &ParseErrors) -> Vec<Issue> {
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1)).collect();
    let offset = |(line, column): (isize, isize)| {
        let line = usize::try_from(line - 1).ok().and_then(|line| starts.get(line)).copied().unwrap_or_default();
        line + usize::try_from(column - 1).unwrap_or_default()
    };
    errors.errors.iter().map(|error| Issue { offset: offset(error.pos), text: error.msg.clone() }).collect()
}

struct Converter {
    source: SourceInfo,
    next_id: usize,
}

impl Converter {
    fn convert(&mut self, parsed: &IdedExpr) -> Expr {
        let id = self.next_id;
        self.next_id += 1;
        // The crate counts bytes.
        let start = self.source.offset_for(parsed.id).map_or(0, |(start, _)| start as usize);
        let offset = self.source.source.get(..start).map_or(start, |before| before.chars().count());
        Expr { id, offset, kind: self.kind(&parsed.expr) }
    }

    fn boxed(&mut self, parsed: &IdedExpr) -> Box<Expr> {
        Box::new(self.convert(parsed))
    }

    fn kind(&mut self, parsed: &Parsed) -> Kind {
        match parsed {
            Parsed::Unspecified => Kind::Message(String::new()),
            Parsed::Literal(literal) => Kind::Literal(value(literal)),
            Parsed::Ident(name) => Kind::Ident(name.trim_start_matches('.').into()),
            Parsed::Select(select) => Kind::Select(Select {
                operand: self.boxed(&select.operand),
                field: select.field.as_str().into(),
                is_test: select.test,
            }),
            Parsed::Call(call) => Kind::Call(Call {
                function: call.func_name.as_str().into(),
                target: call.target.as_ref().map(|target| self.boxed(target)),
                arguments: call.args.iter().map(|argument| self.convert(argument)).collect(),
            }),
            Parsed::List(list) => {
                let elements = list.elements.iter().enumerate();
                let element = |(index, item)| Element {
                    value: self.convert(item),
                    is_optional: list.optional_indices.contains(&index),
                };
                Kind::List(elements.map(element).collect())
            }
            Parsed::Map(map) => Kind::Map(map.entries.iter().filter_map(|entry| self.entry(&entry.expr)).collect()),
            Parsed::Struct(message) => Kind::Message(message.type_name.clone()),
            Parsed::Comprehension(fold) => Kind::Fold(Box::new(Fold {
                range: self.convert(&fold.iter_range),
                variable: fold.iter_var.as_str().into(),
                second_variable: fold.iter_var2.as_deref().map(Arc::from),
                accumulator: fold.accu_var.as_str().into(),
                start: self.convert(&fold.accu_init),
                condition: self.convert(&fold.loop_cond),
                step: self.convert(&fold.loop_step),
                result: self.convert(&fold.result),
            })),
        }
    }

    fn entry(&mut self, entry: &EntryExpr) -> Option<Entry> {
        let EntryExpr::MapEntry(entry) = entry else { return None };
        Some(Entry { key: self.convert(&entry.key), value: self.convert(&entry.value), is_optional: entry.optional })
    }
}

fn value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::String(value.inner().into()),
        LiteralValue::UInt(value) => Value::Uint(*value.inner()),
    }
}
