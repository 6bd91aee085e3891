//! JSON web tokens (RFC 7519): signed, and verified with keys or with sets of keys (RFC 7517).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use pkcs8::der::asn1::UintRef;
use serde_json::{Map, Value, json};

use super::error::CryptoError;
use super::key_kind::KeyKind;
use super::pem;
use super::private_key::{PrivateFormat, PrivateKey, public_key_of};
use super::public_key::PublicKey;

/// The claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// The claims that a token must have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expectations {
    /// The allowed algorithms; none: all that the key can have.
    pub algorithms: Vec<String>,
    /// One of these must be its audience. A token with an audience is refused without.
    pub audience: Vec<String>,
    /// One of these must be its issuer.
    pub issuer: Vec<String>,
    /// Its subject.
    pub subject: Option<String>,
    /// Claims that it must have.
    pub required: Vec<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
}

fn algorithm(name: &str) -> Result<Algorithm, CryptoError> {
    name.parse().map_err(|_| {
        CryptoError::argument(format!(
            "there is no algorithm {name:?} of tokens: there are HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA"
        ))
    })
}

/// Returns the algorithms of signatures by keys of a kind; the first is the usual one.
fn algorithms_of(kind: KeyKind) -> Result<&'static [Algorithm], CryptoError> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    Ok(match kind {
        KeyKind::Rsa(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        KeyKind::P256 => &[ES256],
        KeyKind::P384 => &[ES384],
        KeyKind::Ed25519 => &[EdDSA],
        KeyKind::P521 => return Err(CryptoError::argument("keys of the kind ec-p521 are not supported for tokens")),
    })
}

const SYMMETRIC: [Algorithm; 3] = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];

/// A text in PEM is never a shared secret: otherwise, an attacker who knows a public key could sign with it as the
/// secret.
fn is_asymmetric(key: &[u8]) -> bool {
    pem::is_pem(key)
}

/// Signs claims: with a private key, or else with the bytes as a shared secret. Additional fields of the header are
/// given.
///
/// # Errors
/// If the key does not have the algorithm.
pub(crate) fn sign(claims: &Claims, key: &[u8], name: Option<&str>, fields: &Claims) -> Result<String, CryptoError> {
    let wanted = name.map(algorithm).transpose()?;
    let (allowed, encoding) = if is_asymmetric(key) {
        let key = PrivateKey::read(key, None)?;
        let der = key.to_format(PrivateFormat::Der, "")?;
        let encoding = match key.kind() {
            KeyKind::Rsa(_) => EncodingKey::from_rsa_der(key.info().private_key.as_bytes()),
            KeyKind::Ed25519 => EncodingKey::from_ed_der(&der),
            _ => EncodingKey::from_ec_der(&der),
        };
        (algorithms_of(key.kind())?.to_vec(), encoding)
    } else if key.is_empty() {
        return Err(CryptoError::argument("the key is empty"));
    } else {
        (SYMMETRIC.to_vec(), EncodingKey::from_secret(key))
    };
    let chosen = wanted.unwrap_or(allowed[0]);
    if !allowed.contains(&chosen) {
        return Err(CryptoError::argument(format!(
            "the key cannot sign with {chosen:?}: {} it could",
            names(&allowed)
        )));
    }
    let mut header = json!({ "typ": "JWT", "alg": format!("{chosen:?}") });
    for (field, value) in fields {
        if field == "alg" {
            return Err(CryptoError::argument("the field `alg` of the header is the option `algorithm`"));
        }
        header[field] = value.clone();
    }
    let header: Header =
        serde_json::from_value(header).map_err(|error| CryptoError::argument(format!("the header: {error}")))?;
    jsonwebtoken::encode(&header, claims, &encoding)
        .map_err(|error| CryptoError::failed(format!("the token cannot be signed: {error}")))
}

fn names(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(|algorithm| format!("{algorithm:?}")).collect::<Vec<_>>().join(", ")
}

/// A key with its algorithms.
type Candidate = (DecodingKey, Vec<Algorithm>);

