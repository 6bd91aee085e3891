//! Unique ids and random name suffixes, reproducible with a seed.
//!
//! With any seed, the id of an object depends only on its resource, its namespace, its name, and the number of earlier
//! objects with this key: two runs with different other events have the same ids.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::storage::resource::{Key, Resource, key_of};

/// The letters of generated names, which cannot form words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Number of appended letters.
const SUFFIX: usize = 5;
/// Longer prefixes are cut, so that the name is a valid label.
const MAX_PREFIX: usize = 58;

/// A source of ids.
#[derive(Debug)]
pub struct Ids {
    state: u64,
    /// Whether the ids of objects are reproducible.
    is_repeatable: bool,
    /// Number of objects created with a key, or of names generated from a prefix.
    counts: BTreeMap<(Resource, Key), u64>,
}

impl Ids {
    /// Returns a source of reproducible ids. Ids that belong to no object depend on the seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed, is_repeatable: true, counts: BTreeMap::new() }
    }

    /// Returns a source of random ids.
    pub fn random() -> Self {
        Self { state: uuid::Uuid::new_v4().as_u64_pair().0, is_repeatable: false, counts: BTreeMap::new() }
    }

    /// Returns a unique id.
    pub fn uid(&mut self) -> String {
        uid(&mut self.state)
    }

    /// Assigns a unique id to a new object and, if requested, a generated name. A dry run creates nothing, so its id
    /// belongs to no object.
    pub fn identify(&mut self, resource: &Resource, value: &mut Value, is_dry_run: bool) {
        let prefix = value["metadata"]["generateName"].as_str().map(str::to_owned);
        let is_nameless = value["metadata"]["name"].as_str().is_none_or(str::is_empty);
        if let (true, Some(prefix)) = (is_nameless, prefix) {
            let (namespace, _) = key_of(value);
            // No object can have this name: prefixes are counted separately.
            let place = (resource.clone(), (namespace, format!("{prefix}*")));
            let mut source = self.source(&place);
            self.count(place);
            value["metadata"]["name"] = name(&prefix, &mut source).into();
        }
        let (namespace, name) = key_of(value);
        // No object can have this name either.
        let key = if is_dry_run { (namespace, format!("{name}?")) } else { (namespace, name) };
        let place = (resource.clone(), key);
        let mut source = self.source(&place);
        if is_dry_run {
            self.count(place);
        }
        value["metadata"]["uid"] = uid(&mut source).into();
    }

    /// Records a creation: the next object with this key gets another id.
    pub fn note_creation(&mut self, resource: &Resource, key: &Key) {
        self.count((resource.clone(), key.clone()));
    }

    fn count(&mut self, place: (Resource, Key)) {
        if self.is_repeatable {
            *self.counts.entry(place).or_default() += 1;
        }
    }

    /// Returns the start of the generator for a key.
    fn source(&mut self, place: &(Resource, Key)) -> u64 {
        if !self.is_repeatable {
            return self.next();
        }
        let (Resource { group, plural }, (namespace, name)) = place;
        let count = self.counts.get(place).copied().unwrap_or_default().to_string();
        let text = [group, plural, namespace, name, &count].map(String::as_str).join("/");
        text.bytes().fold(0, |mut state, byte| {
            state ^= u64::from(byte);
            next(&mut state)
        })
    }

    /// Returns a number below another one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn next(&mut self) -> u64 {
        next(&mut self.state)
    }
}

fn uid(state: &mut u64) -> String {
    let bytes = (u128::from(next(state)) << 64) | u128::from(next(state));
    uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid().to_string()
}

/// Returns a name that begins with a prefix.
fn name(prefix: &str, state: &mut u64) -> String {
    let mut name: String = prefix.chars().take(MAX_PREFIX).collect();
    for _ in 0..SUFFIX {
        let index = next(state) % LETTERS.len() as u64;
        name.push(char::from(LETTERS[index as usize]));
    }
    name
}

/// The generator SplitMix64: the next number is a hash of a counter.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identified(ids: &mut Ids, metadata: &Value) -> (String, String) {
        identified_as("things", ids, metadata)
    }

    fn identified_as(plural: &str, ids: &mut Ids, metadata: &Value) -> (String, String) {
        let mut object = json!({"metadata": metadata});
        ids.identify(&Resource { group: "ex.dev".into(), plural: plural.into() }, &mut object, false);
        let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        (text("name"), text("uid"))
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let (mut one, mut other) = (Ids::seeded(7), Ids::seeded(7));
        assert_eq!(one.uid(), other.uid());
        assert_ne!(one.uid(), one.uid());
    }

    #[test]
    fn the_ids_of_an_object_depend_only_on_its_key_and_its_incarnation() {
        let (mut one, mut other) = (Ids::seeded(7), Ids::seeded(8));
        let a = json!({"namespace": "n", "name": "a"});
        let first = identified(&mut one, &a);
        identified(&mut other, &json!({"namespace": "n", "name": "b"}));
        assert_eq!(identified(&mut other, &a), first, "another object came before it");
        assert_eq!(identified(&mut other, &a), first, "a creation that has failed is none");
        assert_ne!(identified_as("others", &mut other, &a).1, first.1, "an object of another kind has the same name");
        assert_ne!(
            identified(&mut other, &json!({"namespace": "m", "name": "a"})).1,
            first.1,
            "the same name in another namespace"
        );
        other.note_creation(
            &Resource { group: "ex.dev".into(), plural: "things".into() },
            &("n".to_owned(), "a".to_owned()),
        );
        assert_ne!(identified(&mut other, &a).1, first.1);
    }

    #[test]
    fn generated_names_depend_on_the_prefix_and_on_how_many_there_were() {
        let (mut one, mut other) = (Ids::seeded(7), Ids::seeded(7));
        let of = |prefix: &str| json!({"namespace": "n", "generateName": prefix});
        let (first, second) = (identified(&mut one, &of("g-")), identified(&mut one, &of("g-")));
        identified(&mut other, &of("h-"));
        assert_eq!(
            (identified(&mut other, &of("g-")), identified(&mut other, &of("g-"))),
            (first.clone(), second.clone())
        );
        assert_ne!(first.0, second.0);
        assert_eq!((first.0.len(), &first.0[..2]), (7, "g-"));
    }
}
