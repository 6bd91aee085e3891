//! Hides passwords and values in the messages of servers, which like to repeat a part of the statement.

use super::pool::Lease;
use crate::script::outside::sql::{SqlError, SqlValue, Statement};

/// Shorter values are no secrets, and hiding them would spoil the message.
const SHORTEST: usize = 4;

/// The text in place of a hidden value.
const HIDDEN: &str = "…";

/// Returns an error without the password of the connection, and without the constants and the parameters of the
/// statement.
pub(super) fn hidden(error: SqlError, statement: &Statement, lease: &Lease) -> SqlError {
    let mut secrets = constants(&statement.text);
    statement.params.iter().for_each(|param| texts(param, &mut secrets));
    secrets.extend(lease.password());
    SqlError { message: without(&error.message, secrets), ..error }
}

/// Returns a message without these values.
fn without(message: &str, mut secrets: Vec<String>) -> String {
    // MySQL and MariaDB repeat the statement from the place of an error on, which may be in the middle of a constant.
    let message = match message.find(" near '").zip(message.rfind("' at line ")) {
        Some((from, to)) if from < to => format!("{}{}", &message[..from], &message[to + 1..]),
        _ => message.to_owned(),
    };
    secrets.retain(|secret| secret.len() >= SHORTEST);
    // A part of a longer value must not leave the rest of it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(message, |message, secret| message.replace(secret.as_str(), HIDDEN))
}

fn texts(value: &SqlValue, found: &mut Vec<String>) {
    match value {
        SqlValue::Text(text) => found.push(text.clone()),
        SqlValue::List(items) => items.iter().for_each(|item| texts(item, found)),
        _ => {}
    }
}

/// Returns the constants in a statement, as they are written and as they are meant.
fn constants(statement: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut characters = statement.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\'' {
            continue;
        }
        let (mut written, mut meant) = (String::new(), String::new());
        while let Some(character) = characters.next() {
            let is_pair = (character == '\'' && characters.peek() == Some(&'\''))
                || (character == '\\' && characters.peek().is_some());
            if character == '\'' && !is_pair {
                break;
            }
            written.push(character);
            let second = if is_pair { characters.next() } else { None };
            written.extend(second);
            meant.push(second.unwrap_or(character));
        }
        found.extend([written, meant]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_hidden_as_they_are_written_and_as_they_are_meant() {
        let hidden = |statement: &str, message: &str| without(message, constants(statement));
        assert_eq!(hidden("CREATE ROLE \"a\" PASSWORD 'it''s me'", "bad: it's me, it''s me"), "bad: …, …");
        assert_eq!(hidden(r"SET PASSWORD = 'a\\b\'c'", r"bad: a\b'c"), "bad: …");
        assert_eq!(hidden("SELECT 'abcd', 'abcdef'", "abcdef abcd"), "… …");
        assert_eq!(hidden("SELECT 'a'", "a relation"), "a relation");
        assert_eq!(hidden("SELECT 'never ends", "never ends"), "…");
    }

    #[test]
    fn the_repeated_part_of_a_statement_is_cut() {
        let message = "You have an error in your SQL syntax near 'secr' OR 1' at line 1";
        assert_eq!(without(message, Vec::new()), "You have an error in your SQL syntax at line 1");
    }
}
