//! Entries of Secrets.

use super::reader::{Fields, Reader};
use super::storages::named;
use crate::object::SecretKey;

const SECRET: &str = "name a Secret, such as `{secret: orders-admin, key: password}`";

/// Reads `secret`, `namespace` and `key` among other fields. Without a default, the key is required.
pub(super) fn secret_key(reader: &Reader, fields: &Fields<'_>, default_key: Option<&str>) -> Option<SecretKey> {
    let name = reader.required(fields, "secret", SECRET).and_then(|item| named(reader, &item));
    let namespace = fields.get("namespace").map(|item| named(reader, &item));
    let key = match (fields.get("key"), default_key) {
        (None, Some(key)) => Some(key.to_owned()),
        _ => reader.required(fields, "key", SECRET).and_then(|item| reader.owned(&item)),
    };
    Some(SecretKey {
        name: name?,
        namespace: namespace.map_or(Some(None), |namespace| namespace.map(Some))?,
        key: key?,
    })
}
