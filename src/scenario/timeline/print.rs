//! The timeline as a text for people. One that is long is folded where it repeats itself; of what is too long even so, the head and the
//! tail are shown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Event;
use crate::kit::surplus;

/// The lines of a difference, or of a text that was logged, that are shown of one entry.
const MOST_LINES: usize = 20;

/// The letters of a line that are shown.
const WIDEST: usize = 1_000;

/// The lines of a timeline that is shown as it is.
const MOST_SHOWN: usize = 120;

/// The lines that are shown of the beginning of one that is too long.
const HEAD: usize = 40;

/// The lines that are shown of its end, which says most about a failure.
const TAIL: usize = 60;

/// The most entries that are recognised as a group that comes again.
const LONGEST_GROUP: usize = 30;

/// How often something comes that is folded.
const LEAST_REPETITIONS: usize = 3;

/// Some lines that stand for one or several entries.
struct Piece {
    text: String,
    lines: usize,
    entries: usize,
    /// Whether it is shown whatever is left out around it.
    is_kept: bool,
}

impl Piece {
    fn new(text: String, entries: usize) -> Self {
        let lines = text.lines().count();
        Self { text, lines, entries, is_kept: false }
    }
}

/// Returns the text. Lines that were logged with one of the messages are neither folded nor left out.
pub fn print(entries: &[(f64, Event)], kept: &BTreeSet<String>) -> String {
    let is_kept = |event: &Event| matches!(event, Event::Log { message, .. } if kept.contains(message));
    let pieces = entries.iter().map(|(at, event)| (*at, printed(*at, event), is_kept(event))).filter(|(_, text, _)| !text.is_empty());
    let whole: Vec<(f64, Piece)> = pieces.map(|(at, text, is_kept)| (at, Piece { is_kept, ..Piece::new(text, 1) })).collect();
    let length = |pieces: &[Piece]| -> usize { pieces.iter().map(|piece| piece.lines).sum() };
    if whole.iter().map(|(_, piece)| piece.lines).sum::<usize>() <= MOST_SHOWN {
        return whole.into_iter().map(|(_, piece)| piece.text).collect();
    }
    let folded = fold(whole);
    if length(&folded) <= MOST_SHOWN {
        return folded.into_iter().map(|piece| piece.text).collect();
    }
    let head = within(folded.iter(), HEAD);
    let tail = within(folded[head..].iter().rev(), TAIL);
    let (shown, rest) = folded.split_at(head);
    let (left_out, end) = rest.split_at(rest.len() - tail);
    let mut text: String = shown.iter().map(|piece| piece.text.as_str()).collect();
    for part in left_out.chunk_by(|one, other| one.is_kept == other.is_kept) {
        if part.iter().all(|piece| piece.is_kept) {
            text.extend(part.iter().map(|piece| piece.text.as_str()));
            continue;
        }
        let count: usize = part.iter().map(|piece| piece.entries).sum();
        // Writing into a text cannot fail.
        let _ = writeln!(text, "{:22}… {count} entries left out; `--output json` has them …", "");
    }
    text.extend(end.iter().map(|piece| piece.text.as_str()));
    text
}

/// Returns how many pieces fit into so many lines.
fn within<'a>(pieces: impl Iterator<Item = &'a Piece>, lines: usize) -> usize {
    let mut left = lines;
    pieces.take_while(|piece| left.checked_sub(piece.lines).map(|rest| left = rest).is_some()).count()
}

/// Folds groups of entries that come again with nothing but other numbers in them.
fn fold(whole: Vec<(f64, Piece)>) -> Vec<Piece> {
    // What is kept has the shape of nothing else.
    let shape_of = |(index, (_, piece)): (usize, &(f64, Piece))| if piece.is_kept { index.to_string() } else { shape(&piece.text) };
    let shapes: Vec<String> = whole.iter().enumerate().map(shape_of).collect();
    let moments: Vec<f64> = whole.iter().map(|(at, _)| *at).collect();
    let mut pieces: Vec<Option<Piece>> = whole.into_iter().map(|(_, piece)| Some(piece)).collect();
    let mut folded = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let best = (1..=LONGEST_GROUP)
            .map(|size| (size, repetitions(&shapes, at, size)))
            .filter(|(_, times)| *times >= LEAST_REPETITIONS)
            .max_by_key(|(size, times)| (size * times, std::cmp::Reverse(*size)));
        let (size, times) = best.unwrap_or((1, 1));
        folded.extend(pieces[at..at + size].iter_mut().filter_map(Option::take));
        if times > 1 {
            let last = moments[at + size * times - 1];
            let what = if size == 1 { "this entry comes".to_owned() } else { format!("these {size} entries come") };
            let text = format!("{:22}… {what} {} more times with other numbers, up to {last:.3}s …\n", "", times - 1);
            folded.push(Piece::new(text, size * (times - 1)));
        }
        at += size * times;
    }
    folded
}

/// Returns how often a group of this size comes from here on, without anything in between.
fn repetitions(shapes: &[String], at: usize, size: usize) -> usize {
    let Some(group) = shapes.get(at..at + size) else { return 0 };
    1 + shapes[at + size..].chunks_exact(size).take_while(|next| *next == group).count()
}

