//! XZ streams without compression: one block of uncompressed LZMA2 chunks.

use flate2::Crc;

/// Stream flags: the integrity check is CRC32.
const FLAGS: [u8; 2] = [0, 1];
const LZMA2: u8 = 0x21;
/// Dictionary size of 1 MiB.
const DICTIONARY: u8 = 0x10;
const CHUNK: usize = 64 << 10;
const FIRST: u8 = 1;
const FOLLOWING: u8 = 2;

pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"\xfd7zXZ\0".to_vec();
    out.extend(FLAGS);
    out.extend(crc(&FLAGS));
    let block = out.len();
    // The header contains: its size in words minus one, the number of filters minus one, and one filter with one byte of
    // properties.
    let header = [2, 0, LZMA2, 1, DICTIONARY, 0, 0, 0];
    out.extend(header);
    out.extend(crc(&header));
    for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
        out.push(if number == 0 { FIRST } else { FOLLOWING });
        out.extend(&(chunk.len() - 1).to_be_bytes()[size_of::<usize>() - 2..]);
        out.extend(chunk);
    }
    out.push(0);
    let check = crc(bytes);
    let unpadded = out.len() - block + check.len();
    pad(&mut out);
    out.extend(check);
    let mut index = vec![0, 1];
    index.extend(number(unpadded));
    index.extend(number(bytes.len()));
    pad(&mut index);
    index.extend(crc(&index));
    let words = u32::try_from(index.len() / 4 - 1).unwrap_or_default();
    out.extend(index);
    let footer = [&words.to_le_bytes()[..], &FLAGS].concat();
    out.extend(crc(&footer));
    out.extend(footer);
    out.extend(b"YZ");
    out
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Integer of variable length: seven bits per byte, lowest bits first. The highest bit of a byte is set if more bytes follow.
fn number(mut number: usize) -> Vec<u8> {
    let mut out = vec![];
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}
