//! The bridge from the `login::` functions of scripts to the built-in logins.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::cluster::config::{BuiltIn, CredentialSources, Options};
use crate::cluster::{ConnectionInfo, LoginError};
use crate::script::Credentials;

/// The credentials that the built-in logins would use.
pub struct BuiltInCredentials(BuiltIn);

impl BuiltInCredentials {
    /// Returns the credentials of this process, with the kubeconfig and the context of the options.
    pub fn of_process(options: Options) -> Self {
        Self(BuiltIn::new(options, CredentialSources::of_process()))
    }
}

impl Credentials for BuiltInCredentials {
    fn service_account(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        async move { info(self.0.service_account_info().await) }.boxed()
    }

    fn kubeconfig(&self, context: Option<String>) -> BoxFuture<'_, Result<Option<Value>, String>> {
        async move { info(self.0.kubeconfig_info(context).await) }.boxed()
    }
}

fn info(found: Result<Option<ConnectionInfo>, LoginError>) -> Result<Option<Value>, String> {
    let found = found.map_err(|error| error.to_string())?;
    found.map(|info| serde_json::to_value(info).map_err(|error| error.to_string())).transpose()
}
