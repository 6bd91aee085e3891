//! Encryption: `crypto::encrypt` and `crypto::decrypt` by AES-GCM, and tokens of Fernet.

use rhai::{Array, Dynamic, Module};

use super::values::{bytes, failed, given, random};
use crate::cryptography::{self, Fernet, NONCE_SIZE};
use crate::script::functions::support::{Given, Native, Thrown, may_have_bytes, three, two, wrong};
use crate::script::runtime::context::Context;
use crate::script::values::time;

/// Adds the functions to `crypto::`.
pub(super) fn add(module: &mut Module) {
    two(module, "encrypt", |native, key, value| encrypt(native, key, value, &"".into()));
    three(module, "encrypt", encrypt);
    two(module, "decrypt", |_, key, value| decrypt(key, value, &"".into()));
    three(module, "decrypt", |_, key, value, additional| decrypt(key, value, additional));
    rhai::FuncRegistration::new("fernet_key").set_into_module(module, |native: Native<'_>| {
        crate::script::functions::options::placed(&native, fernet_key(&native))
    });
    two(module, "fernet_encrypt", fernet_encrypt);
    two(module, "fernet_decrypt", |native, key, token| fernet_decrypt(native, key, token, None));
    three(module, "fernet_decrypt", |native, key, token, time_to_live| {
        fernet_decrypt(native, key, token, Some(time_to_live))
    });
}

/// `crypto::encrypt(key, value, [additional])`: bytes of AES-GCM. Each call gives others, since the nonce, with which
/// they begin, is random.
fn encrypt(native: &Native<'_>, key: &Dynamic, value: &Dynamic, additional: &Dynamic) -> Given {
    const NAME: &str = "crypto::encrypt";
    let (key, value) = (bytes(NAME, "the key", key)?, bytes(NAME, "the value", value)?);
    let additional = bytes(NAME, "the additional data", additional)?;
    let nonce = random::<NONCE_SIZE>(native, NAME)?;
    cryptography::encrypt(&key.0, &value.0, &additional.0, nonce).map(given).map_err(|error| failed(NAME, error))
}

/// `crypto::decrypt(key, bytes, [additional])`: the bytes that were encrypted.
fn decrypt(key: &Dynamic, value: &Dynamic, additional: &Dynamic) -> Given {
    const NAME: &str = "crypto::decrypt";
    let (key, value) = (bytes(NAME, "the key", key)?, bytes(NAME, "the value", value)?);
    let additional = bytes(NAME, "the additional data", additional)?;
    cryptography::decrypt(&key.0, &value.0, &additional.0).map(given).map_err(|error| failed(NAME, error))
}

/// `crypto::fernet_key()`: a new key as its text, in bytes.
fn fernet_key(native: &Native<'_>) -> Given {
    Ok(given(Fernet::key_text(&random(native, "crypto::fernet_key")?).into_bytes()))
}

/// `crypto::fernet_encrypt(key, value)`: a token.
fn fernet_encrypt(native: &Native<'_>, key: &Dynamic, value: &Dynamic) -> Given {
    const NAME: &str = "crypto::fernet_encrypt";
    let (key, value) = (bytes(NAME, "the key", key)?, bytes(NAME, "the value", value)?);
    let key = Fernet::read(&key.0).map_err(|error| failed(NAME, error))?;
    may_have_bytes(native, value.0.len() * 4 / 3 + 128)?;
    let vector = random(native, NAME)?;
    Ok(key.encrypt(&value.0, Context::of(native)?.clock().now(), vector).into())
}

/// `crypto::fernet_decrypt(key, token, [time_to_live])`: the bytes of a token. Of several keys, that which fits is
/// used.
fn fernet_decrypt(native: &Native<'_>, keys: &Dynamic, token: &Dynamic, time_to_live: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::fernet_decrypt";
    let token = bytes(NAME, "the token", token)?;
    let time_to_live = time_to_live
        .map(time::duration)
        .transpose()?
        .map(|duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX));
    let context = Context::of(native)?;
    if time_to_live.is_some() {
        context.varies(NAME)?;
    }
    let keys: Array = keys.as_array_ref().map_or_else(|_| vec![keys.clone()], |keys| keys.clone());
    let keys: Result<Vec<Fernet>, Thrown> = keys
        .iter()
        .map(|key| Fernet::read(&bytes(NAME, "the key", key)?.0).map_err(|error| failed(NAME, error)))
        .collect();
    let mut last = wrong(NAME, "there is no key");
    for key in keys? {
        match key.decrypt(&token.0, context.clock().now(), time_to_live) {
            Ok(plain) => return Ok(given(plain)),
            Err(error) => last = failed(NAME, error),
        }
    }
    Err(last)
}
