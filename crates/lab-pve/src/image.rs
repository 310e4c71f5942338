//! Headers of disk images, parsed as in `qemu-img`.
//!
//! As with `qemu-img info`, only the header is read. So an image that is truncated after its header is not detected.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Number of bytes that are read from an image: the maximum size of a qcow2 cluster. Every header is shorter.
const HEADER_BYTES: u64 = 2 << 20;
const SECTOR: u64 = 512;

/// Properties of a disk image, from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskImage {
    pub(crate) format: ImageFormat,
    /// Virtual size of the image in bytes.
    pub(crate) size: u64,
    pub(crate) backing: Option<String>,
    /// Whether the qcow2 image stores its data in another file.
    has_data_file: bool,
    extents: usize,
}

/// Disk image format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageFormat {
    Raw,
    Qcow2,
    Vmdk,
}

impl ImageFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Raw, Self::Qcow2, Self::Vmdk].into_iter().find(|format| format.name() == name)
    }

    /// Format that the first bytes of a file indicate.
    pub(crate) fn detect(head: &[u8]) -> Self {
        if head.starts_with(b"QFI\xfb") && big(head, 4, 4).is_some_and(|version| version >= 2) {
            Self::Qcow2
        } else if head.starts_with(b"KDMV") || head.starts_with(b"COWD") || is_descriptor(head) {
            Self::Vmdk
        } else {
            Self::Raw
        }
    }
}

impl DiskImage {
    /// Parses the first bytes of an image, in the given format or else in the detected one. `length` is the length of the file.
    /// Errors have the text of QEMU.
    pub(crate) fn read(
        head: &[u8],
        length: u64,
        format: Option<ImageFormat>,
    ) -> Result<Self, String> {
        match format.unwrap_or_else(|| ImageFormat::detect(head)) {
            ImageFormat::Raw => Ok(Self {
                format: ImageFormat::Raw,
                size: length.div_ceil(SECTOR) * SECTOR,
                backing: None,
                has_data_file: false,
                extents: 0,
            }),
            ImageFormat::Qcow2 => qcow2(head),
            ImageFormat::Vmdk => vmdk(head),
        }
    }

    pub(crate) fn read_file(
        path: &Path,
        format: Option<ImageFormat>,
    ) -> io::Result<Result<Self, String>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut head = vec![];
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut head)?;
        Ok(Self::read(&head, length, format))
    }

    /// Rejects an untrusted image that refers to other files. `path` is the path of the image in the error.
    pub(crate) fn check_untrusted(&self, path: &str) -> Result<(), String> {
        if self.has_data_file {
            return Err(format!("{path}: 'data-file' references are not allowed!"));
        }
        if self.extents > 1 {
            return Err(format!("{path}: multiple children or extents are not allowed!"));
        }
        if self.backing.is_some() {
            return Err(format!("backing file not allowed for untrusted image '{path}'!"));
        }
        Ok(())
    }
}

/// Reads a big-endian number of up to eight bytes.
fn big(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn qcow2(head: &[u8]) -> Result<DiskImage, String> {
    // Bytes after the end of the file count as zeros.
    let field = |at, length| big(head, at, length).unwrap_or_default();
    if !head.starts_with(b"QFI\xfb") {
        return Err("Image is not in qcow2 format".to_owned());
    }
    let version = field(4, 4);
    if !(2..=3).contains(&version) {
        return Err(format!("Unsupported qcow2 version {version}"));
    }
    let cluster_bits = field(20, 4);
    if !(9..=21).contains(&cluster_bits) {
        return Err(format!("Unsupported cluster size: 2^{cluster_bits}"));
    }
    let (offset, length) = (field(8, 8), field(16, 4));
    let backing = if offset == 0 {
        None
    } else if offset > 1 << cluster_bits {
        return Err("Invalid backing file offset".to_owned());
    } else if length > 1023 {
        return Err("Backing file name too long".to_owned());
    } else {
        let end = usize::try_from(offset + length).unwrap_or_default();
        let start = usize::try_from(offset).unwrap_or_default();
        let name = head.get(start..end).ok_or("Could not read backing file name")?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    let incompatible = if version >= 3 { field(72, 8) } else { 0 };
    let has_data_file = incompatible & 4 != 0;
    Ok(DiskImage {
        format: ImageFormat::Qcow2,
        size: field(24, 8),
        backing,
        has_data_file,
        extents: 0,
    })
}

fn is_descriptor(head: &[u8]) -> bool {
    let text = head.get(..64).unwrap_or(head);
    String::from_utf8_lossy(text).trim_start().starts_with("# Disk DescriptorFile")
}

fn vmdk(head: &[u8]) -> Result<DiskImage, String> {
    let invalid = || "invalid VMDK image descriptor".to_owned();
    if head.starts_with(b"KDMV") {
        let sectors = little(head, 12, 8).ok_or_else(invalid)?;
        let size = sectors.saturating_mul(SECTOR);
        let place = |at| little(head, at, 8).and_then(|sector| usize::try_from(sector).ok());
        let (start, length) =
            (place(28).unwrap_or_default().saturating_mul(512), place(36).unwrap_or_default());
        let end = start.saturating_add(length.saturating_mul(512)).min(head.len());
        let text = head.get(start..end).unwrap_or_default();
        let descriptor = VmdkDescriptor::read(&String::from_utf8_lossy(text));
        let VmdkDescriptor { backing, extents, .. } = descriptor;
        let extents = extents.len().max(1);
        return Ok(DiskImage {
            format: ImageFormat::Vmdk,
            size,
            backing,
            has_data_file: false,
            extents,
        });
    }
    if head.starts_with(b"COWD") {
        let size = little(head, 12, 4).ok_or_else(invalid)?.saturating_mul(SECTOR);
        let format = ImageFormat::Vmdk;
        return Ok(DiskImage { format, size, backing: None, has_data_file: false, extents: 1 });
    }
    let text = String::from_utf8_lossy(head.get(..20_480).unwrap_or(head)).into_owned();
    let descriptor = VmdkDescriptor::read(&text);
    if !descriptor.has_type {
        return Err(invalid());
    }
    // Extents are separate files, which are missing next to an uploaded image.
    match descriptor.extents.first() {
        Some(file) if descriptor.extents.len() == 1 => {
            Err(format!("Could not open '{file}': No such file or directory"))
        }
        Some(_) => Ok(DiskImage {
            format: ImageFormat::Vmdk,
            size: descriptor.sectors.saturating_mul(SECTOR),
            backing: descriptor.backing,
            has_data_file: false,
            extents: descriptor.extents.len(),
        }),
        None => Err(invalid()),
    }
}

/// Text descriptor of a VMDK image.
#[derive(Default)]
struct VmdkDescriptor {
    has_type: bool,
    backing: Option<String>,
    extents: Vec<String>,
    sectors: u64,
}

impl VmdkDescriptor {
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        let quoted = |value: &str| value.trim().trim_matches('"').to_owned();
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            match (line.split_once('='), words.as_slice()) {
                (Some(("createType", _)), _) => found.has_type = true,
                (Some(("parentFileNameHint", value)), _) => found.backing = Some(quoted(value)),
                (_, ["RW" | "RDONLY" | "NOACCESS", sectors, _kind, file, ..]) => {
                    found.sectors = found.sectors.saturating_add(sectors.parse().unwrap_or(0));
                    found.extents.push(quoted(file));
                }
                _ => {}
            }
        }
        found
    }
}

