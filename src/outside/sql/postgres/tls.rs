//! TLS for PostgreSQL.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use crate::outside::sql::session::TlsSettings;
use crate::script::outside::sql::{SqlError, SqlProblem};

/// Encrypts a connection to one host.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Tls {
    /// Returns the encryption for a host.
    ///
    /// # Errors
    /// If no certificate can name the host.
    pub(super) fn new(settings: &TlsSettings, host: &str) -> Result<Self, SqlError> {
        let named = ServerName::try_from(host.to_owned());
        let host =
            named.map_err(|_| SqlError::new(SqlProblem::Tls, format!("{host} cannot be the name of a certificate")))?;
        Ok(Self { connector: TlsConnector::from(Arc::clone(&settings.config)), host })
    }
}

impl TlsConnect<TcpStream> for Tls {
    type Stream = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        async move { self.connector.connect(self.host, stream).await.map(|stream| Stream(Box::new(stream))) }.boxed()
    }
}

/// An encrypted connection.
pub(super) struct Stream(Box<RustlsStream<TcpStream>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate is verified.
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
