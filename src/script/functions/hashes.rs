//! `crypto::`: digests, authentication codes, and comparisons in constant time; `hex::`.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, Module, NativeCallContext};
use sha2::Digest as _;
use sha2::digest::DynDigest;
use subtle::ConstantTimeEq as _;

use super::options::{placed, text};
use crate::script::bounded;
use crate::script::bytes::Bytes;
use crate::script::declaration::Limit;
use crate::script::digest::hexadecimal;
use crate::script::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;
type Given = Result<Dynamic, Thrown>;

/// The bytes that are hashed before other scripts may run.
const HASHED: usize = 64 << 10;

/// Registers the modules.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    for name in ALGORITHMS {
        FuncRegistration::new(name)
            .set_into_module(&mut module, move |native: Native<'_>, value: Dynamic| placed(&native, hash(name, &value)));
    }
    FuncRegistration::new("equal")
        .set_into_module(&mut module, |native: Native<'_>, a: Dynamic, b: Dynamic| placed(&native, equal(&a, &b)));
    FuncRegistration::new("hmac").set_into_module(&mut module, |native: Native<'_>, name: Dynamic, key: Dynamic, value: Dynamic| {
        placed(&native, hmac(&name, &key, &value))
    });
    engine.register_static_module("crypto", module.into());
    let mut module = Module::new();
    FuncRegistration::new("encode")
        .set_into_module(&mut module, |native: Native<'_>, value: Dynamic| placed(&native, hex_encode(&native, &value)));
    FuncRegistration::new("decode").set_into_module(&mut module, |native: Native<'_>, given: Dynamic| placed(&native, hex_decode(&given)));
    engine.register_static_module("hex", module.into());
}

fn argument(function: &str, what: &str) -> Thrown {
    Failure::argument(format!("`{function}`: {what}")).into()
}

/// The algorithms of digests.
const ALGORITHMS: [&str; 7] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b"];

fn hasher(name: &str) -> Option<Box<dyn DynDigest>> {
    Some(match name {
        "md5" => Box::new(md5::Md5::new()),
        "sha1" => Box::new(sha1::Sha1::new()),
        "sha224" => Box::new(sha2::Sha224::new()),
        "sha256" => Box::new(sha2::Sha256::new()),
        "sha384" => Box::new(sha2::Sha384::new()),
        "sha512" => Box::new(sha2::Sha512::new()),
        "blake2b" => Box::new(blake2::Blake2b512::new()),
        _ => return None,
    })
}

/// `crypto::sha256(value)` and the like: the digest of a text or of bytes, in hexadecimal digits.
fn hash(name: &str, value: &Dynamic) -> Given {
    let bytes = Bytes::of(&format!("crypto::{name}"), "the value", value)?;
    let mut hasher = hasher(name).expect("the algorithm is in the list");
    for piece in bytes.0.chunks(HASHED) {
        bounded::pause()?;
        hasher.update(piece);
    }
    Ok(hexadecimal(&hasher.finalize()).into())
}

/// `crypto::hmac(algorithm, key, value)`: the authentication code of a text or of bytes, in hexadecimal digits.
fn hmac(name: &Dynamic, key: &Dynamic, value: &Dynamic) -> Given {
    let name = text("crypto::hmac", "the algorithm", name)?;
    let (key, value) = (Bytes::of("crypto::hmac", "the key", key)?, Bytes::of("crypto::hmac", "the value", value)?);
    macro_rules! code {
        ($hash:ty) => {{
            let mut code = Hmac::<$hash>::new_from_slice(&key.0).map_err(|_| argument("crypto::hmac", "the key is too long"))?;
            for piece in value.0.chunks(HASHED) {
                bounded::pause()?;
                code.update(piece);
            }
            hexadecimal(&code.finalize().into_bytes())
        }};
    }
    Ok(match name.as_str() {
        "md5" => code!(md5::Md5),
        "sha1" => code!(sha1::Sha1),
        "sha224" => code!(sha2::Sha224),
        "sha256" => code!(sha2::Sha256),
        "sha384" => code!(sha2::Sha384),
        "sha512" => code!(sha2::Sha512),
        _ => return Err(argument("crypto::hmac", "the algorithm is md5, sha1, sha224, sha256, sha384 or sha512")),
    }
    .into())
}

/// `crypto::equal(a, b)`: whether two texts or bytes are equal, in a time that does not depend on where they differ.
fn equal(a: &Dynamic, b: &Dynamic) -> Given {
    let (a, b) = (Bytes::of("crypto::equal", "the first value", a)?, Bytes::of("crypto::equal", "the second value", b)?);
    Ok(bool::from(a.0.ct_eq(&b.0)).into())
}

fn unreadable(function: &str, what: &str) -> Thrown {
    Failure::host("parse", format!("`{function}`: {what}")).into()
}

/// `hex::encode(value)`: a text or bytes in hexadecimal digits.
fn hex_encode(native: &Native<'_>, value: &Dynamic) -> Given {
    let bytes = Bytes::of("hex::encode", "the value", value)?;
    if bytes.0.len().saturating_mul(2) > native.engine().max_string_size() {
        return Err(bounded::refused(Limit::StringSize));
    }
    bounded::reserve(bytes.0.len().saturating_mul(2))?;
    Ok(hexadecimal(&bytes.0).into())
}

/// `hex::decode(text)`: the bytes of hexadecimal digits.
fn hex_decode(given: &Dynamic) -> Given {
    let digits = text("hex::decode", "the digits", given)?;
    let wrong = || unreadable("hex::decode", "the text is not an even number of hexadecimal digits");
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    if !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pairs = digits.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.map(|bytes| Dynamic::from(Bytes::from(bytes))).ok_or_else(wrong)
}
