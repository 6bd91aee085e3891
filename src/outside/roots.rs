//! The authorities of the system.

use rustls::pki_types::CertificateDer;
use tokio::sync::OnceCell;

/// The authorities of the system, which are read when they are needed first.
#[derive(Default)]
pub(super) struct Roots(OnceCell<Vec<CertificateDer<'static>>>);

impl Roots {
    /// Returns the authorities.
    pub(super) async fn get(&self) -> Vec<CertificateDer<'static>> {
        let read = || async {
            let read = tokio::task::spawn_blocking(|| rustls_native_certs::load_native_certs().certs);
            read.await.unwrap_or_default()
        };
        self.0.get_or_init(read).await.clone()
    }
}
