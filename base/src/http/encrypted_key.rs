//! Private keys that are encrypted with a password, as OpenSSL writes them (PKCS #8).

use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, SecretDocument};

/// The labels of keys in PEM.
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const PLAIN: &str = "PRIVATE KEY";

/// Decrypts a key. A key that is not encrypted is returned as it is.
///
/// # Errors
/// The reason, if the password is wrong, or the key is encrypted in another way.
pub fn decrypted(key: &str, password: &str) -> Result<String, String> {
    if key.contains("Proc-Type: 4,ENCRYPTED") {
        return Err("it has the old form of OpenSSL: convert it by `openssl pkcs8 -topk8`".to_owned());
    }
    if !key.contains(ENCRYPTED) {
        return Ok(key.to_owned());
    }
    let (_, document) = SecretDocument::from_pem(key).map_err(|error| error.to_string())?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|error| error.to_string())?;
    let plain = encrypted.decrypt(password).map_err(|_| "the password is wrong, or the cipher is not supported")?;
    Ok(plain.to_pem(PLAIN, LineEnding::LF).map_err(|error| error.to_string())?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:correct-horse`.
    const KEY: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiYUHsVhz25lgICCAAw\n\
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEGI7qc0KxFUSTmDsez/rIQoEgZAJ\n\
nmG4JK+vpndy8/FCueGJY2CKYtbBeAA/c9HLxQPPmvE4ziSIIQf+nw2qk5Nj56yH\n\
j9sgrsvGRKCOf0d5vzq6spYCuOEd0S8G0zNkxbDwTLElLNEJxOYkwiUlfiqhtL2J\n\
Jw7xdjBFAg2IFEERrASu1QCAO0DHSuRAX55tqoEca+hPIV99y+HGAxEYNKoLz2Y=\n\
-----END ENCRYPTED PRIVATE KEY-----\n";

    /// The same key.
    const DECRYPTED: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgC1sTTL8YndGeOXWy\n\
+UUTUgHeguaS738rndT97BESyf2hRANCAATGSA6UM4Qnri2gB6DlpKxAe8vddZGB\n\
KKI4d07tZlGhpmt/uKei4QFgbMAp0H19FvS7qZkC39K/2wZb20ZTgZg4\n\
-----END PRIVATE KEY-----\n";

    #[test]
    fn a_key_is_decrypted_by_its_password_only() {
        assert_eq!(decrypted(KEY, "correct-horse").unwrap(), DECRYPTED);
        assert_eq!(decrypted(DECRYPTED, "any").unwrap(), DECRYPTED);
        assert!(decrypted(KEY, "wrong").unwrap_err().contains("the password is wrong"));
        let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
        assert!(decrypted(old, "any").unwrap_err().contains("openssl pkcs8 -topk8"));
    }
}
