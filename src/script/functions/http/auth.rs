//! How requests prove who sends them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::Array;

use super::Thrown;
use super::given::Given;

/// The option `auth`.
pub(super) enum Auth {
    /// There is none.
    None,
    /// A header `Authorization`.
    Header(String),
}

impl Auth {
    /// Reads the option.
    ///
    /// # Errors
    /// If it is invalid.
    pub(super) fn read(options: &Given) -> Result<Self, Thrown> {
        let Some(auth) = options.part("auth", &["basic", "bearer"])? else { return Ok(Self::None) };
        if auth.keys().count() != 1 {
            return Err(options.wrong("auth", "a map with one key: `bearer` or `basic`"));
        }
        if let Some(token) = auth.secret("bearer")? {
            let token = token.trim_end_matches(['\r', '\n']);
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(auth.wrong("bearer", "a token"));
            }
            return Ok(Self::Header(format!("Bearer {token}")));
        }
        let pair = auth.value("basic").and_then(|value| value.read_lock::<Array>().map(|pair| pair.clone()));
        let pair = pair.filter(|pair| pair.len() == 2).ok_or_else(|| auth.wrong("basic", "an array of a name and a password"))?;
        let [name, password] = [0, 1].map(|index| auth.item("basic", &pair[index]));
        let (name, password) = (name?, password?);
        if name.contains(&b':') {
            return Err(auth.wrong("basic", "a name without a colon, and a password"));
        }
        Ok(Self::Header(format!("Basic {}", STANDARD.encode([name.as_slice(), b":", &password].concat()))))
    }

    /// Tells whether there is one.
    pub(super) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the headers of a request.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        match self {
            Self::None => Vec::new(),
            Self::Header(value) => vec![("authorization".to_owned(), value.clone())],
        }
    }
}
