//! The disks and CDs that Talos and Ubuntu hand out: which partitions they have, how large they are.

use semver::Version;
use talmox_talos_config::cidata;
use talmox_talos_config::schematic::Bootloader;

use super::gpt::{self, Kind, MIB, Partition};
use super::sparse::Sparse;
use super::{Arch, System, TalosImage, UbuntuImage, note};

const EFI: u64 = 100 * MIB;
const BIOS: u64 = MIB;
const META: u64 = MIB;
/// What a disk image of Talos has beside a larger boot partition or a second one.
const LEAST_DISK: u64 = 1246 * MIB;

/// How much of a disk is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// With all its empty space, which costs nothing where zeros are not kept.
    Full,
    /// With the same partitions, each just large enough for what the lab puts there.
    Small,
}

impl System {
    /// The disk that it is on.
    pub(crate) fn disk(&self, arch: Arch, scale: Scale) -> Sparse {
        let note = note::write(self, arch);
        let seed = note.clone();
        let (size, mut partitions) = match self {
            Self::Talos(talos) => talos_disk(talos, arch, note),
            Self::Ubuntu(ubuntu) => ubuntu_disk(ubuntu, note),
        };
        if scale == Scale::Full {
            return gpt::disk(Some(size), partitions, &seed);
        }
        for partition in &mut partitions {
            let length = u64::try_from(partition.content.len()).unwrap_or_default();
            partition.size = length.max(1).div_ceil(MIB) * MIB;
        }
        gpt::disk(None, partitions, &seed)
    }

    /// The CD that it boots from.
    pub(crate) fn iso(&self, arch: Arch) -> Vec<u8> {
        let label = match self {
            Self::Talos(talos) => {
                let middle = if talos.secureboot { "SB-" } else { "" };
                volume_id(&format!("Talos-{middle}{}", talos.version))
            }
            Self::Ubuntu(ubuntu) => volume_id(&format!("Ubuntu-{}", ubuntu.release)),
        };
        let note = note::write(self, arch);
        let image = cidata::labelled(&label, &[(note::FILE, &note)]);
        image.map(|image| image.as_bytes().to_vec()).unwrap_or_default()
    }
}

/// As far as ISO 9660 allows.
fn volume_id(label: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    label.chars().map(letter).take(32).collect()
}

/// GRUB has its kernels in BOOT, systemd-boot all that it needs in a larger EFI. From 1.10 on an
/// image has both, unless it is for Secure Boot or for arm64.
fn talos_disk(talos: &TalosImage, arch: Arch, note: Vec<u8>) -> (u64, Vec<Partition>) {
    let minor = Version::parse(talos.version.trim_start_matches('v')).map_or(0, |it| it.minor);
    let boot = if minor >= 11 { 2000 * MIB } else { 1000 * MIB };
    let bootloader = match talos.schematic.customization.bootloader {
        _ if talos.secureboot => Bootloader::SdBoot,
        Bootloader::Default if minor < 10 => Bootloader::Grub,
        Bootloader::Default if arch == Arch::Arm64 => Bootloader::SdBoot,
        Bootloader::Default => Bootloader::DualBoot,
        chosen => chosen,
    };
    let mut size = LEAST_DISK + boot - 1000 * MIB;
    let efi_size = if bootloader == Bootloader::Grub { EFI } else { EFI + BIOS + boot };
    let part = |name, kind, size| Partition { name, kind, size, content: vec![] };
    let mut partitions = vec![Partition { content: note, ..part("EFI", Kind::Efi, efi_size) }];
    if bootloader != Bootloader::SdBoot {
        partitions.push(part("BIOS", Kind::BiosBoot, BIOS));
        partitions.push(part("BOOT", Kind::Linux, boot));
    }
    if bootloader == Bootloader::DualBoot {
        size += BIOS + boot;
    }
    partitions.push(part("META", Kind::Linux, META));
    (size, partitions)
}

/// Partitions of a cloud image have no names.
fn ubuntu_disk(ubuntu: &UbuntuImage, note: Vec<u8>) -> (u64, Vec<Partition>) {
    let size = if ubuntu.release.as_str() < "24.04" { 2252 * MIB } else { 3584 * MIB };
    let (efi, bios) = (106 * MIB, 4 * MIB);
    let part = |kind, size| Partition { name: "", kind, size, content: vec![] };
    let partitions = vec![
        part(Kind::BiosBoot, bios),
        part(Kind::Efi, efi),
        Partition { content: note, ..part(Kind::Linux, size - efi - bios - 2 * MIB) },
    ];
    (size, partitions)
}
