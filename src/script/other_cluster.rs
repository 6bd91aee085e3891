//! Another cluster, as scripts hold it. Its methods are those of `k8s::`.

use std::sync::Arc;

use super::api::Api;

/// The operations of another cluster.
#[derive(Clone)]
pub(super) struct OtherCluster(pub Arc<dyn Api>);
