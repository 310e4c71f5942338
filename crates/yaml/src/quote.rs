//! Quoting of scalars as in go-yaml. The type and the characters of a scalar determine how it is quoted.

use crate::emit::{STRING_TAG, TIMESTAMP_TAG};
use crate::scalar::{Resolved, Scalar, Style};
use crate::timestamp::timestamp;

/// Style that go-yaml prefers for a scalar, before it checks the characters.
pub(crate) fn preferred_style(scalar: &Scalar, tag: Option<&str>) -> Style {
    let text = scalar.text.as_str();
    let is_plain = scalar.style == Style::Plain;
    let is_node = is_plain && tag == Some(STRING_TAG);
    if text.contains('\n') {
        let has_words = text.len() >= 2 && text.chars().any(|c| !c.is_whitespace());
        return if has_words || is_node { Style::Literal } else { Style::DoubleQuoted };
    }
    if is_plain && tag == Some(TIMESTAMP_TAG) {
        return Style::Plain;
    }
    let as_plain = Scalar { text: scalar.text.clone(), style: Style::Plain };
    let reads_as_string = as_plain.resolve() == Resolved::Text && timestamp(text).is_none();
    let is_value = is_plain && !is_node && as_plain.resolve() != Resolved::Text;
    if is_value || (is_node && reads_as_string && text != "<<") {
        return Style::Plain;
    }
    if reads_as_string && !is_old_bool(text) && !is_base_60(text) && text != "<<" {
        Style::Plain
    } else {
        Style::DoubleQuoted
    }
}

/// Whether the text is a boolean in YAML 1.1. go-yaml quotes such a text for older parsers.
fn is_old_bool(text: &str) -> bool {
    matches!(
        text,
        "y" | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "on"
            | "On"
            | "ON"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "off"
            | "Off"
            | "OFF"
    )
}

/// Whether the text is a base-60 number in YAML 1.1, such as `1:30`. go-yaml quotes such a text for older parsers.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest: Vec<&str> = parts.collect();
    let Some(last) = rest.pop() else {
        return false;
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let below_60 = |text: &str| match text.as_bytes() {
        [ones] | [b'0'..=b'5', ones] => ones.is_ascii_digit(),
        _ => false,
    };
    first.starts_with(|c: char| c.is_ascii_digit())
        && is_number(first)
        && is_number(fraction)
        && rest.iter().chain([&last]).all(|part| below_60(part))
}

/// Styles that the characters of a text allow.
pub(crate) struct Traits {
    pub(crate) plain: bool,
    pub(crate) single_quoted: bool,
    pub(crate) block: bool,
}

impl Traits {
    pub(crate) fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special, mut tabs) = (false, false, false);
        let (mut space_after_break, mut break_after_space) = (false, false);
        let mut previous = None;
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let next = rest.clone().next();
            let before_blank = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= is_indicator(c, previous, before_blank);
            tabs |= c == '\t';
            special |= c != '\t' && !is_printable(c);
            breaks |= is_break(c);
            space_after_break |= c == ' ' && previous.is_some_and(is_break);
            break_after_space |= is_break(c) && previous == Some(' ');
            previous = Some(c);
        }
        let at_edge = |c: char| c == ' ' || is_break(c);
        let blank_edge = text.starts_with(at_edge) || text.ends_with(at_edge);
        let unquotable = break_after_space || special;
        let single_quoted = !(unquotable || space_after_break || tabs);
        Self {
            plain: single_quoted && !indicators && !breaks && !blank_edge,
            single_quoted,
            block: !unquotable && !text.ends_with(' ') && !text.is_empty(),
        }
    }

    pub(crate) fn allowed_style(&self, wanted: Style, is_key: bool) -> Style {
        match wanted {
            Style::Plain if self.plain => Style::Plain,
            Style::Plain | Style::SingleQuoted if self.single_quoted => Style::SingleQuoted,
            Style::Literal | Style::Folded if self.block && !is_key => Style::Literal,
            _ => Style::DoubleQuoted,
        }
    }
}

/// Whether the character would be YAML syntax at this position of a plain scalar.
fn is_indicator(c: char, previous: Option<char>, before_blank: bool) -> bool {
    match (c, previous) {
        (
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
            | '@' | '`',
            None,
        ) => true,
        ('?' | '-', None) | (':', _) => before_blank,
        ('#', Some(previous)) => matches!(previous, ' ' | '\t' | '\0') || is_break(previous),
        _ => false,
    }
}

pub(crate) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether go-yaml writes the character without escaping it. go-yaml escapes all characters beyond the basic
/// multilingual plane.
pub(crate) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

pub(crate) fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            return match u32::from(c) {
                code @ ..=0xff => format!("\\x{code:02X}"),
                code @ ..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}
