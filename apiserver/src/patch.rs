//! Patches in all their forms, and the ownership of fields. Pure functions over JSON.

pub(crate) mod json_patch;
pub(crate) mod merge_keys;
pub(crate) mod merge_patch;
pub(crate) mod ownership;
pub(crate) mod strategic;
