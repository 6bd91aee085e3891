//! The JSON that API servers send, as far as the engine reads it: the lines of watches and the pages of lists, metadata
//! that are borrowed from the text, excerpts of objects, reviews, and whole values.
//!
//! Every event and every review passes this code, and it loops over each byte. It is a package of its own since it is
//! compiled for speed, while the engine is compiled for size. So its functions are not generic: those would be compiled
//! with the package that calls them.

mod excerpt;
mod line;
mod members;
mod page;
mod partial_metadata;
mod review;
mod text;
mod value;

pub use excerpt::excerpt;
pub use line::Line;
pub use members::Members;
pub use page::{Page, PageMetadata};
pub use partial_metadata::{Metadata, PartialMetadata};
pub use review::Review;
pub use text::Text;
pub use value::{parse, parse_text, to_vec};
