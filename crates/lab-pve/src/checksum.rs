//! File checksums, by the algorithm names of the Proxmox API.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest;
use md5::{Digest as _, Md5};

/// Checksum algorithm of the Proxmox API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumAlgorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Checksum computation in progress.
enum Hasher {
    Md5(Md5),
    Sha(digest::Context),
}

impl ChecksumAlgorithm {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            _ => return None,
        })
    }

    fn begin(self) -> Hasher {
        let sha = match self {
            Self::Md5 => return Hasher::Md5(Md5::new()),
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha224 => &digest::SHA224,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        };
        Hasher::Sha(digest::Context::new(sha))
    }

    /// Checksum of the bytes that a reader yields, in lower-case hexadecimal digits.
    pub(crate) fn of(self, mut bytes: impl Read) -> io::Result<String> {
        let mut sum = self.begin();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match bytes.read(&mut buffer)? {
                0 => break,
                length => sum.add(&buffer[..length]),
            }
        }
        Ok(sum.end())
    }

    pub(crate) fn of_file(self, path: &Path) -> io::Result<String> {
        self.of(File::open(path)?)
    }

    /// Checksum of `length` zero bytes.
    pub(crate) fn of_zeros(self, length: u64) -> io::Result<String> {
        self.of(io::repeat(0).take(length))
    }
}

impl Hasher {
    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(sum) => sum.update(bytes),
            Self::Sha(sum) => sum.update(bytes),
        }
    }

    fn end(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Md5(sum) => hex(&sum.finalize()),
            Self::Sha(sum) => hex(sum.finish().as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_equal_known_values() {
        for (name, expected) in [
            ("md5", "b1946ac92492d2347c6235b4d2611184"),
            ("sha1", "f572d396fae9206628714fb2ce00f72e94f2258f"),
            ("sha224", "2d6d67d91d0badcdd06cbbba1fe11538a68a37ec9c2e26457ceff12b"),
            ("sha256", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"),
        ] {
            let sum = ChecksumAlgorithm::parse(name).unwrap().of(&b"hello\n"[..]).unwrap();
            assert_eq!(sum, expected, "{name}");
        }
        let length = |name| ChecksumAlgorithm::parse(name).unwrap().of(&b""[..]).unwrap().len();
        assert_eq!((length("sha384"), length("sha512")), (96, 128));
        assert_eq!(
            ChecksumAlgorithm::Sha256.of_zeros(1 << 20).unwrap(),
            "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"
        );
        assert_eq!(ChecksumAlgorithm::parse("sha3"), None);
    }
}
