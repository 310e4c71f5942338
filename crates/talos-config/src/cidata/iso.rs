//! ISO 9660 image with Joliet names: one folder with files.
//!
//! The primary descriptor contains short upper-case names, as the standard requires. Operating systems use the Joliet
//! names, such as `user-data`. All dates are the same fixed date, so that the same files produce the same bytes. There
//! are no Rock Ridge extensions, because no reader of `cidata` needs them.

const SECTOR: usize = 2048;
/// The sectors before the descriptors are reserved for boot loaders.
const FIRST_DESCRIPTOR: usize = 16;
const PATH_TABLES: usize = 19;
const ROOTS: usize = 23;

/// 1 January 2000, 00:00:00 UTC, in the format of directory entries.
const DATE: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];
/// The same date in the format of volume descriptors.
const LONG_DATE: &[u8; 17] = b"2000010100000000\0";
const NO_DATE: &[u8; 17] = b"0000000000000000\0";

/// Reason why an image cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsoError {
    #[error("the file `{0}` is too large for an ISO image")]
    TooLarge(String),
    #[error("the name `{0}` does not fit an ISO image")]
    BadName(String),
    #[error("the files do not fit into one folder of an ISO image")]
    TooManyFiles,
}

/// Encoding of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Primary,
    Joliet,
}

struct File<'a> {
    name: &'a str,
    content: &'a [u8],
    sector: u32,
    size: u32,
}

/// Creates an image with these files. The names of the files must be unique.
pub(super) fn image(label: &str, files: &[(&str, &[u8])]) -> Result<Vec<u8>, IsoError> {
    let mut placed = vec![];
    let mut next = ROOTS + 2;
    for (name, content) in files {
        let too_large = || IsoError::TooLarge((*name).to_owned());
        check_name(name)?;
        placed.push(File {
            name,
            content,
            sector: u32::try_from(next).map_err(|_| too_large())?,
            size: u32::try_from(content.len()).map_err(|_| too_large())?,
        });
        next += content.len().div_ceil(SECTOR);
    }
    let total = u32::try_from(next).map_err(|_| IsoError::TooManyFiles)?;
    let mut image = vec![0; next * SECTOR];
    let mut put = |sector: usize, bytes: &[u8]| {
        image[sector * SECTOR..][..bytes.len()].copy_from_slice(bytes);
    };
    put(FIRST_DESCRIPTOR, &descriptor(label, total, Names::Primary));
    put(FIRST_DESCRIPTOR + 1, &descriptor(label, total, Names::Joliet));
    put(FIRST_DESCRIPTOR + 2, b"\xffCD001\x01");
    for (index, names) in [Names::Primary, Names::Joliet].into_iter().enumerate() {
        let root = root_sector(names);
        put(PATH_TABLES + 2 * index, &path_table(root.to_le_bytes(), [1, 0]));
        put(PATH_TABLES + 2 * index + 1, &path_table(root.to_be_bytes(), [0, 1]));
        put(ROOTS + index, &directory(&placed, names)?);
    }
    for file in &placed {
        put(file.sector as usize, file.content);
    }
    Ok(image)
}

fn check_name(name: &str) -> Result<(), IsoError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err(IsoError::BadName(name.to_owned()));
    }
    Ok(())
}

fn root_sector(names: Names) -> u32 {
    let roots = u32::try_from(ROOTS).unwrap_or_default();
    roots + u32::from(names == Names::Joliet)
}

/// Number in both byte orders, as the standard requires.
fn both_32(number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn both_16(number: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (number.to_le_bytes(), number.to_be_bytes());
    [a, b, c, d]
}

/// Text, padded with blanks to a fixed length.
fn padded(text: &str, length: usize, names: Names) -> Vec<u8> {
    let mut bytes: Vec<u8> = match names {
        Names::Primary => text.bytes().collect(),
        Names::Joliet => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    };
    let blank: &[u8] = match names {
        Names::Primary => b" ",
        Names::Joliet => b"\0 ",
    };
    bytes.truncate(length);
    while bytes.len() < length {
        bytes.extend_from_slice(&blank[..blank.len().min(length - bytes.len())]);
    }
    bytes
}

fn descriptor(label: &str, total: u32, names: Names) -> Vec<u8> {
    let table =
        u32::try_from(PATH_TABLES).unwrap_or_default() + 2 * u32::from(names == Names::Joliet);
    let mut out = vec![];
    out.push(if names == Names::Primary { 1 } else { 2 });
    out.extend(b"CD001\x01\0");
    out.extend(padded("", 32, names)); // System identifier.
    out.extend(padded(label, 32, names));
    out.extend([0; 8]);
    out.extend(both_32(total));
    let mut escapes = [0; 32];
    if names == Names::Joliet {
        escapes[..3].copy_from_slice(b"%/E"); // Joliet level 3.
    }
    out.extend(escapes);
    out.extend(both_16(1)); // Number of volumes.
    out.extend(both_16(1)); // Number of this volume.
    out.extend(both_16(2048));
    out.extend(both_32(10)); // Size of a path table.
    out.extend(table.to_le_bytes());
    out.extend([0; 4]);
    out.extend((table + 1).to_be_bytes());
    out.extend([0; 4]);
    let sector = u32::try_from(SECTOR).unwrap_or_default();
    out.extend(record(&[0], root_sector(names), sector, true));
    for length in [128, 128, 128, 128, 37, 37, 37] {
        out.extend(padded("", length, names)); // Publisher, copyright and similar fields.
    }
    out.extend(LONG_DATE);
    out.extend(LONG_DATE);
    out.extend(NO_DATE);
    out.extend(NO_DATE);
    out.push(1);
    out
}

/// Path table. It contains only the root folder.
fn path_table(sector: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    [&[1, 0], sector.as_slice(), &parent, &[0, 0]].concat()
}

/// Directory record.
fn record(name: &[u8], sector: u32, size: u32, is_folder: bool) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend(both_32(sector));
    out.extend(both_32(size));
    out.extend(DATE);
    out.push(if is_folder { 2 } else { 0 });
    out.extend([0, 0]);
    out.extend(both_16(1));
    out.push(u8::try_from(name.len()).unwrap_or_default());
    out.extend(name);
    if out.len() % 2 == 1 {
        out.push(0);
    }
    out[0] = u8::try_from(out.len()).unwrap_or_default();
    out
}

