//! Common part of uploads and downloads: checks a file and stores it as a volume.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::ApiError;
use crate::archive::Archive;
use crate::blob::BlobId;
use crate::call::Call;
use crate::checksum::ChecksumAlgorithm;
use crate::image::{DiskImage, ImageFormat};
use crate::pve_state::{Backing, ContentType, PveState, Storage, Volume};
use crate::site::Site;
use crate::storage::{VolumeName, check_file_name, folder, normalise, room};

/// Storage, content type and file name of an uploaded or downloaded file.
#[derive(Clone, Debug)]
pub(super) struct FileTarget {
    pub(super) node: String,
    pub(super) storage: String,
    pub(super) content: ContentType,
    pub(super) file: String,
    /// Path of the file on the host.
    pub(super) path: String,
    pub(super) checksum: Option<(ChecksumAlgorithm, String)>,
}

impl FileTarget {
    /// Reads the target from the parameters that `upload` and `download-url` share.
    pub(super) fn of(call: &Call, storage: &Storage) -> Result<Self, ApiError> {
        let content = call.params.text("content").and_then(ContentType::parse);
        let content = content.unwrap_or(ContentType::Iso);
        let file = normalise(call.params.text("filename").unwrap_or_default());
        check_file_name(call.release, content, &file)?;
        let path = format!("{}/{file}", folder(storage, content)?);
        let algorithm = call.params.text("checksum-algorithm").and_then(ChecksumAlgorithm::parse);
        let checksum = call.params.text("checksum").map(str::to_owned);
        Ok(Self {
            node: call.node.clone(),
            storage: call.params.text("storage").unwrap_or_default().to_owned(),
            content,
            file,
            path,
            checksum: algorithm.zip(checksum),
        })
    }

    fn key(&self) -> String {
        format!("{}/{}", self.content.name(), self.file)
    }

    /// Existing volume with the same name, if there is one.
    pub(super) fn existing<'a>(&self, pve_state: &'a PveState) -> Option<&'a Volume> {
        pve_state.storages.get(&self.storage)?.volume(&self.node, &self.key())
    }

    /// Whether the storage has room for `bytes`. The space of the file that would be replaced counts as free.
    pub(super) fn has_room(&self, pve_state: &PveState, bytes: u64) -> bool {
        let freed = self.existing(pve_state).map_or(0, |volume| volume.used);
        pve_state
            .storages
            .get(&self.storage)
            .is_some_and(|storage| bytes <= room(storage, &self.node).saturating_add(freed))
    }

    /// Stores the file as a volume. A volume with the same name is replaced.
    pub(super) fn put(&self, site: &Site, file: &CheckedFile) {
        let CheckedFile { blob, length, image } = file;
        let backing = image.backing.clone().map(|file| Backing { file });
        let volume = Volume {
            format: image.format.name().to_owned(),
            size: image.size,
            used: *length,
            backing,
            blob: Some(blob.clone()),
            written: None,
            base: None,
            created: site.now(),
            snapshots: BTreeMap::new(),
            notes: None,
            protected: false,
            executable: false,
        };
        if let Some(storage) = site.pve_state().storages.get_mut(&self.storage) {
            storage.put(&self.node, self.key(), volume);
        }
    }

    /// Checks the image format of a file. `temporary` is the path of the file in error messages.
    pub(super) fn check(
        &self,
        path: &Path,
        temporary: &str,
    ) -> io::Result<Result<DiskImage, String>> {
        let detected = match DiskImage::read_file(path, None)? {
            Ok(image) => image,
            // The file starts with the header of an image format, but the header is corrupt. Such a file is read as a raw
            // image.
            Err(_) => match DiskImage::read_file(path, Some(ImageFormat::Raw))? {
                Ok(image) => image,
                Err(text) => return Ok(Err(text)),
            },
        };
        let name = VolumeName::parse(crate::pve_state::StorageKind::Dir, &self.key());
        let expected = match (self.content, name.map(|name| name.format)) {
            (ContentType::Iso, _) => None,
            (ContentType::Import, Ok("ova")) => {
                return Ok(check_archive(path, temporary)?.map(|()| detected));
            }
            (ContentType::Import, Ok(format)) => ImageFormat::parse(format),
            _ => return Ok(Ok(detected)),
        };
        let verdict = DiskImage::read_file(path, expected)?
            .map_err(|text| format!("qemu-img: Could not open '{temporary}': {text}"))
            .and_then(|image| image.check_untrusted(temporary));
        Ok(verdict.map(|()| detected))
    }
}

/// File that passed all checks and can be stored.
pub(super) struct CheckedFile {
    pub(super) blob: BlobId,
    pub(super) length: u64,
    pub(super) image: DiskImage,
}

fn check_archive(path: &Path, temporary: &str) -> io::Result<Result<(), String>> {
    Ok(match Archive::open(path)?.names()? {
        None => Err(format!("command 'tar -t -f {temporary}' failed: exit code 2")),
        Some(names) if names.iter().any(|name| has_extension(name, "ovf")) => Ok(()),
        Some(_) => Err("ova archive has no .ovf file inside".to_owned()),
    })
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| end == extension)
}

/// Compares the checksum of a file with the expected checksum.
pub(super) fn compare(
    (algorithm, expected): &(ChecksumAlgorithm, String),
    path: &Path,
) -> io::Result<Result<(), String>> {
    let got = algorithm.of_file(path)?;
    Ok(mismatch_text(&got, expected).map_or(Ok(()), Err))
}

/// Error text if the checksum differs from the expected checksum; `None` if both are equal.
pub(super) fn mismatch_text(got: &str, expected: &str) -> Option<String> {
    (!got.eq_ignore_ascii_case(expected))
        .then(|| format!("checksum mismatch: got '{got}' != expect '{expected}'"))
}
