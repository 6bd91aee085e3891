//! A body that is read when it is first needed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::body::Body;

/// A body that is read from its text when it is first needed. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct LateBody(Arc<Late>);

struct Late {
    text: Box<str>,
    body: OnceLock<Option<Body>>,
}

impl LateBody {
    /// Returns the body that a text has.
    pub fn of(text: &str) -> Self {
        Self(Arc::new(Late { text: text.into(), body: OnceLock::new() }))
    }

    /// Returns the body; `None` if the text cannot be read.
    pub fn get(&self) -> Option<&Body> {
        let read = || self.0.text.parse::<Value>().ok().map(Body::from);
        self.0.body.get_or_init(read).as_ref()
    }
}

/// Texts may be of Secrets, and are not shown.
impl fmt::Debug for LateBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LateBody").finish_non_exhaustive()
    }
}

impl From<Body> for LateBody {
    fn from(body: Body) -> Self {
        Self(Arc::new(Late { text: Box::default(), body: OnceLock::from(Some(body)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_is_read_once() {
        let late = LateBody::of(r#"{"spec":{"x":1}}"#);
        let first = late.get().unwrap().shared();
        assert_eq!(*first, json!({"spec": {"x": 1}}));
        assert!(Arc::ptr_eq(&first, &late.clone().get().unwrap().shared()));
        assert!(LateBody::of("{").get().is_none());
        assert_eq!(**LateBody::from(Body::from(json!({"a": 1}))).get().unwrap(), json!({"a": 1}));
    }
}
