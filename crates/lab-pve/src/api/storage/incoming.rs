//! Files on their way to a storage: what is checked of them, and how they are put there.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::Refusal;
use crate::archive::Archive;
use crate::blob::BlobId;
use crate::call::Call;
use crate::checksum::Algorithm;
use crate::image::{Format, Image};
use crate::site::Site;
use crate::storage::{VolumeName, check_file_name, folder, normalise, room};
use crate::world::{Backing, ContentType, Storage, Volume, World};

/// Where a file is to go, and as what.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) node: String,
    pub(super) storage: String,
    pub(super) content: ContentType,
    pub(super) file: String,
    /// How the host calls the place.
    pub(super) path: String,
    pub(super) checksum: Option<(Algorithm, String)>,
}

impl Target {
    /// Reads the target from the parameters that uploads and downloads share.
    pub(super) fn of(call: &Call, storage: &Storage) -> Result<Self, Refusal> {
        let content = call.params.text("content").and_then(ContentType::parse);
        let content = content.unwrap_or(ContentType::Iso);
        let file = normalise(call.params.text("filename").unwrap_or_default());
        check_file_name(call.release, content, &file)?;
        let path = format!("{}/{file}", folder(storage, content)?);
        let algorithm = call.params.text("checksum-algorithm").and_then(Algorithm::parse);
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

    /// What lies there already.
    pub(super) fn existing<'a>(&self, world: &'a World) -> Option<&'a Volume> {
        world.storages.get(&self.storage)?.volume(&self.node, &self.key())
    }

    /// Whether there is room for so many bytes; those of the file that is replaced do not count.
    pub(super) fn has_room(&self, world: &World, bytes: u64) -> bool {
        let freed = self.existing(world).map_or(0, |volume| volume.used);
        world
            .storages
            .get(&self.storage)
            .is_some_and(|storage| bytes <= room(storage, &self.node).saturating_add(freed))
    }

    /// Puts the file there, in place of one of the same name.
    pub(super) fn put(&self, site: &Site, file: &Checked) {
        let Checked { blob, length, image } = file;
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
        if let Some(storage) = site.world().storages.get_mut(&self.storage) {
            storage.put(&self.node, self.key(), volume);
        }
    }

    /// Looks into the file, which the host has at `temporary` for now.
    pub(super) fn check(&self, path: &Path, temporary: &str) -> io::Result<Result<Image, String>> {
        let detected = match Image::read_file(path, None)? {
            Ok(image) => image,
            // It looks like an image, and is a broken one.
            Err(_) => match Image::read_file(path, Some(Format::Raw))? {
                Ok(image) => image,
                Err(text) => return Ok(Err(text)),
            },
        };
        let name = VolumeName::parse(crate::world::StorageKind::Dir, &self.key());
        let expected = match (self.content, name.map(|name| name.format)) {
            (ContentType::Iso, _) => None,
            (ContentType::Import, Ok("ova")) => {
                return Ok(check_archive(path, temporary)?.map(|()| detected));
            }
            (ContentType::Import, Ok(format)) => Format::parse(format),
            _ => return Ok(Ok(detected)),
        };
        let verdict = Image::read_file(path, expected)?
            .map_err(|text| format!("qemu-img: Could not open '{temporary}': {text}"))
            .and_then(|image| image.check_untrusted(temporary));
        Ok(verdict.map(|()| detected))
    }
}

/// A file that may be put where it is to go.
pub(super) struct Checked {
    pub(super) blob: BlobId,
    pub(super) length: u64,
    pub(super) image: Image,
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

/// Compares a file with the sum that the caller expects.
pub(super) fn compare(
    (algorithm, expected): &(Algorithm, String),
    path: &Path,
) -> io::Result<Result<(), String>> {
    let got = algorithm.of_file(path)?;
    Ok(differs(&got, expected).map_or(Ok(()), Err))
}

/// What is said of a sum that is not the expected one.
pub(super) fn differs(got: &str, expected: &str) -> Option<String> {
    (!got.eq_ignore_ascii_case(expected))
        .then(|| format!("checksum mismatch: got '{got}' != expect '{expected}'"))
}
