//! Selectors by labels: `a=b,c in (d,e),!f`.

use serde_json::{Map, Value};

use crate::names;

/// A selector by labels. All its requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Returns the selector of a text; the empty text selects everything.
    ///
    /// # Errors
    /// If the text is invalid, in the words of the API server.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: tokens(text), at: 0 }.selector()
    }

    /// Returns the selector of a `LabelSelector` object with `matchLabels` and `matchExpressions`; `None` for an
    /// unknown operator.
    pub fn of_object(object: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in object["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement { key: key.clone(), condition: Condition::In(vec![value]) });
        }
        for expression in object["matchExpressions"].as_array().into_iter().flatten() {
            let values: Vec<String> = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let condition = match expression["operator"].as_str()? {
                "In" => Condition::In(values),
                "NotIn" => Condition::NotIn(values),
                "Exists" => Condition::Exists,
                "DoesNotExist" => Condition::Absent,
                _ => return None,
            };
            requirements.push(Requirement { key: expression["key"].as_str()?.to_owned(), condition });
        }
        Some(Self { requirements })
    }

    /// Tells whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Tells whether an object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object["metadata"]["labels"].as_object())
    }

    /// Tells whether an object with these labels is selected.
    pub fn matches_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            requirement.condition.holds(value)
        })
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Self::Greater(bound) => number().is_some_and(|number| number > *bound),
            Self::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Splits a text into words and signs.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return tokens };
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_sign(first) {
            1
        } else {
            rest.find(|c: char| is_sign(c) || c.is_whitespace()).unwrap_or(rest.len())
        };
        let (token, tail) = rest.split_at(length);
        tokens.push(token);
        rest = tail;
    }
}

fn is_sign(c: char) -> bool {
    "=!(),<>".contains(c)
}

fn is_word(token: &str) -> bool {
    !token.starts_with(is_sign) && !token.is_empty()
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        while !self.peek().is_empty() {
            requirements.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                "" => break,
                "," if !(is_word(self.peek()) || self.peek() == "!") => {
                    return Err(format!("found '{}', expected: identifier after ','", self.peek()));
                }
                "," => {}
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
        Ok(LabelSelector { requirements })
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let is_negated = self.peek() == "!";
        if is_negated {
            self.at += 1;
        }
        let key = self.next();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(why) = names::qualified_mistake(key) {
            return Err(format!("<nil>: Invalid value: \"{key}\": {why}"));
        }
        let condition = match self.peek() {
            "" | "," => {
                if is_negated {
                    Condition::Absent
                } else {
                    Condition::Exists
                }
            }
            _ if is_negated => return Err(format!("found '{}', expected: ',' or 'end of string'", self.peek())),
            _ => self.condition()?,
        };
        Ok(Requirement { key: key.to_owned(), condition })
    }

    fn condition(&mut self) -> Result<Condition, String> {
        let operator = self.next();
        let condition = match operator {
            "=" | "==" => Condition::In(vec![self.value()?]),
            "!=" => Condition::NotIn(vec![self.value()?]),
            "in" => Condition::In(self.values()?),
            "notin" => Condition::NotIn(self.values()?),
            ">" => Condition::Greater(self.number()?),
            "<" => Condition::Less(self.number()?),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        if let Condition::In(values) | Condition::NotIn(values) = &condition
            && let Some((value, why)) =
                values.iter().find_map(|value| Some((value, names::label_value_mistake(value)?)))
        {
            return Err(format!("<nil>: Invalid value: \"{value}\": {why}"));
        }
        Ok(condition)
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_word(word) => Ok(self.next().to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let text = self.value()?;
        text.parse().map_err(|_| {
            format!("<nil>: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        if self.next() != "(" {
            return Err(format!(
                "found '{}', expected: '('",
                self.tokens.get(self.at - 1).copied().unwrap_or_default()
            ));
        }
        let mut values = Vec::new();
        loop {
            values.push(if is_word(self.peek()) { self.next().to_owned() } else { String::new() });
            match self.next() {
                ")" => return Ok(values),
                "," => {}
                other => return Err(format!("found '{other}', expected: ',', or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_compared() {
        let object = json!({"metadata": {"labels": {"a": "b", "n": "7", "empty": "", "ex.dev/x": "y"}}});
        let matches = |text: &str| LabelSelector::parse(text).unwrap().matches(&object);
        for text in [
            "",
            "a",
            "!z",
            "a=b",
            "a==b",
            "a!=c",
            "z!=c",
            "a in (b, c)",
            "a notin (c)",
            "z notin (c)",
            "n>5",
            "n<8",
            "empty=",
            "empty in ()",
            "ex.dev/x=y , a = b",
            "a,!q,n",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in ["!a", "z", "a=c", "a!=b", "a in (c)", "a notin (b)", "n>7", "z>1", "a=", "a=b,z"] {
            assert!(!matches(text), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |text: &str| LabelSelector::parse(text).unwrap_err();
        assert_eq!(refused("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        assert_eq!(refused("a=b=c"), "found '=', expected: ',' or 'end of string'");
        for text in ["a=b,", ",a", "a in b", "a in (b", "=b", "a==b c", "n>x", "-a=b", "a=b c", "!a=b", "a=-"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn selector_objects_match_the_same() {
        let selector = LabelSelector::of_object(
            &json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}),
        );
        let selector = selector.unwrap();
        assert!(selector.matches(&json!({"metadata": {"labels": {"a": "b"}}})));
        assert!(!selector.matches(&json!({"metadata": {"labels": {"a": "b", "c": "d"}}})));
        assert!(LabelSelector::of_object(&json!({})).unwrap().is_empty());
    }
}
