//! Writes values as YAML that people can read and edit, for which keys are sorted and long texts are blocks.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::package::RELEASE_NAMESPACE;

/// Begins a text that is a template of Helm, and is written as it is.
const TEMPLATE: char = '\u{1}';

/// Words that YAML 1.1 does not read as strings.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// The program that reads the written text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A YAML parser.
    Parser,
    /// Helm, which evaluates templates first.
    Helm,
}

/// Returns a value that is a template of Helm.
pub(super) fn template(text: &str) -> Value {
    json!(format!("{TEMPLATE}{text}"))
}

/// Returns a value as a document.
pub(super) fn document(value: &Value, reader: Reader) -> String {
    let mut writer = Writer { text: String::new(), reader };
    match value {
        Value::Object(fields) if !fields.is_empty() => writer.fields(fields, 0, 0),
        other => {
            let text = writer.scalar(other);
            writer.text = text + "\n";
        }
    }
    writer.text
}

struct Writer {
    text: String,
    reader: Reader,
}

impl Writer {
    /// Writes the fields of a map. The cursor is at a column, from which the first line begins.
    fn fields(&mut self, fields: &Map<String, Value>, indent: usize, first: usize) {
        for (index, (key, value)) in fields.iter().enumerate() {
            let blanks = if index == 0 { first } else { indent };
            let key = self.text_of(key);
            let _ = write!(self.text, "{:blanks$}{key}:", "");
            self.value(value, indent);
        }
    }

    /// Writes a value behind its key.
    fn value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                self.text.push('\n');
                self.fields(fields, indent + 2, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                self.text.push('\n');
                for item in items {
                    self.item(item, indent + 2);
                }
            }
            Value::String(text) if is_block(text) && self.reader == Reader::Parser => self.block(text, indent + 2),
            other => {
                let scalar = self.scalar(other);
                let _ = writeln!(self.text, " {scalar}");
            }
        }
    }

    fn item(&mut self, item: &Value, indent: usize) {
        let _ = write!(self.text, "{:indent$}-", "");
        match item {
            Value::Object(fields) if !fields.is_empty() => {
                self.text.push(' ');
                self.fields(fields, indent + 2, 0);
            }
            other => self.value(other, indent),
        }
    }

    /// Writes a text of several lines as a block.
    fn block(&mut self, text: &str, indent: usize) {
        let body = text.trim_end_matches('\n');
        let chomping = match text.len() - body.len() {
            0 => "-",
            1 => "",
            _ => "+",
        };
        // The indentation is that of the first line, unless that begins with a blank.
        let indicator = if text.starts_with([' ', '\n', '\t']) { "2" } else { "" };
        let _ = writeln!(self.text, " |{indicator}{chomping}");
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if line.is_empty() {
                self.text.push('\n');
            } else {
                let _ = writeln!(self.text, "{:indent$}{line}", "");
            }
        }
    }

    fn scalar(&self, value: &Value) -> String {
        match value {
            Value::String(text) => self.text_of(text),
            Value::Object(_) => "{}".to_owned(),
            Value::Array(_) => "[]".to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns a text in quotes, unless it certainly is a text without them.
    fn text_of(&self, text: &str) -> String {
        if let Some(template) = text.strip_prefix(TEMPLATE) {
            return template.to_owned();
        }
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "-./_".contains(c);
        let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_sign);
        if is_word && !WORDS.contains(&text.to_lowercase().as_str()) {
            return text.to_owned();
        }
        let quoted: String = json!(text).to_string().chars().map(printable).collect();
        // Texts with a template that is known are for Helm to evaluate; no other text is.
        if self.reader == Reader::Helm && !text.contains(RELEASE_NAMESPACE) {
            quoted.replace("{{", "{{ `{{` }}")
        } else {
            quoted
        }
    }
}

/// Tells whether a text is written as a block: it has several lines, which no reader of YAML changes.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.trim().is_empty()
        && text.chars().all(|c| c == '\n' || c == '\t' || (' '..='~').contains(&c) || is_letter(c))
}

/// Tells whether a character beyond ASCII is neither a control character nor a line break or a mark for some readers.
fn is_letter(c: char) -> bool {
    c >= '\u{a0}' && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns a character of a quoted text, which JSON leaves as it is, in the form that all readers of YAML accept.
fn printable(c: char) -> String {
    if (' '..='~').contains(&c) || is_letter(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::yaml;

    #[test]
    fn every_value_is_read_back() {
        let texts = [
            "",
            "a",
            "true",
            "No",
            "1.0",
            "0x1f",
            "~",
            "a: b",
            "- a",
            "a\nb",
            "a\nb\n",
            "a\n\n\n",
            "\n",
            " \n ",
            "  a\nb\n",
            "\ta\nb",
            "\na\n",
            "a  \nb\r\n",
            "# a\n#b",
            "ä\u{85}\u{2028}\u{feff}\u{7f}\n",
            "{{ x }}",
            "\"'\\",
            "%a\n---\n...\n",
            "a\n  b\n c",
            "@x",
            "x\t",
            "🙂\n🙂",
        ];
        let list: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
        let map: Map<String, Value> =
            texts.iter().map(|text| ((*text).to_owned(), json!({"of": [text, {"a": text}]}))).collect();
        let value = json!({"list": list, "map": map, "nested": [[1, [2]], [], {}, {"a": {}, "b": [[]]}, [{"x": 1, "y": [2]}]], "n": [null, 1.5, -3, false]});
        let text = document(&value, Reader::Parser);
        assert_eq!(yaml::parse(&text).unwrap(), [value], "{text}");
        assert_eq!(document(&json!({}), Reader::Parser), "{}\n");
    }

    #[test]
    fn helm_evaluates_templates_and_nothing_else() {
        let value = json!({"a": template("{{ .Values.a }}"), "b": "{{ b }}\n", "c": "{{ .Release.Namespace }}"});
        assert_eq!(
            document(&value, Reader::Helm),
            "a: {{ .Values.a }}\nb: \"{{ `{{` }} b }}\\n\"\nc: \"{{ .Release.Namespace }}\"\n"
        );
    }
}
