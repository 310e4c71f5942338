//! Snapshots: a database file, and the SHA-256 of it at its end.

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::kube::SavedStore;

/// What bolt's files begin with, at its place in the first page.
const MAGIC: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();
const MAGIC_AT: usize = 16;
/// Of the length of what is saved, in the first page.
const LENGTH_AT: usize = 64;
const PAGE: usize = 4096;
/// What the sum at the end takes.
pub(super) const SUM: usize = SHA256_OUTPUT_LEN;

pub(super) fn write(store: &SavedStore) -> Result<Vec<u8>, String> {
    let data = serde_json::to_vec(store).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; PAGE];
    bytes[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(&MAGIC);
    bytes[MAGIC_AT + 4] = 2;
    bytes[LENGTH_AT..LENGTH_AT + 8].copy_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    let sum = digest(&SHA256, &bytes);
    bytes.extend(sum.as_ref());
    Ok(bytes)
}

/// Reads a snapshot; a copy of the database's own file has no sum at its end.
pub(super) fn read(bytes: &[u8], skip_hash_check: bool) -> Result<SavedStore, String> {
    let has_sum = bytes.len() % 512 == SHA256_OUTPUT_LEN;
    if !has_sum && !skip_hash_check {
        return Err("snapshot missing hash but --skip-hash-check=false".to_owned());
    }
    let end = if has_sum { bytes.len() - SHA256_OUTPUT_LEN } else { bytes.len() };
    let (data, sum) = bytes.split_at(end);
    if has_sum && !skip_hash_check && digest(&SHA256, data).as_ref() != sum {
        return Err("expected sha256 does not match the snapshot's".to_owned());
    }
    let invalid = || "invalid database".to_owned();
    if data.get(MAGIC_AT..MAGIC_AT + 4) != Some(&MAGIC) {
        return Err(invalid());
    }
    let length = data.get(LENGTH_AT..LENGTH_AT + 8).and_then(|bytes| bytes.try_into().ok());
    let length = length.map(u64::from_le_bytes).and_then(|length| usize::try_from(length).ok());
    let end = length.and_then(|length| PAGE.checked_add(length)).ok_or_else(invalid)?;
    let saved = data.get(PAGE..end).ok_or_else(invalid)?;
    serde_json::from_slice(saved).map_err(|_| invalid())
}
