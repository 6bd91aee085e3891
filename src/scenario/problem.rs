//! What goes wrong with a scenario apart from its expectations: a sentence, and a way out where one is known.

use crate::devserver::given::Refused;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub text: String,
    /// The way out.
    pub hint: Option<String>,
}

impl Problem {
    /// Returns the words for an object that the server has not accepted, with a hint to what is missing if its kind is not known.
    pub fn of_refusal(refused: &Refused, origin: &str) -> Self {
        let problem = Self::from(format!("{}{origin}: {}", refused.object, refused.message));
        if refused.is_unknown {
            let hint = "a definition that the operator brings stands in `crds:` of its manifest; another one may stand in `given`";
            return problem.with_hint(hint);
        }
        problem
    }

    /// Returns the problem with a way out.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text, hint: None }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}
