//! Patches in all their forms, and the ownership of fields. Pure functions over JSON.

pub mod json_patch;
pub mod merge_keys;
pub mod merge_patch;
pub mod ownership;
pub mod strategic;
