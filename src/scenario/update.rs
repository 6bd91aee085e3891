//! Replaces expectations in files by actual values, without other changes.

mod block;
mod fix;
mod text;

use std::ops::Range;

use crate::manifest::source::Source;
use crate::manifest::tree::Kind;

use text::{end_of_flow, offset, range, scalar};

pub(super) use fix::{Fix, ListItem};

/// A changed file.
#[derive(Debug)]
pub struct Updated {
    /// The new text.
    pub text: String,
    /// Which fixes were made.
    pub made: Vec<bool>,
}

/// Applies fixes to a file, except a fix that overlaps an earlier one or would delete a comment.
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
                    ListItem::New(new) => Some(text::text(new)),
                    ListItem::Kept(index) => Some(source.text[range(source, nodes.get(*index)?.spot)?].to_owned()),
                })
                .collect();
            // Comments within the brackets cannot be kept.
            let has_comment =
                source.text[start..end].lines().any(|line| line.trim_start().starts_with('#') || line.contains(" #"));
            (!has_comment).then_some((start..end, format!("[{}]", written?.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tree::{self, Node};
    use serde_json::Value;

    fn updated(text: &str, fix: impl Fn(&Node) -> Fix) -> String {
        let source = Source::new("a.yaml", text);
        let root = tree::parse(&source).unwrap().remove(0).root;
        update(&source, [&fix(&root)]).text
    }

    fn new(text: &str) -> ListItem {
        ListItem::New(text.to_owned())
    }

    fn list(items: &[ListItem]) -> impl Fn(&Node) -> Fix {
        let items = items.to_vec();
        move |node: &Node| Fix::List { node: node.get("calls").unwrap().clone(), items: items.clone() }
    }

    #[test]
    fn lists_in_brackets_stay_in_brackets() {
        let items = [new("on_create#0"), ListItem::Kept(1), new("two words")];
        assert_eq!(
            updated("calls: [on_create#0, 'a]b'] # known\nnext: 1\n", list(&items)),
            "calls: [on_create#0, 'a]b', \"two words\"] # known\nnext: 1\n"
        );
        assert_eq!(updated("calls: []\n", list(&[])), "calls: []\n");
    }

    #[test]
    fn a_flow_list_with_comments_is_not_changed() {
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
            updated(text, list(&[new("u"), ListItem::Kept(1), new("v"), new("w")])),
            "calls:\n  - u # first\n  # the second\n  - b\n  - v # third\n  - w\nnext: 1\n"
        );
        assert_eq!(
            updated(text, list(&[ListItem::Kept(1)])),
            "calls:\n  # first\n  # the second\n  - b\n  # third\nnext: 1\n"
        );
        assert_eq!(
            updated(text, list(&[new("m"), ListItem::Kept(0), ListItem::Kept(1), ListItem::Kept(2)])),
            "calls:\n  - m\n  - a # first\n  # the second\n  - b\n  - c # third\nnext: 1\n"
        );
        assert_eq!(updated(text, list(&[])), "calls:\n  []\n  # first\n  # the second\n  # third\nnext: 1\n");
    }

    #[test]
    fn written_scalars_keep_their_values() {
        let fix =
            |value: Value| move |node: &Node| Fix::Scalar { spot: node.get("a").unwrap().spot, value: value.clone() };
        assert_eq!(updated("a: 'old' # kept\n", fix("Ready".into())), "a: Ready # kept\n");
        assert_eq!(updated("{a: 1, b: 2}\n", fix("yes".into())), "{a: \"yes\", b: 2}\n");
        assert_eq!(updated("a: ä\n", fix(3.into())), "a: 3\n");
    }
}
