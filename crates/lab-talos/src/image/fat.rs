//! Root folder of a FAT12, FAT16 or FAT32 file system (VFAT).

use std::collections::BTreeMap;

use super::disk_reader::DiskReader;
use super::little_endian::read_le;

const ENTRY: usize = 32;
const MAX_FOLDER: usize = 1 << 20;

const IS_LABEL: u8 = 0x08;
const IS_FOLDER: u8 = 0x10;
/// Attributes of a directory entry that contains a part of a long file name.
const IS_LONG_NAME: u8 = 0x0f;

/// Label and files of a FAT file system.
#[derive(Debug)]
pub(super) struct Fat {
    pub(super) label: String,
    layout: FatLayout,
    files: BTreeMap<String, (u64, u64)>,
}

/// Layout of the file system. Positions are in bytes.
#[derive(Clone, Copy, Debug)]
struct FatLayout {
    cluster: u64,
    clusters: u64,
    fat: u64,
    /// Number of bits of an entry in the allocation table.
    bits: u64,
    root: u64,
    root_length: u64,
    data: u64,
}

impl Fat {
    pub(super) fn open(reader: &mut DiskReader) -> Option<Self> {
        let boot = reader.read(0, 512).ok()?;
        let layout = FatLayout::read(&boot)?;
        let (root, extended) = if layout.bits == 32 {
            (layout.chain(reader, read_le(&boot, 44, 4), MAX_FOLDER)?, 66)
        } else {
            let length = usize::try_from(layout.root_length).ok()?.min(MAX_FOLDER);
            (reader.read(layout.root, length).ok()?, 38)
        };
        let mut label = match boot[extended] {
            0x29 => text(&boot[extended + 5..extended + 16]),
            _ => String::new(),
        };
        let mut files = BTreeMap::new();
        let mut long_name = vec![];
        for entry in root.chunks_exact(ENTRY) {
            let attributes = entry[11];
            match entry[0] {
                0 => break,
                0xe5 => long_name.clear(),
                _ if attributes == IS_LONG_NAME => long_name.push(long_name_part(entry)),
                _ => {
                    long_name.reverse();
                    let long = String::from_utf16_lossy(&long_name.concat());
                    long_name.clear();
                    if attributes & IS_LABEL != 0 {
                        label = text(&entry[..11]);
                    } else if attributes & IS_FOLDER == 0 {
                        let name = if long.is_empty() { short_name(entry) } else { long };
                        let first = read_le(entry, 20, 2) << 16 | read_le(entry, 26, 2);
                        files.insert(name, (first, read_le(entry, 28, 4)));
                    }
                }
            }
        }
        Some(Self { label, layout, files })
    }

    /// Content of a file; `None` if the file does not exist or is larger than `most` bytes.
    pub(super) fn file(&self, reader: &mut DiskReader, name: &str, most: usize) -> Option<Vec<u8>> {
        let (first, length) = *self.files.get(name)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= most)?;
        if length == 0 {
            return Some(vec![]);
        }
        let mut bytes = self.layout.chain(reader, first, length)?;
        bytes.truncate(length);
        (bytes.len() == length).then_some(bytes)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

impl FatLayout {
    /// Parses the boot sector; `None` if it is not the boot sector of a FAT file system.
    fn read(boot: &[u8]) -> Option<Self> {
        if boot[510..] != [0x55, 0xaa] || !matches!(boot[0], 0xeb | 0xe9) {
            return None;
        }
        let either = |short, long| match read_le(boot, short, 2) {
            0 => read_le(boot, long, 4),
            number => number,
        };
        let sector = read_le(boot, 11, 2);
        let per_cluster = read_le(boot, 13, 1);
        let fats = read_le(boot, 16, 1);
        let fat_sectors = either(22, 36);
        let is_sane = matches!(sector, 512 | 1024 | 2048 | 4096)
            && per_cluster.is_power_of_two()
            && (1..=2).contains(&fats)
            && fat_sectors != 0;
        if !is_sane {
            return None;
        }
        let reserved = read_le(boot, 14, 2);
        let root_length = read_le(boot, 17, 2) * ENTRY as u64;
        let root = reserved + fats * fat_sectors;
        let data = root + root_length.div_ceil(sector);
        let clusters = either(19, 32).checked_sub(data)? / per_cluster;
        let bits = match clusters {
            0..4085 => 12,
            4085..65525 => 16,
            _ => 32,
        };
        Some(Self {
            cluster: per_cluster * sector,
            clusters,
            fat: reserved * sector,
            bits,
            root: root * sector,
            root_length,
            data: data * sector,
        })
    }

    /// Bytes of a chain of clusters. Reading stops after at least `enough` bytes.
    fn chain(&self, reader: &mut DiskReader, first: u64, enough: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![];
        let mut cluster = first;
        while (2..self.clusters + 2).contains(&cluster) && bytes.len() < enough {
            let at = self.data + (cluster - 2) * self.cluster;
            bytes.extend(reader.read(at, usize::try_from(self.cluster).ok()?).ok()?);
            cluster = self.next(reader, cluster)?;
        }
        Some(bytes)
    }

    fn next(&self, reader: &mut DiskReader, cluster: u64) -> Option<u64> {
        let bit = cluster * self.bits;
        let number = read_le(&reader.read(self.fat + bit / 8, 4).ok()?, 0, 4);
        Some(match self.bits {
            12 => number >> (bit % 8) & 0xfff,
            16 => number & 0xffff,
            _ => number & 0x0fff_ffff,
        })
    }
}

fn long_name_part(entry: &[u8]) -> Vec<u16> {
    let units = [&entry[1..11], &entry[14..26], &entry[28..32]].concat();
    let units = units.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    units.take_while(|unit| *unit != 0 && *unit != 0xffff).collect()
}

/// Short name of a file: eight characters and an extension of three. Two flag bits mark lower case.
fn short_name(entry: &[u8]) -> String {
    let part = |bytes, is_small| {
        let part = text(bytes);
        if is_small { part.to_ascii_lowercase() } else { part }
    };
    let stem = part(&entry[..8], entry[12] & 0x08 != 0);
    let extension = part(&entry[8..11], entry[12] & 0x10 != 0);
    if extension.is_empty() { stem } else { format!("{stem}.{extension}") }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}
