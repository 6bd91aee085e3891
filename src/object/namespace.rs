//! Patterns of namespaces that an operator serves.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use super::body::{Body, EventKind};

/// One pattern: a comma-separated list of globs, or a regular expression for the whole name.
///
/// The first glob decides; later ones only exclude (`!glob`), or include again what the first one had included.
/// So `a,b` never means `b`: to serve several namespaces, give several patterns.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    Globs(Vec<Glob>),
    Regex(Regex),
}

#[derive(Debug, Clone)]
struct Glob {
    tokens: Vec<Token>,
    excludes: bool,
}

#[derive(Debug, Clone)]
enum Token {
    Char(char),
    AnyChar,
    AnyText,
    Class { ranges: Vec<(char, char)>, negated: bool },
}

impl Pattern {
    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        self.text.trim()
    }

    /// Returns the pattern of a text with globs. Every text is valid.
    pub fn of_globs(text: &str) -> Self {
        let catch_all = text.trim_start().starts_with('!').then_some("*");
        let globs = catch_all.into_iter().chain(text.split(',').map(str::trim)).map(Glob::of).collect();
        Self { text: text.to_owned(), matcher: Matcher::Globs(globs) }
    }

    /// Returns the pattern of a text with globs, if it could match a valid name.
    ///
    /// # Errors
    /// If a part is empty, or has characters that are invalid in namespaces. The error is a text.
    pub fn of_sound_globs(text: &str) -> Result<Self, String> {
        let pattern = Self::of_globs(text);
        for (part, glob) in text.split(',').map(|part| (part, Glob::of(part.trim()))) {
            if glob.tokens.is_empty() {
                return Err("a part of it is empty".to_owned());
            }
            let is_foreign = |c: &char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-');
            let foreign = glob.tokens.iter().find_map(|token| match token {
                Token::Char(c) => Some(*c).filter(is_foreign),
                _ => None,
            });
            match foreign {
                Some('[') => return Err(format!("the `[` in {:?} is not closed", part.trim())),
                Some(foreign) => return Err(format!("no name of a namespace has {foreign:?} in it")),
                None => {}
            }
        }
        Ok(pattern)
    }

    /// Returns the pattern of a regular expression that must match the whole name.
    ///
    /// # Errors
    /// If the text is not a regular expression.
    pub fn of_regex(text: &str) -> Result<Self, regex::Error> {
        let regex = Regex::new(&format!("^(?:{text})$"))?;
        Ok(Self { text: text.to_owned(), matcher: Matcher::Regex(regex) })
    }

    /// Tells whether the pattern matches a namespace.
    pub fn matches(&self, name: &str) -> bool {
        let globs = match &self.matcher {
            Matcher::Regex(regex) => return regex.is_match(name),
            Matcher::Globs(globs) => globs,
        };
        let name: Vec<char> = name.chars().collect();
        let first = globs.first().is_some_and(|glob| glob.matches(&name));
        globs.iter().skip(1).fold(first, |matched, glob| {
            if glob.excludes { matched && !glob.matches(&name) } else { matched || (first && glob.matches(&name)) }
        })
    }

    /// Returns the namespace if the pattern is a plain name, which may be used without listing the namespaces.
    ///
    /// Character classes are not detected: `ns[12]` counts as a name, as in kopf.
    pub fn exact(&self) -> Option<&str> {
        let is_exact = matches!(self.matcher, Matcher::Globs(_)) && !self.text.contains(['!', '*', '?', ',']);
        is_exact.then(|| self.text.trim())
    }
}

/// Tells whether any of the patterns matches a namespace.
pub fn any_matches(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

/// Returns the namespaces of patterns that are plain names.
pub fn exact(patterns: &[Pattern]) -> BTreeSet<String> {
    patterns.iter().filter_map(Pattern::exact).map(str::to_owned).collect()
}

/// Updates the set of served namespaces by an event of a namespace.
///
/// A namespace that is being deleted is still served, even if its deletion is blocked by its contents: there may be
/// finalizers to handle.
pub fn revise(served: &mut BTreeSet<String>, patterns: &[Pattern], event_kind: EventKind, namespace: &Body) {
    let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_leaving = event_kind == EventKind::Deleted || (namespace.is_deleting() && !conditions.is_empty());
    let is_blocked = conditions.iter().any(|condition| condition.get("status").is_some_and(|status| status == "True"));
    let name = namespace.name();
    if is_leaving && !is_blocked {
        served.remove(name);
    } else if !is_leaving && any_matches(patterns, name) {
        served.insert(name.to_owned());
    }
}

impl Glob {
    fn of(text: &str) -> Self {
        let bare = text.trim_start_matches('!');
        Self { excludes: bare.len() < text.len(), tokens: tokens(&bare.chars().collect::<Vec<_>>()) }
    }

    /// Walks both texts once; at a mismatch it returns to the last `*` and extends its match by one character.
    fn matches(&self, name: &[char]) -> bool {
        let (mut token, mut at, mut retry) = (0, 0, None);
        while at < name.len() {
            match self.tokens.get(token) {
                Some(Token::AnyText) => {
                    retry = Some((token, at));
                    token += 1;
                }
                Some(single) if single.accepts(name[at]) => {
                    token += 1;
                    at += 1;
                }
                _ => {
                    let Some((star, swallowed)) = retry else { return false };
                    retry = Some((star, swallowed + 1));
                    (token, at) = (star + 1, swallowed + 1);
                }
            }
        }
        self.tokens[token..].iter().all(|token| matches!(token, Token::AnyText))
    }
}

impl Token {
    fn accepts(&self, found: char) -> bool {
        match self {
            Self::Char(expected) => *expected == found,
            Self::AnyChar => true,
            Self::AnyText => false,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&found)) != *negated
            }
        }
    }
}

