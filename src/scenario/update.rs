//! Writing what was found into the files, in place of what was expected there. Everything else stays as it is.

mod block;

use std::ops::Range;

use serde_json::Value;

use crate::manifest::source::Source;
use crate::manifest::tree::{Kind, Node, Spot};

/// How a file says something else.
#[derive(Debug, Clone)]
pub enum Fix {
    /// A scalar is replaced.
    Scalar {
        /// Where it stands.
        spot: Spot,
        /// What is there instead.
        value: Value,
    },
    /// A list of texts is replaced.
    List {
        /// The list.
        node: Node,
        /// The new items.
        items: Vec<Listed>,
    },
}

/// An item of a list with new items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// One that stays as it is written, by its place.
    Kept(usize),
    /// A new one.
    New(String),
}

/// A file with new expectations.
#[derive(Debug)]
pub struct Updated {
    /// The new text.
    pub text: String,
    /// Which of the fixes were made.
    pub made: Vec<bool>,
}

/// Returns the text of a file with all fixes made that can be made. Those that overlap with others are left out.
pub fn update<'a>(source: &Source, fixes: impl IntoIterator<Item = &'a Fix>) -> Updated {
    let edits: Vec<Option<(Range<usize>, String)>> = fixes.into_iter().map(|fix| edit(source, fix)).collect();
    let mut made = vec![false; edits.len()];
    let mut edits: Vec<_> = edits.into_iter().enumerate().filter_map(|(index, edit)| Some((index, edit?))).collect();
    edits.sort_by_key(|(_, (range, _))| (range.start, range.end));
    edits.dedup_by(|(_, later), (_, earlier)| later.0.start < earlier.0.end);
    let mut text = source.text.to_string();
    for (index, (range, new)) in edits.iter().rev() {
        text.replace_range(range.clone(), new);
        made[*index] = true;
    }
    Updated { text, made }
}

fn edit(source: &Source, fix: &Fix) -> Option<(Range<usize>, String)> {
    match fix {
        Fix::Scalar { spot, value } => Some((range(source, *spot)?, scalar(value))),
        Fix::List { node, items } => {
            let Kind::List(nodes) = &node.kind else { return None };
            let start = offset(source, node.spot)?;
            if !source.text[start..].starts_with('[') {
                return block::edit(source, nodes, items);
            }
            let end = end_of_flow(&source.text, start)?;
            let written: Option<Vec<String>> = items
                .iter()
                .map(|item| match item {
                    Listed::New(new) => Some(text(new)),
                    Listed::Kept(index) => Some(source.text[range(source, nodes.get(*index)?.spot)?].to_owned()),
                })
                .collect();
            // Comments between brackets have no place in the new list.
            let has_comment = source.text[start..end].lines().any(|line| line.trim_start().starts_with('#') || line.contains(" #"));
            (!has_comment).then_some((start..end, format!("[{}]", written?.join(", "))))
        }
    }
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), text)
}

/// Writes a text without quotes if it means the same then, also within brackets.
fn text(value: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    // A sign of comments is none in the middle of a word.
    let is_plain = value.starts_with(|c: char| c.is_ascii_alphabetic()) && value.chars().all(|c| is_word(c) || c == '#');
    let is_other = matches!(value.to_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    if is_plain && !is_other { value.to_owned() } else { Value::from(value).to_string() }
}

fn offset(source: &Source, spot: Spot) -> Option<usize> {
    let line = source.line(spot.line)?;
    let before: usize = line.chars().take(spot.column - 1).map(char::len_utf8).sum();
    // A line is a part of the text.
    Some(line.as_ptr() as usize - source.text.as_ptr() as usize + before)
}

/// Returns the place of something that stands in one line.
fn range(source: &Source, spot: Spot) -> Option<Range<usize>> {
    let start = offset(source, spot)?;
    let length: usize = source.text[start..].chars().take(spot.length).map(char::len_utf8).sum();
    Some(start..start + length)
}

/// Returns the end of a list in brackets.
fn end_of_flow(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    let mut before = ' ';
    let mut is_comment = false;
    for (at, c) in text[start..].char_indices() {
        match (quote, c) {
            _ if is_comment => is_comment = c != '\n',
            (Some(open), _) if c == open && !(open == '"' && before == '\\') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if before.is_whitespace() => is_comment = true,
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(start + at + 1);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tree;

    fn updated(text: &str, fix: impl Fn(&Node) -> Fix) -> String {
        let source = Source::new("a.yaml", text);
        let root = tree::parse(&source).unwrap().remove(0).root;
        update(&source, [&fix(&root)]).text
    }

    fn new(text: &str) -> Listed {
        Listed::New(text.to_owned())
    }

    fn list(items: &[Listed]) -> impl Fn(&Node) -> Fix {
        let items = items.to_vec();
        move |node: &Node| Fix::List { node: node.get("calls").unwrap().clone(), items: items.clone() }
    }

    #[test]
    fn lists_in_brackets_stay_in_brackets() {
        let items = [new("on_create#0"), Listed::Kept(1), new("two words")];
        assert_eq!(
            updated("calls: [on_create#0, 'a]b'] # known\nnext: 1\n", list(&items)),
            "calls: [on_create#0, 'a]b', \"two words\"] # known\nnext: 1\n"
        );
        assert_eq!(updated("calls: []\n", list(&[])), "calls: []\n");
    }

    #[test]
    fn a_list_in_brackets_with_comments_is_left_alone() {
        let text = "calls: [\n  a, # first\n  b]\n";
        assert_eq!(updated(text, list(&[new("c")])), text);
        let source = Source::new("a.yaml", text);
        let root = tree::parse(&source).unwrap().remove(0).root;
        assert_eq!(update(&source, [&list(&[new("c")])(&root)]).made, [false]);
    }

    #[test]
    fn lists_in_lines_keep_their_comments() {
        let text = "calls:\n  - a # first\n  # the second\n  - b\n  - c # third\nnext: 1\n";
        assert_eq!(
            updated(text, list(&[new("u"), Listed::Kept(1), new("v"), new("w")])),
            "calls:\n  - u # first\n  # the second\n  - b\n  - v # third\n  - w\nnext: 1\n"
        );
        assert_eq!(updated(text, list(&[Listed::Kept(1)])), "calls:\n  # first\n  # the second\n  - b\n  # third\nnext: 1\n");
        assert_eq!(
            updated(text, list(&[new("m"), Listed::Kept(0), Listed::Kept(1), Listed::Kept(2)])),
            "calls:\n  - m\n  - a # first\n  # the second\n  - b\n  - c # third\nnext: 1\n"
        );
        assert_eq!(updated(text, list(&[])), "calls:\n  []\n  # first\n  # the second\n  # third\nnext: 1\n");
    }

    #[test]
    fn scalars_are_written_so_that_they_mean_the_same() {
        let fix = |value: Value| move |node: &Node| Fix::Scalar { spot: node.get("a").unwrap().spot, value: value.clone() };
        assert_eq!(updated("a: 'old' # kept\n", fix("Ready".into())), "a: Ready # kept\n");
        assert_eq!(updated("{a: 1, b: 2}\n", fix("yes".into())), "{a: \"yes\", b: 2}\n");
        assert_eq!(updated("a: ä\n", fix(3.into())), "a: 3\n");
    }
}