/// Verifies a token with a public key, a certificate, or a shared secret; returns its claims.
///
/// # Errors
/// The reason why it is refused.
pub(crate) fn verify_with_key(
    token: &str,
    key: &[u8],
    expected: &Expectations,
    now: Timestamp,
) -> Result<Claims, CryptoError> {
    let candidate = if is_asymmetric(key) {
        let key = public_key_of(key)?;
        let decoding = match key.kind() {
            KeyKind::Rsa(_) => DecodingKey::from_rsa_der(key.raw()),
            KeyKind::Ed25519 => DecodingKey::from_ed_der(key.raw()),
            _ => DecodingKey::from_ec_der(key.raw()),
        };
        (decoding, algorithms_of(key.kind())?.to_vec())
    } else if key.is_empty() {
        return Err(CryptoError::argument("the key is empty"));
    } else {
        (DecodingKey::from_secret(key), SYMMETRIC.to_vec())
    };
    accepted(token, vec![candidate], expected, now)
}

/// Verifies a token with a key in JSON, or with the key of a set that it names; returns its claims.
///
/// # Errors
/// The reason why it is refused.
pub(crate) fn verify_with_set(
    token: &str,
    set: &Value,
    expected: &Expectations,
    now: Timestamp,
) -> Result<Claims, CryptoError> {
    let header = jsonwebtoken::decode_header(token).map_err(|error| refused(error.kind()))?;
    let single = [set.clone()];
    let keys = set.get("keys").and_then(Value::as_array).map_or(&single[..], Vec::as_slice);
    // Sets also have keys for other purposes, of kinds that are not known here.
    let known = keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
    let fitting = known
        .filter(|key| key.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature))
        .filter(|key| header.kid.is_none() || keys.len() == 1 || key.common.key_id == header.kid);
    let candidates: Vec<Candidate> = fitting
        .filter_map(|key| {
            let decoding = DecodingKey::from_jwk(&key).ok()?;
            let named = key.common.key_algorithm.map(|algorithm| algorithm.to_string());
            let mut allowed = decoding.family().algorithms().to_vec();
            allowed.retain(|algorithm| named.as_ref().is_none_or(|named| *named == format!("{algorithm:?}")));
            Some((decoding, allowed))
        })
        .collect();
    if candidates.is_empty() {
        let named = header.kid.map_or_else(String::new, |id| format!(" with the id {id:?}"));
        return Err(CryptoError::refused(format!("there is no key{named} that could have signed the token")));
    }
    accepted(token, candidates, expected, now)
}

fn accepted(
    token: &str,
    candidates: Vec<Candidate>,
    expected: &Expectations,
    now: Timestamp,
) -> Result<Claims, CryptoError> {
    let wanted = expected.algorithms.iter().map(|name| algorithm(name)).collect::<Result<Vec<_>, _>>()?;
    let header = jsonwebtoken::decode_header(token).map_err(|error| refused(error.kind()))?;
    if header.crit.is_some() {
        return Err(CryptoError::refused("the token has critical extensions, and none is supported"));
    }
    let mut last =
        CryptoError::refused(format!("the token is signed with {:?}, which is not allowed for the key", header.alg));
    for (key, mut allowed) in candidates {
        allowed.retain(|algorithm| wanted.is_empty() || wanted.contains(algorithm));
        if !allowed.contains(&header.alg) {
            continue;
        }
        match jsonwebtoken::decode::<Claims>(token, &key, &validation(allowed, expected)) {
            Ok(data) => return in_time(data.claims, expected, now),
            Err(error) => last = refused(error.kind()),
        }
    }
    Err(last)
}

/// The library reads the clock of the system: the times are checked here.
fn validation(algorithms: Vec<Algorithm>, expected: &Expectations) -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.algorithms = algorithms;
    validation.validate_exp = false;
    validation.validate_nbf = false;
    let set = |values: &[String]| (!values.is_empty()).then(|| values.iter().cloned().collect());
    validation.aud = set(&expected.audience);
    validation.iss = set(&expected.issuer);
    validation.sub.clone_from(&expected.subject);
    let mut required: Vec<&str> = Vec::new();
    required.extend(validation.aud.is_some().then_some("aud"));
    required.extend(validation.iss.is_some().then_some("iss"));
    required.extend(validation.sub.is_some().then_some("sub"));
    validation.set_required_spec_claims(&required);
    validation
}