/// Root folder, which fits into one sector.
fn directory(files: &[File<'_>], names: Names) -> Result<Vec<u8>, IsoError> {
    let sector = u32::try_from(SECTOR).unwrap_or_default();
    let mut named: Vec<(Vec<u8>, &File<'_>)> =
        files.iter().map(|file| (identifier(file.name, names), file)).collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut out = record(&[0], root_sector(names), sector, true);
    out.extend(record(&[1], root_sector(names), sector, true));
    for (name, file) in named {
        out.extend(record(&name, file.sector, file.size, false));
    }
    if out.len() > SECTOR {
        return Err(IsoError::TooManyFiles);
    }
    Ok(out)
}

/// Name in a directory record. The primary directory has short names (8.3). The Joliet directory has full names.
fn identifier(name: &str, names: Names) -> Vec<u8> {
    match names {
        Names::Joliet => name.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Names::Primary => {
            let clean = |c: char| match c.to_ascii_uppercase() {
                c if c.is_ascii_alphanumeric() => c,
                _ => '_',
            };
            let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
            let stem: String = stem.chars().take(8).map(clean).collect();
            let extension: String = extension.chars().take(3).map(clean).collect();
            format!("{stem}.{extension};1").into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> usize {
        let little = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let big = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        assert_eq!(little, big);
        little as usize
    }

    /// Reads the folder that a descriptor refers to.
    fn read(image: &[u8], descriptor: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let descriptor = &image[descriptor * SECTOR..][..SECTOR];
        assert_eq!(&descriptor[1..6], b"CD001");
        assert_eq!(number(&descriptor[80..]), image.len() / SECTOR);
        let root = &descriptor[156..190];
        let folder = &image[number(&root[2..]) * SECTOR..][..number(&root[10..])];
        let mut found = vec![];
        let mut at = 0;
        while folder[at] != 0 {
            let entry = &folder[at..at + usize::from(folder[at])];
            let name = entry[33..33 + usize::from(entry[32])].to_vec();
            let content = &image[number(&entry[2..]) * SECTOR..][..number(&entry[10..])];
            if entry[25] & 2 == 0 {
                found.push((name, content.to_vec()));
            }
            at += entry.len();
        }
        found
    }

    #[test]
    fn files_are_found_under_both_names() {
        let large = vec![7; 3 * SECTOR + 1];
        let files: [(&str, &[u8]); 4] = [
            ("user-data", &large),
            ("meta-data", b"instance-id: 1\n"),
            ("network-config", b""),
            ("vendor-data", b"x"),
        ];
        let image = image("cidata", &files).unwrap();
        assert_eq!(image.len() % SECTOR, 0);
        assert_eq!(&image[16 * SECTOR + 40..][..8], b"cidata  ");
        assert_eq!(&image[17 * SECTOR + 40..][..4], b"\0c\0i");
        assert_eq!(&image[18 * SECTOR..][..7], b"\xffCD001\x01");
        let primary: Vec<_> = read(&image, 16).into_iter().map(|(name, _)| name).collect();
        assert_eq!(primary, [b"META_DAT.;1", b"NETWORK_.;1", b"USER_DAT.;1", b"VENDOR_D.;1"]);
        let mut joliet = read(&image, 17);
        for (name, _) in &mut joliet {
            *name = name.chunks(2).map(|pair| pair[1]).collect();
        }
        joliet.sort();
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = files
            .iter()
            .map(|(name, content)| (name.as_bytes().to_vec(), content.to_vec()))
            .collect();
        expected.sort();
        assert_eq!(joliet, expected);
    }

    #[test]
    fn names_and_files_that_do_not_fit_are_rejected() {
        assert_eq!(image("cidata", &[("a/b", b"")]), Err(IsoError::BadName("a/b".to_owned())));
        let names: Vec<String> = (0..60).map(|n| format!("file-{n}")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
        assert_eq!(image("cidata", &files), Err(IsoError::TooManyFiles));
    }
}
