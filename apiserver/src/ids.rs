//! Unique ids and random name suffixes, the same ones for the same seed.

use serde_json::Value;

/// The letters of generated names: none that could make a word.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters are appended.
const SUFFIX: usize = 5;
/// Longer prefixes are cut, so that the name stays a label.
const MAX_PREFIX: usize = 58;

/// A source of ids.
#[derive(Debug)]
pub struct Ids(u64);

impl Ids {
    /// Returns a source whose ids depend on the seed alone.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a source whose ids nobody has seen before.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u64_pair().0)
    }

    /// Returns a unique id.
    pub fn uid(&mut self) -> String {
        let bytes = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bytes.to_be_bytes()).into_uuid().to_string()
    }

    /// Returns a name that begins with a prefix.
    pub fn name(&mut self, prefix: &str) -> String {
        let mut name: String = prefix.chars().take(MAX_PREFIX).collect();
        for _ in 0..SUFFIX {
            let index = self.next() % LETTERS.len() as u64;
            name.push(char::from(LETTERS[index as usize]));
        }
        name
    }

    /// Gives an object a unique id and, if it asks for one, a generated name.
    pub fn identify(&mut self, value: &mut Value) {
        let prefix = value["metadata"]["generateName"].as_str().map(str::to_owned);
        let is_nameless = value["metadata"]["name"].as_str().is_none_or(str::is_empty);
        if let (true, Some(prefix)) = (is_nameless, prefix) {
            value["metadata"]["name"] = self.name(&prefix).into();
        }
        value["metadata"]["uid"] = self.uid().into();
    }

    /// Returns a number below another one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// The generator SplitMix64: the next number is a hash of a counter.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let (mut one, mut other) = (Ids::seeded(7), Ids::seeded(7));
        assert_eq!(one.uid(), other.uid());
        let name = one.name("g-");
        assert_eq!((name.len(), name.as_str()), (7, other.name("g-").as_str()));
        assert_ne!(one.uid(), one.uid());
    }
}
