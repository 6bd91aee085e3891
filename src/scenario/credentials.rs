//! The credentials of the `login::` functions in scenarios: always the same, since scenarios do not depend on the
//! machine.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::script::Credentials;

use super::model::OPERATOR_USER;

/// A service account and a kubeconfig of the embedded server.
pub(super) struct ScenarioCredentials;

impl Credentials for ScenarioCredentials {
    fn service_account(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        std::future::ready(Ok(Some(info(20)))).boxed()
    }

    fn kubeconfig(&self, _context: Option<String>) -> BoxFuture<'_, Result<Option<Value>, String>> {
        std::future::ready(Ok(Some(info(10)))).boxed()
    }
}

fn info(priority: i64) -> Value {
    json!({ "server": "https://scenario", "token": OPERATOR_USER, "default_namespace": "default", "priority": priority })
}
