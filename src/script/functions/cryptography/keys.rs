//! Keys: made, converted, and used for signatures.

use rhai::{Dynamic, Module};

use super::aside;
use super::values::{bytes, failed, given, private_key};
use crate::cryptography::{KeyKind, PrivateFormat, PrivateKey, PublicFormat, PublicKey, RsaHash, public_key_of};
use crate::script::functions::options::{Options, text};
use crate::script::functions::support::{Given, Native, Thrown, four, one, three, two};

/// Adds the functions to `crypto::`.
pub(super) fn add(module: &mut Module) {
    one(module, "generate_key", generate);
    one(module, "private_key", |_, key| private(key, None));
    two(module, "private_key", |_, key, options| private(key, Some(options)));
    one(module, "public_key", |_, key| public(key, None));
    two(module, "public_key", |_, key, options| public(key, Some(options)));
    one(module, "key_kind", |_, key| kind(key));
    two(module, "sign", |native, key, value| sign(native, key, value, None));
    three(module, "sign", |native, key, value, options| sign(native, key, value, Some(options)));
    three(module, "verify", |_, key, value, signature| verify(key, value, signature, None));
    four(module, "verify", |_, [key, value, signature, options]| verify(key, value, signature, Some(options)));
}

/// `crypto::generate_key(kind)`: a new private key, in PEM (PKCS #8).
fn generate(native: &Native<'_>, kind: &Dynamic) -> Given {
    const NAME: &str = "crypto::generate_key";
    let kind = KeyKind::of(&text(NAME, "the kind", kind)?).map_err(|error| failed(NAME, error))?;
    let key = aside::compute(native, NAME, move || PrivateKey::generate(kind)?.to_format(PrivateFormat::Pkcs8, ""))?;
    key.map(given).map_err(|error| failed(NAME, error))
}

/// `crypto::private_key(key, [#{format, password, comment}])`: a private key in another form.
fn private(key: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::private_key";
    let options = Options::read(NAME, &["comment", "format", "password"], options)?;
    let format = match options.text("format")? {
        None | Some("pkcs8") => PrivateFormat::Pkcs8,
        Some("traditional") => PrivateFormat::Traditional,
        Some("openssh") => PrivateFormat::Openssh,
        Some("der") => PrivateFormat::Der,
        Some(_) => return Err(options.wrong("format", "pkcs8, traditional, openssh or der")),
    };
    let key = private_key(NAME, key, options.text("password")?)?;
    key.to_format(format, options.text("comment")?.unwrap_or_default()).map(given).map_err(|error| failed(NAME, error))
}

fn read_public(function: &str, key: &Dynamic) -> Result<PublicKey, Thrown> {
    public_key_of(&bytes(function, "the key", key)?.0).map_err(|error| failed(function, error))
}

/// `crypto::public_key(key, [#{format, comment}])`: the public key of a private key or a certificate, or a public key
/// in another form.
fn public(key: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::public_key";
    let options = Options::read(NAME, &["comment", "format"], options)?;
    let format = match options.text("format")? {
        None | Some("pem") => PublicFormat::Pem,
        Some("traditional") => PublicFormat::Traditional,
        Some("openssh") => PublicFormat::Openssh,
        Some("der") => PublicFormat::Der,
        Some(_) => return Err(options.wrong("format", "pem, traditional, openssh or der")),
    };
    let made = read_public(NAME, key)?.to_format(format, options.text("comment")?.unwrap_or_default());
    made.map(given).map_err(|error| failed(NAME, error))
}

/// `crypto::key_kind(key)`: the kind of a private or public key, or of that of a certificate.
fn kind(key: &Dynamic) -> Given {
    Ok(read_public("crypto::key_kind", key)?.kind().to_string().into())
}

fn hash(function: &'static str, options: Option<&Dynamic>) -> Result<RsaHash, Thrown> {
    let options = Options::read(function, &["hash"], options)?;
    match options.text("hash")? {
        None | Some("sha256") => Ok(RsaHash::Sha256),
        Some("sha384") => Ok(RsaHash::Sha384),
        Some("sha512") => Ok(RsaHash::Sha512),
        Some(_) => Err(options.wrong("hash", "sha256, sha384 or sha512")),
    }
}

/// `crypto::sign(key, value, [#{hash}])`: the signature of a private key; `hash` is for RSA only.
fn sign(native: &Native<'_>, key: &Dynamic, value: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::sign";
    crate::script::runtime::context::Context::of(native)?.varies(NAME)?;
    let (key, value, hash) = (private_key(NAME, key, None)?, bytes(NAME, "the value", value)?, hash(NAME, options)?);
    key.sign(&value.0, hash).map(given).map_err(|error| failed(NAME, error))
}

/// `crypto::verify(key, value, signature, [#{hash}])`: whether a signature is that of the key.
fn verify(key: &Dynamic, value: &Dynamic, signature: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::verify";
    let (key, value, hash) = (read_public(NAME, key)?, bytes(NAME, "the value", value)?, hash(NAME, options)?);
    let signature = bytes(NAME, "the signature", signature)?;
    Ok(key.verify(&value.0, &signature.0, hash).map_err(|error| failed(NAME, error))?.into())
}
