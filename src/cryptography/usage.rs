//! The uses of certificates.

use rcgen::ExtendedKeyUsagePurpose;

/// A permitted use of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// TLS servers.
    Server,
    /// TLS clients.
    Client,
    /// Signatures of programs.
    Code,
    /// E-mail.
    Email,
}

impl Usage {
    /// All, with their names.
    pub(crate) const ALL: [(&'static str, Self); 4] =
        [("server", Self::Server), ("client", Self::Client), ("code", Self::Code), ("email", Self::Email)];

    /// Returns its name in the library of certificates.
    pub(super) fn purpose(self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Self::Client => ExtendedKeyUsagePurpose::ClientAuth,
            Self::Code => ExtendedKeyUsagePurpose::CodeSigning,
            Self::Email => ExtendedKeyUsagePurpose::EmailProtection,
        }
    }
}
