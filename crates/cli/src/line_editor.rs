//! Editor for one line of text. It decodes the bytes of a terminal into keys, and applies the keys to the line.
//!
//! The editor does no input or output. It takes bytes, and returns the text and the cursor position.

/// Key that edits a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Char(char),
    Enter,
    Left,
    Right,
    Home,
    End,
    Backspace,
    Delete,
    /// Deletes the text before the cursor.
    DeleteToStart,
    /// Deletes the text after the cursor.
    DeleteToEnd,
    /// Deletes the word before the cursor.
    DeleteWord,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: end of input on an empty line, otherwise the same as Delete.
    EndOfInput,
}

/// Key that ended a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// The user pressed Enter.
    Entered,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The user pressed Ctrl-D on an empty line.
    EndOfInput,
}

/// Maximum length of an escape sequence, in bytes.
const LONGEST_SEQUENCE: usize = 16;

/// Edited line, cursor position, and the bytes of an incomplete key.
#[derive(Default)]
pub(crate) struct LineEditor {
    text: Vec<char>,
    cursor: usize,
    pending: Vec<u8>,
}

impl LineEditor {
    /// Processes one byte from the terminal. If the byte ends the line, returns how the line ended.
    pub(crate) fn take(&mut self, byte: u8) -> Option<LineEnd> {
        self.pending.push(byte);
        match key(&self.pending) {
            Decoded::Incomplete => None,
            Decoded::Unknown => {
                self.pending.clear();
                None
            }
            Decoded::Key(key) => {
                self.pending.clear();
                self.press(key)
            }
        }
    }

    /// Current text of the line.
    pub(crate) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Part of the text that fits into this number of columns, and the column of the cursor in this part.
    pub(crate) fn window(&self, columns: usize) -> (String, usize) {
        // The cursor needs one column after the last character.
        let room = columns.max(2) - 1;
        let first = self.cursor.saturating_sub(room);
        let shown = self.text.iter().skip(first).take(room).collect();
        (shown, self.cursor - first)
    }

    fn press(&mut self, key: Key) -> Option<LineEnd> {
        match key {
            Key::Enter => return Some(LineEnd::Entered),
            Key::Interrupt => return Some(LineEnd::Interrupted),
            Key::EndOfInput if self.text.is_empty() => return Some(LineEnd::EndOfInput),
            Key::Char(character) => {
                self.text.insert(self.cursor, character);
                self.cursor += 1;
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.text.len(),
            Key::Backspace => {
                if self.cursor > 0 {
                    self.cursor -= 1;
                    self.text.remove(self.cursor);
                }
            }
            Key::Delete | Key::EndOfInput => {
                if self.cursor < self.text.len() {
                    self.text.remove(self.cursor);
                }
            }
            Key::DeleteToStart => self.delete_from(0),
            Key::DeleteToEnd => self.text.truncate(self.cursor),
            Key::DeleteWord => {
                let before = &self.text[..self.cursor];
                let is_blank = |c: &char| c.is_whitespace();
                let word = before.iter().rposition(|c| !is_blank(c)).map_or(0, |last| {
                    before[..last].iter().rposition(is_blank).map_or(0, |blank| blank + 1)
                });
                self.delete_from(word);
            }
        }
        None
    }

    /// Deletes the characters from `start` to the cursor.
    fn delete_from(&mut self, start: usize) {
        self.text.drain(start..self.cursor);
        self.cursor = start;
    }
}

enum Decoded {
    Key(Key),
    /// More bytes are needed.
    Incomplete,
    /// The bytes are not a key that edits a line.
    Unknown,
}

/// Decodes a key.
fn key(bytes: &[u8]) -> Decoded {
    let [first, rest @ ..] = bytes else { return Decoded::Incomplete };
    let key = match first {
        b'\r' | b'\n' => Key::Enter,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOfInput,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        0x0b => Key::DeleteToEnd,
        0x15 => Key::DeleteToStart,
        0x17 => Key::DeleteWord,
        0x1b => return escape_sequence(rest),
        0x00..0x20 => return Decoded::Unknown,
        _ => return character(bytes),
    };
    Decoded::Key(key)
}

/// Decodes a UTF-8 character.
fn character(bytes: &[u8]) -> Decoded {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().next().map_or(Decoded::Incomplete, |character| {
            if character.is_control() {
                Decoded::Unknown
            } else {
                Decoded::Key(Key::Char(character))
            }
        }),
        Err(error) if error.error_len().is_none() => Decoded::Incomplete,
        Err(_) => Decoded::Unknown,
    }
}

