//! Splitting a command line into words, as sops does for editors and key commands: quotes and
//! backslashes, but nothing else that a shell does.

/// `None` if a quote is not closed, or there is no word at all.
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

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_hold_words_together() {
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
}