fn in_time(claims: Claims, expected: &Expectations, now: Timestamp) -> Result<Claims, CryptoError> {
    if let Some(missing) = expected.required.iter().find(|claim| !claims.contains_key(*claim)) {
        return Err(CryptoError::refused(format!("the token has no claim `{missing}`")));
    }
    let now = now.as_duration();
    let leeway = SignedDuration::try_from(expected.leeway).unwrap_or(SignedDuration::MAX);
    let moment = |claim: &str| match claims.get(claim) {
        None => Ok(None),
        Some(value) => since_1970(value)
            .map(Some)
            .ok_or_else(|| CryptoError::refused(format!("the claim `{claim}` is no number of seconds"))),
    };
    if moment("exp")?.is_some_and(|end| now.saturating_sub(leeway) >= end) {
        return Err(CryptoError::refused("the token has expired"));
    }
    if moment("nbf")?.is_some_and(|start| now.saturating_add(leeway) < start) {
        return Err(CryptoError::refused("the token is not valid yet"));
    }
    Ok(claims)
}

/// Returns the time of a claim: seconds since 1970, which may have a fraction. Times out of range are the first or the
/// last one.
fn since_1970(value: &Value) -> Option<SignedDuration> {
    if let Some(seconds) = value.as_i64() {
        return Some(SignedDuration::from_secs(seconds));
    }
    let seconds = value.as_f64()?;
    let outermost = if seconds < 0.0 { SignedDuration::MIN } else { SignedDuration::MAX };
    Some(SignedDuration::try_from_secs_f64(seconds).unwrap_or(outermost))
}

fn refused(kind: &ErrorKind) -> CryptoError {
    CryptoError::Refused(match kind {
        ErrorKind::InvalidSignature => "the signature of the token is not that of the key".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("the token has no claim `{claim}`"),
        ErrorKind::InvalidIssuer => "the token is of another issuer".to_owned(),
        ErrorKind::InvalidAudience => "the token is for another audience".to_owned(),
        ErrorKind::InvalidSubject => "the token is about another subject".to_owned(),
        ErrorKind::InvalidToken | ErrorKind::Base64(_) | ErrorKind::Json(_) | ErrorKind::Utf8(_) => {
            return CryptoError::unreadable("it is not a token (JWT) with one of the supported algorithms");
        }
        _ => "the token cannot be verified with the key".to_owned(),
    })
}

/// Returns the header and the claims of a token, of which nothing is verified.
///
/// # Errors
/// If it is no token.
pub(crate) fn read_unverified(token: &str) -> Result<(Value, Value), CryptoError> {
    let parts: Vec<&str> = token.split('.').collect();
    let part = |part: &str| -> Option<Value> {
        let decoded = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice(&decoded).ok().filter(Value::is_object)
    };
    match parts.as_slice() {
        [header, claims, _] => Option::zip(part(header), part(claims)),
        _ => None,
    }
    .ok_or_else(|| CryptoError::unreadable("it is not a token (JWT)"))
}

/// Returns a public key in JSON (RFC 7517).
///
/// # Errors
/// If its kind is not supported for tokens.
pub(crate) fn jwk(key: &PublicKey, id: Option<&str>) -> Result<Value, CryptoError> {
    let algorithms = algorithms_of(key.kind())?;
    let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let mut key = match key.kind() {
        KeyKind::Rsa(_) => {
            let parts = pkcs1::RsaPublicKey::<UintRef<'_>>::try_from(key.raw()).map_err(CryptoError::failed)?;
            json!({ "kty": "RSA", "n": number(parts.modulus.as_bytes()), "e": number(parts.public_exponent.as_bytes()) })
        }
        KeyKind::Ed25519 => json!({ "kty": "OKP", "crv": "Ed25519", "x": number(key.raw()) }),
        kind => {
            let (x, y) = key.raw()[1..].split_at(key.raw().len() / 2);
            json!({ "kty": "EC", "crv": if kind == KeyKind::P256 { "P-256" } else { "P-384" }, "x": number(x), "y": number(y) })
        }
    };
    key["use"] = "sig".into();
    // RSA keys have several.
    if let [only] = algorithms {
        key["alg"] = format!("{only:?}").into();
    }
    if let Some(id) = id {
        key["kid"] = id.into();
    }
    Ok(key)
}
