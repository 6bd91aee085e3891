//! Tokens that servers have given to the operator, until they expire.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// A token is replaced so long before it expires, since requests take time.
const MARGIN: SignedDuration = SignedDuration::from_secs(30);

/// More different credentials are unusual: all tokens are dropped then.
const MAX_TOKENS: usize = 256;

/// The tokens of one operator, by digests of the credentials that they were given for.
#[derive(Debug, Default)]
pub(in crate::script) struct Tokens(Mutex<HashMap<String, Token>>);

#[derive(Debug)]
struct Token {
    value: String,
    expires_at: Option<Timestamp>,
}

impl Tokens {
    /// Returns a token that has not expired.
    pub(in crate::script) fn get(&self, key: &str, now: Timestamp) -> Option<String> {
        let tokens = self.0.lock();
        let token = tokens.get(key)?;
        let is_fresh =
            token.expires_at.is_none_or(|expires_at| now.saturating_add(MARGIN).is_ok_and(|soon| soon < expires_at));
        is_fresh.then(|| token.value.clone())
    }

    /// Keeps a token, for so many seconds if they are known.
    pub(in crate::script) fn put(&self, key: &str, value: &str, now: Timestamp, seconds: Option<i64>) {
        let expires_at =
            seconds.map(|seconds| now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX));
        let mut tokens = self.0.lock();
        if tokens.len() >= MAX_TOKENS {
            tokens.clear();
        }
        tokens.insert(key.to_owned(), Token { value: value.to_owned(), expires_at });
    }

    /// Drops a token that a server refuses.
    pub(in crate::script) fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}
