//! Objects and their history: the store, its journal, and the work items for controllers.

pub mod ids;
pub mod journal;
pub mod private_files;
pub mod resource;
pub mod store;
pub mod work_item;
