//! The name of an object in a scenario.

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The resource as written.
    pub resource: String,
    /// Unique within its file.
    pub name: String,
    /// `None` if the scenario does not say.
    pub namespace: Option<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.resource, self.name)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(formatter, " in {namespace}"))
    }
}
