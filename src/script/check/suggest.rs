//! The name that was probably meant.

/// Longer names are not compared: it would take the product of the lengths.
const MAX_LENGTH: usize = 64;

/// Returns the candidate that is nearest to a name, if one is near enough to be meant.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = match name.chars().count() {
        0..=4 => 1,
        5..=7 => 2,
        _ => 3,
    };
    if name.chars().count() > MAX_LENGTH {
        return None;
    }
    let comparable = candidates.into_iter().filter(|candidate| candidate.chars().count() <= MAX_LENGTH);
    let near = comparable.map(|candidate| match is_beginning(name, candidate) {
        true => (1, candidate),
        false => (distance(name, candidate), candidate),
    });
    let nearest = near.filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count()).min()?;
    Some(nearest.1)
}

/// Returns the hint that names the nearest candidate.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// A word that was cut off: `warn` for `warning`.
fn is_beginning(name: &str, candidate: &str) -> bool {
    name.chars().count() >= 3 && candidate.to_lowercase().starts_with(&name.to_lowercase())
}

/// The insertions, removals, replacements, and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        assert_eq!(closest("nmae", ["name", "namespace", "uid"]), Some("name"));
        assert_eq!(closest("inof", ["info", "error"]), Some("info"));
        assert_eq!(closest("retires", ["retry", "retries"]), Some("retries"));
        assert_eq!(closest("warn", ["tan", "warning"]), Some("warning"));
        assert_eq!(closest("foo", ["cos"]), None);
        assert_eq!(closest("frobnicate", ["name", "spec"]), None);
        assert_eq!(closest("x", ["y", "spec"]), None);
    }
}
