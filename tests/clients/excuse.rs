//! Allowed differences of an output or an object between the two servers: lines, parts of lines, texts, and fields.

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Lines that no pattern may match: a pattern for any line would excuse a whole output, and the way in which a command
/// ends is always compared.
const COMPARED_LINES: [&str; 4] = ["Any line of any output, whatever it says: 1.", "exit 0", "exit 1", "-- errors"];

/// The allowed differences of a command's output, or of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Excuse {
    /// Patterns of lines that either side may have.
    lines: Vec<String>,
    /// Patterns of lines above a text that may differ: the indented lines that follow, and the empty lines at their
    /// end.
    texts: Vec<String>,
    /// Patterns of parts of lines that may differ.
    parts: Vec<String>,
    /// Patterns of lines that only the real server has.
    missing: Vec<String>,
    /// Pointers to fields of an object, or of a JSON output; `*` matches all items of a list.
    fields: Vec<String>,
}

impl Excuse {
    /// Returns the error of the entry itself, if there is one.
    pub(crate) fn mistake(&self) -> Option<String> {
        let patterns = [&self.lines, &self.texts, &self.parts, &self.missing].into_iter().flatten();
        let broken = patterns.clone().find_map(|text| Regex::new(text).err().map(|error| error.to_string()));
        let whole = patterns.clone().find(|text| {
            let pattern = Regex::new(text);
            pattern.is_ok_and(|pattern| COMPARED_LINES.iter().any(|line| pattern.is_match(line)))
        });
        let pointer = self.fields.iter().find(|pointer| !pointer.starts_with('/') || pointer.len() < 2);
        let is_empty = patterns.count() + self.fields.len() == 0;
        broken
            .or_else(|| whole.map(|text| format!("{text:?} fits any line, or the way in which a command ends")))
            .or_else(|| pointer.map(|text| format!("{text:?} is no pointer to a field")))
            .or_else(|| is_empty.then(|| "it names nothing".to_owned()))
    }

    /// Returns the patterns of lines that only the real server has.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the first pattern of `missing` that fits no line that only the real server has.
    pub(crate) fn unused(&self, ours: &str, theirs: &str) -> Option<&str> {
        let only_theirs: Vec<&str> = theirs.lines().filter(|line| !ours.lines().any(|one| one == *line)).collect();
        let fits_none = |text: &&String| {
            let pattern = Regex::new(text).expect("the patterns were checked");
            !only_theirs.iter().any(|line| pattern.is_match(line))
        };
        self.missing.iter().find(fits_none).map(String::as_str)
    }

    /// Tells whether two outputs are equal except for the allowed differences.
    pub(crate) fn covers(&self, ours: &str, theirs: &str) -> bool {
        let (ours, theirs) = (self.reduced(ours), self.reduced(theirs));
        let missing = compiled(&self.missing);
        let is_ours = |line: &String| ours.contains(line);
        let compared = theirs.iter().filter(|line| is_ours(line) || !fits(&missing, line));
        ours.iter().eq(compared)
    }

    /// Returns an object without the fields that may differ.
    pub(crate) fn without_fields(&self, object: &Value) -> Value {
        let mut object = object.clone();
        for pointer in &self.fields {
            let names: Vec<&str> = pointer.split('/').skip(1).collect();
            remove(&mut object, &names);
        }
        object
    }

    /// Returns the compared lines of an output.
    fn reduced(&self, output: &str) -> Vec<String> {
        let (lines, texts, parts) = (compiled(&self.lines), compiled(&self.texts), compiled(&self.parts));
        let output = self.without_json_fields(output);
        let kept = without_texts(&output, &texts).into_iter().filter(|line| !fits(&lines, line));
        kept.map(|line| parts.iter().fold(line.to_owned(), |line, part| part.replace_all(&line, "…").into_owned()))
            .collect()
    }

    /// Removes fields of an object between the exit code and the error output.
    fn without_json_fields(&self, output: &str) -> String {
        let object = output.find("\n{").zip(output.rfind("\n}")).filter(|_| !self.fields.is_empty());
        let Some((start, end)) = object else { return output.to_owned() };
        let (before, after) = (&output[..=start], &output[end + 2..]);
        let Ok(value) = serde_json::from_str::<Value>(&output[start + 1..end + 2]) else { return output.to_owned() };
        let value = serde_json::to_string_pretty(&self.without_fields(&value)).expect("JSON can be written");
        format!("{before}{value}{after}")
    }
}

fn compiled(patterns: &[String]) -> Vec<Regex> {
    patterns.iter().map(|text| Regex::new(text).expect("the patterns were checked")).collect()
}

fn fits(patterns: &[Regex], line: &str) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(line))
}

/// Returns the lines of an output without the texts below lines that match a pattern.
fn without_texts<'o>(output: &'o str, above: &[Regex]) -> Vec<&'o str> {
    let mut kept = Vec::new();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        kept.push(line);
        if fits(above, line) {
            while lines.next_if(|line| line.starts_with(' ')).is_some() {}
            while lines.next_if(|line| line.is_empty()).is_some() {}
        }
    }
    kept
}

fn remove(value: &mut Value, names: &[&str]) {
    match (names, value) {
        (["*", rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        ([name], Value::Object(members)) => drop(members.remove(*name)),
        ([name, rest @ ..], Value::Object(members)) => {
            if let Some(member) = members.get_mut(*name) {
                remove(member, rest);
            }
        }
        ([name, rest @ ..], Value::Array(items)) => {
            if let Some(item) = name.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                remove(item, rest);
            }
        }
        _ => {}
    }
}
