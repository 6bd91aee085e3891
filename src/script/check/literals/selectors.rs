//! Selectors by labels, as texts and as maps.

use rhai::Position;

use super::super::facts::Argument;
use crate::object::label_selector::LabelSelector;
use crate::object::names::{label_value_mistake, qualified_mistake};

/// A part of a selector that the API server would refuse.
pub(super) struct WrongLabels {
    /// The text with the mistake.
    pub text: String,
    /// The position of the text.
    pub position: Position,
    /// The problem.
    pub message: String,
    /// The hint on the correct form.
    pub hint: String,
}

/// Returns the mistakes of the selector `labels` in an argument, if it is a map with one.
pub(super) fn wrong_labels(options: &Argument) -> Vec<WrongLabels> {
    let Argument::Map(entries) = options else { return Vec::new() };
    let selectors = entries.iter().filter(|(key, ..)| key == "labels").map(|(.., selector)| selector);
    selectors.flat_map(wrong_selector).collect()
}

fn wrong_selector(selector: &Argument) -> Vec<WrongLabels> {
    match selector {
        Argument::Text(text, position) => wrong_text(text, *position).into_iter().collect(),
        Argument::Map(labels) => {
            labels.iter().flat_map(|(name, position, value)| wrong_label(name, *position, value)).collect()
        }
        _ => Vec::new(),
    }
}

fn wrong_text(text: &str, position: Position) -> Option<WrongLabels> {
    LabelSelector::parse(text).err()?;
    let is_wrong = |requirement: &&str| requirement.trim().is_empty() || LabelSelector::parse(requirement).is_err();
    let wrong = requirements(text).into_iter().find(is_wrong).unwrap_or(text);
    let reason = if wrong.trim().is_empty() {
        "a requirement is missing".to_owned()
    } else {
        format!("{:?} is no requirement", wrong.trim())
    };
    Some(WrongLabels {
        text: text.to_owned(),
        position,
        message: format!("{text:?} is no selector of labels: {reason}"),
        hint: "write requirements with commas between them, such as \"app=web, tier!=cache, zone in (a, b), !old\""
            .to_owned(),
    })
}

fn wrong_label(name: &str, position: Position, value: &Argument) -> Vec<WrongLabels> {
    let mut wrong = Vec::new();
    if qualified_mistake(name).is_some() {
        let hint =
            "a name has letters, digits, `-`, `_` and `.`, up to 63, maybe after a domain and a slash".to_owned();
        wrong.push(WrongLabels {
            text: name.to_owned(),
            position,
            message: format!("{name:?} is no name of a label"),
            hint,
        });
    }
    if let Argument::Text(text, position) = value
        && label_value_mistake(text).is_some()
    {
        let hint =
            "a value has letters, digits, `-`, `_` and `.`, up to 63, and begins and ends with a letter or a digit"
                .to_owned();
        let message = format!("{text:?} is no value of a label");
        wrong.push(WrongLabels { text: text.clone(), position: *position, message, hint });
    }
    wrong
}

/// Splits a selector at the commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_comma = |c: char| {
        is_inside = match c {
            '(' => true,
            ')' => false,
            _ => is_inside,
        };
        c == ',' && !is_inside
    };
    text.split(is_comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_those_that_the_api_server_accepts() {
        for text in [
            "",
            "a",
            "!z",
            "a=b",
            "a==b",
            "a!=c",
            "a in (b, c)",
            "a notin (c)",
            "n>5",
            "n<8",
            "empty=",
            "empty in ()",
            "ex.dev/x=y , a = b",
            "a,!q,n",
        ] {
            assert!(wrong_text(text, Position::NONE).is_none(), "{text}");
        }
        for text in
            ["a b", "a=b=c", "a=b,", ",a", "a in b", "a in (b", "=b", "a==b c", "n>x", "-a=b", "a=b c", "!a=b", "a=-"]
        {
            assert!(wrong_text(text, Position::NONE).is_some(), "{text}");
        }
    }

    #[test]
    fn labels_of_maps_are_checked_one_by_one() {
        let text = |text: &str| Argument::Text(text.to_owned(), Position::NONE);
        let entry = |name: &str, value: Argument| (name.to_owned(), Position::NONE, value);
        let labels = vec![
            entry("app.kubernetes.io/name", text("web-1")),
            entry("a b", text("x")),
            entry("zone", text("a/b")),
            entry("other", Argument::Other),
        ];
        let options = Argument::Map(vec![entry("fields", text("a b")), entry("labels", Argument::Map(labels))]);
        let messages: Vec<String> = wrong_labels(&options).into_iter().map(|wrong| wrong.message).collect();
        assert_eq!(messages, ["\"a b\" is no name of a label", "\"a/b\" is no value of a label"]);
    }
}
