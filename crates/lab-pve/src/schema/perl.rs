//! Rules of Perl for texts: numbers, booleans, lists and the end of a pattern. Proxmox is written in Perl, so its parameters
//! follow these rules.

use regex_lite::Regex;

/// Pattern that must match the whole text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    #[cfg_attr(not(test), expect(dead_code, reason = "compared with the API's own schema"))]
    pub(crate) source: &'static str,
    regex: Regex,
}

impl Pattern {
    pub(crate) fn new(source: &'static str) -> Self {
        let regex = Regex::new(&format!("^{source}$"))
            .expect("invariant: the patterns in the tables are valid");
        Self { source, regex }
    }

    /// Whether the pattern matches the text. As in Perl, a newline at the end of the text is ignored.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text)
            || text.strip_suffix('\n').is_some_and(|text| self.regex.is_match(text))
    }
}

/// Whether a text matches a pattern. The pattern is compiled at its first use.
macro_rules! fits {
    ($text:expr, $pattern:literal) => {{
        static PATTERN: std::sync::LazyLock<$crate::schema::perl::Pattern> =
            std::sync::LazyLock::new(|| $crate::schema::perl::Pattern::new($pattern));
        PATTERN.fits($text)
    }};
}
pub(crate) use fits;

pub(crate) fn is_integer(text: &str) -> bool {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn is_number(text: &str) -> bool {
    fits!(text, r"[+-]?(\d+\.\d+|\d+\.|\.\d+|\d+)([eE][+-]?\d+)?")
}

/// Value of a text, if [`is_number`] accepts the text.
pub(crate) fn number(text: &str) -> Option<f64> {
    if !is_number(text) {
        return None;
    }
    text.trim_end_matches('\n').parse().ok()
}

/// Whether Perl treats a text as true: neither empty nor `"0"`.
pub(crate) fn is_true(text: &str) -> bool {
    !matches!(text, "" | "0")
}

/// Boolean for a word such as `on` or `no`; `None` for other words.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    let word = text.strip_suffix('\n').unwrap_or(text).to_ascii_lowercase();
    match word.as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Items of a list. The separators are commas, semicolons and white space; if the text contains NUL, only NUL separates.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    if text.contains('\0') {
        let mut items: Vec<&str> = text.split('\0').collect();
        while items.last().is_some_and(|item| item.is_empty()) {
            items.pop();
        }
        return items;
    }
    let separator = |c: char| matches!(c, ',' | ';') || c.is_ascii_whitespace();
    text.split(separator).filter(|item| !item.is_empty()).collect()
}
