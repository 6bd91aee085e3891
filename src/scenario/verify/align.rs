//! The common part of two lists.

/// A step through two aligned lists.
pub(super) enum Aligned {
    /// An item of both, by index.
    Both(usize, usize),
    /// An expected item only, by index.
    Wanted(usize),
    /// An actual item only, by index.
    Found(usize),
}

/// Aligns two lists along their longest common subsequence.
pub(super) fn align<T, F>(wanted: &[T], found: &[F], is_same: impl Fn(&T, &F) -> bool) -> Vec<Aligned> {
    let mut lengths = vec![vec![0_usize; found.len() + 1]; wanted.len() + 1];
    for i in (0..wanted.len()).rev() {
        for j in (0..found.len()).rev() {
            lengths[i][j] = if is_same(&wanted[i], &found[j]) {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut steps) = (0, 0, Vec::new());
    while i < wanted.len() || j < found.len() {
        if i < wanted.len() && j < found.len() && is_same(&wanted[i], &found[j]) {
            steps.push(Aligned::Both(i, j));
            (i, j) = (i + 1, j + 1);
        } else if j == found.len() || (i < wanted.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            steps.push(Aligned::Wanted(i));
            i += 1;
        } else {
            steps.push(Aligned::Found(j));
            j += 1;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_along_their_common_part() {
        let shown = |wanted: &[&str], found: &[&str]| {
            let steps = align(wanted, found, |one, other| one == other);
            let shown = steps.iter().map(|step| match step {
                Aligned::Both(index, _) => wanted[*index].to_owned(),
                Aligned::Wanted(index) => format!("-{}", wanted[*index]),
                Aligned::Found(index) => format!("+{}", found[*index]),
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&["a", "b", "c"], &["a", "x", "c", "d"]), "a -b +x c +d");
        assert_eq!(shown(&[], &["a"]), "+a");
        assert_eq!(shown(&["a"], &[]), "-a");
    }
}
