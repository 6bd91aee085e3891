//! The signatures of functions, read from a table.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// A signature.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is a method: the type of the receiver is the first argument.
    pub(super) is_member: bool,
    /// The types of the arguments.
    pub(super) arguments: Vec<Type>,
    /// The type of the result.
    pub(super) result: Type,
    /// The number of type parameters.
    parameters: usize,
}

/// The names of the types of function libraries.
pub(super) const LIBRARY: [&str; 11] = [
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
    "net.IP",
    "net.CIDR",
];

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in lines() {
        let (name, overload) = signature(line).expect("the table has one signature in a line");
        table.entry(name).or_default().push(overload);
    }
    table
});

/// Returns the signatures of a function, if it exists.
pub(super) fn of(function: &str) -> Option<&'static [Overload]> {
    TABLE.get(function).map(Vec::as_slice)
}

/// Returns the lines of the table.
pub(super) fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("overloads.txt").lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the name of the function in a line of the table.
#[cfg(test)]
pub(super) fn name(line: &'static str) -> Option<&'static str> {
    signature(line).map(|(name, _)| name)
}

impl Overload {
    /// Returns the types of the arguments and of the result, with fresh types for the type parameters.
    pub(super) fn instantiate(&self, fresh: impl FnMut() -> Type) -> (Vec<Type>, Type) {
        let types: Vec<Type> = std::iter::repeat_with(fresh).take(self.parameters).collect();
        let parameter = |number: u8| types[usize::from(number)].clone();
        (
            self.arguments.iter().map(|argument| argument.instantiate(&parameter)).collect(),
            self.result.instantiate(&parameter),
        )
    }
}

fn signature(line: &'static str) -> Option<(&'static str, Overload)> {
    let (call, result) = line.split_once(" -> ")?;
    let open = matching_parenthesis(call)?;
    let (head, arguments) = (&call[..open], &call[open + 1..call.len() - 1]);
    let receiver = head.rsplit_once('.').and_then(|(receiver, name)| Some((read_type(receiver)?, name)));
    let is_member = receiver.is_some();
    let (name, mut types) = receiver.map_or((head, Vec::new()), |(receiver, name)| (name, vec![receiver]));
    for argument in split(arguments) {
        types.push(read_type(argument)?);
    }
    let parameters =
        ["A", "B"].iter().filter(|name| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == **name)).count();
    Some((name, Overload { is_member, arguments: types, result: read_type(result)?, parameters }))
}

/// Returns the position of the parenthesis that the last character closes.
fn matching_parenthesis(call: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in call.char_indices().rev() {
        depth += match c {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits at the commas that are not inside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn read_type(text: &str) -> Option<Type> {
    if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner = split(inner).into_iter().map(read_type).collect::<Option<Vec<Type>>>()?.into_iter();
        return match name {
            "list" => Some(Type::list(inner.next()?)),
            "map" => Some(Type::map(inner.next()?, inner.next()?)),
            "optional_type" => Some(Type::optional(inner.next()?)),
            "type" => Some(Type::Type(Some(inner.next()?.into()))),
            _ => None,
        };
    }
    Some(match text {
        "A" => Type::Parameter(0),
        "B" => Type::Parameter(1),
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        _ => Type::Library(LIBRARY.into_iter().find(|name| *name == text)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let (name, overload) = signature("list(optional_type(A)).unwrapOpt() -> list(A)").unwrap();
        assert_eq!((name, overload.is_member, overload.parameters), ("unwrapOpt", true, 1));
        assert_eq!(overload.arguments, [Type::list(Type::optional(Type::Parameter(0)))]);
        let (name, overload) = signature("_[_](map(A, B), A) -> B").unwrap();
        assert_eq!((name, overload.is_member, overload.arguments.len(), overload.parameters), ("_[_]", false, 2, 2));
        assert_eq!(signature("ip.isCanonical(string) -> bool").unwrap().0, "ip.isCanonical");
        assert_eq!(signature("net.IP.family() -> int").unwrap().0, "family");
        assert!(lines().all(|line| signature(line).is_some()));
    }
}
