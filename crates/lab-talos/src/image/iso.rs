//! Root folder of a CD with ISO 9660, read like Linux does.
//!
//! File names come from Joliet if the CD has it, or else from Rock Ridge. Otherwise they are the plain ISO names in lower case.

use std::collections::BTreeMap;

use super::disk_reader::DiskReader;
use super::little_endian::read_le;

const SECTOR: u64 = 2048;
const FIRST_DESCRIPTOR: u64 = 16;
const MAX_DESCRIPTORS: u64 = 32;
const MAX_FOLDER: u64 = 1 << 20;

/// Label and file positions of a CD.
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
    pub(super) fn open(reader: &mut DiskReader) -> Option<Self> {
        let mut primary = None;
        let mut joliet = None;
        for number in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + MAX_DESCRIPTORS {
            let descriptor = reader.read(number * SECTOR, 2048).ok()?;
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
            Some(joliet) => folder(reader, joliet, true)?,
            None => folder(reader, &primary, false)?,
        };
        Some(Self { label, files })
    }

    /// Content of a file; `None` if the file does not exist or is larger than `most` bytes.
    pub(super) fn file(&self, reader: &mut DiskReader, name: &str, most: usize) -> Option<Vec<u8>> {
        let extent = self.files.get(name)?;
        let length = usize::try_from(extent.length).ok().filter(|length| *length <= most)?;
        if extent.at.checked_add(extent.length)? > reader.size() {
            return None;
        }
        reader.read(extent.at, length).ok()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn is_joliet(descriptor: &[u8]) -> bool {
    matches!(&descriptor[88..91], b"%/@" | b"%/C" | b"%/E")
}

/// Files of the root folder that a volume descriptor refers to.
fn folder(
    reader: &mut DiskReader,
    descriptor: &[u8],
    joliet: bool,
) -> Option<BTreeMap<String, Extent>> {
    let Extent { at, length } = extent(&descriptor[156..190]);
    let folder = reader.read(at, usize::try_from(length.min(MAX_FOLDER)).ok()?).ok()?;
    let mut files = BTreeMap::new();
    // A directory entry does not cross a sector boundary.
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
    Extent { at: read_le(entry, 2, 4) * SECTOR, length: read_le(entry, 10, 4) }
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

/// Long file name from the Rock Ridge fields of a directory entry.
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
