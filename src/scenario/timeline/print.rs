//! Prints the timeline as text. Repetitions in a long timeline are folded; if it is still too long, its head and tail
//! are shown.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::Event;
use crate::kit::surplus;
use crate::kit::visible::{self, CONTINUATION};

/// Lines shown of the changes or the message of one entry.
const MAX_LINES: usize = 20;

/// Characters shown of a line.
const MAX_WIDTH: usize = 1_000;

/// A timeline of at most this many lines is shown completely.
const MAX_SHOWN: usize = 120;

/// Lines shown of the beginning of a longer timeline.
const HEAD: usize = 40;

/// Lines shown of its end, which says most about a failure.
const TAIL: usize = 60;

/// The largest group of entries that is recognised as repeated.
const MAX_GROUP_SIZE: usize = 30;

/// Repetitions from which on a group is folded.
const MIN_REPETITIONS: usize = 3;

/// Lines that represent one or several entries.
struct Piece {
    text: String,
    lines: usize,
    entries: usize,
    /// Whether it is shown even if its neighbours are left out.
    is_kept: bool,
}

impl Piece {
    fn new(text: String, entries: usize) -> Self {
        let lines = text.lines().count();
        Self { text, lines, entries, is_kept: false }
    }
}

/// Returns the text. The first and the last log line with each of the `kept` messages are neither folded nor left out.
pub(super) fn print(entries: &[(Duration, Event)], kept: &BTreeSet<String>) -> String {
    let kept = kept_entries(entries, kept);
    let pieces =
        entries.iter().enumerate().map(|(index, (at, event))| (*at, printed(*at, event), kept.contains(&index)));
    let pieces = pieces.filter(|(_, text, _)| !text.is_empty());
    let all: Vec<(Duration, Piece)> =
        pieces.map(|(at, text, is_kept)| (at, Piece { is_kept, ..Piece::new(text, 1) })).collect();
    let length = |pieces: &[Piece]| -> usize { pieces.iter().map(|piece| piece.lines).sum() };
    if all.iter().map(|(_, piece)| piece.lines).sum::<usize>() <= MAX_SHOWN {
        return all.into_iter().map(|(_, piece)| piece.text).collect();
    }
    let folded = fold(all);
    if length(&folded) <= MAX_SHOWN {
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
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{:22}… {count} entries left out; `--output json` has them …", "");
    }
    text.extend(end.iter().map(|piece| piece.text.as_str()));
    text
}

/// Returns the indexes of the first and the last log line with each of some messages.
fn kept_entries(entries: &[(Duration, Event)], messages: &BTreeSet<String>) -> BTreeSet<usize> {
    let index_of = |(index, (_, event)): (usize, &(Duration, Event)), wanted: &String| {
        matches!(event, Event::Log { message, .. } if message == wanted).then_some(index)
    };
    let ends = messages.iter().flat_map(|message| {
        let mut indexes = entries.iter().enumerate().filter_map(|entry| index_of(entry, message));
        let first = indexes.next();
        [first, indexes.next_back()]
    });
    ends.flatten().collect()
}

/// Returns how many pieces fit into a number of lines.
fn within<'a>(pieces: impl Iterator<Item = &'a Piece>, lines: usize) -> usize {
    let mut left = lines;
    pieces.take_while(|piece| left.checked_sub(piece.lines).map(|rest| left = rest).is_some()).count()
}

