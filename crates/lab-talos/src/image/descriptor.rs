//! Descriptor that the lab writes into a disk image in place of the operating system. It names the operating system.
//!
//! The descriptor is at the start of a partition, or it is a file of an ISO. So it is preserved when the image is compressed,
//! converted or resized.

use serde::{Deserialize, Serialize};
use talmox_talos_config::schematic::Schematic;

use super::disk_reader::DiskReader;
use super::gpt;
use super::iso::Iso;
use super::{Arch, Medium, Platform, System, TalosImage, UbuntuImage};

const MAGIC: &[u8] = b"talmox image";
/// Name of the descriptor file on an ISO.
pub(super) const FILE: &str = "talmox";
/// Maximum size of a descriptor in bytes. A schematic can contain whole machine configs.
const MAX_BYTES: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Descriptor {
    arch: Arch,
    system: DescriptorContent,
}

#[derive(Serialize, Deserialize)]
enum DescriptorContent {
    Talos {
        version: String,
        platform: Platform,
        schematic: String,
        secureboot: bool,
        medium: Medium,
    },
    Ubuntu {
        release: String,
        codename: String,
    },
}

/// Encoded descriptor of a system.
pub(super) fn write(system: &System, arch: Arch) -> Vec<u8> {
    let system = match system {
        System::Talos(talos) => DescriptorContent::Talos {
            version: talos.version.clone(),
            platform: talos.platform,
            schematic: talos.schematic.to_yaml(),
            secureboot: talos.secureboot,
            medium: talos.medium,
        },
        System::Ubuntu(UbuntuImage { release, codename }) => {
            DescriptorContent::Ubuntu { release: release.clone(), codename: codename.clone() }
        }
    };
    let json = serde_json::to_vec(&Descriptor { arch, system }).unwrap_or_default();
    let length = u32::try_from(json.len()).unwrap_or_default();
    [MAGIC, &length.to_be_bytes(), &json].concat()
}

/// Operating system and architecture in the descriptor of a disk; `None` if the disk has no valid descriptor.
pub(super) fn find(reader: &mut DiskReader) -> Option<(System, Arch)> {
    if let Some(iso) = Iso::open(reader) {
        return parse(&iso.file(reader, FILE, MAX_BYTES)?);
    }
    gpt::starts(reader).into_iter().find_map(|start| {
        let head = reader.read(start, MAGIC.len() + 4).ok()?;
        let length = length(&head)?;
        parse(&reader.read(start, head.len() + length).ok()?)
    })
}

fn length(head: &[u8]) -> Option<usize> {
    let number = head.strip_prefix(MAGIC)?.first_chunk::<4>()?;
    usize::try_from(u32::from_be_bytes(*number)).ok().filter(|length| *length <= MAX_BYTES)
}

fn parse(bytes: &[u8]) -> Option<(System, Arch)> {
    let json = bytes.get(MAGIC.len() + 4..)?.get(..length(bytes)?)?;
    let Descriptor { arch, system } = serde_json::from_slice(json).ok()?;
    let system = match system {
        DescriptorContent::Talos { version, platform, schematic, secureboot, medium } => {
            let schematic = Schematic::read(&schematic).ok()?;
            System::Talos(TalosImage::new(version, platform, schematic, secureboot, medium))
        }
        DescriptorContent::Ubuntu { release, codename } => {
            System::Ubuntu(UbuntuImage { release, codename })
        }
    };
    Some((system, arch))
}
