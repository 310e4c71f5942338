use std::fmt;

/// Error in a scenario file with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Path of the file, as the caller passed it.
    pub path: String,
    /// Line of the error, counted from 1.
    pub line: usize,
    pub message: String,
    /// Instruction to fix the error, if known.
    pub hint: Option<String>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message, .. } = self;
        write!(f, "{path}:{line}: {message}")
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    #[must_use]
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds a hint with the known word most similar to `word`, or else with all known words.
    #[must_use]
    pub(super) fn one_of(self, word: &str, known: &[&str]) -> Self {
        match nearest(word, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self.hint(format!("known: {}", known.join(", "))),
        }
    }
}

/// Known word that differs from `word` in at most two letters.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let (far, near) = known.iter().map(|name| (distance(word, name), *name)).min()?;
    (far <= 2 && far < word.chars().count()).then_some(near)
}

/// Levenshtein distance of two words.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, left) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, right) in to.iter().enumerate() {
            let replaced = corner + usize::from(left != *right);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_words_are_recognised() {
        assert_eq!(nearest("storges", &["nodes", "storages"]), Some("storages"));
        assert_eq!(nearest("vms", &["vms", "volumes"]), Some("vms"));
        assert_eq!(nearest("firewall", &["nodes", "storages"]), None);
        assert_eq!(nearest("ip", &["id"]), Some("id"));
        assert_eq!(nearest("x", &["id"]), None);
    }
}
