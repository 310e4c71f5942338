//! Unified diff of two texts, in the format of `diff -u`.

/// Number of unchanged lines shown before and after each change.
const CONTEXT: usize = 3;
/// Maximum product of the numbers of lines in the two changed parts. Above this limit, the parts are shown as one change.
const MAX_COMPARISON: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Unified diff; empty if the texts are equal.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    if !lines.iter().any(is_change) {
        return String::new();
    }
    let mut text = "--- a\n+++ b\n".to_owned();
    let mut at = 0;
    while let Some(next) = lines[at..].iter().position(is_change) {
        let from = (at + next).saturating_sub(CONTEXT).max(at);
        let mut to = at + next + 1;
        // Changes that are close to each other share a hunk.
        while let Some(more) = lines[to..].iter().take(2 * CONTEXT + 1).position(is_change) {
            to += more + 1;
        }
        to = (to + CONTEXT).min(lines.len());
        text += &hunk(&lines, from, to);
        at = to;
    }
    text
}

fn hunk(lines: &[Line<'_>], from: usize, to: usize) -> String {
    let count = |part: &[Line<'_>], is_counted: fn(&Line<'_>) -> bool| {
        part.iter().filter(|line| is_counted(line)).count()
    };
    let is_old: fn(&Line<'_>) -> bool = |line| !matches!(line, Line::New(_));
    let is_new: fn(&Line<'_>) -> bool = |line| !matches!(line, Line::Old(_));
    let range = |is_counted| {
        let (before, own) =
            (count(&lines[..from], is_counted), count(&lines[from..to], is_counted));
        // If a side has no lines, its number is that of the line before the hunk.
        format!("{},{own}", if own == 0 { before } else { before + 1 })
    };
    let mut text = format!("@@ -{} +{} @@\n", range(is_old), range(is_new));
    for line in &lines[from..to] {
        let (mark, line) = match line {
            Line::Same(line) => (' ', line),
            Line::Old(line) => ('-', line),
            Line::New(line) => ('+', line),
        };
        text.push(mark);
        text += line;
        text.push('\n');
    }
    text
}

/// Shortest list of removed and added lines that turns one text into the other.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let ahead = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (head, old) = old.split_at(ahead);
    let new = &new[ahead..];
    let behind = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, tail) = old.split_at(old.len() - behind);
    let new = &new[..new.len() - behind];
    let same = |lines: &[&'a str]| lines.iter().map(|line| Line::Same(line)).collect::<Vec<_>>();
    let mut lines = same(head);
    if old.len().saturating_mul(new.len()) > MAX_COMPARISON {
        lines.extend(old.iter().map(|line| Line::Old(line)));
        lines.extend(new.iter().map(|line| Line::New(line)));
    } else {
        compare_changed(old, new, &mut lines);
    }
    lines.extend(same(tail));
    lines
}

fn compare_changed<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<Line<'a>>) {
    // Lengths of the longest common subsequences, for each pair of start positions.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn equal_texts_have_an_empty_diff() {
        assert_eq!(unified("a\nb\n", "a\nb\n"), "");
    }

    #[test]
    fn a_diff_from_an_empty_text_adds_all_lines() {
        assert_eq!(unified("", "a\nb\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    }

    #[test]
    fn distant_changes_have_separate_hunks() {
        let old: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        let mut new = old.clone();
        new[2] = "three".to_owned();
        new.remove(16);
        let diff = unified(&(old.join("\n") + "\n"), &(new.join("\n") + "\n"));
        let wanted = "--- a\n+++ b\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -14,7 +14,6 @@\n 14\n 15\n 16\n-17\n 18\n 19\n 20\n";
        assert_eq!(diff, wanted);
    }

    #[test]
    fn near_changes_share_a_hunk() {
        let diff = unified("1\n2\n3\n4\n5\n", "one\n2\n3\n4\nfive\n");
        assert_eq!(diff, "--- a\n+++ b\n@@ -1,5 +1,5 @@\n-1\n+one\n 2\n 3\n 4\n-5\n+five\n");
    }
}
