//! The documents that bring an operator into a cluster: its namespace, definitions, rights, files, Deployment, and what
//! belongs to it.
//!
//! `package` has the contents of a package; `workload` has the objects, `files` the files of the operator as they are
//! mounted, `form` the folders of the three forms, and `yaml` the writer. Nothing here asks a cluster.

pub(crate) mod files;
mod form;
mod grace;
mod janitor;
mod package;
pub(crate) mod webhooks;
mod workload;
mod yaml;

pub(crate) use files::FileTree;
pub(crate) use form::{Form, MARK, arrange, stream};
pub(crate) use grace::grace;
pub(crate) use package::{Files, MountedSecret, Package, RELEASE_NAMESPACE};
