//! Which objects of a resource are listed or watched.

/// Selectors in the form of the API. Without them, all objects are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}
