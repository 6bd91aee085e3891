//! Errors of keys, certificates and tokens. Their texts never contain a part of a secret.

/// The reason why a key, certificate or token cannot be made, read or verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CryptoError {
    /// A value that is given cannot be used.
    #[error("{0}")]
    Argument(String),
    /// A text or bytes do not have the expected form.
    #[error("{0}")]
    Unreadable(String),
    /// It is read, and is not genuine, not trusted, or not valid at this moment.
    #[error("{0}")]
    Refused(String),
    /// It cannot be made.
    #[error("{0}")]
    Failed(String),
}

impl CryptoError {
    pub(super) fn argument(message: impl std::fmt::Display) -> Self {
        Self::Argument(message.to_string())
    }

    pub(super) fn unreadable(message: impl std::fmt::Display) -> Self {
        Self::Unreadable(message.to_string())
    }

    pub(super) fn refused(message: impl std::fmt::Display) -> Self {
        Self::Refused(message.to_string())
    }

    pub(super) fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}
