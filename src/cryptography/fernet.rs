//! Fernet: tokens of encrypted bytes with their time, as Python's `cryptography` makes them.
//!
//! The format is <https://github.com/fernet/spec>: version, seconds, initial vector, AES-128-CBC, HMAC-SHA256, in
//! URL-safe base64.

use aes::Aes128;
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;

use super::error::CryptoError;

/// Others leave out the signs at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const VERSION: u8 = 0x80;
const HEAD: usize = 1 + 8 + 16;
const CODE: usize = 32;

/// How far the clock of a token's maker may be ahead.
const CLOCK_SKEW: i64 = 60;

/// A key of tokens.
pub(crate) struct Fernet {
    signing: [u8; 16],
    encryption: [u8; 16],
}

impl Fernet {
    /// Returns the text of a key.
    pub(crate) fn key_text(key: &[u8; 32]) -> String {
        general_purpose::URL_SAFE.encode(key)
    }

    /// Reads a key: 32 bytes in URL-safe base64.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn read(key: &[u8]) -> Result<Self, CryptoError> {
        let bytes = BASE64.decode(key.trim_ascii()).ok();
        let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| {
            CryptoError::argument("a key of Fernet is 32 bytes in URL-safe base64, as of `crypto::fernet_key()`")
        })?;
        let (mut signing, mut encryption) = ([0; 16], [0; 16]);
        signing.copy_from_slice(&bytes[..16]);
        encryption.copy_from_slice(&bytes[16..]);
        Ok(Self { signing, encryption })
    }

    /// Encrypts bytes.
    pub(crate) fn encrypt(&self, plain: &[u8], now: Timestamp, vector: [u8; 16]) -> String {
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let encrypted =
            cbc::Encryptor::<Aes128>::new(&self.encryption.into(), &vector.into()).encrypt_padded_vec::<Pkcs7>(plain);
        let mut token = [&[VERSION][..], &seconds.to_be_bytes(), &vector, &encrypted].concat();
        let code = self.code(&token).finalize().into_bytes();
        token.extend_from_slice(&code);
        general_purpose::URL_SAFE.encode(token)
    }

    /// Decrypts a token, which must not be older than a number of seconds.
    ///
    /// # Errors
    /// If it is no token, was made with another key, was changed, or is too old.
    pub(crate) fn decrypt(
        &self,
        token: &[u8],
        now: Timestamp,
        time_to_live: Option<i64>,
    ) -> Result<Vec<u8>, CryptoError> {
        let unreadable = || CryptoError::unreadable("it is not a token of Fernet");
        let token = BASE64.decode(token.trim_ascii()).map_err(|_| unreadable())?;
        if token.len() < HEAD + 16 + CODE || token[0] != VERSION {
            return Err(unreadable());
        }
        let (signed, code) = token.split_at(token.len() - CODE);
        if self.code(signed).verify_slice(code).is_err() {
            return Err(CryptoError::refused("the token was made with another key, or was changed"));
        }
        let made = u64::from_be_bytes(signed[1..9].try_into().map_err(|_| unreadable())?);
        let made = i64::try_from(made).map_err(|_| unreadable())?;
        if let Some(time_to_live) = time_to_live {
            let age = now.as_second().saturating_sub(made);
            if age > time_to_live {
                return Err(CryptoError::refused(format!("the token is {age} seconds old, more than {time_to_live}")));
            }
            if age < -CLOCK_SKEW {
                return Err(CryptoError::refused("the token is from the future"));
            }
        }
        let vector: [u8; 16] = signed[9..HEAD].try_into().map_err(|_| unreadable())?;
        let decryptor = cbc::Decryptor::<Aes128>::new(&self.encryption.into(), &vector.into());
        decryptor.decrypt_padded_vec::<Pkcs7>(&signed[HEAD..]).map_err(|_| unreadable())
    }

    fn code(&self, signed: &[u8]) -> Hmac<Sha256> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.signing).expect("any size is a key");
        code.update(signed);
        code
    }
}
