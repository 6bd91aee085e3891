//! The members of an object as text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::text::Text;

/// The members of a JSON object as raw text.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object; `None` for other JSON, and for invalid JSON.
    pub fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the text of a member.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| **known == *key).map(|(_, value)| value.get())
    }

    /// Returns a text; `None` if it is absent or not a text.
    pub fn text(&self, key: &str) -> Option<Text<'a>> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Returns the members of a mapping, which may be absent; `None` for other types.
    pub fn members(&self, key: &str) -> Option<Self> {
        self.get(key).map_or_else(|| Some(Self::default()), Self::of)
    }

    /// Tells whether both have the same members with the same texts, except for some keys.
    pub fn is_same_except(&self, other: &Self, excepted: &[&str]) -> bool {
        let count = |members: &Self| members.0.iter().filter(|(key, _)| !excepted.contains(&&**key)).count();
        let mut counted = self.0.iter().filter(|(key, _)| !excepted.contains(&&**key));
        count(self) == count(other) && counted.all(|(key, value)| other.get(key) == Some(value.get()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a mapping")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::with_capacity(12);
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_compared_by_their_text() {
        let members = Members::of(r#"{"a":{"x":1},"b":"t","c":2}"#).unwrap();
        assert_eq!(
            (members.get("a"), members.get("d"), members.text("b").as_deref(), members.text("c")),
            (Some(r#"{"x":1}"#), None, Some("t"), None)
        );
        assert_eq!(members.members("a").unwrap().get("x"), Some("1"));
        assert!(members.members("d").is_some_and(|none| none.get("x").is_none()) && members.members("b").is_none());
        let other = |text| Members::of(text).unwrap();
        assert!(members.is_same_except(&other(r#"{"b":"u","c":2,"a":{"x":1}}"#), &["b"]));
        for different in [r#"{"a":{"x": 1},"c":2}"#, r#"{"a":{"x":1}}"#, r#"{"a":{"x":1},"c":2,"d":3}"#] {
            assert!(!members.is_same_except(&other(different), &["b"]), "{different}");
        }
        assert!(Members::of("[]").is_none() && Members::of("{").is_none());
    }
}
