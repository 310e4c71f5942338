//! Streaming parser of the multipart form of an upload.
//!
//! `pveproxy` does not parse arbitrary forms. It expects the optional fields `content`, `checksum-algorithm` and `checksum` in
//! this order, then the file, which ends at the closing boundary. `pveproxy` parses any other field before the file as part of
//! the header of the next field, and that header is then invalid.

use memchr::memmem::{self, Finder};

/// Size of the pieces in which the file is written. Much larger pieces would leave the CPU cache before they are written.
const BLOCK: usize = 256 * 1024;
/// Required capacity of a block: one piece, and the fields before the file.
pub(super) const BLOCK_CAPACITY: usize = MAX_FIELDS + BLOCK;
/// Page size in bytes. Each piece ends at a page boundary, so that each page of the file is written only once.
const PAGE: usize = 4096;
/// Maximum length in bytes of the fields before the file.
const MAX_FIELDS: usize = 64 * 1024;

const FIELDS: [&str; 3] = ["content", "checksum-algorithm", "checksum"];

/// Parser of the multipart form of an upload.
#[derive(Debug)]
pub(super) struct Multipart {
    /// Boundary that starts a part of the form.
    delimiter: Finder<'static>,
    /// Closing boundary, which ends the file.
    end: Finder<'static>,
    state: ParserState,
    pending: Vec<u8>,
    /// Start of `pending` that belongs to the file and is ready to be taken.
    ready: Option<ReadyPiece>,
    /// Number of bytes of `pending` in which the closing boundary was already searched.
    searched: usize,
    /// Fields and their values in the order received.
    parts: Vec<(&'static str, String)>,
    pub(super) filename: Option<String>,
}

/// Piece of the file that can be written.
#[derive(Clone, Copy, Debug)]
struct ReadyPiece {
    /// Number of bytes of the file.
    length: usize,
    /// Number of bytes of the form. At the end of the file, this includes the closing boundary.
    used: usize,
}

/// State of the form parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    /// Before the first boundary of the form.
    Preamble,
    /// At a boundary, before a field or the file.
    Fields,
    /// Inside the file of the form.
    File,
    Done,
    /// Invalid form; all further input is ignored.
    Invalid,
}

