//! Text helpers: aligned columns, wrapping, shell quoting, and splitting of command lines.

pub(crate) use talmox_plan::plan::show::{aligned, wrapped};

/// Splits a command line as sops does for editors and key commands: with quotes and backslashes, but without other shell
/// syntax. `None` if a quote is not closed or the text has no words.
pub(crate) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

/// Number with a noun, for example `1 node` or `3 nodes`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@=,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Text shortened to a number of columns, with an ellipsis.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Progress of a transfer: `12 of 40 MiB`. The amounts of a file below 1 MiB are in KiB, so that they are not all 0.
pub(crate) fn transferred(bytes: u64, total: u64) -> String {
    if total < 1 << 20 {
        return format!("{} of {} KiB", bytes.div_ceil(1 << 10), total.div_ceil(1 << 10));
    }
    format!("{} of {} MiB", bytes >> 20, total >> 20)
}

#[cfg(test)]
mod tests {
    use super::{quoted, shortened, split, transferred, wrapped};

    #[test]
    fn quoted_words_are_split_to_the_same_words() {
        assert_eq!(quoted("inventory/dev"), "inventory/dev");
        for word in ["", "my lab", "it's", "$HOME", "a\\b"] {
            assert_eq!(split(&quoted(word)), Some(vec![word.to_owned()]), "{word}");
        }
    }

    #[test]
    fn text_is_wrapped_and_shortened() {
        assert_eq!(
            wrapped("no API server answers yet", 10),
            ["no API", "server", "answers", "yet"]
        );
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("unbreakable word", 4), ["unbreakable", "word"]);
        assert_eq!(shortened("grün", 4), "grün");
        assert_eq!(shortened("grüner", 4), "grü…");
    }

    #[test]
    fn quoted_spaces_do_not_split_words() {
        let words = |text| split(text).unwrap();
        assert_eq!(words("code  --wait"), ["code", "--wait"]);
        assert_eq!(
            words(r#""/a b/vi" '-c' 'set "x"' c\ d """#),
            ["/a b/vi", "-c", "set \"x\"", "c d", ""]
        );
        for bad in ["", "  ", "vi 'x", "vi \\"] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn small_transfers_are_shown_in_kib() {
        assert_eq!(transferred(5 << 20, 40 << 20), "5 of 40 MiB");
        assert_eq!(transferred(1 << 20, 1 << 20), "1 of 1 MiB");
        assert_eq!(transferred(64 << 10, 370 << 10), "64 of 370 KiB");
        assert_eq!(transferred(300, 300), "1 of 1 KiB");
    }
}
