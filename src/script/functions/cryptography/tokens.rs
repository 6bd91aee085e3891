//! `jwt::`: JSON web tokens.

use rhai::{Dynamic, Engine, Map, Module};
use serde_json::{Value, json as value};

use super::values::{bytes, failed};
use crate::cryptography::{self, Claims, Expectations};
use crate::script::functions::options::{Options, as_given, json, text};
use crate::script::functions::support::{Given, Native, Thrown, one, three, two, wrong};
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::runtime::context::Context;
use crate::script::values::time::{Time, duration};

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    let m = &mut module;
    two(m, "sign", |native, claims, key| sign(native, claims, key, None));
    three(m, "sign", |native, claims, key, options| sign(native, claims, key, Some(options)));
    two(m, "verify", |native, token, key| verify(native, token, key, None));
    three(m, "verify", |native, token, key, options| verify(native, token, key, Some(options)));
    one(m, "read_unverified", |_, token| read_unverified(token));
    one(m, "jwk", |_, key| jwk(key, None));
    two(m, "jwk", |_, key, options| jwk(key, Some(options)));
    engine.register_static_module("jwt", module.into());
}

/// Returns the claims of a map. Times are numbers of seconds, as in all tokens.
fn claims_of(function: &str, claims: &Dynamic) -> Result<Claims, Thrown> {
    let not_a_map = || wrong(function, "the claims must be a map");
    let plain = convert::to_plain(claims).map_err(|error| wrong(function, error))?;
    let mut map: Map = plain.try_cast().ok_or_else(not_a_map)?;
    for claim in map.values_mut() {
        let seconds = claim.read_lock::<Time>().map(|time| time.0.as_second());
        if let Some(seconds) = seconds {
            *claim = seconds.into();
        }
    }
    match json(function, &map.into())? {
        Value::Object(claims) => Ok(claims),
        _ => Err(not_a_map()),
    }
}

/// `jwt::sign(claims, key, [#{algorithm, key_id, headers, expires_in}])`: a token.
fn sign(native: &Native<'_>, claims: &Dynamic, key: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "jwt::sign";
    let context = Context::of(native)?;
    context.varies(NAME)?;
    let expires_in = as_given(options, "expires_in").map(|value| duration(&value)).transpose()?;
    let options = Options::read(NAME, &["algorithm", "expires_in", "headers", "key_id"], options)?;
    let mut claims = claims_of(NAME, claims)?;
    if let Some(expires_in) = expires_in {
        let now = context.clock().now().as_second();
        claims.entry("iat").or_insert_with(|| now.into());
        claims.insert(
            "exp".to_owned(),
            now.saturating_add(i64::try_from(expires_in.as_secs()).unwrap_or(i64::MAX)).into(),
        );
    }
    let mut fields = match options.value("headers") {
        None | Some(Value::Null) => Claims::new(),
        Some(Value::Object(fields)) => fields.clone(),
        Some(_) => return Err(options.wrong("headers", "a map")),
    };
    if let Some(id) = options.text("key_id")? {
        fields.insert("kid".to_owned(), id.into());
    }
    let key = bytes(NAME, "the key", key)?;
    let token = cryptography::sign(&claims, &key.0, options.text("algorithm")?, &fields);
    Ok(token.map_err(|error| failed(NAME, error))?.into())
}

/// Returns an option that is a text, or an array of texts.
fn texts(options: &Options, key: &str) -> Result<Vec<String>, Thrown> {
    let wrong = || options.wrong(key, "a text, or an array of texts");
    match options.value(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// `jwt::verify(token, key, [#{algorithms, audience, issuer, subject, required, leeway}])`: the claims of a token that
/// is genuine and valid now.
fn verify(native: &Native<'_>, token: &Dynamic, key: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "jwt::verify";
    let context = Context::of(native)?;
    context.varies(NAME)?;
    let leeway = as_given(options, "leeway").map(|value| duration(&value)).transpose()?.unwrap_or_default();
    let options = Options::read(NAME, &["algorithms", "audience", "issuer", "leeway", "required", "subject"], options)?;
    let expected = Expectations {
        algorithms: texts(&options, "algorithms")?,
        audience: texts(&options, "audience")?,
        issuer: texts(&options, "issuer")?,
        subject: options.text("subject")?.map(str::to_owned),
        required: texts(&options, "required")?,
        leeway,
    };
    let token = text(NAME, "the token", token).map_err(|_| wrong(NAME, "the token must be a text"))?;
    let now = context.clock().now();
    let is_key = key.is_string() || key.is::<Bytes>();
    let claims = if is_key {
        cryptography::verify_with_key(&token, &bytes(NAME, "the key", key)?.0, &expected, now)
    } else {
        let set = json(NAME, key)?;
        if !set.is_object() {
            return Err(wrong(NAME, "the key must be a text, bytes, or a map: a key or a set of keys in JSON"));
        }
        cryptography::verify_with_set(&token, &set, &expected, now)
    };
    Ok(convert::to_dynamic(&Value::Object(claims.map_err(|error| failed(NAME, error))?)))
}

/// `jwt::read_unverified(token)`: the header and the claims of a token, which anybody may have made.
fn read_unverified(token: &Dynamic) -> Given {
    const NAME: &str = "jwt::read_unverified";
    let token = text(NAME, "the token", token).map_err(|_| wrong(NAME, "the token must be a text"))?;
    let (header, claims) = cryptography::read_unverified(&token).map_err(|error| failed(NAME, error))?;
    Ok(convert::to_dynamic(&value!({ "header": header, "claims": claims })))
}

/// `jwt::jwk(key, [#{key_id}])`: the public key of a key or a certificate in JSON.
fn jwk(key: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "jwt::jwk";
    let options = Options::read(NAME, &["key_id"], options)?;
    let key = cryptography::public_key_of(&bytes(NAME, "the key", key)?.0).map_err(|error| failed(NAME, error))?;
    let key = cryptography::jwk(&key, options.text("key_id")?).map_err(|error| failed(NAME, error))?;
    Ok(convert::to_dynamic(&key))
}
