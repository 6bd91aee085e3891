//! Keyed digests in place of the values of a Secret in its last handled essence.
//!
//! A digest shows whether a value has changed, but not the earlier value: the read essence has the present value where
//! the digest is that of the present value, and [`HIDDEN`] elsewhere.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use crate::object::Body;
use crate::object::secret::{FIELDS, HIDDEN, is_secret};

/// Begins every digest. Values of Secrets are in base64, which has no colon.
const SCHEME: &str = "hmac-sha256:";

/// Shorter keys could be guessed.
const MIN_KEY: usize = 32;

/// The form of the values in the last handled essence of a Secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SecretForm {
    /// Its values, as kopf stores them.
    #[default]
    Values,
    /// Digests of its values.
    Digests,
}

impl SecretForm {
    /// Returns the value of the setting.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Digests => "digests",
        }
    }
}

/// Writes and reads the last handled essences of Secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretStorage {
    /// The form in which they are written; both are read.
    pub form: SecretForm,
    /// The keys of digests.
    pub keys: Keys,
}

/// The keys of digests: the first one makes new digests, the others only verify older ones. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(Arc<[Key]>);

#[derive(PartialEq, Eq)]
struct Key {
    /// Names the key in digests.
    id: String,
    secret: Box<[u8]>,
}

/// Keys are not printed by accident.
impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

/// The reason why keys cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is none.
    #[error("it has no key")]
    None,
    /// A key can be guessed.
    #[error("the key in line {line} has fewer than {MIN_KEY} characters")]
    Short {
        /// Its line, from 1.
        line: usize,
    },
}

/// Digests are to be written, and there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the setting persistence.secrets is `digests`, and there is no key for them")]
pub struct MissingKey;

impl Keys {
    /// Reads keys, one in each line, the newest first. Empty lines are skipped.
    ///
    /// # Errors
    /// If there is no key, or a key is too short.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let keys = lines.map(|(index, key)| {
            if key.len() < MIN_KEY { Err(KeyError::Short { line: index + 1 }) } else { Ok(Key::new(key.as_bytes())) }
        });
        let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(KeyError::None) } else { Ok(Self(keys.into())) }
    }

    /// Returns the key for the embedded API server, whose objects are not worth protecting: with a fixed key, the same
    /// scenario has the same objects.
    pub fn of_embedded_server() -> Self {
        Self(Arc::new([Key::new(b"the embedded API server is for development and tests")]))
    }

    fn newest(&self) -> Option<&Key> {
        self.0.first()
    }

    /// Tells whether a digest is that of a value. Digests of unknown keys are those of no value.
    fn is_digest_of(&self, digest: &str, position: &ValuePosition<'_>, value: &Value) -> bool {
        let key = id_of(digest).and_then(|id| self.0.iter().find(|key| key.id == id));
        key.is_some_and(|key| key.digest(position, value) == digest)
    }
}

impl Key {
    fn new(secret: &[u8]) -> Self {
        let name = hmac(secret, &[b"kopfd: the name of this key"]);
        Self { id: URL_SAFE_NO_PAD.encode(&name[..6]), secret: secret.into() }
    }

    /// Returns the digest of a value, which differs between objects and between keys of data with the same value.
    fn digest(&self, position: &ValuePosition<'_>, value: &Value) -> String {
        let ValuePosition { body, field, key } = position;
        let value = value.to_string();
        let parts = [body.namespace().unwrap_or_default(), body.name(), field, key, &value];
        let digest = hmac(&self.secret, &parts.map(str::as_bytes));
        format!("{SCHEME}{}:{}", self.id, URL_SAFE_NO_PAD.encode(digest))
    }
}

/// The position of a value in a Secret.
struct ValuePosition<'a> {
    body: &'a Body,
    field: &'a str,
    /// Empty for a field that is not a mapping.
    key: &'a str,
}

impl ValuePosition<'_> {
    fn present_value(&self) -> Option<&Value> {
        let field = self.body.get(self.field)?;
        if self.key.is_empty() { Some(field) } else { field.get(self.key) }
    }
}

impl SecretStorage {
    /// Returns the storage with keys.
    ///
    /// # Errors
    /// If digests are to be written, and there is no key.
    pub fn with_keys(self, keys: &Keys) -> Result<Self, MissingKey> {
        if self.form == SecretForm::Digests && keys.newest().is_none() {
            return Err(MissingKey);
        }
        Ok(Self { keys: keys.clone(), ..self })
    }

