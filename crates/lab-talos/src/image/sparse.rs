//! Sparse disks and their conversion to image files.

use std::collections::BTreeMap;

/// Disk on which only some ranges were written. All other bytes are zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseDisk {
    /// Size of the disk in bytes, from the view of a guest.
    pub(crate) size: u64,
    /// Written ranges: position and content. The ranges do not overlap.
    pub(super) ranges: Vec<(u64, Vec<u8>)>,
}

/// Flag of a qcow2 table entry: the reference count of the cluster is one.
const COPIED: u64 = 1 << 63;
const HEADER: usize = 104;

impl SparseDisk {
    /// Raw image of the whole disk.
    pub(crate) fn to_raw(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).unwrap_or_default()];
        for (at, piece) in &self.ranges {
            let at = usize::try_from(*at).unwrap_or(usize::MAX);
            if let Some(place) = bytes.get_mut(at..at.saturating_add(piece.len())) {
                place.copy_from_slice(piece);
            }
        }
        bytes
    }

    /// Image in qcow2 version 3, with clusters of `1 << bits` bytes.
    ///
    /// The file consists of the header, the refcount table, one refcount block, the L1 table, and each L2 table
    /// followed by its data clusters. One refcount block is enough for the images of the lab.
    pub(crate) fn to_qcow2(&self, bits: u32) -> Vec<u8> {
        let cluster = 1_usize << bits;
        let per_table = 1_u64 << (bits - 3);
        let upper_entries = self.size.div_ceil(per_table << bits);
        let entries = usize::try_from(upper_entries).unwrap_or_default();
        let upper_clusters = (entries * 8).div_ceil(cluster);
        let mut clusters: Vec<Vec<u8>> = vec![vec![0; cluster]; 3 + upper_clusters];
        let place = |index: usize| (index as u64) << bits;
        let mut tables = BTreeMap::new();
        for (number, bytes) in self.clusters(cluster) {
            let table = *tables.entry(number / per_table).or_insert_with(|| {
                clusters.push(vec![0; cluster]);
                clusters.len() - 1
            });
            clusters.push(bytes);
            let entry = place(clusters.len() - 1) | COPIED;
            let within = usize::try_from(number % per_table).unwrap_or_default();
            put(&mut clusters[table], within * 8, &entry.to_be_bytes());
        }
        for (upper, table) in tables {
            let at = usize::try_from(upper).unwrap_or_default() * 8;
            let entry = place(table) | COPIED;
            put(&mut clusters[3 + at / cluster], at % cluster, &entry.to_be_bytes());
        }
        let upper_entries = u32::try_from(upper_entries).unwrap_or_default();
        clusters[0][..HEADER].copy_from_slice(&header(bits, self.size, upper_entries));
        put(&mut clusters[1], 0, &place(2).to_be_bytes());
        for index in 0..clusters.len() {
            put(&mut clusters[2], index * 2, &1_u16.to_be_bytes());
        }
        clusters.concat()
    }

    /// Clusters that contain data, by cluster number.
    fn clusters(&self, cluster: usize) -> BTreeMap<u64, Vec<u8>> {
        let mut found = BTreeMap::new();
        for (at, piece) in &self.ranges {
            let (mut at, mut rest) = (*at, piece.as_slice());
            while !rest.is_empty() {
                let within = usize::try_from(at % cluster as u64).unwrap_or_default();
                let (part, more) = rest.split_at(rest.len().min(cluster - within));
                let bytes = found.entry(at / cluster as u64).or_insert_with(|| vec![0; cluster]);
                bytes[within..within + part.len()].copy_from_slice(part);
                at += part.len() as u64;
                rest = more;
            }
        }
        found
    }
}

fn put(cluster: &mut [u8], at: usize, bytes: &[u8]) {
    cluster[at..at + bytes.len()].copy_from_slice(bytes);
}

fn header(bits: u32, size: u64, upper_entries: u32) -> Vec<u8> {
    let mut out = b"QFI\xfb".to_vec();
    out.extend(3_u32.to_be_bytes());
    out.extend([0; 12]); // No backing file.
    out.extend(bits.to_be_bytes());
    out.extend(size.to_be_bytes());
    out.extend(0_u32.to_be_bytes()); // Not encrypted.
    out.extend(upper_entries.to_be_bytes());
    out.extend((3_u64 << bits).to_be_bytes());
    out.extend((1_u64 << bits).to_be_bytes());
    out.extend(1_u32.to_be_bytes()); // Number of clusters of the refcount table.
    out.extend([0; 12]); // No snapshots.
    out.extend([0; 24]); // No features.
    out.extend(4_u32.to_be_bytes()); // Reference counts have 16 bits.
    out.extend(104_u32.to_be_bytes());
    out
}
