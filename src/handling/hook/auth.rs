//! The credentials of requests to hooks: tokens, signatures, and the names in client certificates. Values are compared
//! in constant time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use crate::object::SecretKey;

/// The header of tokens, by default.
pub const AUTHORIZATION: &str = "authorization";

/// The scheme of tokens in that header.
const BEARER: &str = "bearer ";

/// A check of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It has a token.
    Token {
        /// The token.
        secret: SecretKey,
        /// The header, in lower case. In `authorization`, the token follows the word `Bearer`.
        header: String,
    },
    /// Its body is signed.
    Hmac {
        /// The key of the signature.
        secret: SecretKey,
        /// The form of the signature.
        form: Signature,
    },
    /// Its client has a certificate of the listener's authorities.
    Certificate {
        /// The names of which the certificate must have one; empty for any.
        names: Vec<String>,
    },
}

/// The signature of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The header, in lower case.
    pub header: String,
    /// The digest.
    pub algorithm: Algorithm,
    /// The text before the signature in the header.
    pub prefix: String,
    /// The encoding of the signature.
    pub encoding: Encoding,
}

/// The digest of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The encoding of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits.
    Hex,
    /// Base64.
    Base64,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has no credentials of the demanded form.
    Missing,
    /// Its credentials are wrong.
    Wrong,
}

impl Check {
    /// Returns the entry of a Secret that it needs.
    pub fn secret(&self) -> Option<&SecretKey> {
        match self {
            Self::Token { secret, .. } | Self::Hmac { secret, .. } => Some(secret),
            Self::Certificate { .. } => None,
        }
    }

    /// Tells whether the body of a request must be known.
    pub fn needs_body(&self) -> bool {
        matches!(self, Self::Hmac { .. })
    }

    /// Returns the headers with valid credentials for a body.
    pub fn signed(&self, secret: &[u8], body: &[u8]) -> Option<(String, String)> {
        match self {
            Self::Token { header, .. } => {
                let token = String::from_utf8_lossy(secret);
                Some((
                    header.clone(),
                    if header == AUTHORIZATION { format!("Bearer {token}") } else { token.into_owned() },
                ))
            }
            Self::Hmac { form, .. } => Some((form.header.clone(), form.sign(secret, body))),
            Self::Certificate { .. } => None,
        }
    }
}

impl Algorithm {
    /// Returns the name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// Verifies a token. `given` is the value of its header.
///
/// # Errors
/// If it is missing or wrong.
pub fn verify_token(expected: &[u8], header: &str, given: Option<&[u8]>) -> Result<(), Refusal> {
    let given = given.ok_or(Refusal::Missing)?;
    let token = if header == AUTHORIZATION {
        let (scheme, token) = given.split_at_checked(BEARER.len()).ok_or(Refusal::Missing)?;
        if !scheme.eq_ignore_ascii_case(BEARER.as_bytes()) {
            return Err(Refusal::Missing);
        }
        token.trim_ascii()
    } else {
        given
    };
    // Digests are compared, so that the time does not depend on the length of the token.
    let is_same = Sha256::digest(token).ct_eq(&Sha256::digest(expected));
    if bool::from(is_same) && !expected.is_empty() { Ok(()) } else { Err(Refusal::Wrong) }
}

/// Verifies that one of the names in a certificate is allowed. Without a certificate there are no names.
///
/// # Errors
/// If there is no certificate, or it has no such name.
pub fn verify_names(allowed: &[String], given: Option<&[String]>) -> Result<(), Refusal> {
    let given = given.ok_or(Refusal::Missing)?;
    if allowed.is_empty() || given.iter().any(|name| allowed.contains(name)) { Ok(()) } else { Err(Refusal::Wrong) }
}

impl Signature {
    /// Verifies the signature of a body. `given` is the value of its header.
    ///
    /// # Errors
    /// If it is missing, has another form, or is wrong.
    pub fn verify(&self, key: &[u8], body: &[u8], given: Option<&[u8]>) -> Result<(), Refusal> {
        let given = given.ok_or(Refusal::Missing)?;
        let text = std::str::from_utf8(given)
            .ok()
            .and_then(|text| text.trim().strip_prefix(self.prefix.as_str()))
            .ok_or(Refusal::Wrong)?;
        let signature = match self.encoding {
            Encoding::Hex => unhex(text),
            Encoding::Base64 => STANDARD.decode(text).ok(),
        };
        let signature = signature.ok_or(Refusal::Wrong)?;
        if key.is_empty() {
            // Everybody could sign with an empty key.
            return Err(Refusal::Wrong);
        }
        // The comparison of the crate takes constant time.
        let verified = match self.algorithm {
            Algorithm::Sha256 => mac::<Hmac<Sha256>>(key, body).verify_slice(&signature),
            Algorithm::Sha512 => mac::<Hmac<Sha512>>(key, body).verify_slice(&signature),
        };
        verified.map_err(|_| Refusal::Wrong)
    }

