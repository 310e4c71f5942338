use std::io::{self, BufRead, BufReader, Read};

use super::Stream;

/// Body of a response. A body that ends too early is an error.
pub struct Body {
    stream: BufReader<Box<dyn Stream>>,
    framing: Framing,
}

enum Framing {
    Length { left: u64 },
    Chunked { left: u64, ended: bool },
    UntilEnd,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl Body {
    pub(super) fn of_length(stream: BufReader<Box<dyn Stream>>, length: u64) -> Self {
        Self { stream, framing: Framing::Length { left: length } }
    }

    pub(super) fn chunked(stream: BufReader<Box<dyn Stream>>) -> Self {
        Self { stream, framing: Framing::Chunked { left: 0, ended: false } }
    }

    pub(super) fn until_end(stream: BufReader<Box<dyn Stream>>) -> Self {
        Self { stream, framing: Framing::UntilEnd }
    }

    /// Number of bytes that are not read yet, if the response declared a length.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length { left } => Some(left),
            _ => None,
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match &mut self.framing {
            Framing::UntilEnd => {
                // Many servers close the connection without a TLS close notification.
                return match self.stream.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                    other => other,
                };
            }
            Framing::Length { left } => left,
            Framing::Chunked { left, ended } => {
                if *left == 0 && !*ended {
                    *left = next_chunk(&mut self.stream)?;
                    *ended = *left == 0;
                }
                left
            }
        };
        if *left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let length = self.stream.read(&mut buffer[..most])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= u64::try_from(length).unwrap_or_default();
        if let Framing::Chunked { left: 0, ended: false } = self.framing {
            line(&mut self.stream)?;
        }
        Ok(length)
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.take(4096).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

/// Reads the length of the next chunk. After the last chunk, skips the trailers.
fn next_chunk(stream: &mut impl BufRead) -> io::Result<u64> {
    let text = line(stream)?;
    let digits = text.split(';').next().unwrap_or_default().trim();
    let length = u64::from_str_radix(digits, 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "malformed chunk"))?;
    if length == 0 {
        while !line(stream)?.trim_end().is_empty() {}
    }
    Ok(length)
}
