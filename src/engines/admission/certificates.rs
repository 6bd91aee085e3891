//! The certificates of servers: read from the files of the settings, or made. `keeper` replaces them in time, `made`
//! decides when, and `store` keeps made ones in a Secret.

mod keeper;
mod made;
mod served;
mod store;

pub use keeper::Keeper;
pub use served::{CertificateProblem, ServerCertificate, hosts, names};
