//! Whole values.

use serde_json::{Result, Value};

/// Reads a value.
///
/// # Errors
/// If the text is not JSON.
pub fn parse(text: &[u8]) -> Result<Value> {
    match std::str::from_utf8(text) {
        // Checked as a whole, its parts need not be checked.
        Ok(text) => serde_json::from_str(text),
        // This parser reports the position of the error.
        Err(_) => serde_json::from_slice(text),
    }
}

/// Reads a value from a text.
///
/// # Errors
/// If the text is not JSON.
pub fn parse_text(text: &str) -> Result<Value> {
    serde_json::from_str(text)
}

/// Returns the text of a value.
///
/// # Panics
/// Never: a value is always JSON.
pub fn to_vec(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_written_as_it_is_read() {
        let text = r#"{"a":[1,-2,1.5,18446744073709551615,"x\n\u0001é",null,true],"b":{}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), parse_text(text).unwrap());
        assert_eq!(String::from_utf8(to_vec(&parse_text(text).unwrap())).unwrap(), text);
        assert_eq!(parse_text(" {} ").unwrap(), json!({}));
        assert!(parse(b"{} {}").is_err() && parse(b"\"\xff\"").is_err() && parse_text("").is_err());
    }
}
