//! Objects and their history: the store, the file that keeps it, and what writes leave to the controllers.

pub mod ids;
pub mod journal;
pub mod private_files;
pub mod resource;
pub mod store;
pub mod work_item;
