//! Keeps the certificate of a server valid: follows the files of a given one, and replaces a made one before it
//! expires.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::made::Made;
use super::served::{CertificateProblem, ServerCertificate, stages};
use super::store::{self, Store};
use crate::cluster::Client;
use crate::handling::progress::time_between;
use crate::kit::{Clock, Stop, errors};
use crate::manifest::admission::AdmissionServer;

/// A made certificate is checked at least this often: the clock of the machine may be set.
const LOOK: Duration = Duration::from_hours(1);

/// The time between the stages of a replacement: API servers read a changed configuration within a few seconds.
const STAGE: Duration = Duration::from_secs(10);

/// How often a Secret is read anew because others have written it.
const ATTEMPTS: usize = 5;

/// Keeps the certificate of one server.
pub struct Keeper {
    source: Source,
    /// The pause between two looks.
    interval: Duration,
    clock: Clock,
    certificates: watch::Sender<ServerCertificate>,
    /// The problem that was logged last: each one is logged once.
    problem: Option<String>,
}

/// The source of the certificate.
enum Source {
    Files { settings: Box<AdmissionServer>, chain: PathBuf, key: PathBuf },
    Made { names: Vec<String>, made: Made, store: Option<Box<Store>> },
}

impl Keeper {
    /// Reads or makes the certificate of a server with these names.
    ///
    /// # Errors
    /// If the files cannot be used, or the Secret cannot be read or written.
    pub async fn open(
        settings: &AdmissionServer,
        names: Vec<String>,
        (client, operator): (&Client, &str),
        clock: Clock,
    ) -> Result<Self, CertificateProblem> {
        let (mut source, interval) = match (&settings.certificate.certfile, &settings.certificate.pkeyfile) {
            (Some(chain), Some(key)) => {
                let (chain, key) = (PathBuf::from(chain), PathBuf::from(key));
                (Source::Files { settings: Box::new(settings.clone()), chain, key }, settings.file_check_interval)
            }
            (None, None) => {
                let store = settings.secret.as_ref().map(|secret| Box::new(Store::new(client, operator, secret)));
                let interval = if store.is_some() { settings.file_check_interval } else { LOOK };
                (Source::Made { names, made: Made::default(), store }, interval)
            }
            _ => return Err(CertificateProblem::Unpaired),
        };
        let (first, _) = source.look(clock.now()).await?;
        Ok(Self { source, interval, clock, certificates: watch::Sender::new(first), problem: None })
    }

    /// Returns a channel with the current certificate.
    pub fn certificates(&self) -> watch::Receiver<ServerCertificate> {
        self.certificates.subscribe()
    }

    /// Replaces the certificate when it is time, until the stop. A problem is logged, and the certificate stays.
    pub async fn run(mut self, stop: Stop) {
        let mut pause = self.interval;
        loop {
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let looked = tokio::select! {
                biased;
                () = stop.requested() => return,
                looked = self.source.look(self.clock.now()) => looked,
            };
            pause = self.interval;
            match looked {
                Ok((certificate, until)) => {
                    self.problem = None;
                    pause = pause.min(until.map_or(pause, |until| time_between(self.clock.now(), until)));
                    if self.replace(certificate, &stop).await.is_none() {
                        return;
                    }
                }
                Err(problem) => self.report(&problem),
            }
        }
    }

    /// Replaces the certificate in stages. Returns nothing if the stop is requested meanwhile.
    async fn replace(&self, certificate: ServerCertificate, stop: &Stop) -> Option<()> {
        let current = self.certificates.borrow().clone();
        if current == certificate {
            return Some(());
        }
        let mut stages = stages(&current, certificate).into_iter();
        self.certificates.send_replace(stages.next()?);
        for stage in stages {
            tokio::select! {
                biased;
                () = stop.requested() => return None,
                () = tokio::time::sleep(STAGE) => {}
            }
            self.certificates.send_replace(stage);
        }
        Some(())
    }

    fn report(&mut self, problem: &CertificateProblem) {
        let text = errors::chain(problem);
        if self.problem.as_ref() != Some(&text) {
            warn!(target: "kopfd::admission", "The certificate of the webhooks cannot be renewed, and the current one stays: {text}");
            self.problem = Some(text);
        }
    }
}

impl Source {
    /// Returns the certificate as it should be now, and the latest time of the next check.
    ///
    /// *Cancel safety*: a Secret is written or not; it is read again at the next look.
    async fn look(&mut self, now: Timestamp) -> Result<(ServerCertificate, Option<Timestamp>), CertificateProblem> {
        match self {
            Self::Files { settings, chain, key } => Ok((ServerCertificate::read(settings, chain, key)?, None)),
            Self::Made { names, made, store } => {
                let until = match store {
                    None => made.renew(names, now)?,
                    Some(store) => synchronize(store, made, names, now).await?,
                };
                let served = made.to_served().expect("a renewal issues a certificate");
                Ok((served, Some(until)))
            }
        }
    }
}

/// Takes over the certificates in the Secret, and writes renewed ones into it, or all if it is gone.
async fn synchronize(
    store: &Store,
    made: &mut Made,
    names: &[String],
    now: Timestamp,
) -> Result<Timestamp, CertificateProblem> {
    for _ in 0..ATTEMPTS {
        let found = store.get().await?;
        let stored = found.as_ref().map(store::read);
        let mut renewed = stored.clone().unwrap_or_else(|| made.clone());
        let until = renewed.renew(names, now)?;
        if stored.as_ref() == Some(&renewed) || store.put(found, &renewed).await? {
            *made = renewed;
            return Ok(until);
        }
    }
    Err(store.contended())
}
