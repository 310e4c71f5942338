//! Escaping of control characters and invisible characters in terminal output.
//!
//! Names, messages and logs come from Proxmox, nodes, Kubernetes and files. In such text, an escape sequence could move
//! the cursor and overwrite earlier output. A bidirectional override could reorder a command, and a zero-width character
//! could hide in a name. All output of talmox passes through [`shown`], which escapes these characters (`\u{1b}`). The
//! colours of talmox are marked with a random number for each process, so that text from other systems cannot contain
//! them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

const ESCAPE: char = '\u{1b}';

/// Escape syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeSyntax {
    /// `\u{1b}`, for text output. Colours of talmox are kept.
    Text,
    /// `\u001b`, the escape of JSON, which decodes to the same text. Colours of talmox are removed.
    Json,
}

/// Random prefix of the colour sequences of talmox.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("{ESCAPE}{:016x}[", RandomState::new().hash_one(ESCAPE)))
}

/// Adds a colour or weight to a text. `sgr` has the numbers of the escape sequence, such as `1;31`.
pub(crate) fn styled(text: &str, sgr: &str) -> String {
    let mark = mark();
    format!("{mark}{sgr}m{text}{mark}0m")
}

/// Marks the colours that a library added to a text. The library must be called with text without escape characters.
pub(crate) fn styled_by_library(text: &str) -> String {
    text.replace("\u{1b}[", mark())
}

/// Removes the colours of talmox.
pub(crate) fn unstyled(text: &str) -> Cow<'_, str> {
    if !text.contains(mark()) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(mark());
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    Cow::Owned(out)
}

/// Converts text for output. The colours of talmox become escape sequences, and all other control characters are escaped.
pub(crate) fn shown(text: &str, syntax: EscapeSyntax) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((sgr, after)) = own_style(rest) {
            if syntax == EscapeSyntax::Text {
                // Writing to a string cannot fail.
                write!(out, "{ESCAPE}[{sgr}m").ok();
            }
            rest = after;
            continue;
        }
        // The line end of Windows files does no harm.
        if let Some(after) = rest.strip_prefix("\r\n") {
            out.push_str("\r\n");
            rest = after;
            continue;
        }
        let mut characters = rest.chars();
        if let Some(hidden) = characters.next() {
            escape(hidden, syntax, &mut out);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Escapes text from other systems as [`shown`] does, before colours are added to the text.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    // Text from other systems must not contain colours of talmox.
    Cow::Owned(shown(&text.replace(mark(), "\u{1b}"), EscapeSyntax::Text).into_owned())
}

/// Converts the colours of talmox to escape sequences, and escapes nothing. Only for views that move the cursor; their
/// text has already passed [`plain`].
pub(crate) fn drawn(text: &str) -> String {
    text.replace(mark(), "\u{1b}[")
}

/// Splits a colour sequence of talmox off the start of a text. Returns the parameters of the sequence, such as `1;31`, and the
/// rest of the text.
fn own_style(text: &str) -> Option<(&str, &str)> {
    let (sgr, after) = text.strip_prefix(mark())?.split_once('m')?;
    sgr.bytes().all(|byte| byte.is_ascii_digit() || byte == b';').then_some((sgr, after))
}

fn escape(hidden: char, syntax: EscapeSyntax, out: &mut String) {
    match syntax {
        EscapeSyntax::Text => out.extend(hidden.escape_unicode()),
        EscapeSyntax::Json => {
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").ok();
            }
        }
    }
}

/// Whether a character controls the terminal or is invisible. Line ends and tabs are allowed.
fn is_hidden(character: char) -> bool {
    if matches!(character, '\n' | '\t') {
        return false;
    }
    // Soft hyphen, joiners, and invisible Arabic and Mongolian marks.
    let is_shapeless =
        matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}');
    // Zero-width characters, text directions, line separators, invisible operators, isolates.
    let is_format = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
    );
    // Annotations and tag characters.
    let is_tag = matches!(character, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_shapeless || is_format || is_tag || character.is_control()
}

/// Decoder for text that arrives in pieces, which may end in the middle of a character.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    rest: Vec<u8>,
}

