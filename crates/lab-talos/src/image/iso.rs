//! ISO 9660: the root folder of a CD, read as Linux does.
//!
//! Names are Joliet's if there are any, else Rock Ridge's, else the plain ones in lower case.

use std::collections::BTreeMap;

use super::little::little;
use super::view::View;

const SECTOR: u64 = 2048;
const FIRST_DESCRIPTOR: u64 = 16;
const MOST_DESCRIPTORS: u64 = 32;
const MOST_FOLDER: u64 = 1 << 20;

/// A CD's label, and where its files are.
#[derive(Debug)]
pub(super) struct Iso {
    pub(super) label: String,
    files: BTreeMap<String, Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    at: u64,
    length: u64,
}

impl Iso {
    pub(super) fn open(view: &mut View) -> Option<Self> {
        let mut primary = None;
        let mut joliet = None;
        for number in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + MOST_DESCRIPTORS {
            let descriptor = view.read(number * SECTOR, 2048).ok()?;
            if descriptor.get(1..6) != Some(b"CD001") {
                break;
            }
            match descriptor[0] {
                1 => primary = primary.or(Some(descriptor)),
                2 if is_joliet(&descriptor) => joliet = Some(descriptor),
                255 => break,
                _ => {}
            }
        }
        let primary = primary?;
        let label = String::from_utf8_lossy(&primary[40..72]).trim_end().to_owned();
        let files = match &joliet {
            Some(joliet) => folder(view, joliet, true)?,
            None => folder(view, &primary, false)?,
        };
        Some(Self { label, files })
    }

    /// What a file holds, if it is there and not too large to be looked at.
    pub(super) fn file(&self, view: &mut View, name: &str, most: usize) -> Option<Vec<u8>> {
        let extent = self.files.get(name)?;
        let length = usize::try_from(extent.length).ok().filter(|length| *length <= most)?;
        if extent.at.checked_add(extent.length)? > view.size() {
            return None;
        }
        view.read(extent.at, length).ok()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn is_joliet(descriptor: &[u8]) -> bool {
    matches!(&descriptor[88..91], b"%/@" | b"%/C" | b"%/E")
}

/// The files of the root folder that a descriptor points to.
fn folder(view: &mut View, descriptor: &[u8], joliet: bool) -> Option<BTreeMap<String, Extent>> {
    let Extent { at, length } = extent(&descriptor[156..190]);
    let folder = view.read(at, usize::try_from(length.min(MOST_FOLDER)).ok()?).ok()?;
    let mut files = BTreeMap::new();
    // Entries do not reach from one sector into the next.
    for sector in folder.chunks(2048) {
        let mut rest = sector;
        while let Some((entry, more)) = next_entry(rest) {
            rest = more;
            let is_folder = entry[25] & 2 != 0;
            if !is_folder {
                files.insert(name(entry, joliet), extent(entry));
            }
        }
    }
    Some(files)
}

fn next_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(*bytes.first()?);
    let is_whole = length >= 34 && length >= 33 + usize::from(*bytes.get(32)?);
    if is_whole { bytes.split_at_checked(length) } else { None }
}

fn extent(entry: &[u8]) -> Extent {
    Extent { at: little(entry, 2, 4) * SECTOR, length: little(entry, 10, 4) }
}

fn name(entry: &[u8], joliet: bool) -> String {
    let length = usize::from(entry[32]);
    let own = &entry[33..33 + length];
    let versioned = if joliet {
        let units: Vec<u16> =
            own.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    } else if let Some(name) = rock_ridge(&entry[33 + length + (length + 1) % 2..]) {
        return name;
    } else {
        String::from_utf8_lossy(own).to_ascii_lowercase()
    };
    let name = versioned.split(';').next().unwrap_or_default();
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// The long name among the fields behind an entry's own.
fn rock_ridge(mut fields: &[u8]) -> Option<String> {
    let mut name = vec![];
    while fields.len() > 4 {
        let (field, more) = fields.split_at_checked(usize::from(fields[2]).max(4))?;
        if field.starts_with(b"NM") {
            name.extend_from_slice(field.get(5..)?);
        }
        fields = more;
    }
    (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
}
