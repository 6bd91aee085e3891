//! What scripts can reach besides the cluster: the programs and files of the machine. The owner of the host implements it; the functions
//! of scripts check first what the manifest allows.

pub mod files;
mod glob;
pub mod programs;

use std::sync::Arc;

use files::Files;
use programs::Programs;

/// The outside of an operator. By default there is none.
#[derive(Clone, Default)]
pub struct Outside {
    /// Runs programs, if there can be any.
    pub programs: Option<Arc<dyn Programs>>,
    /// Reads files, if there can be any.
    pub files: Option<Arc<dyn Files>>,
}
