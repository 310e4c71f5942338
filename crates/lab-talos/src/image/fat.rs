//! VFAT: the root folder of a FAT12, FAT16 or FAT32 file system.

use std::collections::BTreeMap;

use super::little::little;
use super::view::View;

const ENTRY: usize = 32;
const MOST_FOLDER: usize = 1 << 20;

const IS_LABEL: u8 = 0x08;
const IS_FOLDER: u8 = 0x10;
/// Attributes that no file has together: a piece of a long name.
const IS_LONG_NAME: u8 = 0x0f;

/// A file system's label, and where its files begin.
#[derive(Debug)]
pub(super) struct Fat {
    pub(super) label: String,
    shape: Shape,
    files: BTreeMap<String, (u64, u64)>,
}

/// How the file system is laid out; places are in bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    cluster: u64,
    clusters: u64,
    fat: u64,
    /// Of a number in the allocation table.
    bits: u64,
    root: u64,
    root_length: u64,
    data: u64,
}

impl Fat {
    pub(super) fn open(view: &mut View) -> Option<Self> {
        let boot = view.read(0, 512).ok()?;
        let shape = Shape::read(&boot)?;
        let (root, extended) = if shape.bits == 32 {
            (shape.chain(view, little(&boot, 44, 4), MOST_FOLDER)?, 66)
        } else {
            let length = usize::try_from(shape.root_length).ok()?.min(MOST_FOLDER);
            (view.read(shape.root, length).ok()?, 38)
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
                _ if attributes == IS_LONG_NAME => long_name.push(long_piece(entry)),
                _ => {
                    long_name.reverse();
                    let long = String::from_utf16_lossy(&long_name.concat());
                    long_name.clear();
                    if attributes & IS_LABEL != 0 {
                        label = text(&entry[..11]);
                    } else if attributes & IS_FOLDER == 0 {
                        let name = if long.is_empty() { short_name(entry) } else { long };
                        let first = little(entry, 20, 2) << 16 | little(entry, 26, 2);
                        files.insert(name, (first, little(entry, 28, 4)));
                    }
                }
            }
        }
        Some(Self { label, shape, files })
    }

    /// What a file holds, if it is there and not too large to be looked at.
    pub(super) fn file(&self, view: &mut View, name: &str, most: usize) -> Option<Vec<u8>> {
        let (first, length) = *self.files.get(name)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= most)?;
        if length == 0 {
            return Some(vec![]);
        }
        let mut bytes = self.shape.chain(view, first, length)?;
        bytes.truncate(length);
        (bytes.len() == length).then_some(bytes)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

impl Shape {
    /// None for what is no FAT.
    fn read(boot: &[u8]) -> Option<Self> {
        if boot[510..] != [0x55, 0xaa] || !matches!(boot[0], 0xeb | 0xe9) {
            return None;
        }
        let either = |short, long| match little(boot, short, 2) {
            0 => little(boot, long, 4),
            number => number,
        };
        let sector = little(boot, 11, 2);
        let per_cluster = little(boot, 13, 1);
        let fats = little(boot, 16, 1);
        let fat_sectors = either(22, 36);
        let is_sane = matches!(sector, 512 | 1024 | 2048 | 4096)
            && per_cluster.is_power_of_two()
            && (1..=2).contains(&fats)
            && fat_sectors != 0;
        if !is_sane {
            return None;
        }
        let reserved = little(boot, 14, 2);
        let root_length = little(boot, 17, 2) * ENTRY as u64;
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

    /// The bytes of a chain of clusters, until there are enough of them.
    fn chain(&self, view: &mut View, first: u64, enough: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![];
        let mut cluster = first;
        while (2..self.clusters + 2).contains(&cluster) && bytes.len() < enough {
            let at = self.data + (cluster - 2) * self.cluster;
            bytes.extend(view.read(at, usize::try_from(self.cluster).ok()?).ok()?);
            cluster = self.next(view, cluster)?;
        }
        Some(bytes)
    }

    fn next(&self, view: &mut View, cluster: u64) -> Option<u64> {
        let bit = cluster * self.bits;
        let number = little(&view.read(self.fat + bit / 8, 4).ok()?, 0, 4);
        Some(match self.bits {
            12 => number >> (bit % 8) & 0xfff,
            16 => number & 0xffff,
            _ => number & 0x0fff_ffff,
        })
    }
}

fn long_piece(entry: &[u8]) -> Vec<u16> {
    let units = [&entry[1..11], &entry[14..26], &entry[28..32]].concat();
    let units = units.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    units.take_while(|unit| *unit != 0 && *unit != 0xffff).collect()
}

/// A name of eight and three letters; two bits tell which of them are small.
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
