//! Little-endian integers.

/// Reads an integer of up to eight bytes; 0 if the buffer is too short.
pub(super) fn read_le(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = at.checked_add(length).and_then(|end| bytes.get(at..end)).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
