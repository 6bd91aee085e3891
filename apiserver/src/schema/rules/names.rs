//! The names of members in expressions: identifiers of the language.

/// Reserved words of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name of a member in expressions; `None` if it has none.
pub(super) fn escape(name: &str) -> Option<String> {
    let is_reachable = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let text = name.replace("__", "__underscores__");
    is_reachable.then(|| text.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, identifier) in [
            ("size", Some("size")),
            ("if", Some("__if__")),
            ("namespace", Some("__namespace__")),
            ("a.b/c-d", Some("a__dot__b__slash__c__dash__d")),
            ("a__b", Some("a__underscores__b")),
            ("_a", Some("_a")),
            ("1a", None),
            ("", None),
            ("a b", None),
            ("ä", None),
        ] {
            assert_eq!(escape(name).as_deref(), identifier, "{name}");
        }
    }
}
