//! Lifecycles: which of the handlers that are ready are run in this cycle.

use super::progress::State;

/// How many handlers are run in one cycle, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifecycle {
    /// The one with the fewest attempts.
    #[default]
    Asap,
    /// All of them.
    AllAtOnce,
    /// The first one.
    OneByOne,
    /// One by chance.
    Randomized,
    /// All of them, in any order.
    Shuffled,
}

impl Lifecycle {
    /// Returns those to run, of those that are ready in the order of declaration. Chance comes from outside.
    pub fn choose<T>(self, mut ready: Vec<T>, id: impl Fn(&T) -> &str, state: &State, chance: &mut dyn FnMut(usize) -> usize) -> Vec<T> {
        let retries = |handler: &T| state.get(id(handler)).map_or(0, |entry| entry.record.retries);
        match self {
            Self::AllAtOnce => ready,
            Self::OneByOne => {
                ready.truncate(1);
                ready
            }
            Self::Asap => {
                let fewest = ready.iter().enumerate().min_by_key(|(_, handler)| retries(handler)).map(|(index, _)| index);
                fewest.map(|index| ready.swap_remove(index)).into_iter().collect()
            }
            Self::Randomized if ready.is_empty() => ready,
            Self::Randomized => {
                let index = chance(ready.len());
                vec![ready.swap_remove(index)]
            }
            Self::Shuffled => {
                for last in (1..ready.len()).rev() {
                    ready.swap(last, chance(last + 1));
                }
                ready
            }
        }
    }
}
