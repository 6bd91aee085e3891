//! The requests to reload an operator, which are answered one after another.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::kit::Stop;
use crate::manifest::Operator;

use super::super::precedence::Precedence;
use super::error::{ReloadError, Reloaded};

/// A handle that reloads a running operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reloader {
    requests: mpsc::Sender<Request>,
    /// Ends the waits of the last request.
    outdated: Arc<Mutex<Stop>>,
}

/// The requests to reload an operator.
#[derive(Debug)]
pub struct Reloads(mpsc::Receiver<Request>);

#[derive(Debug)]
struct Request {
    operator: Box<Operator>,
    earlier: Precedence,
    /// Requested by the next request.
    outdated: Stop,
    reply: oneshot::Sender<Result<Reloaded, ReloadError>>,
}

/// Returns the handle that reloads an operator, and the receiver of its requests.
pub fn channel() -> (Reloader, Reloads) {
    let (sender, receiver) = mpsc::channel(1);
    (Reloader { requests: sender, outdated: Arc::default() }, Reloads(receiver))
}

impl Reloader {
    /// Loads the scripts of an operator's new declaration, and lets it take effect. An earlier request that still waits
    /// for the cluster is given up.
    ///
    /// `earlier` has the operators of the process that come before this one.
    ///
    /// # Errors
    /// If the revision cannot take effect. The running one is left as it is.
    pub async fn reload(&self, operator: Operator, earlier: Precedence) -> Result<Reloaded, ReloadError> {
        let (reply, answer) = oneshot::channel();
        let outdated = Stop::new();
        std::mem::replace(&mut *self.outdated.lock(), outdated.clone()).request("a newer revision is there");
        let request = Request { operator: Box::new(operator), earlier, outdated, reply };
        self.requests.send(request).await.map_err(|_| ReloadError::Ended)?;
        answer.await.unwrap_or(Err(ReloadError::Ended))
    }
}

impl Reloads {
    /// Answers all requests while the operator starts with a revision; never ends. Another revision cannot take effect,
    /// since the effects of the startup functions may belong to the old files.
    pub(crate) async fn answer_at_start(&mut self, revision: &str) -> ! {
        while let Some(Request { operator, reply, .. }) = self.0.recv().await {
            let answer = match operator.program() {
                Err(problems) => Err(ReloadError::Scripts(problems)),
                Ok(program) if operator.revision(&program) == revision => Ok(Reloaded::Unchanged),
                Ok(_) => Err(ReloadError::Starting),
            };
            // The asking one may be gone.
            let _ = reply.send(answer);
        }
        std::future::pending().await
    }

    /// Answers all requests, one after another; never ends.
    pub(crate) async fn answer(&mut self, revising: &mut impl Revising) {
        loop {
            let request = tokio::select! {
                biased;
                Some(request) = self.0.recv() => request,
                () = revising.due() => {
                    revising.act().await;
                    continue;
                }
            };
            let Request { operator, earlier, outdated, reply } = request;
            let reloaded = revising.reload(*operator, earlier, &outdated).await;
            // The asking one may be gone.
            let _ = reply.send(reloaded);
        }
    }
}

/// A running operator that can be reloaded.
pub(crate) trait Revising {
    /// Reloads it, unless the revision is outdated before it takes effect.
    async fn reload(
        &mut self,
        operator: Operator,
        earlier: Precedence,
        outdated: &Stop,
    ) -> Result<Reloaded, ReloadError>;

    /// Waits until work is due between reloads; never ends if there is none.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    async fn due(&self);

    /// Does the work that is due.
    async fn act(&mut self);
}