/// Header of an empty qcow2 image.
#[cfg(test)]
pub(crate) fn empty_qcow2(size: u64, backing: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..4].copy_from_slice(b"QFI\xfb");
    bytes[4..8].copy_from_slice(&3_u32.to_be_bytes());
    bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
    bytes[24..32].copy_from_slice(&size.to_be_bytes());
    if let Some(backing) = backing {
        bytes[8..16].copy_from_slice(&256_u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&u32::try_from(backing.len()).unwrap().to_be_bytes());
        bytes[256..256 + backing.len()].copy_from_slice(backing.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], format: Option<ImageFormat>) -> Result<DiskImage, String> {
        DiskImage::read(bytes, bytes.len() as u64, format)
    }

    #[test]
    fn qcow2_headers_are_parsed() {
        let image = read(&empty_qcow2(1 << 30, None), None).unwrap();
        assert_eq!((image.format, image.size, image.backing), (ImageFormat::Qcow2, 1 << 30, None));
        let image = read(&empty_qcow2(1 << 30, Some("/etc/passwd")), None).unwrap();
        assert_eq!(
            image.check_untrusted("/var/tmp/x").unwrap_err(),
            "backing file not allowed for untrusted image '/var/tmp/x'!"
        );
        let mut bytes = empty_qcow2(1 << 30, None);
        bytes[79] = 4;
        assert_eq!(
            read(&bytes, None).unwrap().check_untrusted("/x").unwrap_err(),
            "/x: 'data-file' references are not allowed!"
        );
        assert_eq!(
            read(b"not image", Some(ImageFormat::Qcow2)).unwrap_err(),
            "Image is not in qcow2 format"
        );
        assert_eq!(
            read(b"QFI\xfb\0\0\0\x09", Some(ImageFormat::Qcow2)).unwrap_err(),
            "Unsupported qcow2 version 9"
        );
    }

    #[test]
    fn any_file_is_a_raw_image() {
        assert_eq!(read(b"hello\n", None).unwrap().size, 512);
        let qcow2 = empty_qcow2(1 << 30, Some("/etc/passwd"));
        let image = read(&qcow2, Some(ImageFormat::Raw)).unwrap();
        assert_eq!((image.size, image.check_untrusted("/x")), (512, Ok(())));
    }

    #[test]
    fn vmdk_headers_are_parsed() {
        let mut sparse = vec![0; 2048];
        sparse[..4].copy_from_slice(b"KDMV");
        sparse[12..20].copy_from_slice(&2048_u64.to_le_bytes());
        assert_eq!(read(&sparse, None).unwrap().size, 1 << 20);
        let flat = "# Disk DescriptorFile\ncreateType=\"monolithicFlat\"\nRW 8 FLAT \"a.vmdk\" 0\n";
        assert_eq!(
            read(flat.as_bytes(), None).unwrap_err(),
            "Could not open 'a.vmdk': No such file or directory"
        );
        let two = format!("{flat}RW 8 FLAT \"b.vmdk\" 0\n");
        assert_eq!(
            read(two.as_bytes(), None).unwrap().check_untrusted("/x").unwrap_err(),
            "/x: multiple children or extents are not allowed!"
        );
        assert_eq!(
            read(b"x", Some(ImageFormat::Vmdk)).unwrap_err(),
            "invalid VMDK image descriptor"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            magic in prop::sample::select(vec![&b"QFI\xfb\0\0\0\x03"[..], b"KDMV", b"COWD", b"# Disk DescriptorFile\ncreateType=x\nRW ", b""]),
            bytes in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let bytes = [magic, &bytes].concat();
            for format in [None, Some(ImageFormat::Raw), Some(ImageFormat::Qcow2), Some(ImageFormat::Vmdk)] {
                if let Ok(image) = read(&bytes, format) {
                    prop_assert!(format.is_none_or(|format| format == image.format));
                    let _verdict = image.check_untrusted("/x");
                }
            }
        }
    }
}