fn tokens(text: &[char]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let class = if text[at] == '[' { class(&text[at + 1..]) } else { None };
        tokens.push(match (text[at], class) {
            (_, Some((class, length))) => {
                at += length;
                class
            }
            ('*', _) => Token::AnyText,
            ('?', _) => Token::AnyChar,
            (other, _) => Token::Char(other),
        });
        at += 1;
    }
    tokens
}

/// Returns the class after a `[`, and its length with the `]`. A `]` in the first position is a literal; without a
/// closing one there is no class.
fn class(text: &[char]) -> Option<(Token, usize)> {
    let negated = text.first() == Some(&'!');
    let start = usize::from(negated);
    let end = start + 1 + text.get(start + 1..)?.iter().position(|char| *char == ']')?;
    let mut ranges = Vec::new();
    let mut rest = &text[start..end];
    while let Some((low, tail)) = rest.split_first() {
        if let ['-', high, after @ ..] = tail {
            ranges.push((*low, *high));
            rest = after;
        } else {
            ranges.push((*low, *low));
            rest = tail;
        }
    }
    Some((Token::Class { ranges, negated }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const VECTORS: &str = include_str!("../../tests/conformance/vectors/namespaces.json");

    fn pattern(value: &Value) -> Pattern {
        match value.as_str() {
            Some(text) => Pattern::of_globs(text),
            None => Pattern::of_regex(value["$regex"].as_str().unwrap()).unwrap(),
        }
    }

    fn event_kind(event: &Value) -> EventKind {
        match event["type"].as_str() {
            Some("ADDED") => EventKind::Added,
            Some("MODIFIED") => EventKind::Modified,
            Some("DELETED") => EventKind::Deleted,
            _ => EventKind::Listed,
        }
    }

    fn answer(input: &Value) -> Value {
        let array = |key: &str| input[key].as_array().cloned().unwrap_or_default();
        let patterns: Vec<Pattern> = array("patterns").iter().map(pattern).collect();
        match input["op"].as_str().unwrap() {
            "match" => json!({"match": pattern(&input["pattern"]).matches(input["name"].as_str().unwrap())}),
            "match_any" => {
                let matched: Vec<Value> =
                    array("names").into_iter().filter(|name| any_matches(&patterns, name.as_str().unwrap())).collect();
                json!({"matched": matched})
            }
            "exact" => json!({"namespaces": exact(&patterns)}),
            "revise" => {
                let mut served = array("initial").iter().map(|name| name.as_str().unwrap().to_owned()).collect();
                let after = array("events").into_iter().map(|event| {
                    revise(&mut served, &patterns, event_kind(&event), &Body::from(event["object"].clone()));
                    json!(served)
                });
                json!({"served_after_each_event": after.collect::<Vec<_>>()})
            }
            other => panic!("unknown operation {other}"),
        }
    }

    #[test]
    fn the_golden_vectors_pass() {
        let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
        for case in &cases {
            assert_eq!(answer(&case["input"]), case["expected"], "{}", case["name"]);
        }
        assert_eq!(cases.len(), 45);
    }

    #[test]
    fn brackets_without_an_end_are_plain_text() {
        assert!(Pattern::of_globs("a[b").matches("a[b"));
        assert!(Pattern::of_globs("a[]b]c").matches("a]c"));
        assert!(Pattern::of_globs("[a-c]*-[!0-9]").matches("bx-y"));
        assert!(!Pattern::of_globs("[a-c]*-[!0-9]").matches("bx-1"));
    }

    #[test]
    fn many_stars_are_matched_without_an_explosion() {
        assert!(!Pattern::of_globs(&"a*".repeat(30)).matches(&"a".repeat(29)));
        assert!(Pattern::of_globs(&"*a".repeat(30)).matches(&"ba".repeat(40)));
    }

    #[test]
    fn a_pattern_that_cannot_match_is_reported() {
        for sound in ["prod-*,!prod-test", "!kube-?", "ns[12]", "a, b", "*"] {
            assert!(Pattern::of_sound_globs(sound).is_ok(), "{sound}");
        }
        for unsound in ["", "[", "a,", "My-*", "a_b", "!", "a,![x"] {
            assert!(Pattern::of_sound_globs(unsound).is_err(), "{unsound}");
        }
    }
}
