//! From the texts and objects of scripts to resources: `deployments`, `batch/v1/CronJob`, `{apiVersion: v1, kind:
//! Pod}`.

use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::object::{Resource, Selector};

use super::client::Client;
use super::discovery::{self, Scan};
use super::error::{Error, KindError};

/// Pause between scans for unknown kinds: a script may use one in every call.
const SCAN_PAUSE: Duration = Duration::from_secs(10);

/// The known resources of a cluster; unknown kinds trigger a scan.
pub struct ResourceResolver {
    client: Client,
    resources: RwLock<Vec<Resource>>,
    /// When the last full scan started. Held during a scan, so that concurrent callers share one.
    scanned_at: Mutex<Option<Instant>>,
}

impl ResourceResolver {
    /// Returns a resolver without any resources.
    pub fn new(client: Client) -> Self {
        Self { client, resources: RwLock::default(), scanned_at: Mutex::new(None) }
    }

    /// Stores the result of another scan, of all groups or of some.
    pub fn learn(&self, scan: &Scan, groups: Option<&std::collections::BTreeSet<String>>) {
        let mut resources = self.resources.write();
        let is_fresh =
            |group: &String| groups.is_none_or(|groups| groups.contains(group)) && !scan.skipped.contains(group);
        resources.retain(|resource| !is_fresh(&resource.group));
        resources.extend(scan.resources.iter().cloned());
        resources.sort();
        resources.dedup();
    }

    /// Returns the one resource that a selector matches; the text is for messages.
    ///
    /// # Errors
    /// If the selector matches no resource of the cluster, or several.
    pub async fn resolve_selector(&self, selector: &Selector, text: &str) -> Result<Resource, Error> {
        if let Some(found) = self.find(selector, text)? {
            return Ok(found);
        }
        let asked_at = Instant::now();
        let mut scanned_at = self.scanned_at.lock().await;
        // Another task may have scanned while this one waited, or shortly before.
        if scanned_at.is_none_or(|at| at < asked_at && asked_at - at >= SCAN_PAUSE) {
            let scan = discovery::scan(&self.client, None).await?;
            self.learn(&scan, None);
            *scanned_at = Some(Instant::now());
        }
        drop(scanned_at);
        self.find(selector, text)?.ok_or_else(|| KindError::Unknown(text.to_owned()).into())
    }

    fn find(&self, selector: &Selector, text: &str) -> Result<Option<Resource>, KindError> {
        let resources = self.resources.read();
        match selector.select(resources.iter()).as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).clone())),
            many => {
                let candidates = many.iter().map(ToString::to_string).collect();
                Err(KindError::Ambiguous { text: text.to_owned(), candidates })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::script::{Script, answer};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn server(has_widgets: Arc<AtomicBool>) -> Script {
        Script::new(move |request| {
            let widget = r#"{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}"#;
            let pods = r#"{"resources":[{"name":"pods","kind":"Pod","shortNames":["po"],"namespaced":true}]}"#;
            Ok(match request.uri().path() {
                "/api" => answer(200, r#"{"versions":["v1"]}"#),
                "/api/v1" => answer(200, pods),
                "/apis" => answer(
                    200,
                    r#"{"groups":[{"name":"a.io","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}},
                                  {"name":"b.io","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}"#,
                ),
                "/apis/a.io/v1" | "/apis/b.io/v1" if has_widgets.load(Ordering::SeqCst) => answer(200, widget),
                _ => answer(404, ""),
            })
        })
    }

    async fn resolve(kinds: &ResourceResolver, text: &str) -> Result<Resource, Error> {
        kinds.resolve_selector(&Selector::parse(text).unwrap(), text).await
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_are_looked_for_once() {
        let script = server(Arc::default());
        let kinds = ResourceResolver::new(script.client().await);
        assert_eq!(resolve(&kinds, "po").await.unwrap().to_string(), "pods.v1");
        let scanned = script.requests.lock().len();
        assert_eq!(resolve(&kinds, "v1/Pod").await.unwrap().plural, "pods");
        for _ in 0..5 {
            assert_eq!(
                resolve(&kinds, "widgets").await.unwrap_err().to_string(),
                "the cluster has no resource \"widgets\""
            );
        }
        assert_eq!(script.requests.lock().len(), scanned);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_appears_later_is_found_later() {
        let has_widgets: Arc<AtomicBool> = Arc::default();
        let kinds = ResourceResolver::new(server(Arc::clone(&has_widgets)).client().await);
        resolve(&kinds, "a.io/v1/widgets").await.unwrap_err();
        has_widgets.store(true, Ordering::SeqCst);
        tokio::time::sleep(SCAN_PAUSE).await;
        assert_eq!(resolve(&kinds, "a.io/v1/Widget").await.unwrap().to_string(), "widgets.v1.a.io");
        let ambiguous = resolve(&kinds, "widgets").await.unwrap_err();
        assert_eq!(ambiguous.to_string(), "\"widgets\" is ambiguous: it means widgets.v1.a.io, widgets.v1.b.io");
    }
}