/// Folds repeated groups of entries that differ in numbers only.
fn fold(all: Vec<(Duration, Piece)>) -> Vec<Piece> {
    // A unique shape keeps the entry out of groups.
    let shape_of = |(index, (_, piece)): (usize, &(Duration, Piece))| {
        if piece.is_kept { index.to_string() } else { shape(&piece.text) }
    };
    let shapes: Vec<String> = all.iter().enumerate().map(shape_of).collect();
    let moments: Vec<Duration> = all.iter().map(|(at, _)| *at).collect();
    let mut pieces: Vec<Option<Piece>> = all.into_iter().map(|(_, piece)| Some(piece)).collect();
    let mut folded = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let best = (1..=MAX_GROUP_SIZE)
            .map(|size| (size, repetitions(&shapes, at, size)))
            .filter(|(_, times)| *times >= MIN_REPETITIONS)
            .max_by_key(|(size, times)| (size * times, std::cmp::Reverse(*size)));
        let (size, times) = best.unwrap_or((1, 1));
        folded.extend(pieces[at..at + size].iter_mut().filter_map(Option::take));
        if times > 1 {
            let last = moments[at + size * times - 1].as_secs_f64();
            let what = if size == 1 {
                "this entry is repeated".to_owned()
            } else {
                format!("these {size} entries are repeated")
            };
            let text = format!("{:22}… {what} {} more times with other numbers, up to {last:.3}s …\n", "", times - 1);
            folded.push(Piece::new(text, size * (times - 1)));
        }
        at += size * times;
    }
    folded
}

/// Returns how often a group of this size repeats without interruption, itself included.
fn repetitions(shapes: &[String], at: usize, size: usize) -> usize {
    let Some(group) = shapes.get(at..at + size) else { return 0 };
    1 + shapes[at + size..].chunks_exact(size).take_while(|next| *next == group).count()
}

/// Returns a text without numbers and without words that contain digits, such as unique ids.
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
        // The padding of times depends on their digits.
        if !(c == ' ' && shape.ends_with(' ')) {
            shape.push(c);
        }
    }
    shape
}

fn printed(at: Duration, event: &Event) -> String {
    let mut text = String::new();
    let mut line = |word: &str, rest: &str| {
        for (index, part) in rest.lines().take(MAX_LINES).enumerate() {
            // Further lines of log messages are indented here in another way.
            let part = disconnect(part.strip_prefix(CONTINUATION).filter(|_| index > 0).unwrap_or(part));
            // Writing into a string cannot fail.
            let _ = if index == 0 {
                writeln!(text, "{:>9.3}s  {word:<8}  {part}", at.as_secs_f64())
            } else {
                writeln!(text, "{:22}{part}", "")
            };
        }
        if let Some(more) = surplus(rest.lines().count(), MAX_LINES) {
            let _ = writeln!(text, "{:22}… and {more} more", "");
        }
    };
    match event {
        Event::Step { spot, title } => line("step", &format!("line {}: {title}", spot.line)),
        Event::Operator(what) => line("operator", what),
        Event::ObjectSeen { subject, arrival, version } => {
            line("event", &format!("{subject} {arrival}, version {version}"));
        }
        Event::Called { subject, call, reason } => line("call", &format!("{call} for {subject}: {reason}")),
        Event::Ended { subject, call, outcome } => line("end", &format!("{call} for {subject}: {outcome}")),
        Event::Task { subject, handler, what } => line("task", &format!("{handler} for {subject} {what}")),
        Event::Request(request) if request.is_quiet => {}
        Event::Request(request) => {
            line("request", &format!("{request} -> {}", request.answer));
            for shown in request.lines.iter().take(MAX_LINES) {
                let _ = writeln!(text, "{:24}{}", "", disconnect(shown));
            }
            if let Some(more) = surplus(request.lines.len(), MAX_LINES) {
                let _ = writeln!(text, "{:24}… and {more} more", "");
            }
        }
        Event::Fault(what) => line("fault", what),
        Event::Log { level, printed, .. } => line("log", &format!("{level:<7} {printed}")),
    }
    text
}

