//! The random number generator of scripts, which has a seed in simulations.

use std::cell::RefCell;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, RngExt, SeedableRng, TryRng as _};

use crate::script::values::script_error::Failure;

/// Draws random numbers; a seed makes them reproducible.
#[derive(Debug)]
pub(crate) struct Rng {
    generator: RefCell<StdRng>,
    has_seed: bool,
}

/// An unpredictable source.
impl Default for Rng {
    fn default() -> Self {
        Self { generator: RefCell::new(rand::make_rng()), has_seed: false }
    }
}

impl Rng {
    /// Returns a reproducible source.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { generator: RefCell::new(StdRng::seed_from_u64(seed)), has_seed: true }
    }

    /// Returns a number that is at least 0, and less than 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.generator.borrow_mut().random()
    }

    /// Returns an integer between two others, both included.
    ///
    /// # Panics
    /// If the low end is above the high one.
    pub(crate) fn between(&self, low: i64, high: i64) -> i64 {
        self.generator.borrow_mut().random_range(low..=high)
    }

    /// Fills a secret: from the generator of the operating system, unless there is a seed.
    ///
    /// # Errors
    /// If the operating system has none.
    pub(crate) fn fill(&self, secret: &mut [u8]) -> Result<(), Failure> {
        if self.has_seed {
            self.generator.borrow_mut().fill_bytes(secret);
            return Ok(());
        }
        SysRng
            .try_fill_bytes(secret)
            .map_err(|error| Failure::host("random", format!("the operating system has no random numbers: {error}")))
    }

    /// Returns the bytes of a random UUID.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        self.generator.borrow_mut().random()
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_same_seed_draws_the_same_numbers() {
        let draw = |seed| {
            let rng = Rng::seeded(seed);
            (rng.fraction().to_bits(), rng.between(1, 1000), rng.bytes())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
