//! The volume that platform nocloud reads: a CD or VFAT with the label `cidata`.

use std::collections::BTreeMap;
use std::path::Path;

use super::fat::Fat;
use super::iso::Iso;
use super::view::View;

/// More than any machine config has.
const MOST_BYTES: usize = 16 << 20;
/// Of which four have a meaning.
const MOST_FILES: usize = 32;

/// The files of a volume that is labelled `cidata`; none if it is something else.
pub fn cidata_files(path: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut view = View::open(path).ok()?;
    if let Some(iso) = Iso::open(&mut view) {
        let files =
            iso.names().map(|name| (name.to_owned(), iso.file(&mut view, name, MOST_BYTES)));
        return is_cidata(&iso.label).then(|| readable(files));
    }
    let fat = Fat::open(&mut view)?;
    let files = fat.names().map(|name| (name.to_owned(), fat.file(&mut view, name, MOST_BYTES)));
    is_cidata(&fat.label).then(|| readable(files))
}

/// Talos looks for these two and no others.
fn is_cidata(label: &str) -> bool {
    label == "cidata" || label == "CIDATA"
}

/// What cannot be read is as good as not there.
fn readable(files: impl Iterator<Item = (String, Option<Vec<u8>>)>) -> BTreeMap<String, Vec<u8>> {
    files.take(MOST_FILES).filter_map(|(name, content)| Some((name, content?))).collect()
}
