//! Compression formats of images. Only gzip compresses. The other formats are valid, but store the bytes uncompressed.

mod xz;
mod zstd;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gz,
    Xz,
    Zst,
}

impl Packing {
    pub(super) fn pack(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => bytes,
            Self::Gz => gz(&bytes),
            Self::Xz => xz::pack(&bytes),
            Self::Zst => zstd::pack(&bytes),
        }
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.expect("invariant: writing to memory cannot fail")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    /// Output of an external decompressor; `None` if the program is not installed, which is reported on stderr.
    fn unpack(program: &str, packed: &[u8]) -> Option<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(packed).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let command = Command::new(program).args(["-d", "-c"]).stdin(Stdio::from(file)).output();
        let Ok(output) = command else {
            let line = format!("SKIPPED: `{program}` is not installed\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(output.stdout)
    }

    #[test]
    fn external_programs_decompress_the_images() {
        let text: Vec<u8> = (0..300_001_u32).flat_map(u32::to_le_bytes).collect();
        let mut holed = vec![0; 1_000_000];
        holed[500_000] = 7;
        let zeros = vec![0; 400_000];
        for bytes in [&b""[..], b"x", &text[..65_536], &text[..131_072], &text, &holed, &zeros] {
            for (packing, program) in
                [(Packing::Zst, "zstd"), (Packing::Xz, "xz"), (Packing::Gz, "gzip")]
            {
                let packed = packing.pack(bytes.to_vec());
                if let Some(unpacked) = unpack(program, &packed) {
                    assert!(unpacked == bytes, "{program}, {} bytes", bytes.len());
                }
            }
        }
    }

    #[test]
    fn zeros_are_compressed_and_frames_contain_their_length() {
        let packed = Packing::Zst.pack(vec![0; 16 << 20]);
        assert!(packed.len() < 1024, "{}", packed.len());
        assert_eq!(packed[..4], [0x28, 0xb5, 0x2f, 0xfd]);
        assert_eq!(packed[6..14], (16_u64 << 20).to_le_bytes());
        assert_eq!(Packing::Xz.pack(vec![1])[..6], *b"\xfd7zXZ\0");
        let mut unpacked = vec![];
        let packed = Packing::Gz.pack(b"hello".to_vec());
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, b"hello");
    }
}
