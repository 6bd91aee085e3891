//! The paths of printer columns: fields, indexes, wildcards, and filters by equality.

use serde_json::Value;

/// A path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where(Vec<String>, Comparison, Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    Different,
}

impl JsonPath {
    /// Returns the path of a text.
    ///
    /// # Errors
    /// The text of the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        if !rest.starts_with(['.', '[']) {
            return Err("is an invalid path: must begin with a dot".to_owned());
        }
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('[') {
                let end = closing(tail).ok_or("is an invalid path: unterminated array")?;
                steps.push(bracket(&tail[..end])?);
                rest = &tail[end + 1..];
            } else {
                let tail = rest.strip_prefix('.').ok_or_else(|| format!("is an invalid path: unexpected {rest:?}"))?;
                if tail.starts_with('[') || tail.is_empty() {
                    rest = tail;
                    continue;
                }
                let (name, after) = field(tail);
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                rest = after;
            }
        }
        Ok(Self { steps })
    }

    /// Returns the first value of the path.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        follow(&self.steps, value)
    }
}

fn follow<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => follow(rest, value.get(name)?),
        Step::Index(index) => {
            let items = value.as_array()?;
            let index = if *index < 0 { items.len() as i64 + index } else { *index };
            follow(rest, items.get(usize::try_from(index).ok()?)?)
        }
        Step::All => match value {
            Value::Array(items) => items.iter().find_map(|item| follow(rest, item)),
            Value::Object(members) => members.values().find_map(|member| follow(rest, member)),
            _ => None,
        },
        Step::Where(path, comparison, wanted) => value.as_array()?.iter().find_map(|item| {
            let found = path.iter().try_fold(item, |value, name| value.get(name));
            let is_equal =
                found.is_some_and(|found| found == wanted || (found.is_number() && found.as_f64() == wanted.as_f64()));
            if is_equal == (*comparison == Comparison::Equal) { follow(rest, item) } else { None }
        }),
    }
}

/// Reads a name up to the next dot or bracket; a backslash escapes the next character.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[index..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Finds the bracket that closes, outside of quotes and inner brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (index, c) in text.char_indices() {
        match c {
            _ if quote.is_some_and(|open| open != c) => {}
            '"' | '\'' => quote = if quote.is_some() { None } else { Some(c) },
            '[' => depth += 1,
            ']' if depth == 0 => return Some(index),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return condition(filter);
    }
    if let Some(Value::String(name)) = literal(text) {
        return Ok(Step::Field(name));
    }
    text.parse().map(Step::Index).map_err(|_| format!("is an invalid path: invalid array index {text}"))
}

fn condition(filter: &str) -> Result<Step, String> {
    let (left, comparison, right) = [("==", Comparison::Equal), ("!=", Comparison::Different)]
        .into_iter()
        .find_map(|(sign, comparison)| {
            filter.split_once(sign).map(|(left, right)| (left.trim(), comparison, right.trim()))
        })
        .ok_or("is an invalid path: filters compare with == or !=")?;
    let path = left.strip_prefix("@.").ok_or("is an invalid path: filters begin with @.")?;
    let wanted = literal(right).ok_or_else(|| format!("is an invalid path: unrecognized literal {right}"))?;
    Ok(Step::Where(path.split('.').map(str::to_owned).collect(), comparison, wanted))
}

fn literal(text: &str) -> Option<Value> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    match inner('\'').or_else(|| inner('"')) {
        Some(text) => Some(Value::String(text.to_owned())),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_the_first_match() {
        let object = json!({"a": {"b.c": 1, "list": [{"t": "x", "v": 1}, {"t": "y", "v": 2}], "m": {"k-1": "z"}}});
        let found = |text: &str| JsonPath::parse(text).unwrap().first(&object).cloned();
        assert_eq!(found(r".a.b\.c"), Some(json!(1)));
        assert_eq!(found(".a.list[1].v"), Some(json!(2)));
        assert_eq!(found(".a.list[-1].v"), Some(json!(2)));
        assert_eq!(found(".a.list[*].v"), Some(json!(1)));
        assert_eq!(found(r#".a.list[?(@.t=="y")].v"#), Some(json!(2)));
        assert_eq!(found(".a.list[?(@.t!='x')].v"), Some(json!(2)));
        assert_eq!(found(".a.m['k-1']"), Some(json!("z")));
        assert_eq!(found(".a.nope.x"), None);
        assert_eq!(found(".a.list[7]"), None);
    }

    #[test]
    fn malformed_paths_are_errors() {
        for text in ["spec.x", ".a[", ".a[x]", ".a[?(@.b>1)]", ""] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }
}
