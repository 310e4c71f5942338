//! Names of files that the factory makes: `nocloud-amd64-secureboot.raw.zst` and the like.

use super::answer::Answer;
use super::pack::Packing;
use crate::image::{Arch, Platform};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Artefact {
    pub(super) machine: Machine,
    pub(super) form: Form,
    pub(super) packing: Packing,
}

/// What an image is for: `nocloud-amd64-secureboot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) platform: Platform,
    pub(super) arch: Arch,
    pub(super) secureboot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Iso,
    Raw,
    Qcow2,
    /// Not an image: the arguments that its kernel gets.
    Cmdline,
}

const PACKINGS: [(&str, Packing); 3] =
    [(".gz", Packing::Gz), (".xz", Packing::Xz), (".zst", Packing::Zst)];

/// What a factory makes and the lab does not.
fn is_not_made(file: &str) -> bool {
    ["kernel-", "initramfs-", "installer-"].iter().any(|start| file.starts_with(start))
        || ["-uki.efi", ".tar", ".tar.gz", ".vhd", ".ova"].iter().any(|end| file.ends_with(end))
}

impl Artefact {
    pub(super) fn parse(file: &str) -> Result<Self, Answer> {
        if is_not_made(file) {
            return Err(not_made(file));
        }
        // A CD is never packed.
        let (name, form, packing) = if let Some(name) = file.strip_suffix(".iso") {
            (name, Form::Iso, Packing::None)
        } else if let Some(name) = file.strip_prefix("cmdline-") {
            (name, Form::Cmdline, Packing::None)
        } else {
            let packed = PACKINGS
                .iter()
                .find_map(|(end, kind)| file.strip_suffix(end).map(|name| (name, *kind)));
            let (disk, packing) = packed.unwrap_or((file, Packing::None));
            if let Some(name) = disk.strip_suffix(".raw") {
                (name, Form::Raw, packing)
            } else if let Some(name) = disk.strip_suffix(".qcow2") {
                (name, Form::Qcow2, packing)
            } else {
                return Err(invalid(&format!("invalid profile path: {disk:?}")));
            }
        };
        Ok(Self { machine: Machine::parse(name)?, form, packing })
    }
}

impl Machine {
    pub(super) fn parse(name: &str) -> Result<Self, Answer> {
        let (pair, secureboot) = match name.strip_suffix("-secureboot") {
            Some(pair) => (pair, true),
            None => (name, false),
        };
        let (platform, arch) = pair
            .rsplit_once('-')
            .ok_or_else(|| invalid(&format!("invalid platform-arch: {pair:?}")))?;
        let arch = match arch {
            // The latter are iPXE's.
            "amd64" | "x86_64" | "i386" => Arch::Amd64,
            "arm64" => Arch::Arm64,
            _ => return Err(invalid(&format!("invalid architecture: {arch:?}"))),
        };
        let platform = match platform {
            "nocloud" => Platform::Nocloud,
            "metal" => Platform::Metal,
            _ => return Err(not_made(name)),
        };
        Ok(Self { platform, arch, secureboot })
    }
}

fn invalid(text: &str) -> Answer {
    Answer::error(400, &format!("error parsing profile from path: {text}"))
}

pub(super) fn not_made(file: &str) -> Answer {
    Answer::error(501, &format!("the lab's factory does not make {file:?}"))
}

/// As the factory tells it of a file's name.
pub(super) fn content_type(file: &str) -> &'static str {
    match file.rsplit('.').next().unwrap_or_default() {
        "iso" => "application/x-iso9660-image",
        "xz" => "application/x-xz",
        "gz" => "application/gzip",
        "qcow2" => "application/x-qemu-disk",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let artefact = Artefact::parse("metal-arm64-secureboot.raw.zst").unwrap();
        assert_eq!(
            artefact,
            Artefact {
                machine: Machine { platform: Platform::Metal, arch: Arch::Arm64, secureboot: true },
                form: Form::Raw,
                packing: Packing::Zst,
            }
        );
        let artefact = Artefact::parse("nocloud-amd64.qcow2").unwrap();
        assert_eq!((artefact.form, artefact.packing), (Form::Qcow2, Packing::None));
        assert_eq!(Artefact::parse("nocloud-amd64.iso").unwrap().form, Form::Iso);
    }

    #[test]
    fn what_is_wrong_is_told_from_what_is_not_made() {
        let refused = |file: &str| {
            let answer = Artefact::parse(file).unwrap_err();
            (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
        };
        let wrong = |text: &str| (400, format!("error parsing profile from path: {text}\n"));
        assert_eq!(
            refused("nocloud-amd64.iso.xz"),
            wrong("invalid profile path: \"nocloud-amd64.iso\"")
        );
        assert_eq!(refused("nocloud-mips.raw"), wrong("invalid architecture: \"mips\""));
        assert_eq!(refused("nocloud.raw"), wrong("invalid platform-arch: \"nocloud\""));
        for file in ["aws-amd64.raw", "kernel-amd64", "nocloud-amd64.vhd", "nocloud-amd64-uki.efi"]
        {
            assert_eq!(refused(file).0, 501, "{file}");
        }
    }
}
