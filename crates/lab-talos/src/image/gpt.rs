//! GUID partition table with a protective MBR.

use flate2::Crc;

use super::disk_reader::DiskReader;
use super::little_endian::read_le;
use super::sparse::SparseDisk;

pub(super) const SECTOR: u64 = 512;
/// Alignment of partitions: 1 MiB.
pub(super) const MIB: u64 = 1 << 20;
const ENTRIES: u32 = 128;
const ENTRY: usize = 128;
/// Number of sectors that contain the partition entries.
const TABLE: u64 = 32;
/// Maximum number of entries in a valid table.
const MAX_ENTRIES: u64 = 1024;

/// Partition to create.
#[derive(Clone, Debug)]
pub(super) struct NewPartition {
    pub(super) name: &'static str,
    pub(super) kind: PartitionType,
    pub(super) size: u64,
    /// First bytes of the partition.
    pub(super) content: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PartitionType {
    Efi,
    BiosBoot,
    Linux,
}

impl PartitionType {
    /// Type GUID in the byte order on disk. The first three fields are little-endian.
    fn guid(self) -> [u8; 16] {
        let (start, end): ((u32, u16, u16), [u8; 8]) = match self {
            Self::Efi => ((0xc12a_7328, 0xf81f, 0x11d2), *b"\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b"),
            Self::BiosBoot => ((0x2168_6148, 0x6449, 0x6e6f), *b"tNeedEFI"),
            Self::Linux => ((0x0fc6_3daf, 0x8483, 0x4772), *b"\x8e\x79\x3d\x69\xd8\x47\x7d\xe4"),
        };
        let mut guid = [0; 16];
        guid[..4].copy_from_slice(&start.0.to_le_bytes());
        guid[4..6].copy_from_slice(&start.1.to_le_bytes());
        guid[6..8].copy_from_slice(&start.2.to_le_bytes());
        guid[8..].copy_from_slice(&end);
        guid
    }
}

/// Disk with these partitions, one after the other. `seed` determines the GUIDs. The disk has at least the size that the
/// partitions need.
pub(super) fn disk(size: Option<u64>, partitions: Vec<NewPartition>, seed: &[u8]) -> SparseDisk {
    let needed = partitions.iter().map(|partition| partition.size).sum::<u64>() + 2 * MIB;
    let size = size.unwrap_or(needed).max(needed);
    let sectors = size / SECTOR;
    let mut entries = vec![];
    let mut ranges = vec![];
    let mut next = MIB;
    for (number, partition) in partitions.into_iter().enumerate() {
        let last = (next + partition.size) / SECTOR - 1;
        let mut entry = partition.kind.guid().to_vec();
        entry.extend(unique(seed, number + 1));
        entry.extend((next / SECTOR).to_le_bytes());
        entry.extend(last.to_le_bytes());
        entry.extend([0; 8]);
        entry.extend(partition.name.encode_utf16().flat_map(u16::to_le_bytes));
        entry.resize(ENTRY, 0);
        entries.extend(entry);
        if !partition.content.is_empty() {
            ranges.push((next, partition.content));
        }
        next += partition.size;
    }
    entries.resize(ENTRIES as usize * ENTRY, 0);
    let disk_id = unique(seed, 0);
    let header = |own, other, table| header(own, other, table, sectors, disk_id, &entries);
    let first = [protective(sectors), header(1, sectors - 1, 2), entries.clone()].concat();
    let table = sectors - 1 - TABLE;
    let last = [entries.clone(), header(sectors - 1, 1, table)].concat();
    ranges.push((0, first));
    ranges.push((table * SECTOR, last));
    SparseDisk { size: sectors * SECTOR, ranges }
}

/// GUID (version 4) that is derived from the seed.
fn unique(seed: &[u8], number: usize) -> [u8; 16] {
    let text = [seed, number.to_string().as_bytes()].concat();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
    let mut guid = [0; 16];
    guid.copy_from_slice(&digest.as_ref()[..16]);
    guid[7] = guid[7] & 0x0f | 0x40;
    guid[8] = guid[8] & 0x3f | 0x80;
    guid
}

/// Protective MBR. Programs without GPT support see the disk as used.
fn protective(sectors: u64) -> Vec<u8> {
    let mut sector = vec![0; 446];
    sector.extend([0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    sector.extend(1_u32.to_le_bytes());
    sector.extend(u32::try_from(sectors - 1).unwrap_or(u32::MAX).to_le_bytes());
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    sector
}

fn header(
    own: u64,
    other: u64,
    table: u64,
    sectors: u64,
    disk_id: [u8; 16],
    entries: &[u8],
) -> Vec<u8> {
    let mut out = b"EFI PART\0\0\x01\0".to_vec();
    out.extend(92_u32.to_le_bytes());
    out.extend([0; 8]); // The checksum is filled in at the end.
    out.extend(own.to_le_bytes());
    out.extend(other.to_le_bytes());
    out.extend((2 + TABLE).to_le_bytes());
    out.extend((sectors - 2 - TABLE).to_le_bytes());
    out.extend(disk_id);
    out.extend(table.to_le_bytes());
    out.extend(ENTRIES.to_le_bytes());
    out.extend(128_u32.to_le_bytes());
    out.extend(crc(entries).to_le_bytes());
    let sum = crc(&out).to_le_bytes();
    out[16..20].copy_from_slice(&sum);
    out.resize(512, 0);
    out
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Start positions of the partitions in bytes; empty if the disk has no partition table.
pub(super) fn starts(reader: &mut DiskReader) -> Vec<u64> {
    let Ok(header) = reader.read(SECTOR, 512) else { return vec![] };
    if !header.starts_with(b"EFI PART") {
        return vec![];
    }
    let table = read_le(&header, 72, 8).saturating_mul(SECTOR);
    let count = read_le(&header, 80, 4).min(MAX_ENTRIES);
    let length = usize::try_from(read_le(&header, 84, 4)).unwrap_or_default();
    if !(ENTRY..=4096).contains(&length) {
        return vec![];
    }
    let count = usize::try_from(count).unwrap_or_default();
    let Ok(entries) = reader.read(table, count * length) else { return vec![] };
    let used = entries.chunks(length).filter(|entry| entry[..16].iter().any(|byte| *byte != 0));
    used.map(|entry| read_le(entry, 32, 8).saturating_mul(SECTOR)).collect()
}
