//! The form that a file comes in, read as it arrives with little memory.
//!
//! pveproxy knows no general form. It wants the fields `content`, `checksum-algorithm` and `checksum`,
//! in this order, each of them optional, then the file, which ends at the closing boundary. Any other field
//! before the file is taken for a part of the header of what follows it, which then makes no sense.

use memchr::memmem::{self, Finder};

/// Files leave in pieces of this size and little more. Much bigger ones fall out of the cache before they are written.
const BLOCK: usize = 256 * 1024;
/// What a block must have room for: a piece, and what may stand before the file.
pub(super) const ROOM: usize = MAX_FIELDS + BLOCK;
/// Pieces end where pages do, so that each page of the file is written once and as a whole.
const PAGE: usize = 4096;
/// All that may stand before the file.
const MAX_FIELDS: usize = 64 * 1024;

const FIELDS: [&str; 3] = ["content", "checksum-algorithm", "checksum"];

#[derive(Debug)]
pub(super) struct Multipart {
    /// What parts begin with.
    delimiter: Finder<'static>,
    /// What ends the file.
    end: Finder<'static>,
    state: State,
    pending: Vec<u8>,
    /// The beginning of `pending` that surely belongs to the file and waits to be taken.
    ready: Option<Ready>,
    /// How much of `pending` was searched for the end.
    searched: usize,
    /// Fields and their values, in the order they came.
    parts: Vec<(&'static str, String)>,
    pub(super) filename: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    /// So many bytes of the file.
    length: usize,
    /// So many bytes of the form: more at the end, where the boundary follows.
    used: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Up to the first boundary.
    Preamble,
    /// At a boundary.
    Fields,
    /// In the file.
    File,
    Done,
    /// Nothing that comes can make it whole again.
    Spoiled,
}

impl Multipart {
    pub(super) fn new(boundary: &str) -> Self {
        Self {
            delimiter: Finder::new(&format!("--{boundary}")).into_owned(),
            end: Finder::new(&format!("--{boundary}--")).into_owned(),
            state: State::Preamble,
            pending: Vec::with_capacity(ROOM),
            ready: None,
            searched: 0,
            parts: vec![],
            filename: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The fields that came before the file.
    pub(super) fn fields(&self) -> &[(&'static str, String)] {
        &self.parts
    }

    /// Where more of the body goes, behind what is there already. There is always room, once what is ready was taken.
    pub(super) fn block(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Looks at what came; says whether a piece of the file can be taken.
    pub(super) fn advance(&mut self) -> Result<bool, String> {
        if matches!(self.state, State::Done | State::Spoiled) {
            self.pending.clear();
            return Ok(false);
        }
        if self.state == State::Preamble {
            self.skip_preamble();
        }
        while self.state == State::Fields && self.next_part()? {}
        match self.state {
            State::File => self.file(),
            State::Preamble | State::Fields if self.pending.len() > MAX_FIELDS => self.spoil(),
            _ => {}
        }
        Ok(self.ready.is_some())
    }

    /// The piece that is ready, in its block. What comes next goes to the `empty` one.
    pub(super) fn take(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        let ready = self.ready.take().unwrap_or(Ready { length: 0, used: 0 });
        empty.clear();
        empty.extend_from_slice(&self.pending[ready.used..]);
        let mut piece = std::mem::replace(&mut self.pending, empty);
        piece.truncate(ready.length);
        piece
    }

    fn spoil(&mut self) {
        self.state = State::Spoiled;
        self.pending.clear();
    }

    fn skip_preamble(&mut self) {
        if let Some((at, _)) = self.delimiter(0) {
            self.pending.drain(..at);
            self.state = State::Fields;
        }
    }

    /// Where the next `--boundary` with its line end begins and ends.
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

    /// Reads the part that begins here, if all of it is here: a field to its end, a file to the end of
    /// its headers.
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
            self.state = State::File;
            return Ok(false);
        }
        if field_disposition(first) == Some(("form-data", "filename")) {
            // A file without a name: whoever looks at the parameters says so.
            self.pending.drain(..body);
            self.state = State::File;
            return Ok(false);
        }
        let Some((end, _)) = self.delimiter(body) else { return Ok(false) };
        let disposition = headers.lines().find_map(field_disposition);
        let (kind, name) = disposition.unwrap_or(("form-data", ""));
        expect_form_data(kind)?;
        let Some(field) = self.wanted(name) else {
            self.expect_in_order(name)?;
            return self.misread(start, end);
        };
        let value = String::from_utf8_lossy(&self.pending[body..end]).trim().to_owned();
        self.parts.push((field, value));
        self.pending.drain(..end);
        Ok(true)
    }

    /// The field of this name, if it may come now.
    fn wanted(&self, name: &str) -> Option<&'static str> {
        let last = self.parts.last().and_then(|(last, _)| place(last));
        let found = place(name)?;
        (last.is_none_or(|last| found > last)).then_some(FIELDS[found])
    }

    /// Refuses a known field that comes too late: pveproxy looked for it first, and took those before it for a part
    /// of its header.
    fn expect_in_order(&self, name: &str) -> Result<(), String> {
        let (Some(_), Some((last, value))) = (place(name), self.parts.last()) else {
            return Ok(());
        };
        let delimiter = String::from_utf8_lossy(self.delimiter.needle());
        expect_form_data(&format!(
            "form-data; name=\"{last}\"\r\n\r\n{value}\r\n{delimiter}\r\nContent-Disposition: form-data"
        ))
    }

    /// Waits for a part that pveproxy understands behind the unwanted field at `start`, and reads both as one, as
    /// pveproxy does: its patterns do not stop at the end of a line.
    fn misread(&self, start: usize, mut end: usize) -> Result<bool, String> {
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

    /// The header lines from here to the empty one, and where that ends.
    fn headers(&self, start: usize) -> Option<(String, usize)> {
        let rest = &self.pending[start..];
        let ends = [&b"\r\n\r\n"[..], b"\n\n", b"\r\n\n", b"\n\r\n"].into_iter();
        let (at, length) =
            ends.filter_map(|end| Some((memmem::find(rest, end)?, end.len()))).min()?;
        let text = String::from_utf8_lossy(&rest[..at]).into_owned();
        Some((text, start + at + length))
    }

    fn file(&mut self) {
        // The line end before the boundary belongs to it.
        let kept = self.end.needle().len() + 2;
        let from = self.searched.saturating_sub(kept);
        if let Some(at) = self.end.find(&self.pending[from..]) {
            self.state = State::Done;
            let file = &self.pending[..from + at];
            let line =
                file.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            let length = line.unwrap_or(file).len();
            self.ready = Some(Ready { length, used: self.pending.len() });
            return;
        }
        self.searched = self.pending.len();
        let full = self.pending.len().saturating_sub(kept) / PAGE * PAGE;
        if full >= BLOCK {
            self.searched -= full;
            self.ready = Some(Ready { length: full, used: full });
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

/// Kind, name and file name of a part that holds a file. The order and the quotes are fixed.
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

    /// What can be taken after these bytes came.
    fn push(multipart: &mut Multipart, bytes: &[u8]) -> Result<Vec<u8>, String> {
        multipart.block().extend_from_slice(bytes);
        let is_ready = multipart.advance()?;
        Ok(if is_ready { multipart.take(Vec::with_capacity(ROOM)) } else { vec![] })
    }

    fn read(form: &[u8], piece: usize) -> (Multipart, Vec<u8>) {
        let mut multipart = Multipart::new(BOUNDARY);
        let mut file = vec![];
        for piece in form.chunks(piece) {
            let given = push(&mut multipart, piece).unwrap();
            file.extend_from_slice(&given);
            let is_whole = given.len().is_multiple_of(PAGE);
            assert!(is_whole || multipart.is_done(), "{} bytes", file.len());
            assert!(multipart.block().len() < BLOCK + 2 * PAGE, "there is room");
        }
        (multipart, file)
    }

    #[test]
    fn a_file_comes_out_as_it_went_in_however_it_is_cut() {
        // Bytes that look like boundaries and line ends, up to the real one.
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
        fn whatever_comes_in_whatever_pieces_nothing_is_lost(
            bytes in vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), any::<u8>()], 0..3000),
            piece in 1_usize..500,
        ) {
            let (multipart, file) = read(&form(&[("content", "iso")], "x", &bytes), piece);
            prop_assert!(multipart.is_done() && file == bytes);
        }

        #[test]
        fn nonsense_is_no_form_and_no_panic(
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
    fn an_empty_file_is_a_file() {
        let (multipart, file) = read(&form(&[("content", "iso")], "x.iso", b""), 5);
        assert!(multipart.is_done() && file.is_empty());
    }

    #[test]
    fn a_file_without_a_name_is_read_all_the_same() {
        for name in ["; filename=\"\"", ""] {
            let form = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"filename\"{name}\r\n\r\n\
                 hello\r\n--{BOUNDARY}--\r\n"
            );
            let (multipart, file) = read(form.as_bytes(), 9);
            assert!(multipart.is_done() && file == b"hello" && multipart.filename.is_none());
        }
    }

    /// Observed by running pveproxy's own patterns over these forms.
    #[test]
    fn fields_out_of_order_and_others_are_taken_for_a_part_of_what_follows() {
        let told = |fields: &[(&str, &str)]| {
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
                told(&[(first, "1"), ("content", "iso")]),
                format!("wrong Content-Disposition 'form-data; name=\"{first}{between}{end}")
            );
        }
        for fields in [&[("content", "iso"), ("other", "1")][..], &[("other", "1")]] {
            assert_eq!(
                told(fields),
                format!(
                    "wrong field name 'other{between}; name=\"filename' for file upload, expected \
                     'filename'"
                )
            );
        }
    }

    #[test]
    fn wrong_names_and_kinds_are_told() {
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
    fn what_never_becomes_a_form_takes_no_memory() {
        let mut multipart = Multipart::new(BOUNDARY);
        for _ in 0..100 {
            assert_eq!(push(&mut multipart, &[b'x'; 10_000]), Ok(vec![]));
        }
        assert!(multipart.pending.is_empty() && !multipart.is_done());
    }
}
