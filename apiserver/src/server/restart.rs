//! Restarts of a server in the same process.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::ApiServer;
use crate::api::Api;
use crate::controllers;
use crate::http::api_error::ApiError;
use crate::storage::resource::set_revision;
use crate::storage::store::FIRST_REVISION;

/// The options of a restart.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Restart {
    /// Whether the objects are kept.
    pub keep_objects: bool,
    /// Whether revisions start again, so that clients have revisions of the future.
    pub reset_revision: bool,
    /// How long connections are refused, in milliseconds.
    pub down_ms: u64,
}

impl Default for Restart {
    fn default() -> Self {
        Self { keep_objects: true, reset_revision: false, down_ms: 0 }
    }
}

impl ApiServer {
    /// Breaks all connections, as a restarting server does, and optionally resets its state.
    ///
    /// # Errors
    /// If durable objects would be lost.
    pub fn restart(&self, how: Restart) -> Result<(), ApiError> {
        if how.reset_revision || !how.keep_objects {
            refuse_if_durable(&self.api)?;
        }
        let (revision, objects) = self.api.with(|state| (state.store.revision(), state.store.all()));
        let kept = objects.iter().filter(|_| how.keep_objects);
        let mut objects: Vec<Value> = kept.map(|stored| (*stored.value).clone()).collect();
        let mut revision = revision;
        if how.reset_revision {
            revision = FIRST_REVISION;
            for object in &mut objects {
                revision += 1;
                set_revision(object, revision);
            }
        }
        self.replace_objects(objects, revision);
        self.api.injection().go_down(Duration::from_millis(how.down_ms));
        Ok(())
    }

    /// Replaces all objects by these, and creates the default namespaces.
    pub(super) fn replace_objects(&self, objects: Vec<Value>, revision: u64) {
        self.api.replace_objects(objects, revision);
        controllers::create_namespaces(&self.api);
        self.api.notify_replaced();
    }
}

pub(super) fn refuse_if_durable(api: &Api) -> Result<(), ApiError> {
    let text = "the objects are kept in a directory, which would not agree with this";
    if api.is_durable() { Err(ApiError::new(409, "Conflict", text)) } else { Ok(()) }
}