/// Returns a line with visible control characters, cut if it is long.
fn disconnect(line: &str) -> String {
    let line = visible::one_line(line);
    match line.char_indices().nth(MAX_WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(texts: impl IntoIterator<Item = String>) -> Vec<(Duration, Event)> {
        texts
            .into_iter()
            .enumerate()
            .map(|(index, text)| (Duration::from_secs(index as u64), Event::Fault(text)))
            .collect()
    }

    fn shown(entries: &[(Duration, Event)]) -> String {
        print(entries, &BTreeSet::new())
    }

    #[test]
    fn expected_log_lines_are_neither_folded_nor_left_out() {
        let line = |message: String| Event::Log { level: "INFO", printed: format!("[x] {message}"), message };
        let rounds = (0..200).map(|number| (Duration::from_secs(number), line(format!("round {number}"))));
        let entries: Vec<(Duration, Event)> = rounds.collect();
        let kept = BTreeSet::from(["round 150".to_owned()]);
        let text = print(&entries, &kept);
        assert!(text.contains("[x] round 150\n") && !text.contains("round 149\n"), "{text}");
        let word = |number: usize| -> String {
            number.to_string().chars().map(|c| char::from(b'a' + c as u8 - b'0')).collect()
        };
        let entries: Vec<(Duration, Event)> = (0..5_000).map(|number| (Duration::ZERO, line(word(number)))).collect();
        let text = print(&entries, &BTreeSet::from([word(3_000)]));
        assert!(text.contains(&format!("[x] {}\n", word(3_000))), "{text}");
        assert_eq!(text.matches("entries left out").count(), 2, "{text}");
    }

    #[test]
    fn of_a_repeated_log_line_only_the_first_and_the_last_one_are_kept() {
        let line = |number: u64| {
            let message = if number.is_multiple_of(2) { "again".to_owned() } else { format!("round {number}") };
            (Duration::from_secs(number), Event::Log { level: "INFO", printed: format!("[x] {message}"), message })
        };
        let entries: Vec<(Duration, Event)> = (0..10_000).map(line).collect();
        let text = print(&entries, &BTreeSet::from(["again".to_owned()]));
        assert!(
            text.contains("    0.000s  log       INFO    [x] again\n")
                && text.contains(" 9998.000s  log       INFO    [x] again\n"),
            "{text}"
        );
        assert!(text.lines().count() < 20, "{text}");
    }

    #[test]
    fn a_short_timeline_is_shown_as_it_is() {
        let text = shown(&entries((0..MAX_SHOWN).map(|number| format!("event {number}"))));
        assert_eq!(text.lines().count(), MAX_SHOWN);
        assert!(!text.contains('…'));
    }

    #[test]
    fn repetitions_with_other_numbers_are_folded() {
        let rounds = (0..100).flat_map(|number| [format!("request {number}"), format!("answer a{number}-b")]);
        let text = shown(&entries(["begin".to_owned()].into_iter().chain(rounds).chain(["end".to_owned()])));
        let expected = "    0.000s  fault     begin
    1.000s  fault     request 0
    2.000s  fault     answer a0-b
                      … these 2 entries are repeated 99 more times with other numbers, up to 200.000s …
  201.000s  fault     end
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_head_and_the_tail_of_a_long_timeline_are_shown() {
        let word = |number: usize| -> String {
            number.to_string().chars().map(|c| char::from(b'a' + c as u8 - b'0')).collect()
        };
        let text = shown(&entries((0..5_000).map(word)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEAD + 1 + TAIL);
        assert_eq!(lines[HEAD].trim(), "… 4900 entries left out; `--output json` has them …");
        assert!(lines[HEAD + 1].ends_with(&word(4_940)), "{}", lines[HEAD + 1]);
    }

    #[test]
    fn hostile_texts_forge_no_entry_and_control_no_terminal() {
        let hostile = "a\n    1.000s  call      forged\r\u{1b}[2J\u{9b}1m\u{202e}\u{2028}".to_owned();
        let text = shown(&entries([hostile]));
        let expected = "    0.000s  fault     a\n                          1.000s  call      forged\\r\\x1b[2J\\x9b1m\\u202e\\u2028\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn further_lines_of_log_messages_are_indented_once() {
        let line = Event::Log {
            level: "ERROR",
            printed: "[x] one\n\t  --> two".to_owned(),
            message: "one\n  --> two".to_owned(),
        };
        let text = print(&[(Duration::ZERO, line)], &BTreeSet::new());
        assert_eq!(text, "    0.000s  log       ERROR   [x] one\n                        --> two\n");
    }

    #[test]
    fn long_texts_of_one_entry_are_cut() {
        let text = shown(&entries(["x\n".repeat(50), "y".repeat(5_000)]));
        assert_eq!(text.lines().count(), MAX_LINES + 2);
        assert!(text.contains("… and 30 more"));
        assert!(text.lines().all(|line| line.chars().count() < MAX_WIDTH + 30));
    }
}
