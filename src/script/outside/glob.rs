//! Patterns with `*`, which stands for any text, also for none.

/// Tells whether a text matches a pattern. The time is proportional to the product of their lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // The last `*`, and the end of what it stands for.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, t) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Tells whether some text matches both patterns, as far as that is known: where both have a `*`, it says so.
pub(super) fn may_overlap(one: &str, other: &str) -> bool {
    match (one.contains('*'), other.contains('*')) {
        (false, _) => matches(other, one),
        (true, false) => matches(one, other),
        (true, true) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "a/b"),
            ("a*c", "abbc"),
            ("*.yaml", "a.yaml"),
            ("a*b*c", "aXbYbZc"),
            ("ä*", "äö"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", ""), ("a*c", "abb"), ("*.yaml", "a.yml"), ("a*b*c", "acb"), ("a", "aa"), ("**b", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(&"a*".repeat(50), &"ab".repeat(49)));
    }
}