/// Returns a text without its numbers, and without words that have digits in them, such as unique ids.
fn shape(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.');
    let mut shape = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if is_part(c) {
            word.push(c);
            continue;
        }
        if word.contains(|c: char| c.is_ascii_digit()) {
            shape.push('#');
        } else {
            shape.push_str(&word);
        }
        word.clear();
        // The blanks that align moments depend on their digits.
        if !(c == ' ' && shape.ends_with(' ')) {
            shape.push(c);
        }
    }
    shape
}

fn printed(at: f64, event: &Event) -> String {
    let mut text = String::new();
    let mut line = |word: &str, rest: &str| {
        for (index, part) in rest.lines().take(MOST_LINES).enumerate() {
            let part = cut(part);
            // Writing into a text cannot fail.
            let _ = if index == 0 { writeln!(text, "{at:>9.3}s  {word:<8}  {part}") } else { writeln!(text, "{:22}{part}", "") };
        }
        if let Some(more) = surplus(rest.lines().count(), MOST_LINES) {
            let _ = writeln!(text, "{:22}… and {more} more", "");
        }
    };
    match event {
        Event::Step { spot, title } => line("step", &format!("line {}: {title}", spot.line)),
        Event::Operator(what) => line("operator", what),
        Event::Sighted { subject, how, version } => line("event", &format!("{subject} {how}, version {version}")),
        Event::Called { subject, call, reason } => line("call", &format!("{call} for {subject}: {reason}")),
        Event::Ended { subject, call, outcome } => line("end", &format!("{call} for {subject}: {outcome}")),
        Event::Request(request) if request.is_quiet => {}
        Event::Request(request) => {
            line("request", &format!("{request} -> {}", request.answer));
            for shown in request.lines.iter().take(MOST_LINES) {
                let _ = writeln!(text, "{:24}{}", "", cut(shown));
            }
            if let Some(more) = surplus(request.lines.len(), MOST_LINES) {
                let _ = writeln!(text, "{:24}… and {more} more", "");
            }
        }
        Event::Fault(what) => line("fault", what),
        Event::Log { level, printed, .. } => line("log", &format!("{level:<7} {printed}")),
    }
    text
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: impl IntoIterator<Item = String>) -> Vec<(f64, Event)> {
        texts.into_iter().enumerate().map(|(index, text)| (index as f64, Event::Fault(text))).collect()
    }

    fn shown(entries: &[(f64, Event)]) -> String {
        print(entries, &BTreeSet::new())
    }

    #[test]
    fn lines_that_were_looked_for_are_neither_folded_nor_left_out() {
        let line = |message: String| Event::Log { level: "INFO", printed: format!("[x] {message}"), message };
        let rounds = (0..200).map(|number| (f64::from(number), line(format!("round {number}"))));
        let entries: Vec<(f64, Event)> = rounds.collect();
        let kept = BTreeSet::from(["round 150".to_owned()]);
        let text = print(&entries, &kept);
        assert!(text.contains("[x] round 150\n") && !text.contains("round 149\n"), "{text}");
        let word = |number: usize| -> String { number.to_string().chars().map(|c| char::from(b'a' + c as u8 - b'0')).collect() };
        let entries: Vec<(f64, Event)> = (0..5_000).map(|number| (0.0, line(word(number)))).collect();
        let text = print(&entries, &BTreeSet::from([word(3_000)]));
        assert!(text.contains(&format!("[x] {}\n", word(3_000))), "{text}");
        assert_eq!(text.matches("entries left out").count(), 2, "{text}");
    }

    #[test]
    fn a_short_timeline_is_shown_as_it_is() {
        let text = shown(&told((0..MOST_SHOWN).map(|number| format!("event {number}"))));
        assert_eq!(text.lines().count(), MOST_SHOWN);
        assert!(!text.contains('…'));
    }

    #[test]
    fn what_comes_again_with_other_numbers_is_folded() {
        let rounds = (0..100).flat_map(|number| [format!("request {number}"), format!("answer a{number}-b")]);
        let text = shown(&told(["begin".to_owned()].into_iter().chain(rounds).chain(["end".to_owned()])));
        let expected = "    0.000s  fault     begin
    1.000s  fault     request 0
    2.000s  fault     answer a0-b
                      … these 2 entries come 99 more times with other numbers, up to 200.000s …
  201.000s  fault     end
";
        assert_eq!(text, expected);
    }

    #[test]
    fn of_what_is_too_long_even_so_the_head_and_the_tail_are_shown() {
        let word = |number: usize| -> String { number.to_string().chars().map(|c| char::from(b'a' + c as u8 - b'0')).collect() };
        let text = shown(&told((0..5_000).map(word)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEAD + 1 + TAIL);
        assert_eq!(lines[HEAD].trim(), "… 4900 entries left out; `--output json` has them …");
        assert!(lines[HEAD + 1].ends_with(&word(4_940)), "{}", lines[HEAD + 1]);
    }

    #[test]
    fn long_texts_of_one_entry_are_cut() {
        let text = shown(&told(["x\n".repeat(50), "y".repeat(5_000)]));
        assert_eq!(text.lines().count(), MOST_LINES + 2);
        assert!(text.contains("… and 30 more"));
        assert!(text.lines().all(|line| line.chars().count() < WIDEST + 30));
    }
}
