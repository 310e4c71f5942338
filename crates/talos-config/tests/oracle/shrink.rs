//! Reduction of failing cases.

/// Maximum number of steps. Each step sends requests to Talos and the library.
const MOST_STEPS: usize = 600;

/// Replaces a failing case by a simpler case that also fails, until there is no such case. `why` returns the failure of
/// a case, or `None` if the case passes.
pub(crate) fn smallest<C>(
    mut case: C,
    simpler: impl Fn(&C) -> Vec<C>,
    mut why: impl FnMut(&C) -> Option<String>,
) -> C {
    let mut steps = 0;
    while steps < MOST_STEPS {
        let found = simpler(&case).into_iter().find(|candidate| {
            steps += 1;
            why(candidate).is_some()
        });
        match found {
            Some(candidate) => case = candidate,
            None => break,
        }
    }
    case
}

/// Removes blocks of lines, then single lines, as long as the remaining text still fails.
pub(crate) fn fewest_lines(text: &str, mut fails: impl FnMut(&str) -> bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let join = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (mut block, mut steps) = (lines.len().div_ceil(2), 0);
    while block > 0 {
        let (mut at, mut shrunk) = (0, false);
        while at < lines.len() && steps < MOST_STEPS {
            let mut fewer = lines.clone();
            fewer.drain(at..(at + block).min(lines.len()));
            steps += 1;
            if fails(&join(&fewer)) {
                (lines, shrunk) = (fewer, true);
            } else {
                at += block;
            }
        }
        // Removing single lines is repeated until no line can be removed, because one line may depend on another.
        if !shrunk || block > 1 {
            block /= 2;
        }
    }
    join(&lines)
}

/// Lines around the first difference of two texts. Lines of Talos have the prefix `-`, and lines of the library `+`.
pub(crate) fn first_difference(expected: &str, actual: &str) -> String {
    let expected: Vec<&str> = expected.split('\n').collect();
    let actual: Vec<&str> = actual.split('\n').collect();
    let at =
        expected.iter().zip(&actual).take_while(|(expected, actual)| expected == actual).count();
    let mut text = String::new();
    for line in &expected[at.saturating_sub(4)..at] {
        text += &format!("  {}\n", cut(line));
    }
    for (sign, lines) in [('-', &expected), ('+', &actual)] {
        for line in lines.iter().skip(at).take(4) {
            text += &format!("{sign} {}\n", cut(line));
        }
    }
    text
}

/// Shortens a line, because keys and certificates are long and do not explain a difference.
pub(crate) fn cut(line: &str) -> String {
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {}\n", cut(line))).collect()
}
