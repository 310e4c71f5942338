//! Lines of text: columns, wrapping and shortening.

/// The rows as text, with aligned columns that are two spaces apart.
pub fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    let rows: Vec<&[String]> = rows.iter().map(R::as_ref).collect();
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &&[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A text, wrapped to this number of columns. A longer word is not split.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("invariant: there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Shortens each SHA-256 in a text to its first digits, as in the names of images.
pub(super) fn shortened(text: &str) -> String {
    const DIGEST: usize = 64;
    const SHOWN: usize = 16;
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_hex) {
        let run = &rest[start..];
        let length = run.find(|c| !is_hex(c)).unwrap_or(run.len());
        out.push_str(&rest[..start]);
        if length == DIGEST {
            out.push_str(&format!("{}…", &run[..SHOWN]));
        } else {
            out.push_str(&run[..length]);
        }
        rest = &run[length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::{shortened, wrapped};

    #[test]
    fn digests_are_shortened_and_nothing_else() {
        let digest = "0123456789abcdef".repeat(4);
        let url = format!("https://factory/image/{digest}/v1.11.2/nocloud-amd64.qcow2");
        let short = "https://factory/image/0123456789abcdef…/v1.11.2/nocloud-amd64.qcow2";
        assert_eq!(shortened(&url), short);
        for other in ["", "über", "02:6E:53:1C:E1:C1", &digest[1..], &format!("{digest}0")] {
            assert_eq!(shortened(other), other);
        }
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("cp-1, cp-2, wk-1", 11), ["cp-1, cp-2,", "wk-1"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
