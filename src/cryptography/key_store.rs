//! Key stores and trust stores (PKCS #12), as Java and Windows take them.

use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, LocalKeyId, PrivateKey as StoredKey, PrivateKeyChain};

use super::error::CryptoError;
use super::private_key::{PrivateFormat, PrivateKey};
use super::{details, pem};

fn failed(error: impl std::fmt::Display) -> CryptoError {
    CryptoError::failed(format!("the key store cannot be made: {error}"))
}

/// Returns a store with a key and its chain of certificates.
///
/// # Errors
/// If the first certificate is not that of the key.
pub(crate) fn key_store(key: &PrivateKey, chain: &[u8], alias: &str, password: &str) -> Result<Vec<u8>, CryptoError> {
    if !details::is_of_key(chain, &key.public())? {
        return Err(CryptoError::argument("the first certificate is not that of the key"));
    }
    let stored = StoredKey::from_der(&key.to_format(PrivateFormat::Der, "")?).map_err(failed)?;
    let chain = certificates(chain)?;
    let id = details::details(chain[0].as_der())?[0].fingerprint.clone();
    let entry = PrivateKeyChain::new(LocalKeyId::from(id.as_bytes()), stored, chain);
    written(&[(alias.to_owned(), KeyStoreEntry::PrivateKeyChain(entry))], password)
}

/// Returns a store with certificates that are trusted. Each has its common name and its number as the alias.
///
/// # Errors
/// If there is no certificate.
pub(crate) fn trust_store(trusted: &[u8], password: &str) -> Result<Vec<u8>, CryptoError> {
    let all = certificates(trusted)?;
    let entries: Result<Vec<_>, CryptoError> = all
        .into_iter()
        .enumerate()
        .map(|(number, certificate)| {
            let name = details::details(certificate.as_der())?[0].common_name.clone().unwrap_or_default();
            Ok((
                format!("{name}-{number}").trim_start_matches('-').to_lowercase(),
                KeyStoreEntry::Certificate(certificate),
            ))
        })
        .collect();
    written(&entries?, password)
}

fn certificates(bytes: &[u8]) -> Result<Vec<Certificate>, CryptoError> {
    pem::certificates(bytes)?.iter().map(|der| Certificate::from_der(der).map_err(failed)).collect()
}

fn written(entries: &[(String, KeyStoreEntry)], password: &str) -> Result<Vec<u8>, CryptoError> {
    let mut store = KeyStore::new();
    for (alias, entry) in entries {
        store.add_entry(alias, entry.clone());
    }
    store.writer(password).write().map_err(failed)
}
