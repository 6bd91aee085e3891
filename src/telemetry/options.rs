//! Options of logging.

use super::line::Format;

/// Options of logging.
#[derive(Debug, Clone)]
pub struct Options {
    /// Form of the lines.
    pub format: Format,
    /// Lowest level that is logged.
    pub verbosity: Verbosity,
    /// Key of the object reference in JSON lines.
    pub reference_key: String,
    /// Whether lines begin with the object; by default all forms except JSON do.
    pub prefix: Option<bool>,
    /// Whether lines of `Format::ChangeLog` have colours.
    pub has_colours: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::default(),
            verbosity: Verbosity::default(),
            reference_key: "object".to_owned(),
            prefix: None,
            has_colours: false,
        }
    }
}

/// Which lines are logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Changes that a user would notice.
    #[default]
    Normal,
    /// Also the reasons of the engine's decisions.
    Verbose,
    /// Everything, including libraries.
    Debug,
}
