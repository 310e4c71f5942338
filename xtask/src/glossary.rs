//! Check that code and documentation do not use words that the glossary replaces. The glossary itself has the list: the
//! column `not` of `docs/GLOSSARY.md`.

use std::fs;
use std::path::Path;

use crate::Problems;

const FILE: &str = "docs/GLOSSARY.md";

/// Phrases of operating systems and examples. The words in them are not words of talmox.
const OTHER_MEANINGS: [&str; 2] = ["connection refused", "hello world"];

/// Words with the files and folders that may contain them.
const ALLOWED: &[(&str, &str)] = &[
    // Texts of Proxmox and Kubernetes, which the lab must send unchanged.
    ("try again", "crates/lab-kube/src/failure.rs"),
    ("try again", "crates/lab-pve/src/digest.rs"),
    ("try again", "crates/pve/src/error/classification.rs"),
    // A permission of the API of Proxmox.
    ("world", "crates/lab-pve/src/"),
    // The file format of a saved lab.
    ("world", "crates/lab/src/state.rs"),
    ("world", "crates/lab/tests/"),
    ("world", "xtask/src/chaos/"),
    // The former name of a field in saved plans.
    ("world", "crates/plan/tests/plan/json.rs"),
    ("world", "CHANGELOG.md"),
    // The words of this check.
    ("", "xtask/src/glossary.rs"),
    ("", FILE),
];

/// Word that the glossary replaces by another one.
#[derive(Debug, PartialEq, Eq)]
struct ReplacedWord {
    word: String,
    by: String,
}

pub(crate) fn check(root: &Path) -> Problems {
    let glossary = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let words = replaced_words(&glossary);
    if words.is_empty() {
        return vec![format!("{FILE} has no column of replaced words")];
    }
    let mut files = vec![];
    for folder in ["crates", "docs", "fuzz", "xtask"] {
        collect(root, &root.join(folder), &mut files);
    }
    for name in ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"] {
        files.push((name.to_owned(), fs::read_to_string(root.join(name)).unwrap_or_default()));
    }
    files.iter().flat_map(|(path, text)| uses(path, text, &words)).collect()
}

/// Source files and documents below a folder as pairs of path and text, without generated code.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !matches!(name.as_str(), "generated" | "target") {
            collect(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push((shown, fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    files.sort();
}

/// Words in the last column of the glossary, without the words in parentheses, which have another meaning elsewhere.
fn replaced_words(glossary: &str) -> Vec<ReplacedWord> {
    let table = glossary.lines().skip_while(|line| !line.trim_end().ends_with("| not |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let mut words = vec![];
    for row in rows {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [by, _, not] = cells[..] else { continue };
        let not = without_parentheses(not);
        let listed = not.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.extend(listed.map(|word| ReplacedWord { word: word.to_owned(), by: by.to_owned() }));
    }
    words
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

/// One problem for each use of a replaced word in a file.
fn uses(path: &str, text: &str, words: &[ReplacedWord]) -> Problems {
    let is_allowed = |word: &str| {
        let mut entries = ALLOWED.iter().filter(|(_, place)| path.starts_with(place));
        entries.any(|(allowed, _)| allowed.is_empty() || *allowed == word)
    };
    let words: Vec<&ReplacedWord> = words.iter().filter(|one| !is_allowed(&one.word)).collect();
    let mut problems = vec![];
    for (at, line) in text.lines().enumerate() {
        let plain = plain_words(line);
        for ReplacedWord { word, by } in words.iter().filter(|one| has_word(&plain, &one.word)) {
            let line = at + 1;
            problems.push(format!("{path}:{line}: `{word}`: {FILE} has the word `{by}` for it"));
        }
    }
    problems
}

/// The words of a line in lower case, with the words of an identifier separated by spaces.
fn plain_words(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut is_after_lower = false;
    for c in line.chars() {
        if c.is_uppercase() && is_after_lower {
            plain.push(' ');
        }
        is_after_lower = c.is_lowercase();
        match c {
            '_' | '-' => plain.push(' '),
            _ => plain.extend(c.to_lowercase()),
        }
    }
    OTHER_MEANINGS.iter().fold(plain, |plain, phrase| plain.replace(phrase, ""))
}

/// Whether a text contains a word that is not only a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "\
# Glossary

| word | meaning | not |
|---|---|---|
| foreign VM | a VM | stranger |
| step | unit of work | (task) |
| resume | continue | go on, (repeat, redo) |
| lab | simulation | |

| other | table | stranger |
";

    fn found(path: &str, line: &str) -> Problems {
        uses(path, line, &replaced_words(GLOSSARY))
    }

    #[test]
    fn words_come_from_the_last_column_without_parentheses() {
        let word = |word: &str, by: &str| ReplacedWord { word: word.to_owned(), by: by.to_owned() };
        let expected = [word("stranger", "foreign VM"), word("go on", "resume")];
        assert_eq!(replaced_words(GLOSSARY), expected);
        assert!(replaced_words("# No table").is_empty());
    }

    #[test]
    fn identifiers_texts_and_comments_are_checked() {
        for line in [
            "fn a_stranger_is_kept() {",
            "enum Stranger {",
            "struct StrangerVm;",
            "let text = \"a stranger\";",
            "// A stranger.",
        ] {
            let problem = "a.rs:1: `stranger`: docs/GLOSSARY.md has the word `foreign VM` for it";
            assert_eq!(found("a.rs", line), [problem], "{line}");
        }
        assert_eq!(found("a.rs", "fn go_on() {").len(), 1);
        assert_eq!(found("a.rs", "ok\n\"go on\"")[0].split(' ').next(), Some("a.rs:2:"));
    }

    #[test]
    fn other_words_and_allowed_files_are_no_problems() {
        for line in ["let strangers = 1;", "let task = 1;", "cargo once", "repeat"] {
            assert_eq!(found("a.rs", line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(found("xtask/src/glossary.rs", "stranger"), Vec::<String>::new());
        let world = [ReplacedWord { word: "world".to_owned(), by: "observed state".to_owned() }];
        assert!(uses("crates/lab/src/state.rs", "world.json", &world).is_empty());
        assert!(uses("crates/lab/src/lib.rs", "hello world", &world).is_empty());
        assert_eq!(uses("crates/lab/src/lib.rs", "world.json", &world).len(), 1);
    }
}
