//! Partition layouts and sizes of the published Talos and Ubuntu images.

use semver::Version;
use talmox_talos_config::cidata;
use talmox_talos_config::schematic::Bootloader;

use super::gpt::{self, MIB, NewPartition, PartitionType};
use super::sparse::SparseDisk;
use super::{Arch, System, TalosImage, UbuntuImage, descriptor};

const EFI: u64 = 100 * MIB;
const BIOS: u64 = MIB;
const META: u64 = MIB;
/// Size of a Talos disk image with a single boot partition of 1000 MiB.
const MIN_DISK_SIZE: u64 = 1246 * MIB;

/// Size at which a disk image is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Full size, for image formats that do not store zeros.
    Full,
    /// The same partitions, but each just large enough for its content in the lab.
    Small,
}

impl System {
    /// Disk image of the system.
    pub(crate) fn disk(&self, arch: Arch, scale: Scale) -> SparseDisk {
        let descriptor = descriptor::write(self, arch);
        let seed = descriptor.clone();
        let (size, mut partitions) = match self {
            Self::Talos(talos) => talos_disk(talos, arch, descriptor),
            Self::Ubuntu(ubuntu) => ubuntu_disk(ubuntu, descriptor),
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

    /// ISO image of the system.
    pub(crate) fn iso(&self, arch: Arch) -> Vec<u8> {
        let label = match self {
            Self::Talos(talos) => {
                let middle = if talos.secureboot { "SB-" } else { "" };
                volume_id(&format!("Talos-{middle}{}", talos.version))
            }
            Self::Ubuntu(ubuntu) => volume_id(&format!("Ubuntu-{}", ubuntu.release)),
        };
        let descriptor = descriptor::write(self, arch);
        let image = cidata::labelled(&label, &[(descriptor::FILE, &descriptor)]);
        image.map(|image| image.as_bytes().to_vec()).unwrap_or_default()
    }
}

/// Volume label in which characters that ISO 9660 does not permit are replaced.
fn volume_id(label: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    label.chars().map(letter).take(32).collect()
}

/// Partitions of a Talos disk image. GRUB reads its kernels from the partition BOOT. systemd-boot has everything in a larger
/// EFI partition. Since 1.10 an image supports both boot loaders, except for Secure Boot and arm64.
fn talos_disk(talos: &TalosImage, arch: Arch, descriptor: Vec<u8>) -> (u64, Vec<NewPartition>) {
    let minor = Version::parse(talos.version.trim_start_matches('v')).map_or(0, |it| it.minor);
    let boot = if minor >= 11 { 2000 * MIB } else { 1000 * MIB };
    let bootloader = match talos.schematic.customization.bootloader {
        _ if talos.secureboot => Bootloader::SdBoot,
        Bootloader::Default if minor < 10 => Bootloader::Grub,
        Bootloader::Default if arch == Arch::Arm64 => Bootloader::SdBoot,
        Bootloader::Default => Bootloader::DualBoot,
        chosen => chosen,
    };
    let mut size = MIN_DISK_SIZE + boot - 1000 * MIB;
    let efi_size = if bootloader == Bootloader::Grub { EFI } else { EFI + BIOS + boot };
    let part = |name, kind, size| NewPartition { name, kind, size, content: vec![] };
    let mut partitions =
        vec![NewPartition { content: descriptor, ..part("EFI", PartitionType::Efi, efi_size) }];
    if bootloader != Bootloader::SdBoot {
        partitions.push(part("BIOS", PartitionType::BiosBoot, BIOS));
        partitions.push(part("BOOT", PartitionType::Linux, boot));
    }
    if bootloader == Bootloader::DualBoot {
        size += BIOS + boot;
    }
    partitions.push(part("META", PartitionType::Linux, META));
    (size, partitions)
}

/// Partitions of an Ubuntu cloud image. They have no names.
fn ubuntu_disk(ubuntu: &UbuntuImage, descriptor: Vec<u8>) -> (u64, Vec<NewPartition>) {
    let size = if ubuntu.release.as_str() < "24.04" { 2252 * MIB } else { 3584 * MIB };
    let (efi, bios) = (106 * MIB, 4 * MIB);
    let part = |kind, size| NewPartition { name: "", kind, size, content: vec![] };
    let partitions = vec![
        part(PartitionType::BiosBoot, bios),
        part(PartitionType::Efi, efi),
        NewPartition {
            content: descriptor,
            ..part(PartitionType::Linux, size - efi - bios - 2 * MIB)
        },
    ];
    (size, partitions)
}
