//! A problem of a scenario other than a failed expectation: a message, and a hint if there is one.

use crate::apiserver::bootstrap::Refused;
use crate::apiserver::kinds::registry::Registry;
use crate::manifest::suggest::nearest;
use crate::telemetry::credentials;

/// A problem with an optional hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The message.
    pub text: String,
    /// A hint on the fix.
    pub hint: Option<String>,
}

impl Problem {
    /// Describes an object that the server refused. For an unknown kind, the hint names the most similar kind, or where
    /// a definition can be added.
    pub fn of_refusal(refused: &Refused, origin: &str, registry: &Registry) -> Self {
        let problem = Self::from(format!("{}{origin}: {}", refused.object, refused.message));
        if !refused.is_unknown {
            return problem;
        }
        let kind = refused.object.split(' ').next().unwrap_or_default();
        let known: Vec<&str> = registry.all().map(|served| served.kind.kind.as_str()).collect();
        let suggestion = nearest(kind, known.iter().copied())
            .and_then(|suggestion| registry.all().find(|served| served.kind.kind == suggestion));
        let hint = match suggestion {
            Some(served) => format!("did you mean `{}` of `{}`?", served.kind.kind, served.kind.api_version()),
            None => "a definition that the operator brings stands in `crds:` of its manifest; another one may stand in `given`".to_owned(),
        };
        problem.with_hint(hint)
    }

    /// Returns the problem with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text: credentials::hide(text), hint: None }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}
