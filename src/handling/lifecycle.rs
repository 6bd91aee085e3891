//! Lifecycles: which of the ready handlers run in a cycle.

use super::progress::State;

/// How many handlers run in one cycle, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifecycle {
    /// The one with the fewest attempts.
    #[default]
    Asap,
    /// All of them.
    AllAtOnce,
    /// The first one.
    OneByOne,
    /// A random one.
    Randomized,
    /// All of them, in random order.
    Shuffled,
}

impl Lifecycle {
    /// Returns the handlers to run, chosen from the ready ones in the order of declaration. `random_below` is the
    /// source of randomness.
    pub fn choose<T>(
        self,
        mut ready: Vec<T>,
        id: impl Fn(&T) -> &str,
        state: &State,
        random_below: &mut dyn FnMut(usize) -> usize,
    ) -> Vec<T> {
        let retries = |handler: &T| state.get(id(handler)).map_or(0, |entry| entry.record.retries);
        match self {
            Self::AllAtOnce => ready,
            Self::OneByOne => {
                ready.truncate(1);
                ready
            }
            Self::Asap => {
                let fewest =
                    ready.iter().enumerate().min_by_key(|(_, handler)| retries(handler)).map(|(index, _)| index);
                fewest.map(|index| ready.swap_remove(index)).into_iter().collect()
            }
            Self::Randomized if ready.is_empty() => ready,
            Self::Randomized => {
                let index = random_below(ready.len());
                vec![ready.swap_remove(index)]
            }
            Self::Shuffled => {
                for last in (1..ready.len()).rev() {
                    ready.swap(last, random_below(last + 1));
                }
                ready
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::progress::{BrokenRecord, Record, Records};
    use jiff::Timestamp;

    /// Handlers whose id ends with a digit were called this many times.
    struct Called;

    impl Records for Called {
        fn record(&self, id: &str) -> Result<Option<Record>, BrokenRecord> {
            let retries = id.chars().last().and_then(|digit| digit.to_digit(10)).unwrap_or(0).into();
            Ok(Some(Record { retries, ..Record::fresh(Timestamp::UNIX_EPOCH, None) }))
        }
    }

    /// Returns the chosen handlers; the random choice is always the first.
    fn chosen(lifecycle: Lifecycle, ready: &[&'static str]) -> Vec<&'static str> {
        let mut state = State::default();
        for id in ready {
            state.load(id, &Called).unwrap();
        }
        lifecycle.choose(ready.to_vec(), |id| id, &state, &mut |_| 0)
    }

    #[test]
    fn the_least_retried_one_goes_first_and_of_equals_the_first_declared() {
        assert_eq!(chosen(Lifecycle::Asap, &["a2", "b1", "c1"]), ["b1"]);
        assert_eq!(chosen(Lifecycle::OneByOne, &["a2", "b1", "c1"]), ["a2"]);
        assert_eq!(chosen(Lifecycle::AllAtOnce, &["a2", "b1"]), ["a2", "b1"]);
    }

    #[test]
    fn chance_takes_one_or_mixes_all() {
        assert_eq!(chosen(Lifecycle::Randomized, &["a", "b"]), ["a"]);
        assert_eq!(chosen(Lifecycle::Shuffled, &["a", "b", "c"]), ["b", "c", "a"]);
        assert!(chosen(Lifecycle::Randomized, &[]).is_empty());
    }

    #[test]
    fn a_shuffle_draws_each_place_among_those_before_it_and_itself() {
        let mut drawn_of = Vec::new();
        let mut last = |count: usize| {
            drawn_of.push(count);
            count - 1
        };
        assert_eq!(
            Lifecycle::Shuffled.choose(vec!["a", "b", "c"], |id| id, &State::default(), &mut last),
            ["a", "b", "c"]
        );
        assert_eq!(drawn_of, [3, 2]);
    }
}