/// Decodes the bytes after Escape, for example `[C`, `OC`, `[1;5C` or `[3~`.
fn escape_sequence(rest: &[u8]) -> Decoded {
    let (introducer, rest) = match rest {
        [] => return Decoded::Incomplete,
        [b'[', rest @ ..] => (b'[', rest),
        [b'O', rest @ ..] => (b'O', rest),
        _ => return Decoded::Unknown,
    };
    let Some((last, parameters)) = rest.split_last() else { return Decoded::Incomplete };
    let is_parameter = last.is_ascii_digit() || *last == b';';
    if introducer == b'[' && is_parameter {
        // A sequence that is too long is not a key.
        let is_too_long = rest.len() > LONGEST_SEQUENCE;
        return if is_too_long { Decoded::Unknown } else { Decoded::Incomplete };
    }
    let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    match (last, number) {
        (b'C', _) => Decoded::Key(Key::Right),
        (b'D', _) => Decoded::Key(Key::Left),
        (b'H', _) | (b'~', b"1" | b"7") => Decoded::Key(Key::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Decoded::Key(Key::End),
        (b'~', b"3") => Decoded::Key(Key::Delete),
        _ => Decoded::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Line after these bytes, with `|` at the position of the cursor, and how the line ended.
    fn typed(bytes: &str) -> (String, Option<LineEnd>) {
        let mut line = LineEditor::default();
        let mut end = None;
        for byte in bytes.bytes() {
            assert_eq!(end, None, "bytes after the end of the line");
            end = line.take(byte);
        }
        let mut text: Vec<char> = line.text.clone();
        text.insert(line.cursor, '|');
        (text.into_iter().collect(), end)
    }

    #[test]
    fn keys_move_the_cursor_and_edit_the_line() {
        for (bytes, line) in [
            ("pve1", "pve1|"),
            ("pve1\x1b[D\x1b[D", "pv|e1"),
            ("pve1\x1bOD\x1b[1;5D", "pv|e1"),
            ("pve\x1b[D\x1b[D\x1b[D\x1b[D\x1b[C", "p|ve"),
            ("ve\x1b[Hp", "p|ve"),
            ("ve\x1b[1~p", "p|ve"),
            ("ve\x1bOHp\x1b[F1", "pve1|"),
            ("ve\x1b[7~p\x1b[8~1", "pve1|"),
            ("ve\x01p\x051", "pve1|"),
            ("pve12\x7f", "pve1|"),
            ("pve12\x08", "pve1|"),
            ("\x7f", "|"),
            ("pvve\x1b[D\x1b[D\x1b[3~", "pv|e"),
            ("pvve\x1b[D\x1b[D\x04", "pv|e"),
            ("pve\x1b[3~", "pve|"),
            ("pve\x1b[D\x15", "|e"),
            ("pve\x1b[D\x0b", "pv|"),
            ("one two  \x17", "one |"),
            ("one\x17\x17", "|"),
            ("grün\x1b[D\x7f", "gr|n"),
        ] {
            assert_eq!(typed(bytes), (line.to_owned(), None), "{bytes:?}");
        }
    }

    #[test]
    fn unknown_keys_add_no_bytes_to_the_line() {
        // These are Up, Down, Page Up, F5, Alt-x, Tab, a null byte and a C1 control character.
        for bytes in ["\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[15~", "\x1bx", "\t", "\0", "\u{9b}"] {
            assert_eq!(typed(&format!("a{bytes}b")), ("ab|".to_owned(), None), "{bytes:?}");
        }
        assert_eq!(typed(&format!("\x1b[{}b", "1".repeat(20))).0, "111b|");
    }

    #[test]
    fn enter_ctrl_c_and_ctrl_d_end_a_line() {
        assert_eq!(typed("pve\n"), ("pve|".to_owned(), Some(LineEnd::Entered)));
        assert_eq!(typed("pve\x1b[D\r"), ("pv|e".to_owned(), Some(LineEnd::Entered)));
        assert_eq!(typed("pve\x03"), ("pve|".to_owned(), Some(LineEnd::Interrupted)));
        assert_eq!(typed("\x04"), ("|".to_owned(), Some(LineEnd::EndOfInput)));
        assert_eq!(typed("a\x7f\x04"), ("|".to_owned(), Some(LineEnd::EndOfInput)));
    }

    #[test]
    fn a_long_line_is_scrolled_to_the_cursor() {
        let mut line = LineEditor::default();
        for byte in *b"0123456789" {
            line.take(byte);
        }
        assert_eq!(line.window(20), ("0123456789".to_owned(), 10));
        assert_eq!(line.window(5), ("6789".to_owned(), 4));
        line.press(Key::Home);
        assert_eq!(line.window(5), ("0123".to_owned(), 0));
        assert_eq!(line.window(0), ("0".to_owned(), 0));
    }

    proptest! {
        #[test]
        fn the_cursor_stays_in_the_line_for_any_input(bytes: Vec<u8>, columns in 0_usize..30) {
            let mut line = LineEditor::default();
            for byte in bytes {
                line.take(byte);
                prop_assert!(line.cursor <= line.text.len());
                prop_assert!(!line.text().contains(char::is_control));
                let (shown, column) = line.window(columns);
                prop_assert!(column <= shown.chars().count() && column < columns.max(2));
            }
        }
    }
}