impl Multipart {
    pub(super) fn new(boundary: &str) -> Self {
        Self {
            delimiter: Finder::new(&format!("--{boundary}")).into_owned(),
            end: Finder::new(&format!("--{boundary}--")).into_owned(),
            state: ParserState::Preamble,
            pending: Vec::with_capacity(BLOCK_CAPACITY),
            ready: None,
            searched: 0,
            parts: vec![],
            filename: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == ParserState::Done
    }

    /// Form fields received before the file.
    pub(super) fn fields(&self) -> &[(&'static str, String)] {
        &self.parts
    }

    /// Buffer to which the caller appends the next bytes of the body. After the ready piece was taken, the buffer has room.
    pub(super) fn block(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Parses the buffered bytes. Returns whether a piece of the file is ready.
    pub(super) fn advance(&mut self) -> Result<bool, String> {
        if matches!(self.state, ParserState::Done | ParserState::Invalid) {
            self.pending.clear();
            return Ok(false);
        }
        if self.state == ParserState::Preamble {
            self.skip_preamble();
        }
        while self.state == ParserState::Fields && self.next_part()? {}
        match self.state {
            ParserState::File => self.file(),
            ParserState::Preamble | ParserState::Fields if self.pending.len() > MAX_FIELDS => {
                self.discard();
            }
            _ => {}
        }
        Ok(self.ready.is_some())
    }

    /// Returns the ready piece of the file in its buffer. `empty` becomes the new buffer.
    pub(super) fn take(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        let ready = self.ready.take().unwrap_or(ReadyPiece { length: 0, used: 0 });
        empty.clear();
        empty.extend_from_slice(&self.pending[ready.used..]);
        let mut piece = std::mem::replace(&mut self.pending, empty);
        piece.truncate(ready.length);
        piece
    }

    fn discard(&mut self) {
        self.state = ParserState::Invalid;
        self.pending.clear();
    }

    fn skip_preamble(&mut self) {
        if let Some((at, _)) = self.delimiter(0) {
            self.pending.drain(..at);
            self.state = ParserState::Fields;
        }
    }

    /// Start and end of the next `--boundary` line.
    fn delimiter(&self, from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        loop {
            at += self.delimiter.find(self.pending.get(at..)?)?;
            let end = at + self.delimiter.needle().len();
            match &self.pending[end..] {
                [b'\n', ..] => return Some((at, end + 1)),
                [b'\r', b'\n', ..] => return Some((at, end + 2)),
                _ => at = end,
            }
        }
    }

    /// Parses the part at the start of the buffer, if it is complete. A field is complete at its end, a file at the end of its
    /// headers. Returns whether a part was parsed.
    fn next_part(&mut self) -> Result<bool, String> {
        let Some((_, start)) = self.delimiter(0) else { return Ok(false) };
        let Some((headers, body)) = self.headers(start) else { return Ok(false) };
        let first = headers.lines().next().unwrap_or_default();
        if let Some((kind, name, filename)) = file_disposition(first) {
            expect_form_data(kind)?;
            if name != "filename" {
                return Err(format!(
                    "wrong field name '{name}' for file upload, expected 'filename'"
                ));
            }
            self.filename = Some(filename.trim().to_owned());
            self.pending.drain(..body);
            self.state = ParserState::File;
            return Ok(false);
        }
        if field_disposition(first) == Some(("form-data", "filename")) {
            // The parameter check reports a missing file name.
            self.pending.drain(..body);
            self.state = ParserState::File;
            return Ok(false);
        }
        let Some((end, _)) = self.delimiter(body) else { return Ok(false) };
        let disposition = headers.lines().find_map(field_disposition);
        let (kind, name) = disposition.unwrap_or(("form-data", ""));
        expect_form_data(kind)?;
        let Some(field) = self.permitted_field(name) else {
            self.expect_in_order(name)?;
            return self.parse_merged_part(start, end);
        };
        let value = String::from_utf8_lossy(&self.pending[body..end]).trim().to_owned();
        self.parts.push((field, value));
        self.pending.drain(..end);
        Ok(true)
    }

    /// Field with this name, if its position after the previous fields is correct.
    fn permitted_field(&self, name: &str) -> Option<&'static str> {
        let last = self.parts.last().and_then(|(last, _)| place(last));
        let found = place(name)?;
        (last.is_none_or(|last| found > last)).then_some(FIELDS[found])
    }

    /// Rejects a known field in the wrong position. `pveproxy` searches for this field first, and then parses the earlier
    /// fields as part of the header of this field.
    fn expect_in_order(&self, name: &str) -> Result<(), String> {
        let (Some(_), Some((last, value))) = (place(name), self.parts.last()) else {
            return Ok(());
        };
        let delimiter = String::from_utf8_lossy(self.delimiter.needle());
        expect_form_data(&format!(
            "form-data; name=\"{last}\"\r\n\r\n{value}\r\n{delimiter}\r\nContent-Disposition: form-data"
        ))
    }

    /// Handles an unknown field at `start`. `pveproxy` parses an unknown field and the next known part together as one part,
    /// because the patterns of `pveproxy` match across lines. So this function waits for the next known part, and then returns
    /// the error that `pveproxy` returns.
    fn parse_merged_part(&self, start: usize, mut end: usize) -> Result<bool, String> {
        const HEADER: &str = "Content-Disposition: ";
        loop {
            let Some((_, after)) = self.delimiter(end) else { return Ok(false) };
            let Some((headers, _)) = self.headers(after) else { return Ok(false) };
            let both = String::from_utf8_lossy(&self.pending[start..after]).into_owned() + &headers;
            let value = both.split_once(HEADER).map_or("", |(_, value)| value);
            let first = headers.lines().next().unwrap_or_default();
            if file_disposition(first).is_some() {
                let name = value.split_once("; name=\"").map_or("", |(_, name)| name);
                let name = name.split_once("\"; filename=\"").map_or(name, |(name, _)| name);
                return Err(format!(
                    "wrong field name '{name}' for file upload, expected 'filename'"
                ));
            }
            let field =
                headers.lines().find_map(field_disposition).and_then(|(_, name)| place(name));
            if let Some(field) = field {
                let mark = format!("; name=\"{}\"", FIELDS[field]);
                let kind = value.rsplit_once(&mark).map_or(value, |(kind, _)| kind);
                expect_form_data(kind)?;
            }
            end = match self.delimiter(after) {
                Some((next, _)) => next,
                None => return Ok(false),
            };
        }
    }

    /// Header lines from `start` up to the empty line, and the position after the empty line.
    fn headers(&self, start: usize) -> Option<(String, usize)> {
        let rest = &self.pending[start..];
        let ends = [&b"\r\n\r\n"[..], b"\n\n", b"\r\n\n", b"\n\r\n"].into_iter();
        let (at, length) =
            ends.filter_map(|end| Some((memmem::find(rest, end)?, end.len()))).min()?;
        let text = String::from_utf8_lossy(&rest[..at]).into_owned();
        Some((text, start + at + length))
    }

    fn file(&mut self) {
        // The line break before the closing boundary is not part of the file.
        let kept = self.end.needle().len() + 2;
        let from = self.searched.saturating_sub(kept);
        if let Some(at) = self.end.find(&self.pending[from..]) {
            self.state = ParserState::Done;
            let file = &self.pending[..from + at];
            let line =
                file.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            let length = line.unwrap_or(file).len();
            self.ready = Some(ReadyPiece { length, used: self.pending.len() });
            return;
        }
        self.searched = self.pending.len();
        let full = self.pending.len().saturating_sub(kept) / PAGE * PAGE;
        if full >= BLOCK {
            self.searched -= full;
            self.ready = Some(ReadyPiece { length: full, used: full });
        }
    }
}

fn place(name: &str) -> Option<usize> {
    FIELDS.iter().position(|field| *field == name)
}

fn expect_form_data(kind: &str) -> Result<(), String> {
    match kind {
        "form-data" => Ok(()),
        _ => Err(format!("wrong Content-Disposition '{kind}' in multipart, expected 'form-data'")),
    }
}

/// Disposition, field name and file name of a file part. `pveproxy` requires this order, and requires quotes.
fn file_disposition(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix("Content-Disposition: ")?;
    let (kind, rest) = rest.split_once("; name=\"")?;
    let (name, rest) = rest.split_once("\"; filename=\"")?;
    let (filename, _) = rest.split_once('"')?;
    (!filename.is_empty()).then_some((kind, name, filename))
}

fn field_disposition(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("Content-Disposition: ")?;
    let (kind, rest) = rest.split_once("; name=\"")?;
    let (name, _) = rest.split_once('"')?;
    Some((kind, name))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BOUNDARY: &str = "----x7MA4";

    fn form(parts: &[(&str, &str)], filename: &str, bytes: &[u8]) -> Vec<u8> {
        let mut form = vec![];
        for (name, value) in parts {
            form.extend(format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ).bytes());
        }
        form.extend(format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{filename}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        ).bytes());
        form.extend_from_slice(bytes);
        form.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
        form
    }

