//! `bytes`: a value of bytes that are not text, such as keys and archives. Copies share the bytes. Its text has only
//! their number, so that secrets do not appear in logs; in JSON it is base64, as in Kubernetes.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Dynamic, EvalAltResult};

use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;
use crate::script::values::titles;

type Thrown = Box<EvalAltResult>;

/// Bytes. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub Rc<[u8]>);

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "bytes({})", self.0.len())
    }
}

impl Bytes {
    /// Returns the bytes of a text or of bytes.
    ///
    /// # Errors
    /// If the value has another type.
    pub(crate) fn of(function: &str, what: &str, value: &Dynamic) -> Result<Self, Thrown> {
        if let Some(bytes) = value.read_lock::<Self>() {
            return Ok(bytes.clone());
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            bounded::reserve(text.len())?;
            return Ok(Self(text.as_bytes().into()));
        }
        // The value may be a part of a secret.
        let message = format!("`{function}`: {what} must be a text or bytes, not {}", titles::of_value(value));
        Err(Failure::argument(message).into())
    }

    /// Returns the text of the bytes in base64; `None` if the call may not hold it.
    pub(crate) fn base64(&self) -> Option<String> {
        let length = self.0.len().saturating_mul(4) / 3 + 4;
        crate::script::limits::allocator::reserve(length).then(|| STANDARD.encode(&self.0))
    }
}
