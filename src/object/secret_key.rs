//! Entries of Secrets.

/// An entry of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretKey {
    /// The Secret.
    pub name: String,
    /// Its namespace; `None` for the operator's own.
    pub namespace: Option<String>,
    /// The key in its data.
    pub key: String,
}
