//! Digests, authentication codes, and comparisons in constant time.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rhai::{Dynamic, FuncRegistration, Module};
use sha2::Digest as _;
use sha2::digest::DynDigest;
use subtle::ConstantTimeEq as _;

use crate::kit::hexadecimal;
use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{Given, Native, three, two, wrong};
use crate::script::language::bytes::Bytes;
use crate::script::runtime::bounded;

/// The bytes that are hashed before other scripts may run.
const HASHED: usize = 64 << 10;

/// Adds the functions to `crypto::`.
pub(super) fn add(module: &mut Module) {
    for name in ALGORITHMS {
        FuncRegistration::new(name)
            .set_into_module(module, move |native: Native<'_>, value: Dynamic| placed(&native, hash(name, &value)));
    }
    two(module, "equal", |_, a, b| equal(a, b));
    three(module, "hmac", |_, name, key, value| hmac(name, key, value));
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
            let mut code =
                Hmac::<$hash>::new_from_slice(&key.0).map_err(|_| wrong("crypto::hmac", "the key is too long"))?;
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
        _ => return Err(wrong("crypto::hmac", "the algorithm is md5, sha1, sha224, sha256, sha384 or sha512")),
    }
    .into())
}

/// `crypto::equal(a, b)`: whether two texts or bytes are equal, in a time that does not depend on where they differ.
fn equal(a: &Dynamic, b: &Dynamic) -> Given {
    let (a, b) =
        (Bytes::of("crypto::equal", "the first value", a)?, Bytes::of("crypto::equal", "the second value", b)?);
    Ok(bool::from(a.0.ct_eq(&b.0)).into())
}
