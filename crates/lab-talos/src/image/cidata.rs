//! Volume with the label `cidata` that the platform nocloud reads: an ISO or VFAT file system.

use std::collections::BTreeMap;
use std::path::Path;

use super::disk_reader::DiskReader;
use super::fat::Fat;
use super::iso::Iso;

/// Maximum size of a file, larger than any machine config.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of files; nocloud uses four.
const MAX_FILES: usize = 32;

/// Files of a volume with the label `cidata`; none for any other volume.
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

/// Whether this is one of the two spellings of the label that Talos accepts.
fn is_cidata(label: &str) -> bool {
    label == "cidata" || label == "CIDATA"
}

/// Files that can be read; the others are omitted.
fn readable(files: impl Iterator<Item = (String, Option<Vec<u8>>)>) -> BTreeMap<String, Vec<u8>> {
    files.take(MAX_FILES).filter_map(|(name, content)| Some((name, content?))).collect()
}
