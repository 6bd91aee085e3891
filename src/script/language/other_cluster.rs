//! Another cluster, as scripts hold it. Its methods are those of `k8s::`.

use std::sync::Arc;

use crate::script::outside::api::Api;

/// The operations of another cluster.
#[derive(Clone)]
pub(crate) struct OtherCluster(pub Arc<dyn Api>);
