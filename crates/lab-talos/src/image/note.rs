//! What the lab writes on a disk in place of a system: a note that says which one it is.
//!
//! It is the first thing in a partition, or a file of a CD, and so survives whatever is done to the
//! image on its way: packing, unpacking, changing its format, giving it more room.

use serde::{Deserialize, Serialize};
use talmox_talos_config::schematic::Schematic;

use super::gpt;
use super::iso::Iso;
use super::view::View;
use super::{Arch, Medium, Platform, System, TalosImage, UbuntuImage};

const MAGIC: &[u8] = b"talmox image";
/// The file that holds it on a CD.
pub(super) const FILE: &str = "talmox";
/// Schematics can hold whole machine configs.
const MOST_BYTES: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Note {
    arch: Arch,
    system: Content,
}

#[derive(Serialize, Deserialize)]
enum Content {
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

/// A note, as the bytes that are found again.
pub(super) fn write(system: &System, arch: Arch) -> Vec<u8> {
    let system = match system {
        System::Talos(talos) => Content::Talos {
            version: talos.version.clone(),
            platform: talos.platform,
            schematic: talos.schematic.to_yaml(),
            secureboot: talos.secureboot,
            medium: talos.medium,
        },
        System::Ubuntu(UbuntuImage { release, codename }) => {
            Content::Ubuntu { release: release.clone(), codename: codename.clone() }
        }
    };
    let json = serde_json::to_vec(&Note { arch, system }).unwrap_or_default();
    let length = u32::try_from(json.len()).unwrap_or_default();
    [MAGIC, &length.to_be_bytes(), &json].concat()
}

/// The system whose note is on the disk.
pub(super) fn find(view: &mut View) -> Option<(System, Arch)> {
    if let Some(iso) = Iso::open(view) {
        return parse(&iso.file(view, FILE, MOST_BYTES)?);
    }
    gpt::starts(view).into_iter().find_map(|start| {
        let head = view.read(start, MAGIC.len() + 4).ok()?;
        let length = length(&head)?;
        parse(&view.read(start, head.len() + length).ok()?)
    })
}

fn length(head: &[u8]) -> Option<usize> {
    let number = head.strip_prefix(MAGIC)?.first_chunk::<4>()?;
    usize::try_from(u32::from_be_bytes(*number)).ok().filter(|length| *length <= MOST_BYTES)
}

fn parse(bytes: &[u8]) -> Option<(System, Arch)> {
    let json = bytes.get(MAGIC.len() + 4..)?.get(..length(bytes)?)?;
    let Note { arch, system } = serde_json::from_slice(json).ok()?;
    let system = match system {
        Content::Talos { version, platform, schematic, secureboot, medium } => {
            let schematic = Schematic::read(&schematic).ok()?;
            System::Talos(TalosImage::new(version, platform, schematic, secureboot, medium))
        }
        Content::Ubuntu { release, codename } => System::Ubuntu(UbuntuImage { release, codename }),
    };
    Some((system, arch))
}
