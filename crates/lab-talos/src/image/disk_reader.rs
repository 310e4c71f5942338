//! Reader of a disk from the view of a guest, for raw and qcow2 files.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use flate2::{Decompress, FlushDecompress};

/// Bits of a qcow2 table entry that contain the position of a cluster.
const CLUSTER_POSITION: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
/// Flag of a qcow2 table entry: the cluster contains only zeros.
const ZERO_CLUSTER: u64 = 1;
/// qcow2 features that change the meaning of the tables: an external data file, and subclusters.
const UNSUPPORTED_FEATURES: u64 = 1 << 2 | 1 << 4;

/// Content of a disk. Unallocated ranges are read as zeros.
#[derive(Debug)]
pub(super) struct DiskReader {
    file: File,
    size: u64,
    qcow2: Option<Qcow2>,
}

#[derive(Clone, Copy, Debug)]
struct Qcow2 {
    cluster_bits: u32,
    /// Position and number of entries of the L1 table.
    table: u64,
    entries: u64,
}

impl DiskReader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut head = vec![0; 104];
        read_some(&mut file, 0, &mut head)?;
        // Files of any other format are read as raw bytes. They contain no system.
        if !head.starts_with(b"QFI\xfb") || read_be(&head, 4, 4) < 2 {
            return Ok(Self { file, size: length, qcow2: None });
        }
        let size = read_be(&head, 24, 8);
        Ok(Self { file, size, qcow2: Some(Qcow2::read(&head)?) })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads `length` bytes at a position.
    pub(super) fn read(&mut self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let Some(qcow2) = self.qcow2 else {
            read_some(&mut self.file, at, &mut bytes)?;
            return Ok(bytes);
        };
        let cluster = 1_u64 << qcow2.cluster_bits;
        let mut done = 0;
        while done < length {
            let place = at.saturating_add(done as u64);
            if place >= self.size {
                break;
            }
            let within = place % cluster;
            let rest = usize::try_from(cluster - within).unwrap_or(usize::MAX);
            let part = &mut bytes[done..];
            let wanted = rest.min(part.len());
            qcow2.read_within(&mut self.file, place, &mut part[..wanted])?;
            done += wanted;
        }
        Ok(bytes)
    }
}

impl Qcow2 {
    fn read(head: &[u8]) -> io::Result<Self> {
        let version = read_be(head, 4, 4);
        let cluster_bits = u32::try_from(read_be(head, 20, 4)).unwrap_or_default();
        let is_encrypted = read_be(head, 32, 4) != 0;
        let features = if version >= 3 { read_be(head, 72, 8) } else { 0 };
        if !(9..=21).contains(&cluster_bits) || is_encrypted || features & UNSUPPORTED_FEATURES != 0
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self { cluster_bits, table: read_be(head, 40, 8), entries: read_be(head, 36, 4) })
    }

    /// Reads bytes within one cluster.
    fn read_within(self, file: &mut File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let bits = self.cluster_bits;
        let (cluster, within) = (at >> bits, at & ((1 << bits) - 1));
        let (upper, lower) = (cluster >> (bits - 3), cluster & ((1 << (bits - 3)) - 1));
        if upper >= self.entries {
            return Ok(());
        }
        let table = number(file, self.table.saturating_add(upper * 8))? & CLUSTER_POSITION;
        if table == 0 {
            return Ok(());
        }
        let entry = number(file, table + lower * 8)?;
        if entry & COMPRESSED != 0 {
            let cluster = self.unpack(file, entry)?;
            let within = usize::try_from(within).unwrap_or(usize::MAX);
            if let Some(part) = cluster.get(within..within.saturating_add(bytes.len())) {
                bytes.copy_from_slice(part);
            }
            return Ok(());
        }
        if entry & ZERO_CLUSTER != 0 || entry & CLUSTER_POSITION == 0 {
            return Ok(());
        }
        read_some(file, (entry & CLUSTER_POSITION) + within, bytes)
    }

    fn unpack(self, file: &mut File, entry: u64) -> io::Result<Vec<u8>> {
        let place_bits = 62 - (self.cluster_bits - 8);
        let place = entry & ((1 << place_bits) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> place_bits;
        let length = (sectors + 1) * 512 - place % 512;
        let mut packed = vec![0; usize::try_from(length).unwrap_or_default()];
        read_some(file, place, &mut packed)?;
        let mut cluster = vec![0; 1 << self.cluster_bits];
        // The last sector may contain further bytes after the compressed data.
        Decompress::new(false)
            .decompress(&packed, &mut cluster, FlushDecompress::Finish)
            .map_err(io::Error::other)?;
        Ok(cluster)
    }
}

fn number(file: &mut File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    read_some(file, at, &mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Reads the bytes that the file has at this position. The rest of the buffer stays unchanged.
fn read_some(file: &mut File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut done = 0;
    while done < bytes.len() {
        match file.read(&mut bytes[done..])? {
            0 => break,
            length => done += length,
        }
    }
    Ok(())
}

fn read_be(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
