//! Certificates and requests for them.

use crate::http::Validity;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, SerialNumber,
};
use rustls::pki_types::pem::SectionKind;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};

use super::details;
use super::error::CryptoError;
use super::key_kind::KeyKind;
use super::private_key::PrivateKey;
use super::public_key::PublicKey;
use super::rsa_hash::RsaHash;
use super::usage::Usage;
use super::{pem, subject};

/// The role of the certificate's holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It signs no certificates.
    #[default]
    EndEntity,
    /// An authority, with the number of authorities that may stand below it.
    Authority {
        /// None: any number.
        below: Option<u8>,
    },
}

/// The content of a certificate, or of a request for one. Fields that are absent in a signature come from the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateOptions {
    /// The attributes of the subject.
    pub subject: Option<Vec<(String, String)>>,
    /// The host names, IP addresses, e-mail addresses and URIs that it is valid for.
    pub names: Option<Vec<String>>,
    /// The permitted uses.
    pub usages: Option<Vec<Usage>>,
    /// The role of the certificate's holder.
    pub role: Role,
}

impl CertificateOptions {
    fn apply(&self, params: &mut CertificateParams) -> Result<(), CryptoError> {
        if let Some(attributes) = &self.subject {
            params.distinguished_name = subject::subject(attributes)?;
        }
        if let Some(names) = &self.names {
            params.subject_alt_names =
                names.iter().map(|name| subject::alternative_name(name)).collect::<Result<_, _>>()?;
        }
        if let Some(usages) = &self.usages {
            params.extended_key_usages = usages.iter().map(|usage| usage.purpose()).collect();
        }
        Ok(())
    }

    /// The purposes of the key itself follow from the others.
    fn restrict(&self, params: &mut CertificateParams, kind: KeyKind) {
        params.is_ca = match self.role {
            Role::Authority { below: None } => IsCa::Ca(BasicConstraints::Unconstrained),
            Role::Authority { below: Some(number) } => IsCa::Ca(BasicConstraints::Constrained(number)),
            Role::EndEntity => IsCa::ExplicitNoCa,
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if self.role == Role::EndEntity {
            params.key_usages.extend(matches!(kind, KeyKind::Rsa(_)).then_some(KeyUsagePurpose::KeyEncipherment));
            if params.extended_key_usages.is_empty() && self.usages.is_none() {
                params.extended_key_usages =
                    vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            }
        } else {
            params.key_usages.extend([KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]);
        }
    }
}

fn empty() -> Result<CertificateParams, CryptoError> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    Ok(params)
}

fn failed(error: rcgen::Error) -> CryptoError {
    CryptoError::failed(format!("the certificate cannot be made: {error}"))
}

/// Returns a request for a certificate (PKCS #10) in PEM.
///
/// # Errors
/// If an option cannot be used.
pub(crate) fn request(key: &PrivateKey, options: &CertificateOptions) -> Result<Vec<u8>, CryptoError> {
    let mut params = empty()?;
    options.apply(&mut params)?;
    let request = params.serialize_request(&key.pair(RsaHash::Sha256)?).map_err(failed)?;
    Ok(request.pem().map_err(failed)?.into_bytes())
}

/// Returns a certificate in PEM that is signed by its own key.
///
/// # Errors
/// If an option cannot be used.
pub(crate) fn self_signed(
    key: &PrivateKey,
    options: &CertificateOptions,
    validity: Validity,
    serial: [u8; 16],
) -> Result<Vec<u8>, CryptoError> {
    let mut params = empty()?;
    options.apply(&mut params)?;
    options.restrict(&mut params, key.kind());
    validity.set(&mut params);
    params.serial_number = Some(serial_number(serial));
    Ok(params.self_signed(&key.pair(RsaHash::Sha256)?).map_err(failed)?.pem().into_bytes())
}

/// Returns the certificate in PEM that an authority signs for a request. The subject, the names and the usages are
/// those of the request, unless there are others in the options. Nothing else of the request counts: it does not make
/// its sender an authority.
///
/// # Errors
/// If the request is not signed by its key, or has extensions that are not known; if the authority's certificate and
/// key do not belong together, or it may not sign.
pub(crate) fn signed(
    request: &[u8],
    authority: &[u8],
    key: &PrivateKey,
    options: &CertificateOptions,
    validity: Validity,
    serial: [u8; 16],
) -> Result<Vec<u8>, CryptoError> {
    let (_, der) = pem::first(request, &[SectionKind::Csr], "request for a certificate")?;
    let kind = details::kind_of_request(&der)?;
    if kind == KeyKind::P521 {
        return Err(CryptoError::argument("requests of keys of the kind ec-p521 are not supported"));
    }
    let mut asked = CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der)).map_err(
        |error| match error {
            rcgen::Error::InvalidCertificationRequestSignature => {
                CryptoError::refused("the request is not signed by its key")
            }
            rcgen::Error::UnsupportedExtension => CryptoError::unreadable(
                "the request has extensions that are not supported: it may have names, usages and basic constraints",
            ),
            _ => CryptoError::unreadable(
                "the request for a certificate is broken, or its key is of a kind that is not supported",
            ),
        },
    )?;
    let certificates = pem::certificates(authority)?;
    let issuer = issuer(&certificates[0], key)?;
    let params = &mut asked.params;
    options.apply(params)?;
    options.restrict(params, kind);
    validity.set(params);
    params.serial_number = Some(serial_number(serial));
    params.use_authority_key_identifier_extension = true;
    Ok(asked.signed_by(&issuer).map_err(failed)?.pem().into_bytes())
}

fn issuer(authority: &CertificateDer<'_>, key: &PrivateKey) -> Result<Issuer<'static, rcgen::KeyPair>, CryptoError> {
    if PublicKey::of_certificate(authority)? != key.public() {
        return Err(CryptoError::argument("the key is not that of the authority's certificate"));
    }
    if !details::may_sign(authority)? {
        return Err(CryptoError::argument(
            "the certificate of the authority may not sign certificates: make it with `ca: true`",
        ));
    }
    Issuer::from_ca_cert_der(authority, key.pair(RsaHash::Sha256)?)
        .map_err(|error| CryptoError::unreadable(format!("the certificate of the authority cannot be used: {error}")))
}

/// A serial number is positive.
fn serial_number(mut random: [u8; 16]) -> SerialNumber {
    random[0] = random[0] & 0x7F | 0x40;
    SerialNumber::from_slice(&random)
}
