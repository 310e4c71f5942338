//! Texts for terminals in which everything that a terminal would obey or hide is visible.
//!
//! Names, messages and logs come from Proxmox, nodes, Kubernetes and files. A terminal obeys what is in them: an escape sequence
//! moves the cursor and rewrites what was shown, a bidirectional override turns a command around, a zero-width character hides
//! in a name. All output of the program passes through [`shown`], which escapes such characters (`\u{1b}`). The program's own
//! colours are marked with a number that is drawn for each process, so that no text from outside can contain them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

const ESCAPE: char = '\u{1b}';

/// How a character is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// `\u{1b}`, for people. Colours stay.
    Text,
    /// `\u001b`, as JSON spells it: a program reads the same text as without it. Colours go.
    Json,
}

/// What colours of the program begin with.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("{ESCAPE}{:016x}[", RandomState::new().hash_one(ESCAPE)))
}

/// A text in a colour or weight, such as `1;31`.
pub(crate) fn styled(text: &str, sgr: &str) -> String {
    let mark = mark();
    format!("{mark}{sgr}m{text}{mark}0m")
}

/// The output of a library that colours texts by itself. It must be given texts without escapes of their own.
pub(crate) fn styled_by_library(text: &str) -> String {
    text.replace("\u{1b}[", mark())
}

/// The text without the program's colours.
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

/// The text as it may be written to a terminal: with the program's colours, and everything else that is not plain text escaped.
pub(crate) fn shown(text: &str, escapes: Escapes) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((sgr, after)) = own_style(rest) {
            if escapes == Escapes::Text {
                // Writing to a string cannot fail.
                write!(out, "{ESCAPE}[{sgr}m").ok();
            }
            rest = after;
            continue;
        }
        // The end of a line in files of other systems, which moves the cursor nowhere else.
        if let Some(after) = rest.strip_prefix("\r\n") {
            out.push_str("\r\n");
            rest = after;
            continue;
        }
        let mut characters = rest.chars();
        if let Some(hidden) = characters.next() {
            escape(hidden, escapes, &mut out);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// [`shown`] for a text from outside, before colours are added to it.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    // Whatever looks like a colour is not one here.
    Cow::Owned(shown(&text.replace(mark(), "\u{1b}"), Escapes::Text).into_owned())
}

/// The program's colours as a terminal takes them, and nothing escaped. Only for views that move the cursor, whose texts are
/// [`plain`].
pub(crate) fn drawn(text: &str) -> String {
    text.replace(mark(), "\u{1b}[")
}

/// A colour of the program at the beginning of a text: its numbers, and what follows.
fn own_style(text: &str) -> Option<(&str, &str)> {
    let (sgr, after) = text.strip_prefix(mark())?.split_once('m')?;
    sgr.bytes().all(|byte| byte.is_ascii_digit() || byte == b';').then_some((sgr, after))
}

fn escape(hidden: char, escapes: Escapes, out: &mut String) {
    match escapes {
        Escapes::Text => out.extend(hidden.escape_unicode()),
        Escapes::Json => {
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").ok();
            }
        }
    }
}

/// Whether a terminal obeys a character or shows nothing for it. Ends of lines and tabs are part of texts.
fn is_hidden(character: char) -> bool {
    if matches!(character, '\n' | '\t') {
        return false;
    }
    // Soft hyphen, joiners, and marks of Arabic and Mongolian without a shape.
    let is_shapeless =
        matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}');
    // Zero width, directions, separators of lines, invisible operators, isolates.
    let is_format = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
    );
    // Annotations, and tags that spell hidden texts.
    let is_tag = matches!(character, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_shapeless || is_format || is_tag || character.is_control()
}

/// Bytes that come piece by piece and end anywhere, in the middle of a character too.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    rest: Vec<u8>,
}

impl Pieces {
    /// As much of the text so far as is whole.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut whole = whole_characters(&self.rest);
        // Whether it ends a line only the next piece tells.
        if self.rest[..whole].ends_with(b"\r") {
            whole -= 1;
        }
        let rest = self.rest.split_off(whole);
        let taken = std::mem::replace(&mut self.rest, rest);
        plain(&String::from_utf8_lossy(&taken)).into_owned()
    }

    /// What is left at the end.
    pub(crate) fn end(self) -> String {
        plain(&String::from_utf8_lossy(&self.rest)).into_owned()
    }
}

/// How many bytes do not end within a character.
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
    fn what_a_terminal_obeys_is_escaped() {
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
            assert_eq!(shown(text, Escapes::Text), expected);
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn only_colours_of_the_program_are_colours() {
        let red = styled("no", "1;31");
        assert_eq!(shown(&red, Escapes::Text), "\u{1b}[1;31mno\u{1b}[0m");
        assert_eq!(shown(&red, Escapes::Json), "no");
        assert_eq!(unstyled(&red), "no");
        assert_eq!(drawn(&red), "\u{1b}[1;31mno\u{1b}[0m");
        let outside = styled("\u{1b}[32mok\u{1b}[0m", "1;31");
        assert_eq!(shown(&outside, Escapes::Text), "\u{1b}[1;31m\\u{1b}[32mok\\u{1b}[0m\u{1b}[0m");
        // A text that knows the mark nevertheless has no colours where it comes from outside.
        assert!(!plain(&red).contains(ESCAPE));
        assert_eq!(shown(&format!("{}9;xJ", mark()), Escapes::Text).matches(ESCAPE).count(), 0);
    }

    #[test]
    fn json_stays_what_it_was() {
        let text = serde_json::json!({"name": "a\u{202e}b\u{e0041}\u{7f}\u{1b}"}).to_string();
        let shown = shown(&text, Escapes::Json);
        assert!(!shown.contains(is_hidden), "{shown}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(before, after);
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_of_any_text(text in "(?s).{0,64}", json: bool) {
            let escapes = if json { Escapes::Json } else { Escapes::Text };
            let once = shown(&text, escapes).replace("\r\n", "\n");
            prop_assert!(!once.contains(is_hidden), "{once:?}");
            prop_assert_eq!(&*shown(&once, escapes), &once, "once is enough");
        }

        #[test]
        fn pieces_are_the_same_as_the_whole(text in "(\\PC|\\pC|\r|\n){0,40}", at in 0_usize..200) {
            let bytes = text.as_bytes();
            let at = at.min(bytes.len());
            let mut pieces = Pieces::default();
            let mut all = pieces.take(&bytes[..at]);
            all.push_str(&pieces.take(&bytes[at..]));
            all.push_str(&pieces.end());
            prop_assert_eq!(&all, &*plain(&text));
        }

        #[test]
        fn any_bytes_are_taken(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let mut text = Pieces::default();
            let mut all: String = pieces.iter().map(|piece| text.take(piece)).collect();
            all.push_str(&text.end());
            prop_assert!(!all.replace("\r\n", "\n").contains(is_hidden), "{all:?}");
        }
    }
}