impl Pieces {
    /// Adds bytes, and returns the complete characters.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut whole = whole_characters(&self.rest);
        // Whether `\n` follows is only known when the next piece arrives.
        if self.rest[..whole].ends_with(b"\r") {
            whole -= 1;
        }
        let rest = self.rest.split_off(whole);
        let taken = std::mem::replace(&mut self.rest, rest);
        plain(&String::from_utf8_lossy(&taken)).into_owned()
    }

    /// Returns the remaining bytes as text.
    pub(crate) fn end(self) -> String {
        plain(&String::from_utf8_lossy(&self.rest)).into_owned()
    }
}

/// Number of bytes up to the end of the last complete character.
fn whole_characters(bytes: &[u8]) -> usize {
    // A character has four bytes at most.
    let from = bytes.len().saturating_sub(3);
    let begins = |at: &usize| {
        let length = match bytes[*at] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        at + length > bytes.len()
    };
    (from..bytes.len()).find(begins).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("pve\u{1b}[2J\u{1b}]0;evil\u{7}", "pve\\u{1b}[2J\\u{1b}]0;evil\\u{7}"),
            ("a\rb\u{8}c\u{7f}", "a\\u{d}b\\u{8}c\\u{7f}"),
            ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
            ("rm \u{202e}gpj.exe\u{2066}", "rm \\u{202e}gpj.exe\\u{2066}"),
            ("a\u{200b}b\u{feff}\u{200d}c", "a\\u{200b}b\\u{feff}\\u{200d}c"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("of another system\r\n", "of another system\r\n"),
            ("Grüße 日本 \\ … ✓", "Grüße 日本 \\ … ✓"),
        ] {
            assert_eq!(shown(text, EscapeSyntax::Text), expected);
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn only_colours_of_talmox_are_kept() {
        let red = styled("no", "1;31");
        assert_eq!(shown(&red, EscapeSyntax::Text), "\u{1b}[1;31mno\u{1b}[0m");
        assert_eq!(shown(&red, EscapeSyntax::Json), "no");
        assert_eq!(unstyled(&red), "no");
        assert_eq!(drawn(&red), "\u{1b}[1;31mno\u{1b}[0m");
        let outside = styled("\u{1b}[32mok\u{1b}[0m", "1;31");
        assert_eq!(
            shown(&outside, EscapeSyntax::Text),
            "\u{1b}[1;31m\\u{1b}[32mok\\u{1b}[0m\u{1b}[0m"
        );
        // Text from other systems gets no colours even if it contains the prefix.
        assert!(!plain(&red).contains(ESCAPE));
        assert_eq!(
            shown(&format!("{}9;xJ", mark()), EscapeSyntax::Text).matches(ESCAPE).count(),
            0
        );
    }

    #[test]
    fn escaped_json_decodes_to_the_same_value() {
        let text = serde_json::json!({"name": "a\u{202e}b\u{e0041}\u{7f}\u{1b}"}).to_string();
        let shown = shown(&text, EscapeSyntax::Json);
        assert!(!shown.contains(is_hidden), "{shown}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(before, after);
    }

    proptest! {
        #[test]
        fn no_control_character_remains(text in "(?s).{0,64}", json: bool) {
            let syntax = if json { EscapeSyntax::Json } else { EscapeSyntax::Text };
            let once = shown(&text, syntax).replace("\r\n", "\n");
            prop_assert!(!once.contains(is_hidden), "{once:?}");
            prop_assert_eq!(&*shown(&once, syntax), &once, "escaping twice changes nothing");
        }

        #[test]
        fn pieces_decode_like_the_complete_text(text in "(\\PC|\\pC|\r|\n){0,40}", at in 0_usize..200) {
            let bytes = text.as_bytes();
            let at = at.min(bytes.len());
            let mut pieces = Pieces::default();
            let mut all = pieces.take(&bytes[..at]);
            all.push_str(&pieces.take(&bytes[at..]));
            all.push_str(&pieces.end());
            prop_assert_eq!(&all, &*plain(&text));
        }

        #[test]
        fn any_bytes_are_accepted(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let mut text = Pieces::default();
            let mut all: String = pieces.iter().map(|piece| text.take(piece)).collect();
            all.push_str(&text.end());
            prop_assert!(!all.replace("\r\n", "\n").contains(is_hidden), "{all:?}");
        }
    }
}
