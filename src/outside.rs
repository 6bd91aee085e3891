//! The outside of operators on this machine: it runs the programs and reads the files that scripts ask for.
//!
//! What scripts may ask for is decided before, by the functions of `script`.

mod files;
mod programs;

use std::sync::Arc;

use crate::script::outside::Outside;

pub use programs::end_all;

/// Returns the outside of one operator.
pub fn of_operator() -> Outside {
    Outside { programs: Some(Arc::new(programs::LocalPrograms::default())), files: Some(Arc::new(files::LocalFiles::default())) }
}
