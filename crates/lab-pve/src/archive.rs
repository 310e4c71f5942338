//! List of file names in a tar archive, as `tar -t` prints it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const BLOCK: u64 = 512;
/// Maximum number of entries. No OVA appliance has nearly as many.
const MAX_ENTRIES: usize = 10_000;

/// Tar archive in a file.
#[derive(Debug)]
pub(crate) struct Archive(File);

impl Archive {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(File::open(path)?))
    }

    /// File names in the archive; `None` if the file is not a tar archive.
    pub(crate) fn names(&mut self) -> io::Result<Option<Vec<String>>> {
        let length = self.0.metadata()?.len();
        let mut names = vec![];
        let mut at = 0;
        while at < length && names.len() < MAX_ENTRIES {
            let mut header = [0; 512];
            self.0.seek(SeekFrom::Start(at))?;
            match self.0.read_exact(&mut header) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
            if header.iter().all(|byte| *byte == 0) {
                return Ok(Some(names));
            }
            if !is_header(&header) {
                return Ok(None);
            }
            let Some(size) = octal(&header[124..136]) else { return Ok(None) };
            names.push(text(&header[..100]));
            at =
                at.saturating_add(BLOCK).saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
        }
        Ok((!names.is_empty()).then_some(names))
    }
}

/// Whether a block is a tar header. In a header, the checksum field equals the sum of all bytes of the header, with spaces in
/// place of the checksum field.
fn is_header(header: &[u8; 512]) -> bool {
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    let own: u64 = header[148..156].iter().map(|byte| u64::from(*byte)).sum();
    octal(&header[148..156]) == Some(sum - own + 8 * u64::from(b' '))
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn octal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(field).trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn entry(name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let mut entry = header.to_vec();
        entry.extend(content);
        entry.resize(entry.len().div_ceil(512) * 512, 0);
        entry
    }

    fn names(bytes: &[u8]) -> Option<Vec<String>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Archive::open(file.path()).unwrap().names().unwrap()
    }

    #[test]
    fn names_of_tar_archives_and_other_files() {
        let bytes =
            [entry("vm.ovf", b"<xml/>"), entry("disk.vmdk", &[1; 600]), vec![0; 1024]].concat();
        assert_eq!(names(&bytes), Some(vec!["vm.ovf".to_owned(), "disk.vmdk".to_owned()]));
        assert_eq!(names(b"hello\n"), None);
        assert_eq!(names(&[7; 2048]), None);
        assert_eq!(names(b""), None);
    }
}
