//! What is due: the calls that run, and the attempts that are waited for, in words.

use std::collections::BTreeMap;

use super::timeline::Subject;
use crate::kit::surplus;

/// How many are told of.
const MOST_TOLD: usize = 5;

/// What is known to be due of each handler of each object.
#[derive(Debug, Default)]
pub struct Dues {
    dues: BTreeMap<(Subject, String), Due>,
}

#[derive(Debug)]
enum Due {
    /// A call runs since a moment.
    Runs { retry: u64, since: f64 },
    /// The next attempt is due at a moment, after an error if there was one.
    Waits { at: f64, error: Option<String> },
}

impl Dues {
    /// Notes a call.
    pub fn called(&mut self, subject: &Subject, handler: &str, retry: u64, now: f64) {
        self.dues.insert((subject.clone(), handler.to_owned()), Due::Runs { retry, since: now });
    }

    /// Notes that a handler has come to its end.
    pub fn ended(&mut self, subject: &Subject, handler: &str) {
        self.dues.remove(&(subject.clone(), handler.to_owned()));
    }

    /// Notes that a handler will be called again.
    pub fn waits(&mut self, subject: &Subject, handler: &str, at: f64, error: Option<String>) {
        self.dues.insert((subject.clone(), handler.to_owned()), Due::Waits { at, error });
    }

    /// Notes that an object is gone: nothing of it is due.
    pub fn gone(&mut self, subject: &Subject) {
        self.dues.retain(|(of, _), _| of != subject);
    }

    /// Returns what is due, in words; nothing if that is not known.
    pub fn tell(&self) -> Option<String> {
        let told = self.dues.iter().map(|((subject, handler), due)| match due {
            Due::Runs { retry, since } => format!("`{handler}#{retry}` runs for {subject} since {since:.3}s"),
            Due::Waits { at, error: None } => format!("`{handler}` is due for {subject} at {at:.3}s"),
            Due::Waits { at, error: Some(error) } => format!("`{handler}` is due again for {subject} at {at:.3}s after {error}"),
        });
        let told: Vec<String> = told.collect();
        let more = surplus(told.len(), MOST_TOLD).map(|more| format!("; and {more} more")).unwrap_or_default();
        let shown = told.iter().take(MOST_TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
        (!told.is_empty()).then(|| format!("{shown}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str) -> Subject {
        Subject { group: String::new(), kind: "Backup".to_owned(), namespace: "default".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn what_runs_and_what_is_waited_for_is_told() {
        let mut dues = Dues::default();
        dues.called(&subject("a"), "make", 2, 1.5);
        dues.called(&subject("b"), "make", 0, 1.5);
        dues.waits(&subject("b"), "make", 61.5, Some("`no secret`".to_owned()));
        dues.called(&subject("c"), "make", 0, 1.0);
        dues.ended(&subject("c"), "make");
        let expected =
            "`make#2` runs for Backup default/a since 1.500s; `make` is due again for Backup default/b at 61.500s after `no secret`";
        assert_eq!(dues.tell().as_deref(), Some(expected));
        dues.gone(&subject("a"));
        dues.gone(&subject("b"));
        assert_eq!(dues.tell(), None);
    }

    #[test]
    fn many_are_counted() {
        let mut dues = Dues::default();
        (0..9).for_each(|number| dues.called(&subject(&number.to_string()), "make", 0, 0.0));
        assert!(dues.tell().unwrap().ends_with("; and 4 more"));
    }
}
