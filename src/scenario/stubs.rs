//! Stubs: what answers in a scenario instead of the programs and files of the machine.

mod reading;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::script::outside::programs::Finished;

pub(super) use reading::read;

/// The stubs of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Stubs {
    /// In their order: the first one that fits a call answers it.
    pub programs: Vec<ProgramStub>,
    /// The contents of files by absolute path; `None` for a file that does not exist.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
}

/// A stub of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramStub {
    /// The name of the program in the manifest.
    pub program: String,
    /// The patterns of its arguments, as in the manifest; `None` for any arguments.
    pub args: Option<Vec<String>>,
    /// How many calls it answers; `None` for any number.
    pub times: Option<usize>,
    /// The virtual time that the program takes.
    pub takes: Duration,
    /// Why it cannot be started, if it cannot.
    pub fails: Option<String>,
    /// What it gives back.
    pub finished: Finished,
}
