//! Splits a command line into its words, as a shell would.

/// Returns the words of a command line. Single and double quotes keep spaces; other special characters are not
/// supported.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for sign in line.chars() {
        match (quote, sign) {
            (Some(open), sign) if sign == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, sign) if sign.is_whitespace() => words.extend(word.take()),
            (_, sign) => word.get_or_insert_default().push(sign),
        }
    }
    assert!(quote.is_none(), "an open quote in {line}");
    words.extend(word);
    words
}
