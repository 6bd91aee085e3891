//! Replaces the items of a list written in block style. Comments and blank lines are kept.

use std::ops::Range;

use crate::manifest::source::Source;
use crate::manifest::tree::Node;

use super::fix::ListItem;
use super::text::{offset, range, text};

/// The edit of a written item.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ItemEdit {
    Keep,
    Replace(String),
    Remove,
}

/// Returns the lines of the new list and their range; `None` if items do not have lines of their own.
pub(super) fn edit(source: &Source, nodes: &[Node], items: &[ListItem]) -> Option<(Range<usize>, String)> {
    let (first, last) = (nodes.first()?.spot.line, nodes.last()?.spot.line);
    let start = source.text[..offset(source, nodes.first()?.spot)?].rfind('\n').map_or(0, |at| at + 1);
    let end = start_of(source, last)? + source.line(last)?.len();
    let indent: String = source.line(first)?.chars().take_while(|c| *c == ' ').collect();
    let (item_edits, added) = item_edits(nodes.len(), items);
    let mut lines: Vec<String> = Vec::new();
    if items.is_empty() {
        lines.push(format!("{indent}[]"));
    }
    let new = |texts: &[String]| texts.iter().map(|item| format!("{indent}- {}", text(item))).collect::<Vec<_>>();
    lines.extend(new(&added[0]));
    let mut at = first;
    for (index, node) in nodes.iter().enumerate() {
        if node.spot.line < at {
            return None;
        }
        for number in at..node.spot.line {
            lines.push(source.line(number)?.to_owned());
        }
        lines.extend(Some(line(source, node, &item_edits[index], &indent)?).filter(|line| !line.is_empty()));
        lines.extend(new(&added[index + 1]));
        at = node.spot.line + 1;
    }
    Some((start..end, lines.join("\n")))
}

/// Returns the new line of an item, empty if it is removed; `None` if the line has another form.
fn line(source: &Source, node: &Node, edit: &ItemEdit, indent: &str) -> Option<String> {
    let whole = source.line(node.spot.line)?;
    let place = range(source, node.spot)?;
    let start = start_of(source, node.spot.line)?;
    let (before, after) = (&whole[..place.start - start], &whole[place.end - start..]);
    if before.trim() != "-" {
        return None;
    }
    Some(match edit {
        ItemEdit::Keep => whole.to_owned(),
        ItemEdit::Replace(new) => format!("{before}{}{after}", text(new)),
        ItemEdit::Remove if after.trim().is_empty() => String::new(),
        ItemEdit::Remove => format!("{indent}{}", after.trim()),
    })
}

/// Returns the byte offset of a line.
fn start_of(source: &Source, number: usize) -> Option<usize> {
    // `line` is a slice of the text.
    Some(source.line(number)?.as_ptr() as usize - source.text.as_ptr() as usize)
}

/// Pairs removed items with new ones at the same position. Returns the edits of the items, and the items added before
/// the first and after each.
fn item_edits(count: usize, items: &[ListItem]) -> (Vec<ItemEdit>, Vec<Vec<String>>) {
    let mut item_edits = vec![ItemEdit::Remove; count];
    let mut added = vec![Vec::new(); count + 1];
    let mut next = 0;
    let mut waiting: Vec<String> = Vec::new();
    let completions = items.iter().map(Some).chain([None]);
    for item in completions {
        let until = match item {
            Some(ListItem::New(new)) => {
                waiting.push(new.clone());
                continue;
            }
            Some(ListItem::Kept(index)) => *index,
            None => count,
        };
        let mut new = waiting.drain(..);
        let mut place = next;
        for (index, edit) in item_edits.iter_mut().enumerate().take(until).skip(next) {
            if let Some(new) = new.next() {
                *edit = ItemEdit::Replace(new);
                place = index + 1;
            }
        }
        added[place].extend(new);
        if let Some(edit) = item_edits.get_mut(until) {
            *edit = ItemEdit::Keep;
        }
        next = until + 1;
    }
    (item_edits, added)
}
