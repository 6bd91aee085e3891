//! Estimates the costs of calls, without their arguments.

use std::sync::Arc;

use super::{AUTHORIZATION, Estimate, LIST, PATTERN, REQUIREMENT, REQUIREMENT_PARTS, Size, TEXT};
use crate::cel::ast::{Expr, Kind};
use crate::cel::overload::Overload;
use crate::cel::types::Type;
use crate::cel::value::Value;

/// The properties of an argument that matter for costs.
pub(super) struct Node<'e> {
    pub(super) expression: &'e Expr,
    pub(super) path: Vec<Arc<str>>,
    pub(super) size: Option<Size>,
    pub(super) kind: Type,
}

impl Node<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }

    /// Returns the number of a literal.
    fn number_or(&self, other: u64) -> u64 {
        match &self.expression.kind {
            Kind::Literal(Value::Int(number)) => u64::try_from(*number).unwrap_or_default(),
            _ => other,
        }
    }
}

const ONE: Estimate = Estimate::exactly(1);
/// The bytes of an address.
const ADDRESS: Size = Size { min: 4, max: 16 };
/// The assumed length of format names.
const MAX_NAME: u64 = 64;
/// The assumed length of the patterns of named formats.
const MAX_FORMAT: f64 = 128.0;

/// Returns the cost of a call, and the size of its result, if known.
pub(super) fn estimate(
    function: &str,
    overload: &Overload,
    target: Option<&Node<'_>>,
    items: Option<&Size>,
    arguments: &[Node<'_>],
) -> (Estimate, Option<Size>) {
    let size = |index: usize| arguments.get(index).map_or(Size::UNKNOWN, Node::size);
    let own = target.map_or(Size::UNKNOWN, Node::size);
    let sized = |size: Size, factor: f64| (size.by(factor), Some(size));
    let unsized_cost = |cost: Estimate| (cost, None);
    match function {
        "check" => unsized_cost(Estimate::exactly(AUTHORIZATION)),
        "fieldSelector" | "labelSelector" => {
            let requirements = size(0).by(REQUIREMENT).by(REQUIREMENT_PARTS);
            unsized_cost(Estimate::exactly(LIST).plus(size(0).by(TEXT)).plus(requirements))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => unsized_cost(search(target, items, own)),
        "url" => sized(size(0), TEXT),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => sized(own, TEXT),
        "replace" => (own.by(2.0 * TEXT), Some(replaced(own, size(0), size(1)))),
        "split" => {
            let most = arguments.get(1).map_or(own.max, |limit| limit.number_or(own.max));
            (own.by(2.0 * TEXT), Some(Size { min: 0, max: most }))
        }
        "join" => {
            let separators = Size { min: own.min.saturating_sub(1), max: own.max.saturating_sub(1) };
            let mut joined = own.times(items.copied().unwrap_or(Size::UNKNOWN));
            if !arguments.is_empty() {
                joined = joined.plus(size(0).times(separators));
            }
            sized(joined, TEXT)
        }
        "find" | "findAll" => {
            let cost = own.plus(ONE).by(TEXT).times(size(0).by(PATTERN));
            (cost, Some(Size { min: 0, max: own.max }))
        }
        "ip" if matches!(overload.arguments[0], Type::Library(_)) => unsized_cost(ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith"
        | "endsWith" => unsized_cost(size(0).by(TEXT)),
        "ip.isCanonical" => unsized_cost(size(0).by(2.0 * TEXT)),
        "containsIP" | "containsCIDR" => unsized_cost(contained(function, overload, size(0))),
        "validate" => unsized_cost(size(0).by(TEXT).by(MAX_FORMAT * PATTERN)),
        "_==_" => unsized_cost(library_equality(arguments).unwrap_or_else(|| compared(size(0), size(1)))),
        "_!=_" => unsized_cost(compared(size(0), size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(overload.arguments[0], Type::String | Type::Bytes) => {
            unsized_cost(compared(size(0), size(1)))
        }
        "format" => unsized_cost(own.by(TEXT)),
        "bytes" if overload.arguments[0] == Type::String => {
            (size(0).by(TEXT), Some(Size { min: size(0).min, max: size(0).max.saturating_mul(4) }))
        }
        "string" if overload.arguments[0] == Type::Bytes => {
            (size(0).by(TEXT), Some(Size { min: size(0).min / 4, max: size(0).max }))
        }
        "strings.quote" => {
            let quoted =
                Size { min: size(0).min.saturating_add(2), max: size(0).max.saturating_mul(2).saturating_add(2) };
            (size(0).by(TEXT), Some(quoted))
        }
        "@in" if matches!(overload.arguments[1], Type::List(_)) => unsized_cost(size(1)),
        // As a global function, it has no special estimate.
        "matches" if target.is_some() => unsized_cost(own.plus(ONE).by(TEXT).times(size(0).by(PATTERN))),
        "contains" => unsized_cost(own.by(TEXT).times(size(0).by(TEXT))),
        "sets.contains" | "sets.intersects" => unsized_cost(size(0).times(size(1)).plus(ONE)),
        "sets.equivalent" => unsized_cost(size(0).times(size(1)).by(2.0).plus(ONE)),
        _ => list_call(function, overload, own, arguments).unwrap_or((ONE, None)),
    }
}

/// Estimates calls that create lists.
fn list_call(
    function: &str,
    overload: &Overload,
    own: Size,
    arguments: &[Node<'_>],
) -> Option<(Estimate, Option<Size>)> {
    let number = |index: usize, other: u64| arguments.get(index).map_or(other, |argument| argument.number_or(other));
    let made = |size: Size, factor: f64| Some((size.by(factor).plus(Estimate::exactly(LIST + 1)), Some(size)));
    let squared = |size: Size, kind: Option<&Type>| {
        let is_text = matches!(kind, Some(Type::List(items)) if matches!(**items, Type::String | Type::Bytes));
        made(size.times(size), if is_text { 2.0 + TEXT } else { 2.0 })
    };
    match function {
        "slice" => made(Size::exactly(number(1, own.max).wrapping_sub(number(0, 0))), 1.0),
        "lists.range" => made(Size::exactly(number(0, u64::MAX)), 1.0),
        "reverse" => made(own, 1.0),
        "flatten" => made(own, if arguments.is_empty() { 1.0 } else { number(0, u64::MAX) as f64 }),
        "distinct" => made(own.times(own), 2.0),
        "sort" => squared(own, overload.arguments.first()),
        "@sortByAssociatedKeys" => {
            squared(arguments.first().map_or(Size::UNKNOWN, Node::size), overload.arguments.get(1))
        }
        _ => None,
    }
}

/// Estimates comparisons with all items of a list, or with a whole text.
fn search(target: Option<&Node<'_>>, items: Option<&Size>, own: Size) -> Estimate {
    let Some(Type::List(item)) = target.map(|target| &target.kind) else { return own.by(TEXT) };
    let mut each = ONE;
    if matches!(**item, Type::String | Type::Bytes) {
        each = each.plus(items.copied().unwrap_or(Size::UNKNOWN).by(TEXT));
    }
    own.times(each)
}

fn contained(function: &str, overload: &Overload, other: Size) -> Estimate {
    let mut cost = ADDRESS.plus(ADDRESS).by(TEXT);
    if function == "containsCIDR" {
        cost = cost.plus(ADDRESS.by(TEXT)).plus(ONE);
    }
    if overload.arguments.get(1) == Some(&Type::String) {
        cost = cost.plus(other.by(TEXT));
    }
    cost
}

/// Values of libraries have a constant comparison cost, except those stored as texts.
fn library_equality(arguments: &[Node<'_>]) -> Option<Estimate> {
    let [one, other] = arguments else { return None };
    let Type::Library(name) = &one.kind else { return None };
    (one.kind == other.kind).then(|| match *name {
        "kubernetes.URL" => Estimate { min: 1, max: other.size.map_or(1, |size| size.max) }.by(TEXT),
        "kubernetes.NamedFormat" => Estimate { min: 1, max: MAX_NAME }.by(TEXT),
        _ => ONE,
    })
}

fn compared(one: Size, other: Size) -> Estimate {
    let most = one.max.min(other.max);
    Estimate { min: u64::from(most > 0), max: most }.by(TEXT)
}

/// Returns the possible length of a text after all replacements.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let (mut count, mut kept) = (Size::exactly(0), Size::exactly(0));
    if old.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / old.max as f64).ceil() as u64;
    }
    count.times(new).plus(kept)
}
