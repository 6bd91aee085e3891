//! The parts of the language that depend on kopfd: the arguments of scripts, the conversion of data to the values of
//! the interpreter and back, the functions of these values, and the texts of errors and logs.

pub(super) mod answer;
pub mod arguments;
pub(super) mod bytes;
pub(super) mod convert;
pub(super) mod index;
pub(super) mod logger;
pub(super) mod memo;
pub(super) mod other_cluster;
pub(super) mod patch_handle;
pub(super) mod properties;
pub(super) mod receivers;
pub(super) mod settings_handle;
pub(super) mod shared;
pub(super) mod stopped;
pub(super) mod trace;
pub(super) mod transforms;
pub(super) mod view;
pub(super) mod warnings;
