//! New items for a list that is written in lines. Lines without an item, and comments behind items, stay where they are.

use std::ops::Range;

use crate::manifest::source::Source;
use crate::manifest::tree::Node;

use super::{Listed, offset, range, text};

/// What becomes of an item that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Stays,
    Becomes(String),
    Goes,
}

/// Returns the lines of the list with the new items; nothing if its items do not stand in lines of their own.
pub fn edit(source: &Source, nodes: &[Node], items: &[Listed]) -> Option<(Range<usize>, String)> {
    let (first, last) = (nodes.first()?.spot.line, nodes.last()?.spot.line);
    let start = source.text[..offset(source, nodes.first()?.spot)?].rfind('\n').map_or(0, |at| at + 1);
    let end = start_of(source, last)? + source.line(last)?.len();
    let indent: String = source.line(first)?.chars().take_while(|c| *c == ' ').collect();
    let (fates, added) = fates(nodes.len(), items);
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
        lines.extend(Some(line(source, node, &fates[index], &indent)?).filter(|line| !line.is_empty()));
        lines.extend(new(&added[index + 1]));
        at = node.spot.line + 1;
    }
    Some((start..end, lines.join("\n")))
}

/// Returns what becomes of the line of an item, if that can be said; it is empty if nothing is left of it, not even a comment.
fn line(source: &Source, node: &Node, fate: &Fate, indent: &str) -> Option<String> {
    let whole = source.line(node.spot.line)?;
    let place = range(source, node.spot)?;
    let start = start_of(source, node.spot.line)?;
    let (before, after) = (&whole[..place.start - start], &whole[place.end - start..]);
    if before.trim() != "-" {
        return None;
    }
    Some(match fate {
        Fate::Stays => whole.to_owned(),
        Fate::Becomes(new) => format!("{before}{}{after}", text(new)),
        Fate::Goes if after.trim().is_empty() => String::new(),
        Fate::Goes => format!("{indent}{}", after.trim()),
    })
}

/// Returns where a line begins.
fn start_of(source: &Source, number: usize) -> Option<usize> {
    // A line is a part of the text.
    Some(source.line(number)?.as_ptr() as usize - source.text.as_ptr() as usize)
}

/// Pairs what goes with what is new at the same place. Returns the fates of the items, and what is added before the first and after each.
fn fates(count: usize, items: &[Listed]) -> (Vec<Fate>, Vec<Vec<String>>) {
    let mut fates = vec![Fate::Goes; count];
    let mut added = vec![Vec::new(); count + 1];
    let mut next = 0;
    let mut waiting: Vec<String> = Vec::new();
    let ends = items.iter().map(Some).chain([None]);
    for item in ends {
        let until = match item {
            Some(Listed::New(new)) => {
                waiting.push(new.clone());
                continue;
            }
            Some(Listed::Kept(index)) => *index,
            None => count,
        };
        let mut new = waiting.drain(..);
        let mut place = next;
        for (index, fate) in fates.iter_mut().enumerate().take(until).skip(next) {
            if let Some(new) = new.next() {
                *fate = Fate::Becomes(new);
                place = index + 1;
            }
        }
        added[place].extend(new);
        if let Some(fate) = fates.get_mut(until) {
            *fate = Fate::Stays;
        }
        next = until + 1;
    }
    (fates, added)
}
