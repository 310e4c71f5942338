//! Suggestions for misspelled words ("did you mean …?"). Long words get no suggestion, because the time of the search
//! is quadratic in the length of a word.

/// Candidate that is most similar to `word`, if one is similar enough to be meant.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let word = plain(word);
    if word.chars().count() > 64 {
        return None;
    }
    let near = |candidate: &'a str| {
        let other = plain(candidate);
        if other.is_empty() || word.is_empty() {
            return None;
        }
        let distance = distance(&word, &other);
        // Up to a third of the letters may differ. If one word is a prefix of the other, they always match.
        let allowed = (word.chars().count().max(other.chars().count()) / 3).max(1);
        let is_prefix = word.len() > 2 && (other.starts_with(&word) || word.starts_with(&other));
        (distance <= allowed || is_prefix).then_some((distance, candidate))
    };
    // Of several equally similar candidates, the first one is returned, because callers list the preferred names first.
    let found = candidates.into_iter().filter_map(near).min_by_key(|(distance, _)| *distance);
    found.map(|(_, candidate)| candidate)
}

/// Damerau-Levenshtein distance. Two swapped adjacent letters count as one change.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
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
    fn misspelled_words_get_the_right_suggestion() {
        let keys = ["memory", "cores", "disk", "disks", "datastore", "name", "network"];
        assert_eq!(closest("memmory", keys), Some("memory"));
        assert_eq!(closest("cor", keys), Some("cores"));
        assert_eq!(closest("dsik", keys), Some("disk"));
        assert_eq!(closest("data-store", keys), Some("datastore"));
        assert_eq!(closest("Network", keys), Some("network"));
        assert_eq!(closest("frobnicate", keys), None);
        assert_eq!(closest(&"x".repeat(10_000), keys), None);
    }
}
