//! Extraction of the only file in a `tar.gz` archive that a node sends. The archive is not held in memory, so the file
//! may have any size.

use std::io::{self, Write};

use flate2::write::GzDecoder;

/// Block size of a tar file.
const BLOCK: usize = 512;

/// Accepts an archive in pieces and writes the content of its only file.
pub(crate) struct OnlyFile<W: Write>(GzDecoder<Untar<W>>);

impl<W: Write> OnlyFile<W> {
    /// Creates an extractor that returns an error if the file has more than `most` bytes.
    pub(crate) fn new(out: W, most: u64) -> Self {
        let state = Expect::Header(Vec::with_capacity(BLOCK));
        Self(GzDecoder::new(Untar { out, most, state, has_file: false }))
    }

    pub(crate) fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        self.0.write_all(piece)
    }

    /// Writer that received the content. Returns an error if the archive is incomplete.
    pub(crate) fn finish(self) -> io::Result<W> {
        let untar = self.0.finish()?;
        match untar.state {
            Expect::End if untar.has_file => Ok(untar.out),
            Expect::End => Err(bad("the archive contains no file")),
            _ => Err(bad("the archive is incomplete")),
        }
    }
}

/// Next expected part of the archive.
enum Expect {
    /// The header is incomplete. The value contains the bytes that were received so far.
    Header(Vec<u8>),
    Body {
        left: u64,
        padding: u64,
        is_file: bool,
    },
    Padding(u64),
    /// Data after the last file. The extractor ignores it.
    End,
}

struct Untar<W> {
    out: W,
    most: u64,
    state: Expect,
    has_file: bool,
}

impl<W: Write> Write for Untar<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.step(rest)?;
            rest = &rest[taken..];
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Untar<W> {
    /// Processes some of `bytes` and returns the number of processed bytes.
    fn step(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            Expect::Header(header) => {
                let taken = bytes.len().min(BLOCK - header.len());
                header.extend_from_slice(&bytes[..taken]);
                if header.len() == BLOCK {
                    let header = std::mem::take(header);
                    self.state = self.begin(&header)?;
                }
                Ok(taken)
            }
            Expect::Body { left, padding, is_file } => {
                let taken = at_most(bytes.len(), *left);
                if *is_file {
                    self.out.write_all(&bytes[..taken])?;
                }
                *left -= taken as u64;
                if *left == 0 {
                    self.state = after(*padding);
                }
                Ok(taken)
            }
            Expect::Padding(left) => {
                let taken = at_most(bytes.len(), *left);
                *left -= taken as u64;
                let left = *left;
                self.state = after(left);
                Ok(taken)
            }
            Expect::End => Ok(bytes.len()),
        }
    }

    fn begin(&mut self, header: &[u8]) -> io::Result<Expect> {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(Expect::End);
        }
        let size = size(&header[124..136])
            .ok_or_else(|| bad("the archive contains an invalid file size"))?;
        // The archive may also contain folders and attributes.
        let is_file = matches!(header[156], b'0' | 0);
        if is_file && std::mem::replace(&mut self.has_file, true) {
            return Err(bad("the archive contains several files"));
        }
        if size > self.most {
            return Err(bad("the file is too large"));
        }
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        Ok(if size == 0 { after(0) } else { Expect::Body { left: size, padding, is_file } })
    }
}

/// Parses a size. Sizes up to 8 GiB are octal digits. Larger sizes are binary numbers with the highest bit set.
fn size(field: &[u8]) -> Option<u64> {
    if field.first()? & 0x80 != 0 {
        return Some(u64::from_be_bytes(*field.last_chunk()?));
    }
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

fn after(padding: u64) -> Expect {
    if padding == 0 { Expect::Header(Vec::with_capacity(BLOCK)) } else { Expect::Padding(padding) }
}

fn at_most(count: usize, left: u64) -> usize {
    usize::try_from(left).map_or(count, |left| left.min(count))
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn header(kind: u8, size: usize) -> [u8; BLOCK] {
        let mut header = [0; BLOCK];
        header[..10].copy_from_slice(b"kubeconfig");
        header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        header[156] = kind;
        header
    }

    fn archive(files: &[(u8, &str)]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        for (kind, text) in files {
            encoder.write_all(&header(*kind, text.len())).unwrap();
            let mut body = text.as_bytes().to_vec();
            body.resize(text.len().next_multiple_of(BLOCK), 0);
            encoder.write_all(&body).unwrap();
        }
        encoder.write_all(&[0; 2 * BLOCK]).unwrap();
        encoder.finish().unwrap()
    }

    fn read(archive: &[u8], piece: usize) -> Result<String, String> {
        let mut file = OnlyFile::new(vec![], 1 << 20);
        let mut read = || archive.chunks(piece).try_for_each(|piece| file.take(piece));
        read()
            .and_then(|()| file.finish())
            .map_err(|error| error.to_string())
            .map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn the_only_file_is_extracted_from_pieces_of_any_size() {
        let text = "apiVersion: v1\n".repeat(100);
        let whole = archive(&[(b'5', ""), (b'x', "a path"), (b'0', &text)]);
        for piece in [1, 7, 512, 1 << 20] {
            assert_eq!(read(&whole, piece), Ok(text.clone()), "{piece}");
        }
        let exact = "x".repeat(BLOCK);
        assert_eq!(read(&archive(&[(0, &exact)]), 100), Ok(exact));
    }

    #[test]
    fn archives_with_no_or_several_files_are_rejected() {
        let rejected = |archive: &[u8], why: &str| {
            let error = read(archive, 64).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        rejected(&archive(&[(b'0', "one"), (b'0', "two")]), "several files");
        rejected(&archive(&[]), "no file");
        rejected(&archive(&[(b'0', &"x".repeat(2 << 20))]), "too large");
        assert!(read(b"no archive", 64).is_err());
        let whole = archive(&[(b'0', "text")]);
        for end in [5, 30, whole.len() - 12, whole.len() - 1] {
            assert!(read(&whole[..end], 64).is_err(), "{end}");
        }
    }

    #[test]
    fn large_files_have_a_binary_size_field() {
        let mut field = [0; 12];
        field[0] = 0x80;
        field[4..].copy_from_slice(&(9_u64 << 30).to_be_bytes());
        assert_eq!(size(&field), Some(9 << 30));
        assert_eq!(size(b"00000000017\0"), Some(15));
        assert_eq!(size(b"0000000009x\0"), None);
    }
}
