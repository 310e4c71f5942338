//! cidata volume, which the platform nocloud reads: an ISO or VFAT file system with the label `cidata`.

use std::collections::BTreeMap;
use std::path::Path;

use super::disk_reader::DiskReader;
use super::fat::Fat;
use super::iso::Iso;

/// Maximum size of a file in bytes. Every machine config is smaller.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of files. nocloud uses only four files.
const MAX_FILES: usize = 32;

/// Files of a cidata volume; `None` for any other volume.
pub fn cidata_files(path: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut reader = DiskReader::open(path).ok()?;
    if let Some(iso) = Iso::open(&mut reader) {
        let files =
            iso.names().map(|name| (name.to_owned(), iso.file(&mut reader, name, MAX_BYTES)));
        return is_cidata(&iso.label).then(|| readable(files));
    }
    let fat = Fat::open(&mut reader)?;
    let files = fat.names().map(|name| (name.to_owned(), fat.file(&mut reader, name, MAX_BYTES)));
    is_cidata(&fat.label).then(|| readable(files))
}

/// Whether a label is one of the two spellings that Talos accepts.
fn is_cidata(label: &str) -> bool {
    label == "cidata" || label == "CIDATA"
}

/// Files that can be read. Files that cannot be read are omitted.
fn readable(files: impl Iterator<Item = (String, Option<Vec<u8>>)>) -> BTreeMap<String, Vec<u8>> {
    files.take(MAX_FILES).filter_map(|(name, content)| Some((name, content?))).collect()
}
