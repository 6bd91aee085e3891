//! The answer to a review, from the verdicts of its webhooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::request::Envelope;
use crate::handling::handler::{Handler, On};
use crate::handling::message::Message;
use crate::handling::outcome::Verdict;

/// The status code of a denial without one.
const CODE: u16 = 500;

/// The reason why a request is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The text for the user.
    pub message: String,
    /// The status code.
    pub code: u16,
}

/// The results of all webhooks of a review.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// The reason of the denial; `None` if the request is allowed.
    pub denial: Option<Denial>,
    /// The warnings for the user.
    pub warnings: Vec<String>,
    /// The operations of a JSON patch.
    pub operations: Vec<Value>,
}

/// The rank of an error among others: the user sees the most deliberate one.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Rejected { .. } => 0,
        Verdict::Permanent { .. } => 1,
        Verdict::Temporary { .. } | Verdict::Unfinished { .. } => 2,
        Verdict::Failed { .. } | Verdict::Returned(_) => 3,
    }
}

/// Returns the denial of a request by the verdicts of its webhooks. Any error denies it; of several ones, the user sees
/// the most deliberate one, and the first of equal ones.
pub(crate) fn denial<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Option<Denial> {
    let failures = verdicts.into_iter().filter_map(|verdict| Some((rank(verdict), denial_of(verdict)?)));
    failures.min_by_key(|(rank, _)| *rank).map(|(_, denial)| denial)
}

/// Returns the denial by one verdict; `None` for a success.
pub(crate) fn denial_of(verdict: &Verdict) -> Option<Denial> {
    let (text, code, substitute) = match verdict {
        Verdict::Returned(_) => return None,
        Verdict::Rejected { text, code: 0 } => (text.as_str(), CODE, "the request is rejected"),
        Verdict::Rejected { text, code } => (text.as_str(), *code, "the request is rejected"),
        Verdict::Permanent { text } => (text.as_str(), CODE, "a permanent error"),
        Verdict::Temporary { text, .. } => (text.as_deref().unwrap_or_default(), CODE, "a temporary error"),
        Verdict::Unfinished { .. } => ("", CODE, "webhooks have no sub-handlers"),
        Verdict::Failed { text, representation, .. } => (text.as_str(), CODE, representation.as_str()),
    };
    let message = if text.is_empty() { substitute } else { text };
    Some(Denial { message: message.to_owned(), code })
}

/// Returns the line about the verdict of a webhook. A rejection is what webhooks are for; other errors are mistakes of
/// the script.
pub(crate) fn message(handler: &Handler, verdict: &Verdict) -> Message {
    let title = handler.title();
    let Some(denial) = denial_of(verdict) else { return Message::debug(format!("{title} succeeded.")) };
    let message = match verdict {
        Verdict::Rejected { .. } if handler.on != On::Conversion => {
            return Message::warning(format!("{title} rejects the request: {} (code {})", denial.message, denial.code));
        }
        Verdict::Rejected { .. } | Verdict::Permanent { .. } => {
            Message::error(format!("{title} failed permanently: {}", denial.message))
        }
        Verdict::Temporary { .. } | Verdict::Unfinished { .. } => {
            Message::error(format!("{title} failed temporarily: {}", denial.message))
        }
        Verdict::Failed { .. } | Verdict::Returned(_) => {
            Message::error(format!("{title} failed with an exception: {}", denial.message))
        }
    };
    let trace = if let Verdict::Failed { trace, .. } = verdict { trace.clone() } else { None };
    let effect = if handler.on == On::Conversion { "The object is not converted." } else { "The request is denied." };
    Message { trace, ..message.followed_by(effect) }
}

/// Returns the answer. The patch is part of it even if the request is denied: the API server does not apply it then.
pub fn answer(envelope: &Envelope, judged: &Judged) -> Value {
    let mut response = Map::from_iter([
        ("uid".to_owned(), envelope.uid.clone()),
        ("allowed".to_owned(), judged.denial.is_none().into()),
    ]);
    if !judged.warnings.is_empty() {
        response.insert("warnings".to_owned(), json!(judged.warnings));
    }
    if !judged.operations.is_empty() {
        let patch = Value::from(judged.operations.as_slice()).to_string();
        response.insert("patch".to_owned(), STANDARD.encode(patch).into());
        response.insert("patchType".to_owned(), "JSONPatch".into());
    }
    if let Some(Denial { message, code }) = &judged.denial {
        response.insert("status".to_owned(), json!({"message": message, "code": code}));
    }
    json!({"apiVersion": envelope.api_version, "kind": envelope.kind, "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(text: &str, code: u16) -> Verdict {
        Verdict::Rejected { text: text.to_owned(), code }
    }

    fn failed(text: &str) -> Verdict {
        Verdict::Failed {
            text: text.to_owned(),
            representation: "an error".to_owned(),
            trace: Some("at line 1".to_owned()),
        }
    }

    fn told(verdicts: &[Verdict]) -> Option<(String, u16)> {
        denial(verdicts).map(|denial| (denial.message, denial.code))
    }

    #[test]
    fn any_error_denies_and_the_most_deliberate_one_is_told() {
        let permanent = || Verdict::Permanent { text: "p".to_owned() };
        let temporary = || Verdict::Temporary { text: None, delay: None };
        assert_eq!(told(&[Verdict::Returned(None), Verdict::Returned(Some(false.into()))]), None);
        assert_eq!(
            told(&[failed("f"), temporary(), permanent(), rejected("r", 403), rejected("s", 400)]),
            Some(("r".to_owned(), 403))
        );
        assert_eq!(told(&[failed("f"), temporary(), permanent()]), Some(("p".to_owned(), 500)));
        assert_eq!(told(&[failed("f"), temporary()]), Some(("a temporary error".to_owned(), 500)));
        assert_eq!(told(&[failed(""), Verdict::Returned(None)]), Some(("an error".to_owned(), 500)));
        assert_eq!(told(&[rejected("", 0)]), Some(("the request is rejected".to_owned(), 500)));
    }

    #[test]
    fn a_rejection_is_a_warning_and_a_mistake_is_an_error_with_its_trace() {
        let handler = Handler::simple("fn", On::Review);
        let line = message(&handler, &rejected("too many", 403));
        assert_eq!(
            (line.level.as_str(), line.text.as_str()),
            ("WARNING", "Webhook 'fn' rejects the request: too many (code 403)")
        );
        let line = message(&handler, &failed("boom"));
        assert_eq!(line.to_string(), "Webhook 'fn' failed with an exception: boom. The request is denied.\nat line 1");
        assert_eq!((line.level.as_str(), line.trace.as_deref()), ("ERROR", Some("at line 1")));
        let line = message(&Handler::simple("fn", On::Conversion), &rejected("no way", 403));
        assert_eq!(line.to_string(), "Webhook 'fn' failed permanently: no way. The object is not converted.");
    }
}
