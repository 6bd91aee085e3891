//! What goes wrong with a scenario apart from its expectations: a sentence, and a way out where one is known.

use crate::apiserver::bootstrap::Refused;
use crate::apiserver::kinds::registry::Registry;
use crate::manifest::suggest::nearest;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub text: String,
    /// The way out.
    pub hint: Option<String>,
}

impl Problem {
    /// Returns the words for an object that the server has not accepted. If its kind is not known, the hint names the kind that was probably
    /// meant, or says where the definition may stand.
    pub fn of_refusal(refused: &Refused, origin: &str, registry: &Registry) -> Self {
        let problem = Self::from(format!("{}{origin}: {}", refused.object, refused.message));
        if !refused.is_unknown {
            return problem;
        }
        let kind = refused.object.split(' ').next().unwrap_or_default();
        let known: Vec<&str> = registry.all().map(|served| served.kind.kind.as_str()).collect();
        let meant = nearest(kind, known.iter().copied()).and_then(|meant| registry.all().find(|served| served.kind.kind == meant));
        let hint = match meant {
            Some(served) => format!("did you mean `{}` of `{}`?", served.kind.kind, served.kind.api_version()),
            None => "a definition that the operator brings stands in `crds:` of its manifest; another one may stand in `given`".to_owned(),
        };
        problem.with_hint(hint)
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
