//! Hashes of passwords: `crypto::bcrypt`, `crypto::argon2`, `crypto::verify_password`.

use rhai::{Dynamic, Module};

use super::aside;
use super::values::{bytes, failed, random};
use crate::cryptography::{self, Argon2Cost, BCRYPT_COSTS};
use crate::script::functions::options::{Options, text};
use crate::script::functions::support::{Given, Native, one, two, wrong};
use crate::script::runtime::bounded;

/// The usual cost of bcrypt: a quarter of a second.
const BCRYPT_COST: u32 = 12;

/// The memory that Argon2 may take, in KiB, besides the limit of the call.
const ARGON2_MEMORY: u32 = 256 << 10;

/// The passes that it may take.
const ARGON2_ITERATIONS: u32 = 32;

/// Adds the functions to `crypto::`.
pub(super) fn add(module: &mut Module) {
    one(module, "bcrypt", |native, password| bcrypt(native, password, None));
    two(module, "bcrypt", |native, password, cost| bcrypt(native, password, Some(cost)));
    one(module, "argon2", |native, password| argon2(native, password, None));
    two(module, "argon2", |native, password, options| argon2(native, password, Some(options)));
    two(module, "verify_password", verify);
}

/// `crypto::bcrypt(password, [cost])`: the hash of a password, as for `htpasswd` and many programs.
fn bcrypt(native: &Native<'_>, password: &Dynamic, cost: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::bcrypt";
    let cost = cost.map_or(Ok(BCRYPT_COST), |cost| {
        let cost =
            cost.as_int().ok().and_then(|cost| u32::try_from(cost).ok()).filter(|cost| BCRYPT_COSTS.contains(cost));
        cost.ok_or_else(|| {
            wrong(NAME, format!("the cost is an integer from {} to {}", BCRYPT_COSTS.start(), BCRYPT_COSTS.end()))
        })
    })?;
    let (password, salt) = (bytes(NAME, "the password", password)?.0.to_vec(), random(native, NAME)?);
    let hash = aside::compute(native, NAME, move || cryptography::bcrypt(&password, cost, salt))?;
    Ok(hash.map_err(|error| failed(NAME, error))?.into())
}

/// `crypto::argon2(password, [#{memory, iterations, parallelism}])`: the hash of a password by Argon2id; `memory` is a
/// number of KiB.
fn argon2(native: &Native<'_>, password: &Dynamic, options: Option<&Dynamic>) -> Given {
    const NAME: &str = "crypto::argon2";
    let options = Options::read(NAME, &["iterations", "memory", "parallelism"], options)?;
    let usual = Argon2Cost::default();
    let number = |key: &str, usual: u32, max: u32| match options.value(key) {
        None => Ok(usual),
        Some(value) => value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| (1..=max).contains(number))
            .ok_or_else(|| options.wrong(key, &format!("an integer from 1 to {max}"))),
    };
    let cost = Argon2Cost {
        memory: number("memory", usual.memory, ARGON2_MEMORY)?,
        iterations: number("iterations", usual.iterations, ARGON2_ITERATIONS)?,
        parallelism: number("parallelism", usual.parallelism, 16)?,
    };
    bounded::reserve(cost.memory as usize * 1024)?;
    let (password, salt) = (bytes(NAME, "the password", password)?.0.to_vec(), random(native, NAME)?);
    let hash = aside::compute(native, NAME, move || cryptography::argon2(&password, cost, salt))?;
    Ok(hash.map_err(|error| failed(NAME, error))?.into())
}

/// `crypto::verify_password(password, hash)`: whether a hash of bcrypt or Argon2 is that of the password.
fn verify(native: &Native<'_>, password: &Dynamic, hash: &Dynamic) -> Given {
    const NAME: &str = "crypto::verify_password";
    let (password, hash) = (bytes(NAME, "the password", password)?.0.to_vec(), text(NAME, "the hash", hash)?);
    let is_same = aside::compute(native, NAME, move || {
        cryptography::verify_password(&password, &hash, ARGON2_MEMORY, ARGON2_ITERATIONS)
    })?;
    Ok(is_same.map_err(|error| failed(NAME, error))?.into())
}
