//! Names of the files that the Image Factory serves, such as `nocloud-amd64-secureboot.raw.zst`.

use super::answer::HttpAnswer;
use super::pack::Packing;
use crate::image::{Arch, Platform};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Artefact {
    pub(super) target: ImageTarget,
    pub(super) format: ArtefactFormat,
    pub(super) packing: Packing,
}

/// Target of an image, such as `nocloud-amd64-secureboot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageTarget {
    pub(super) platform: Platform,
    pub(super) arch: Arch,
    pub(super) secureboot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArtefactFormat {
    Iso,
    Raw,
    Qcow2,
    /// Text file with the kernel command line. It is not an image.
    Cmdline,
}

const PACKINGS: [(&str, Packing); 3] =
    [(".gz", Packing::Gz), (".xz", Packing::Xz), (".zst", Packing::Zst)];

/// Whether the real Image Factory serves this file, but the lab does not.
fn is_not_provided(file: &str) -> bool {
    ["kernel-", "initramfs-", "installer-"].iter().any(|start| file.starts_with(start))
        || ["-uki.efi", ".tar", ".tar.gz", ".vhd", ".ova"].iter().any(|end| file.ends_with(end))
}

impl Artefact {
    pub(super) fn parse(file: &str) -> Result<Self, HttpAnswer> {
        if is_not_provided(file) {
            return Err(not_provided(file));
        }
        // ISO images are never compressed.
        let (name, format, packing) = if let Some(name) = file.strip_suffix(".iso") {
            (name, ArtefactFormat::Iso, Packing::None)
        } else if let Some(name) = file.strip_prefix("cmdline-") {
            (name, ArtefactFormat::Cmdline, Packing::None)
        } else {
            let packed = PACKINGS
                .iter()
                .find_map(|(end, kind)| file.strip_suffix(end).map(|name| (name, *kind)));
            let (disk, packing) = packed.unwrap_or((file, Packing::None));
            if let Some(name) = disk.strip_suffix(".raw") {
                (name, ArtefactFormat::Raw, packing)
            } else if let Some(name) = disk.strip_suffix(".qcow2") {
                (name, ArtefactFormat::Qcow2, packing)
            } else {
                return Err(invalid(&format!("invalid profile path: {disk:?}")));
            }
        };
        Ok(Self { target: ImageTarget::parse(name)?, format, packing })
    }
}

impl ImageTarget {
    pub(super) fn parse(name: &str) -> Result<Self, HttpAnswer> {
        let (pair, secureboot) = match name.strip_suffix("-secureboot") {
            Some(pair) => (pair, true),
            None => (name, false),
        };
        let (platform, arch) = pair
            .rsplit_once('-')
            .ok_or_else(|| invalid(&format!("invalid platform-arch: {pair:?}")))?;
        let arch = match arch {
            // iPXE uses the names `x86_64` and `i386`.
            "amd64" | "x86_64" | "i386" => Arch::Amd64,
            "arm64" => Arch::Arm64,
            _ => return Err(invalid(&format!("invalid architecture: {arch:?}"))),
        };
        let platform = match platform {
            "nocloud" => Platform::Nocloud,
            "metal" => Platform::Metal,
            _ => return Err(not_provided(name)),
        };
        Ok(Self { platform, arch, secureboot })
    }
}

fn invalid(text: &str) -> HttpAnswer {
    HttpAnswer::error(400, &format!("error parsing profile from path: {text}"))
}

pub(super) fn not_provided(file: &str) -> HttpAnswer {
    HttpAnswer::error(501, &format!("the lab's image factory does not provide {file:?}"))
}

/// Content type that the Image Factory sets for a file extension.
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
    fn artefact_names_are_parsed() {
        let artefact = Artefact::parse("metal-arm64-secureboot.raw.zst").unwrap();
        assert_eq!(
            artefact,
            Artefact {
                target: ImageTarget {
                    platform: Platform::Metal,
                    arch: Arch::Arm64,
                    secureboot: true
                },
                format: ArtefactFormat::Raw,
                packing: Packing::Zst,
            }
        );
        let artefact = Artefact::parse("nocloud-amd64.qcow2").unwrap();
        assert_eq!((artefact.format, artefact.packing), (ArtefactFormat::Qcow2, Packing::None));
        assert_eq!(Artefact::parse("nocloud-amd64.iso").unwrap().format, ArtefactFormat::Iso);
    }

    #[test]
    fn invalid_names_and_unsupported_artefacts_have_different_errors() {
        let rejected = |file: &str| {
            let answer = Artefact::parse(file).unwrap_err();
            (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
        };
        let wrong = |text: &str| (400, format!("error parsing profile from path: {text}\n"));
        assert_eq!(
            rejected("nocloud-amd64.iso.xz"),
            wrong("invalid profile path: \"nocloud-amd64.iso\"")
        );
        assert_eq!(rejected("nocloud-mips.raw"), wrong("invalid architecture: \"mips\""));
        assert_eq!(rejected("nocloud.raw"), wrong("invalid platform-arch: \"nocloud\""));
        for file in ["aws-amd64.raw", "kernel-amd64", "nocloud-amd64.vhd", "nocloud-amd64-uki.efi"]
        {
            assert_eq!(rejected(file).0, 501, "{file}");
        }
    }
}
