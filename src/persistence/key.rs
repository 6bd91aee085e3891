//! Keys of annotations: derives the name of an annotation from a handler's id, in both of kopf's forms.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::{GeneralPurpose, general_purpose};
use blake2::Blake2b;
use blake2::digest::Digest as _;
use blake2::digest::consts::U4;
use serde_json::Value;

use crate::object::Body;

/// Maximum number of characters in an annotation's name.
const MAX_NAME: usize = 63;

/// Length of a hash suffix: a dash and six characters of base64.
const SUFFIX: usize = 7;

/// Returns the keys of an id on an object, in the order of reading: the current form, then the older one if it differs.
pub fn keys(prefix: &str, id: &str, with_v1: bool, body: &Body) -> Vec<String> {
    let id = marked(id, body);
    let current = v2(prefix, &id);
    // A short id has the same key in both forms.
    let old = (with_v1 && is_longer(prefix, &id)).then(|| v1(prefix, &id)).filter(|old| *old != current);
    std::iter::once(current).chain(old).collect()
}

/// Tells whether a prefix and an id are longer than the name of an annotation.
fn is_longer(prefix: &str, id: &str) -> bool {
    // There are at most as many characters as bytes.
    prefix.len() + 1 + id.len() > MAX_NAME && prefix.chars().count() + 1 + id.chars().count() > MAX_NAME
}

/// Returns the id as used on this object: Deployments copy their annotations to their ReplicaSets, where they must not
/// be taken for own ones.
pub fn marked<'a>(id: &'a str, body: &Body) -> Cow<'a, str> {
    let is_of_deployment = || {
        let owners = body.metadata().and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_array);
        owners
            .is_some_and(|owners| owners.iter().any(|owner| owner.get("kind").is_some_and(|kind| kind == "Deployment")))
    };
    let is_replica_set = body.get("kind").is_some_and(|kind| kind == "ReplicaSet");
    if is_replica_set && is_of_deployment() { format!("{id}-ofDRS").into() } else { id.into() }
}

/// Returns the current form: the hash is that of the raw id.
pub fn v2(prefix: &str, id: &str) -> String {
    let safe = safe(id);
    if id.len() <= MAX_NAME || id.chars().count() <= MAX_NAME {
        return [prefix, "/", &safe].concat();
    }
    [prefix, "/", &first(&safe, MAX_NAME - SUFFIX), &suffix(id)].concat()
}

/// Returns the older form: the limit includes the prefix, and the hash is that of the escaped id.
pub fn v1(prefix: &str, id: &str) -> String {
    let safe = safe(id);
    let available = MAX_NAME as isize - prefix.chars().count() as isize - 1;
    if safe.chars().count() as isize <= available {
        return [prefix, "/", &safe].concat();
    }
    [prefix, "/", &cut(&safe, available - SUFFIX as isize), &suffix(&safe)].concat()
}

fn safe(id: &str) -> Cow<'_, str> {
    if !id.contains(['/', '<', '>']) {
        return id.into();
    }
    id.replace('/', ".").replace(['<', '>'], "_").into()
}

fn first(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}

/// Cuts as Python's slices do: a negative count drops characters from the end.
fn cut(text: &str, count: isize) -> String {
    let length = text.chars().count();
    let kept = if count >= 0 { count as usize } else { length.saturating_sub(count.unsigned_abs()) };
    first(text, kept)
}

fn suffix(text: &str) -> String {
    let digest = Blake2b::<U4>::digest(text.as_bytes());
    let alphabet = Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
        .expect("64 different characters");
    let encoded = GeneralPurpose::new(&alphabet, general_purpose::PAD).encode(digest);
    format!("-{}", encoded.trim_end_matches(['=', '-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_older_form_is_another_one_as_soon_as_prefix_and_id_are_longer_than_a_name() {
        let body = Body::from(json!({}));
        let count = |length: usize| keys("kopf.zalando.org", &"x".repeat(length), true, &body).len();
        // The prefix has 16 characters, the slash is one, and a name has 63.
        assert_eq!((count(46), count(47)), (1, 2));
    }
}
