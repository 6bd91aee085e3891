//! The names that Kubernetes accepts: DNS names, qualified names of labels and annotations, and values of labels.

/// Tells whether a text is a label of RFC 1123 in lower case, of any length.
pub fn is_dns_label(text: &str) -> bool {
    let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns the error of a subdomain of RFC 1123: labels in lower case, with dots between them.
pub fn subdomain_mistake(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 bytes".to_owned());
    }
    (!name.split('.').all(is_dns_label)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
         alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned()
    })
}

/// Returns the first error of a qualified name: an optional domain, a slash, and a name.
pub fn qualified_mistake(name: &str) -> Option<String> {
    qualified_mistakes(name).into_iter().next()
}

/// Returns all errors of a qualified name, as `IsQualifiedName` of apimachinery reports them.
pub fn qualified_mistakes(name: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
                        (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut mistakes = Vec::new();
    let name = match name.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            mistakes.push("prefix part must be non-empty".to_owned());
            name
        }
        [domain, name] => {
            mistakes.extend(subdomain_mistake(domain).map(|why| format!("prefix part {why}")));
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        mistakes.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        mistakes.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        mistakes.push(format!("name part {RULE}"));
    }
    mistakes
}

/// Returns the error of a label value.
pub fn label_value_mistake(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_word(value)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned()
    })
}

/// Tells whether a text has only letters, digits, `-`, `_` and `.`, and begins and ends with a letter or a digit.
fn is_word(text: &str) -> bool {
    let is_inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let is_edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.bytes().all(is_inner) && is_edge(text.bytes().next()) && is_edge(text.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_accepts() {
        for name in ["a", "a-1", "0"] {
            assert!(is_dns_label(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "ä"] {
            assert!(!is_dns_label(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["a", "A.b_c-1", "example.com/A", &format!("{}/a", vec!["a"; 127].join("."))] {
            assert_eq!(qualified_mistake(name), None, "{name}");
        }
        for name in ["", "/a", "a/", "a/b/c", "Example.com/a", "a b", ".a", "a-", "a..b/c", &long] {
            assert!(qualified_mistake(name).is_some(), "{name}");
        }
        for value in ["", "a", "A.b_c-1", &long[1..]] {
            assert_eq!(label_value_mistake(value), None, "{value}");
        }
        for value in ["a/b", "-a", "a_", "ä", &long] {
            assert!(label_value_mistake(value).is_some(), "{value}");
        }
    }
}
