//! Errors of the syntax, in the words of other messages, with what to write instead.

use rhai::{LexError, ParseError, ParseErrorType};

use super::python;
use super::source::{Source, spot_of};
use crate::script::interface::problem::{Problem, Severity};
use crate::script::interpreter::engine;

/// Returns the problem of a text that cannot be compiled.
pub(super) fn problem(error: &ParseError, source: &Source) -> Problem {
    let found = spot_of(error.position(), 1);
    // The missing end of a statement is reported after it, and not before the next one, which may be lines below.
    let spot = match error.err_type() {
        ParseErrorType::MissingToken(token, _) if token == ";" => {
            source.end_before(found).filter(|end| end.line < found.line).unwrap_or(found)
        }
        _ => found,
    };
    let word = source.word(found);
    let (message, hint) = explain(error.err_type(), word);
    let line = source.line(spot.line);
    let of_python = || hint_for(word).or_else(|| python::of_line(line).map(str::to_owned));
    let hint = match error.err_type() {
        // The interpreter has read all of the line.
        ParseErrorType::MismatchedType(..) => hint,
        // It has read this line, too, and the mistake is not in the next one. An import of Python can be read as one of
        // Rhai.
        _ if spot.line < found.line => Some(line)
            .filter(|line| line.trim_start().starts_with("import"))
            .and_then(python::of_line)
            .map(str::to_owned)
            .or(hint),
        _ => of_python().or(hint),
    };
    Problem { hint, ..Problem::at(Severity::Error, source.place(spot), message) }
}

fn explain(error: &ParseErrorType, word: &str) -> (String, Option<String>) {
    let quotes = "text stands in double quotes or back-ticks: \"text\"; single quotes hold one character";
    match error {
        ParseErrorType::BadInput(LexError::MalformedChar(text)) => {
            (format!("'{}' is not one character", text.trim_matches('\'')), Some(quotes.to_owned()))
        }
        ParseErrorType::PropertyExpected => (
            "the name of a property is missing here".to_owned(),
            Some("a keyword of Rhai as a key is written `spec[\"in\"]` or `#{\"if\": 1}`".to_owned()),
        ),
        // Names of functions are read before reserved words become names.
        ParseErrorType::FnMissingName if engine::is_freed(word) => (
            format!("`{word}` is a reserved word of Rhai, and cannot be the name of a function"),
            Some(
                if engine::is_keyword(word) {
                    "choose another name"
                } else {
                    "choose another name: it can only be the name of a variable"
                }
                .to_owned(),
            ),
        ),
        ParseErrorType::Reserved(word) if word.starts_with(|c: char| c.is_alphabetic()) => {
            (format!("`{word}` is a reserved word of Rhai"), Some("choose another name".to_owned()))
        }
        ParseErrorType::Reserved(sign) => {
            (format!("unexpected `{sign}`"), Some("it is no operator of Rhai: remove it".to_owned()))
        }
        ParseErrorType::BadInput(LexError::ImproperSymbol(sign, _)) if sign == "=" => (
            "`=` assigns, and is no comparison".to_owned(),
            Some("values are compared by `==`; an assignment is a statement of its own".to_owned()),
        ),
        ParseErrorType::BadInput(LexError::ImproperSymbol(word, _)) if word == "eval" => (
            "`eval` is not available".to_owned(),
            Some("code in texts is not run: write a function, and call it".to_owned()),
        ),
        other => {
            let hint = way_out(other).map(str::to_owned).or_else(|| missing(other));
            (plain(&other.to_string()), Some(hint.unwrap_or_else(|| BEFORE.to_owned())))
        }
    }
}

/// The hint for a mistake without a more specific one.
const BEFORE: &str = "look at what stands before it: a bracket, a comma, or a `;` may be missing";

/// Returns a message of the interpreter in the words of other messages.
fn plain(message: &str) -> String {
    let message = lower_first(message.trim_end_matches(": ''"));
    WORDS.iter().fold(message, |message, (theirs, ours)| message.replace(theirs, ours))
}

/// Terms of the interpreter, and the terms for the same in other messages.
const WORDS: &[(&str, &str)] = &[
    ("array, string or bit-field expects numeric index", "a list or a text takes a whole number as index"),
    ("array, string or bit-field expects integer index", "a list or a text takes a whole number as index"),
    ("object map expects string index", "a map takes a text as index"),
    ("an array", "a list"),
    ("array literal", "list"),
    ("an object map", "a map"),
    ("for object map literal", "in a map"),
    ("object map literal", "map"),
    ("not a string", "not a text"),
];

