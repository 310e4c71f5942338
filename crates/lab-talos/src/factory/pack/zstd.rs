//! Zstandard frames. Only blocks of zeros are compressed.

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frame header descriptor. A window descriptor and a content size of eight bytes follow the descriptor.
const DESCRIPTOR: u8 = 0b1100_0000;
/// Window size of 128 KiB, which is the maximum block size.
const WINDOW: u8 = 7 << 3;
const BLOCK: usize = 128 << 10;

const AS_IS: usize = 0;
const ONE_BYTE_REPEATED: usize = 1;

pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([DESCRIPTOR, WINDOW]);
    out.extend((bytes.len() as u64).to_le_bytes());
    let mut rest = bytes;
    loop {
        let (block, more) = rest.split_at(rest.len().min(BLOCK));
        let is_last = usize::from(more.is_empty());
        let is_zeros = !block.is_empty() && block.iter().all(|byte| *byte == 0);
        let (kind, content) =
            if is_zeros { (ONE_BYTE_REPEATED, &block[..1]) } else { (AS_IS, block) };
        let header = block.len() << 3 | kind << 1 | is_last;
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(content);
        if is_last == 1 {
            return out;
        }
        rest = more;
    }
}
