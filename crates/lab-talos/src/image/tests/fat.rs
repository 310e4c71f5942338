//! FAT file systems that are built here, because the tools to create them are missing on many machines.

use super::*;

const SECTOR: usize = 512;

/// Directory entries of a file with a long name, in on-disk order.
fn entry(name: &str, first: u16, length: usize) -> Vec<u8> {
    let mut units: Vec<u16> = name.encode_utf16().collect();
    units.push(0);
    units.resize(units.len().div_ceil(13) * 13, 0xffff);
    let mut out = vec![];
    let parts: Vec<&[u16]> = units.chunks(13).collect();
    for (number, piece) in parts.iter().enumerate().rev() {
        let last = if number + 1 == parts.len() { 0x40 } else { 0 };
        let bytes: Vec<u8> = piece.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        out.push(u8::try_from(number + 1).unwrap() | last);
        out.extend(&bytes[..10]);
        out.extend([0x0f, 0, 0]);
        out.extend(&bytes[10..22]);
        out.extend([0, 0]);
        out.extend(&bytes[22..]);
    }
    out.extend(b"USER-D~1   ");
    out.extend([0x20, 0]);
    out.extend([0; 13]);
    out.extend(first.to_le_bytes());
    out.extend(u32::try_from(length).unwrap().to_le_bytes());
    out
}

/// FAT12 or FAT16 image with clusters of one sector. It contains one file of two clusters, whose second cluster is before the
/// first.
pub(super) fn image(sectors: u16, content: &[u8]) -> Vec<u8> {
    let is_12 = sectors < 4085;
    let fat_sectors: u16 = if is_12 { 12 } else { 64 };
    let mut boot = vec![0xeb, 0x3c, 0x90];
    boot.extend(b"mkfs.fat");
    boot.extend(512_u16.to_le_bytes());
    boot.extend([1, 1, 0, 2]); // Sectors per cluster, reserved sectors, number of allocation tables.
    boot.extend(16_u16.to_le_bytes()); // Number of entries in the root folder.
    boot.extend(sectors.to_le_bytes());
    boot.push(0xf8);
    boot.extend(fat_sectors.to_le_bytes());
    boot.resize(38, 0);
    boot.extend([0x29, 1, 2, 3, 4]);
    boot.extend(b"NO NAME    ");
    boot.resize(510, 0);
    boot.extend([0x55, 0xaa]);
    let mut image = boot;
    image.resize(usize::from(sectors) * SECTOR, 0);
    let fat = SECTOR;
    if is_12 {
        // The file continues from cluster 3 to cluster 2, which is the last cluster of the file.
        image[fat..fat + 6].copy_from_slice(&[0xf8, 0xff, 0xff, 0xff, 0x2f, 0x00]);
    } else {
        image[fat..fat + 8].copy_from_slice(&[0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00]);
    }
    let root = SECTOR * (1 + 2 * usize::from(fat_sectors));
    let mut label = b"cidata     \x08".to_vec();
    label.resize(32, 0);
    let mut gone = entry("deleted", 2, 3);
    gone[0] = 0xe5;
    gone[32] = 0xe5;
    let mut short = b"SHORT   TXT\x20\x18".to_vec();
    short.resize(32, 0);
    let entries = [label, gone, entry("user-data", 3, content.len()), short].concat();
    image[root..root + entries.len()].copy_from_slice(&entries);
    let data = root + SECTOR;
    image[data + SECTOR..][..SECTOR].copy_from_slice(&content[..SECTOR]);
    image[data..][..content.len() - SECTOR].copy_from_slice(&content[SECTOR..]);
    image
}

#[test]
fn cluster_chains_and_long_names_are_read() {
    let scratch = Scratch::new();
    let content: Vec<u8> = (0..700).map(|number| u8::try_from(number % 251).unwrap()).collect();
    for sectors in [2880, 9000] {
        let file = scratch.file("a.img", &image(sectors, &content));
        let files = cidata_files(&file).unwrap();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["short.txt", "user-data"]);
        assert_eq!(files["user-data"], content);
        assert_eq!(files["short.txt"], b"");
        let unnamed = {
            let mut bytes = std::fs::read(&file).unwrap();
            let at = bytes.windows(6).position(|window| window == b"cidata").unwrap();
            bytes[at..at + 6].copy_from_slice(b"tidata");
            scratch.file("b.img", &bytes)
        };
        assert_eq!(cidata_files(&unnamed), None);
    }
}