    /// Adds bytes to the form, and returns the piece of the file that is ready.
    fn push(multipart: &mut Multipart, bytes: &[u8]) -> Result<Vec<u8>, String> {
        multipart.block().extend_from_slice(bytes);
        let is_ready = multipart.advance()?;
        Ok(if is_ready { multipart.take(Vec::with_capacity(BLOCK_CAPACITY)) } else { vec![] })
    }

    fn read(form: &[u8], piece: usize) -> (Multipart, Vec<u8>) {
        let mut multipart = Multipart::new(BOUNDARY);
        let mut file = vec![];
        for piece in form.chunks(piece) {
            let given = push(&mut multipart, piece).unwrap();
            file.extend_from_slice(&given);
            let is_whole = given.len().is_multiple_of(PAGE);
            assert!(is_whole || multipart.is_done(), "{} bytes", file.len());
            assert!(multipart.block().len() < BLOCK + 2 * PAGE, "the buffer stays small");
        }
        (multipart, file)
    }

    #[test]
    fn file_content_is_independent_of_chunk_size() {
        // These bytes contain line breaks and incomplete boundaries.
        let mut bytes = b"\r\n--\r\n------x7MA\n------x7MA4-\r\n\r".repeat(10_000);
        bytes.extend([0, 255, 13]);
        let fields = [("content", "import"), ("checksum-algorithm", "sha256"), ("checksum", "ab")];
        let form = form(&fields, "a b.raw", &bytes);
        for piece in [1, 7, 1000, 16_384, form.len()] {
            let (multipart, file) = read(&form, piece);
            assert!(multipart.is_done(), "{piece}");
            assert!(file == bytes, "{piece}");
            assert_eq!(multipart.filename.as_deref(), Some("a b.raw"));
            assert_eq!(multipart.fields(), fields.map(|(name, value)| (name, value.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn random_file_content_is_preserved(
            bytes in vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), any::<u8>()], 0..3000),
            piece in 1_usize..500,
        ) {
            let (multipart, file) = read(&form(&[("content", "iso")], "x", &bytes), piece);
            prop_assert!(multipart.is_done() && file == bytes);
        }

        #[test]
        fn arbitrary_text_does_not_panic(
            text in "(--|-x7MA4|----x7MA4|\r|\n|Content-Disposition: |form-data|; name=\"|filename|[ -~]){0,60}",
            piece in 1_usize..50,
        ) {
            let mut multipart = Multipart::new(BOUNDARY);
            for piece in text.as_bytes().chunks(piece) {
                if push(&mut multipart, piece).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn empty_file_is_accepted() {
        let (multipart, file) = read(&form(&[("content", "iso")], "x.iso", b""), 5);
        assert!(multipart.is_done() && file.is_empty());
    }

    #[test]
    fn file_without_name_is_read() {
        for name in ["; filename=\"\"", ""] {
            let form = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"filename\"{name}\r\n\r\n\
                 hello\r\n--{BOUNDARY}--\r\n"
            );
            let (multipart, file) = read(form.as_bytes(), 9);
            assert!(multipart.is_done() && file == b"hello" && multipart.filename.is_none());
        }
    }

    /// The expected texts were produced with the patterns of `pveproxy`.
    #[test]
    fn unordered_and_unknown_fields_are_parsed_as_header_of_the_next() {
        let error_of = |fields: &[(&str, &str)]| {
            let form = form(fields, "x", b"1");
            let whole = push(&mut Multipart::new(BOUNDARY), &form).unwrap_err();
            let mut multipart = Multipart::new(BOUNDARY);
            let mut pieces = form.chunks(7).map(|piece| push(&mut multipart, piece));
            assert_eq!(pieces.find_map(Result::err).as_ref(), Some(&whole));
            whole
        };
        let end = "' in multipart, expected 'form-data'";
        let between = format!("\"\r\n\r\n1\r\n--{BOUNDARY}\r\nContent-Disposition: form-data");
        for first in ["other", "checksum"] {
            assert_eq!(
                error_of(&[(first, "1"), ("content", "iso")]),
                format!("wrong Content-Disposition 'form-data; name=\"{first}{between}{end}")
            );
        }
        for fields in [&[("content", "iso"), ("other", "1")][..], &[("other", "1")]] {
            assert_eq!(
                error_of(fields),
                format!(
                    "wrong field name 'other{between}; name=\"filename' for file upload, expected \
                     'filename'"
                )
            );
        }
    }

    #[test]
    fn wrong_field_names_and_dispositions_are_reported() {
        let form = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n"
        );
        let error = push(&mut Multipart::new(BOUNDARY), form.as_bytes()).unwrap_err();
        assert_eq!(error, "wrong field name 'file' for file upload, expected 'filename'");
        let form = form.replace("form-data", "attachment");
        let error = push(&mut Multipart::new(BOUNDARY), form.as_bytes()).unwrap_err();
        assert_eq!(
            error,
            "wrong Content-Disposition 'attachment' in multipart, expected 'form-data'"
        );
    }

    #[test]
    fn invalid_form_is_not_buffered() {
        let mut multipart = Multipart::new(BOUNDARY);
        for _ in 0..100 {
            assert_eq!(push(&mut multipart, &[b'x'; 10_000]), Ok(vec![]));
        }
        assert!(multipart.pending.is_empty() && !multipart.is_done());
    }
}