    /// Returns an essence in the form in which it is stored.
    pub(super) fn stored<'e>(&self, body: &Body, essence: &'e Value) -> Cow<'e, Value> {
        match self.form {
            SecretForm::Digests => self.digested(body, essence),
            SecretForm::Values => Cow::Borrowed(essence),
        }
    }

    /// Returns an essence with digests in place of the values, if it is that of a Secret and there is a key. Digests
    /// are kept.
    pub fn digested<'e>(&self, body: &Body, essence: &'e Value) -> Cow<'e, Value> {
        let Some(newest) = self.keys.newest().filter(|_| is_secret(body)) else { return Cow::Borrowed(essence) };
        let mut digested = essence.clone();
        replace(&mut digested, body, |position, value| {
            (!is_digest(value)).then(|| Value::String(newest.digest(position, value)))
        });
        Cow::Owned(digested)
    }

    /// Returns a stored essence with values in place of the digests: the present value if it is the same, else
    /// [`HIDDEN`].
    pub(super) fn restored(&self, body: &Body, mut stored: Value) -> Value {
        if is_secret(body) {
            replace(&mut stored, body, |position, value| {
                let digest = value.as_str().filter(|_| is_digest(value))?;
                let present =
                    position.present_value().filter(|present| self.keys.is_digest_of(digest, position, present));
                Some(present.cloned().unwrap_or_else(|| Value::String(HIDDEN.to_owned())))
            });
        }
        stored
    }

    /// Tells whether a stored essence is in the other form, or has digests of another key than the newest.
    pub(super) fn is_outdated(&self, body: &Body, stored: &Value) -> bool {
        let mut is_outdated = false;
        if is_secret(body) {
            replace(&mut stored.clone(), body, |_, value| {
                is_outdated |= match (self.form, self.keys.newest()) {
                    _ if value.is_null() => false,
                    (SecretForm::Values, _) => is_digest(value),
                    (SecretForm::Digests, Some(newest)) => value.as_str().and_then(id_of) != Some(&newest.id),
                    (SecretForm::Digests, None) => false,
                };
                None
            });
        }
        is_outdated
    }
}

