//! The patterns of rules: one or several, with `*` for any text.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One text, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OneOrMany(Vec<String>);

impl OneOrMany {
    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether one of them matches the text.
    pub fn has(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, text))
    }
}

impl From<&str> for OneOrMany {
    fn from(text: &str) -> Self {
        Self(vec![text.to_owned()])
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("expected a text or a list of texts");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(vec![text])),
            Value::Array(list) => {
                let texts = list.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong));
                texts.collect::<Result<_, _>>().map(Self)
            }
            _ => Err(wrong()),
        }
    }
}

/// Tells whether the pattern matches the text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(place) => text = &text[place + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}