    /// Returns the value of the header for a body.
    pub fn sign(&self, key: &[u8], body: &[u8]) -> String {
        let bytes = match self.algorithm {
            Algorithm::Sha256 => mac::<Hmac<Sha256>>(key, body).finalize().into_bytes().to_vec(),
            Algorithm::Sha512 => mac::<Hmac<Sha512>>(key, body).finalize().into_bytes().to_vec(),
        };
        let text = match self.encoding {
            Encoding::Hex => bytes
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .filter_map(|digit| char::from_digit(digit.into(), 16))
                .collect(),
            Encoding::Base64 => STANDARD.encode(bytes),
        };
        format!("{}{text}", self.prefix)
    }
}

fn mac<M: hmac::Mac + hmac::KeyInit>(key: &[u8], body: &[u8]) -> M {
    let mut mac = <M as hmac::KeyInit>::new_from_slice(key).expect("an HMAC takes a key of any length");
    mac.update(body);
    mac
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn github() -> Signature {
        let (header, prefix) = ("x-hub-signature-256".to_owned(), "sha256=".to_owned());
        Signature { header, algorithm: Algorithm::Sha256, prefix, encoding: Encoding::Hex }
    }

    /// The example of GitHub's documentation.
    const KEY: &[u8] = b"It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNED: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn the_signature_of_githubs_example_is_accepted() {
        assert_eq!(github().sign(KEY, BODY), SIGNED);
        assert_eq!(github().verify(KEY, BODY, Some(SIGNED.as_bytes())), Ok(()));
        assert_eq!(github().verify(KEY, BODY, Some(SIGNED.replace("757107ea", "757107EA").as_bytes())), Ok(()));
    }

    #[test]
    fn everything_else_is_refused() {
        let verify = |key: &[u8], body: &[u8], given: &str| github().verify(key, body, Some(given.as_bytes()));
        assert_eq!(github().verify(KEY, BODY, None), Err(Refusal::Missing));
        assert_eq!(verify(b"another", BODY, SIGNED), Err(Refusal::Wrong));
        assert_eq!(verify(KEY, b"Hello, World?", SIGNED), Err(Refusal::Wrong));
        assert_eq!(
            verify(KEY, BODY, &SIGNED[..SIGNED.len() - 2]),
            Err(Refusal::Wrong),
            "a part of the signature is not enough"
        );
        assert_eq!(verify(KEY, BODY, &SIGNED[7..]), Err(Refusal::Wrong), "the prefix is missing");
        assert_eq!(verify(KEY, BODY, &SIGNED.replace("sha256", "sha1")), Err(Refusal::Wrong));
        for given in ["", "sha256=", "sha256=7", "sha256=+1", "sha256=zz", "sha256=é"] {
            assert_eq!(verify(KEY, BODY, given), Err(Refusal::Wrong), "{given:?}");
        }
        let empty = github().sign(b"", BODY);
        assert_eq!(verify(b"", BODY, &empty), Err(Refusal::Wrong), "everybody could sign with an empty key");
    }

    #[test]
    fn other_digests_and_encodings_are_those_of_the_declaration() {
        for (algorithm, encoding) in [(Algorithm::Sha512, Encoding::Hex), (Algorithm::Sha256, Encoding::Base64)] {
            let form = Signature { algorithm, encoding, prefix: String::new(), ..github() };
            let signed = form.sign(KEY, BODY);
            assert_eq!(form.verify(KEY, BODY, Some(signed.as_bytes())), Ok(()));
            assert_eq!(form.verify(KEY, BODY, Some(&SIGNED.as_bytes()[7..])), Err(Refusal::Wrong));
        }
    }

    #[test]
    fn tokens_are_bearer_tokens_or_whole_headers() {
        let verify = |header: &str, given: Option<&str>| verify_token(b"s3cret", header, given.map(str::as_bytes));
        assert_eq!(verify(AUTHORIZATION, Some("Bearer s3cret")), Ok(()));
        assert_eq!(verify(AUTHORIZATION, Some("bearer s3cret")), Ok(()));
        assert_eq!(verify("x-gitlab-token", Some("s3cret")), Ok(()));
        for given in [None, Some(""), Some("s3cret"), Some("Basic s3cret")] {
            assert_eq!(verify(AUTHORIZATION, given), Err(Refusal::Missing), "{given:?}");
        }
        for given in ["Bearer ", "Bearer s3cre", "Bearer s3cret1", "Bearer S3CRET"] {
            assert_eq!(verify(AUTHORIZATION, Some(given)), Err(Refusal::Wrong), "{given:?}");
        }
        assert_eq!(verify("x-gitlab-token", Some("Bearer s3cret")), Err(Refusal::Wrong));
        assert_eq!(verify_token(b"", "x-gitlab-token", Some(b"")), Err(Refusal::Wrong), "an empty token is none");
    }

    #[test]
    fn certificates_have_one_of_the_allowed_names() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (allowed, given) = (names(&["ci.example.com", "other"]), names(&["x", "ci.example.com"]));
        assert_eq!(verify_names(&allowed, Some(&given)), Ok(()));
        assert_eq!(verify_names(&[], Some(&given)), Ok(()));
        assert_eq!(verify_names(&allowed, Some(&names(&["example.com"]))), Err(Refusal::Wrong));
        assert_eq!(verify_names(&[], None), Err(Refusal::Missing));
    }

    #[test]
    fn computed_credentials_are_valid() {
        let secret = SecretKey { name: "s".to_owned(), namespace: None, key: "k".to_owned() };
        let token = Check::Token { secret: secret.clone(), header: AUTHORIZATION.to_owned() };
        let (header, value) = token.signed(b"t", b"").unwrap();
        assert_eq!(verify_token(b"t", &header, Some(value.as_bytes())), Ok(()));
        let signed = Check::Hmac { secret, form: github() }.signed(KEY, BODY).unwrap();
        assert_eq!(signed, ("x-hub-signature-256".to_owned(), SIGNED.to_owned()));
    }
}