/// Replaces values of Secrets in an essence.
fn replace(essence: &mut Value, body: &Body, mut replacement: impl FnMut(&ValuePosition<'_>, &Value) -> Option<Value>) {
    let mut replace = |field: &str, key: &str, value: &mut Value| {
        // Null is as good as nothing.
        if let Some(replacement) = replacement(&ValuePosition { body, field, key }, value).filter(|_| !value.is_null())
        {
            *value = replacement;
        }
    };
    for field in FIELDS {
        match essence.get_mut(field) {
            Some(Value::Object(map)) => map.iter_mut().for_each(|(key, value)| replace(field, key, value)),
            Some(other) => replace(field, "", other),
            None => {}
        }
    }
}

fn is_digest(value: &Value) -> bool {
    value.as_str().is_some_and(|text| id_of(text).is_some())
}

/// Returns the name of the key of a digest; `None` if the text is no digest.
fn id_of(text: &str) -> Option<&str> {
    let (id, _) = text.strip_prefix(SCHEME)?.split_once(':')?;
    Some(id)
}

/// Returns the HMAC with SHA-256 (RFC 2104) of texts. Each text follows its length, so that no two lists have the same
/// digest.
fn hmac(key: &[u8], texts: &[&[u8]]) -> [u8; 32] {
    let lengths: Vec<[u8; 8]> = texts.iter().map(|text| (text.len() as u64).to_be_bytes()).collect();
    hmac_of(key, lengths.iter().zip(texts).flat_map(|(length, text)| [&length[..], text]))
}

fn hmac_of<'m>(key: &[u8], message: impl IntoIterator<Item = &'m [u8]>) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    for piece in message {
        mac.update(piece);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OLD: &str = "an older key of at least thirty-two characters";
    const NEW: &str = "a newer key of at least thirty-two characters!";

    fn storage(form: SecretForm, keys: &str) -> SecretStorage {
        SecretStorage { form, keys: Keys::parse(keys).unwrap() }
    }

    fn secret(data: Value) -> Body {
        Body::from(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "s"}, "data": data}),
        )
    }

    fn essence(data: Value) -> Value {
        json!({"type": "Opaque", "data": data, "metadata": {"labels": {"a": "b"}}})
    }

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // RFC 4231, cases 1, 2, 4, 6 and 7.
        let cases: [(&[u8], &[u8], &str); 5] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
            (
                &(1..=25).collect::<Vec<u8>>(),
                &[0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (key, message, expected) in cases {
            let digits =
                hmac_of(key, [message]).iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
            assert_eq!(digits, expected);
            let (one, other) = message.split_at(message.len() / 2);
            assert_eq!(hmac_of(key, [one, other]), hmac_of(key, [message]), "the pieces do not matter");
        }
        assert_ne!(hmac(b"k", &[b"ab", b"c"]), hmac(b"k", &[b"a", b"bc"]), "the parts of a digest do");
    }

    #[test]
    fn a_stored_essence_of_a_secret_has_its_keys_and_no_values() {
        let digests = storage(SecretForm::Digests, NEW);
        let body = secret(json!({"a": "aHVudGVyMg==", "b": "aHVudGVyMg=="}));
        let stored =
            digests.stored(&body, &essence(json!({"a": "aHVudGVyMg==", "b": "aHVudGVyMg==", "c": null}))).into_owned();
        assert!(!stored.to_string().contains("aHVudGVyMg"), "{stored}");
        let digest = |key: &str| stored["data"][key].as_str().unwrap().to_owned();
        assert!(digest("a").starts_with("hmac-sha256:") && digest("a").len() == 12 + 8 + 1 + 43, "{}", digest("a"));
        assert_ne!(digest("a"), digest("b"), "equal values of one Secret cannot be told from others");
        assert_eq!(
            (&stored["data"]["c"], &stored["type"], &stored["metadata"]["labels"]["a"]),
            (&Value::Null, &json!("Opaque"), &json!("b"))
        );
        let elsewhere =
            Body::from(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "other"}}));
        assert_ne!(digests.stored(&elsewhere, &essence(json!({"a": "aHVudGVyMg=="})))["data"]["a"], digest("a"));
        assert_eq!(*digests.stored(&body, &stored), stored, "digests are not digested");
    }

    #[test]
    fn other_objects_and_other_settings_keep_their_values() {
        let config =
            Body::from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"a": "b"}}));
        let written = essence(json!({"a": "b"}));
        assert!(matches!(storage(SecretForm::Digests, NEW).stored(&config, &written), Cow::Borrowed(_)));
        assert!(matches!(storage(SecretForm::Values, NEW).stored(&secret(json!({})), &written), Cow::Borrowed(_)));
    }

    #[test]
    fn unchanged_values_are_known_and_others_are_not() {
        for form in [SecretForm::Values, SecretForm::Digests] {
            let reading = storage(form, NEW);
            let before = secret(json!({"same": "YQ==", "changed": "Yg==", "removed": "Yw=="}));
            let stored =
                storage(SecretForm::Digests, NEW).stored(&before, &essence(before["data"].clone())).into_owned();
            let after = secret(json!({"same": "YQ==", "changed": "ZA==", "added": "ZQ=="}));
            let restored = reading.restored(&after, stored);
            assert_eq!(restored, essence(json!({"same": "YQ==", "changed": "***", "removed": "***"})));
            let plain = essence(json!({"same": "YQ=="}));
            assert_eq!(reading.restored(&after, plain.clone()), plain, "values are read as they are");
        }
    }

    #[test]
    fn older_keys_verify_and_unknown_ones_do_not() {
        let body = secret(json!({"a": "YQ=="}));
        let stored = storage(SecretForm::Digests, OLD).stored(&body, &essence(json!({"a": "YQ=="}))).into_owned();
        let rotated = storage(SecretForm::Digests, &format!("{NEW}\n\n{OLD}\n"));
        assert_eq!(rotated.restored(&body, stored.clone())["data"]["a"], "YQ==");
        assert_eq!(storage(SecretForm::Digests, NEW).restored(&body, stored.clone())["data"]["a"], "***");
        assert_eq!(SecretStorage::default().restored(&body, stored)["data"]["a"], "***");
    }

    #[test]
    fn essences_of_the_other_form_and_of_older_keys_are_outdated() {
        let body = secret(json!({"a": "YQ=="}));
        let values = essence(json!({"a": "YQ=="}));
        let of_key = |key: &str| storage(SecretForm::Digests, key).stored(&body, &values).into_owned();
        let is_outdated = |form, stored: &Value| storage(form, &format!("{NEW}\n{OLD}")).is_outdated(&body, stored);
        assert!(is_outdated(SecretForm::Digests, &values) && !is_outdated(SecretForm::Values, &values));
        assert!(!is_outdated(SecretForm::Digests, &of_key(NEW)) && is_outdated(SecretForm::Values, &of_key(NEW)));
        assert!(is_outdated(SecretForm::Digests, &of_key(OLD)), "an old key can be dropped once nothing needs it");
        for without_values in
            [json!({"type": "Opaque"}), json!({"data": {}}), json!({"data": null}), json!({"data": {"a": null}})]
        {
            assert!(
                !is_outdated(SecretForm::Digests, &without_values),
                "there is nothing to digest in {without_values}"
            );
        }
    }

    #[test]
    fn keys_are_long_enough_and_never_shown() {
        assert_eq!(Keys::parse(" \n"), Err(KeyError::None));
        assert_eq!(Keys::parse(&format!("{NEW}\n\nshort")), Err(KeyError::Short { line: 3 }));
        let keys = Keys::parse(&format!("{NEW}\n{OLD}")).unwrap();
        assert!(!format!("{keys:?}").contains("characters"), "{keys:?}");
        assert_eq!(
            SecretStorage { form: SecretForm::Digests, keys: Keys::default() }.with_keys(&Keys::default()),
            Err(MissingKey)
        );
        assert_eq!(SecretStorage::default().with_keys(&Keys::default()), Ok(SecretStorage::default()));
        assert!(SecretStorage { form: SecretForm::Digests, ..SecretStorage::default() }.with_keys(&keys).is_ok());
    }
}