fn way_out(error: &ParseErrorType) -> Option<&'static str> {
    Some(match error {
        ParseErrorType::UnexpectedEOF => "something is missing at the end: a value, or what closes a bracket",
        ParseErrorType::BadInput(LexError::UnterminatedString) => {
            "a text ends with the sign that it begins with, on the same line"
        }
        ParseErrorType::BadInput(LexError::UnexpectedInput(sign))
            if [")", "]", "}", ";", ","].contains(&sign.as_str()) =>
        {
            "a value is missing before it"
        }
        ParseErrorType::BadInput(LexError::MalformedEscapeSequence(_)) => {
            "a backslash is written `\\\\` in double quotes; a text in back-ticks takes it as it is"
        }
        ParseErrorType::BadInput(LexError::MalformedNumber(_)) => {
            "a number is written like `10`, `1.5`, `1_000`, or `0xff`"
        }
        ParseErrorType::BadInput(LexError::MalformedIdentifier(_)) => {
            "a name has letters, digits and `_`, and begins with a letter or `_`"
        }
        ParseErrorType::BadInput(LexError::ImproperSymbol(word, _)) if word == "this" => {
            "`this` is for functions that are called as methods"
        }
        ParseErrorType::BadInput(LexError::ImproperSymbol(..)) | ParseErrorType::UnknownOperator(_) => {
            "Rhai has no such sign: remove it, or put it into a text"
        }
        ParseErrorType::MalformedIndexExpr(_) => {
            "items and characters are taken by a whole number, as in `list[0]`; values of a map by their key, as in `map[\"key\"]`"
        }
        ParseErrorType::MalformedCapture(_) => {
            "a closure is written `|x| x + 1`, and sees the variables around it by itself"
        }
        ParseErrorType::WrongSwitchDefaultCase => "move the case `_` behind all others",
        ParseErrorType::WrongSwitchIntegerCase => "move the cases of single numbers before those of ranges",
        ParseErrorType::WrongSwitchCaseCondition => "write the condition inside of the case: `_ => if … { … }`",
        ParseErrorType::WrongExport => "move it to the top level of the file",
        ParseErrorType::WrongDocComment => "write it as `// …`, or right before a function",
        ParseErrorType::AssignmentToInvalidLHS(_) => {
            "only a variable, or a part of one, takes a value; values are compared by `==`"
        }
        ParseErrorType::ForbiddenVariable(_) => "choose another name",
        ParseErrorType::TooManyFunctions | ParseErrorType::LiteralTooLarge(..) => "split it into several smaller ones",
        ParseErrorType::MismatchedType(wanted, found) if wanted.contains("iterable") && found.contains("map") => {
            "go over its keys by `for key in map.keys()`, or over its values by `for value in map.values()`"
        }
        ParseErrorType::MismatchedType(wanted, _) if wanted.contains("iterable") => {
            "a loop goes over a list, a text, or a range such as `0..3`"
        }
        ParseErrorType::MismatchedType(wanted, _) if wanted.contains("bool") => {
            "a condition is `true` or `false`: compare, as in `x != ()` or `x.len() > 0`"
        }
        ParseErrorType::ExprExpected(_) => "a value is missing here",
        ParseErrorType::VariableExpected => "a name begins with a letter or `_`",
        ParseErrorType::WrongFnDefinition => {
            "move it to the top level of the file, or assign a closure: `let f = |x| …;`"
        }
        ParseErrorType::FnMissingParams(_) => {
            "write the parameters in parentheses, also if there are none: `fn f() { … }`"
        }
        ParseErrorType::FnMissingBody(_) => "write the body in braces: `fn f(x) { … }`",
        ParseErrorType::FnDuplicatedParam(..) | ParseErrorType::DuplicatedVariable(_) => "rename one of them",
        ParseErrorType::FnDuplicatedDefinition(..) => "remove or rename one of them",
        ParseErrorType::DuplicatedProperty(_) => "remove one of them",
        ParseErrorType::AssignmentToConstant(_) => "declare it by `let`, or use another variable",
        ParseErrorType::ExprTooDeep => "give parts of it names of their own by `let`",
        ParseErrorType::LoopBreak => "a function is ended by `return`",
        _ => return None,
    })
}

fn missing(error: &ParseErrorType) -> Option<String> {
    let ParseErrorType::MissingToken(token, purpose) = error else { return None };
    Some(match (token.as_str(), purpose) {
        (";", _) => "write `;` behind it".to_owned(),
        (",", purpose) if purpose.contains("arguments") => {
            "separate arguments by `,`, and close the call by `)`".to_owned()
        }
        (",", purpose) if purpose.contains("array") => "separate items by `,`, and close the list by `]`".to_owned(),
        (",", purpose) if purpose.contains("map") => "separate entries by `,`, and close the map by `}`".to_owned(),
        (":", purpose) if purpose.contains("map") => "an entry of a map is written `key: value`".to_owned(),
        (token, _) => format!("write `{token}` here"),
    })
}

/// Returns what to write for a sign of another language.
fn hint_for(word: &str) -> Option<String> {
    let hint = match word {
        "?" => "Rhai has no `a ? b : c`: write `if a { b } else { c }`",
        "#" => "a comment begins with `//`",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    let is_word = chars.as_str().starts_with(|c: char| c.is_lowercase() || c == ' ');
    if is_word { first.to_lowercase().chain(chars).collect() } else { text.to_owned() }
}
