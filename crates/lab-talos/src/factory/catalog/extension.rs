//! Official system extensions of each Talos version.
//!
//! The names, the minor releases, and the versions of the most used extensions are the published ones. The references of the
//! other extensions and all digests are generated from the name, so they are the same in every lab.

use semver::Version;
use serde::Serialize;

/// Extension in the form in which the Image Factory lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Extension {
    pub(crate) name: String,
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    digest: String,
    author: &'static str,
    description: String,
}

/// Kind of tag in the image reference of an extension.
#[derive(Clone, Copy, Debug)]
enum TagKind {
    /// Talos version that the extension was built for.
    Talos,
    /// Date of the firmware, followed by the Talos version.
    Firmware,
    IntelUcode,
    Crun,
    Drbd,
    Gvisor,
    Iscsi,
    Kata,
    Qemu,
    Spin,
    Tailscale,
    UtilLinux,
    Zfs,
    NvidiaLts,
    NvidiaProduction,
    ToolkitLts,
    ToolkitProduction,
    FabricLts,
    FabricProduction,
}

const FIRST_MINOR: u64 = 8;

/// Versions of an extension: one for each minor release from 1.8 on.
type Versions = [&'static str; 7];

const FIRMWARE: Versions =
    ["20241110", "20250410", "20251111", "20251125", "20260622", "20260810", "20260810"];
const INTEL_UCODE: Versions =
    ["20241112", "20250211", "20251111", "20250812", "20260512", "20260812", "20260812"];
const CRUN: Versions = ["1.16.1", "1.19.1", "1.21", "1.24", "1.26", "1.29", "1.29"];
const DRBD: Versions = ["9.2.11", "9.2.13", "9.2.16", "9.2.16", "9.2.16", "9.3.3", "9.3.3"];
const GVISOR: Versions = [
    "20240826.0",
    "20241118.0",
    "20250505.0",
    "20250707.0",
    "20260202.0",
    "20260810.0",
    "20260810.0",
];
const ISCSI: Versions = ["v0.1.6", "v0.1.6", "v0.2.0", "v0.2.0", "v0.2.0", "v0.2.0", "v0.2.0"];
const KATA: Versions = ["3.3.0", "3.3.0", "3.17.0", "3.20.0", "3.26.0", "3.32.0", "3.32.0"];
const QEMU: Versions = ["9.1.0", "9.2.0", "10.0.2", "10.0.2", "10.2.0", "11.0.2", "11.1.0"];
const SPIN: Versions =
    ["v0.15.1", "v0.18.0", "v0.19.0", "v0.21.0", "v0.23.0", "v0.25.1", "v0.25.1"];
const TAILSCALE: Versions =
    ["1.72.1", "1.78.1", "1.84.0", "1.88.1", "1.94.2", "1.102.2", "1.102.2"];
const UTIL_LINUX: Versions = ["2.40.2", "2.40.4", "2.40.4", "2.41.1", "2.41.4", "2.42.2", "2.42.2"];
const ZFS: Versions = ["2.2.6", "2.2.7", "2.3.3", "2.3.5", "2.4.1", "2.4.3", "2.4.3"];
const NVIDIA_LTS: Versions = [
    "535.183.06",
    "535.230.02",
    "535.247.01",
    "535.247.01",
    "580.126.20",
    "580.178.04",
    "580.178.04",
];
const NVIDIA_PRODUCTION: Versions =
    ["550.90.07", "550.144.03", "570.148.08", "570.172.08", "570.211.01", "595.91.07", "595.91.07"];
const TOOLKIT: Versions =
    ["v1.16.1", "v1.17.3", "v1.17.8", "v1.17.8", "v1.18.2", "v1.19.1", "v1.19.1"];

/// Names without `siderolabs/`. Each has the first and the last minor release that contain the extension.
const EXTENSIONS: &[(&str, u64, u64, TagKind)] = &[
    ("amazon-ena", 10, 14, TagKind::Talos),
    ("amd-ucode", 8, 14, TagKind::Firmware),
    ("amdgpu", 9, 14, TagKind::Firmware),
    ("amdgpu-firmware", 8, 8, TagKind::Firmware),
    ("binfmt-misc", 8, 14, TagKind::Talos),
    ("bird2", 12, 14, TagKind::Talos),
    ("bnx2-bnx2x", 8, 14, TagKind::Firmware),
    ("btrfs", 8, 14, TagKind::Talos),
    ("chelsio-drivers", 8, 14, TagKind::Talos),
    ("chelsio-firmware", 8, 14, TagKind::Firmware),
    ("cloudflared", 9, 14, TagKind::Talos),
    ("crun", 8, 14, TagKind::Crun),
    ("ctr", 10, 14, TagKind::Talos),
    ("drbd", 8, 14, TagKind::Drbd),
    ("dvb-cx23885", 9, 14, TagKind::Talos),
    ("dvb-m88ds3103", 11, 14, TagKind::Talos),
    ("ecr-credential-provider", 8, 14, TagKind::Talos),
    ("fuse3", 8, 14, TagKind::Talos),
    ("gasket-driver", 8, 14, TagKind::Talos),
    ("glibc", 9, 14, TagKind::Talos),
    ("gpio-pinctrl", 12, 14, TagKind::Talos),
    ("gvisor", 8, 14, TagKind::Gvisor),
    ("gvisor-debug", 8, 14, TagKind::Talos),
    ("hailort", 11, 14, TagKind::Talos),
    ("harbor-credential-provider", 14, 14, TagKind::Talos),
    ("hello-world-service", 8, 14, TagKind::Talos),
    ("hyperv-guest-agent", 14, 14, TagKind::Talos),
    ("i915", 9, 14, TagKind::Firmware),
    ("i915-ucode", 8, 8, TagKind::Firmware),
    ("intel-ice-firmware", 8, 14, TagKind::Firmware),
    ("intel-npu", 13, 14, TagKind::Talos),
    ("intel-ucode", 8, 14, TagKind::IntelUcode),
    ("iscsi-tools", 8, 14, TagKind::Iscsi),
    ("joydev", 13, 14, TagKind::Talos),
    ("kata-containers", 8, 14, TagKind::Kata),
    ("kata-containers-snp", 14, 14, TagKind::Talos),
    ("lldpd", 9, 14, TagKind::Talos),
    ("mdadm", 8, 14, TagKind::Talos),
    ("mei", 8, 14, TagKind::Talos),
    ("mellanox-mstflint", 12, 14, TagKind::Talos),
    ("metal-agent", 9, 14, TagKind::Talos),
    ("multipath-tools", 12, 14, TagKind::Talos),
    ("nebula", 10, 14, TagKind::Talos),
    ("netbird", 12, 14, TagKind::Talos),
    ("newt", 11, 14, TagKind::Talos),
    ("nfs-utils", 12, 14, TagKind::Talos),
    ("nfsd", 10, 14, TagKind::Talos),
    ("nfsrahead", 11, 14, TagKind::Talos),
    ("nonfree-kmod-nvidia-lts", 8, 14, TagKind::NvidiaLts),
    ("nonfree-kmod-nvidia-production", 8, 14, TagKind::NvidiaProduction),
    ("nut-client", 8, 14, TagKind::Talos),
    ("nvidia-container-toolkit-lts", 8, 14, TagKind::ToolkitLts),
    ("nvidia-container-toolkit-production", 8, 14, TagKind::ToolkitProduction),
    ("nvidia-fabricmanager-lts", 8, 14, TagKind::FabricLts),
    ("nvidia-fabricmanager-production", 8, 14, TagKind::FabricProduction),
    ("nvidia-gdrdrv-device", 12, 14, TagKind::Talos),
    ("nvidia-open-gpu-kernel-modules-lts", 8, 14, TagKind::NvidiaLts),
    ("nvidia-open-gpu-kernel-modules-production", 8, 14, TagKind::NvidiaProduction),
    ("nvme-cli", 10, 14, TagKind::Talos),
    ("panfrost", 10, 14, TagKind::Talos),
    ("px-fuse", 13, 14, TagKind::Talos),
    ("qemu-guest-agent", 8, 14, TagKind::Qemu),
    ("qlogic-firmware", 8, 14, TagKind::Firmware),
    ("realtek-firmware", 8, 14, TagKind::Firmware),
    ("revpi-firmware", 10, 14, TagKind::Talos),
    ("rockchip-rknn", 13, 14, TagKind::Talos),
    ("soci-snapshotter", 12, 14, TagKind::Talos),
    ("spin", 8, 14, TagKind::Spin),
    ("stargz-snapshotter", 8, 14, TagKind::Talos),
    ("tailscale", 8, 14, TagKind::Tailscale),
    ("tenstorrent", 11, 14, TagKind::Talos),
    ("thunderbolt", 8, 14, TagKind::Talos),
    ("trident-iscsi-tools", 12, 14, TagKind::Talos),
    ("uhid", 13, 14, TagKind::Talos),
    ("uinput", 8, 14, TagKind::Talos),
    ("usb-audio-drivers", 12, 14, TagKind::Talos),
    ("usb-modem-drivers", 8, 14, TagKind::Talos),
    ("util-linux-tools", 8, 14, TagKind::UtilLinux),
    ("v4l-uvc-drivers", 8, 14, TagKind::Talos),
    ("vc4", 10, 14, TagKind::Talos),
    ("vmtoolsd-guest-agent", 8, 14, TagKind::Talos),
    ("wasmedge", 8, 14, TagKind::Talos),
    ("xdma-driver", 10, 14, TagKind::Talos),
    ("xe", 12, 14, TagKind::Firmware),
    ("xen-guest-agent", 8, 14, TagKind::Talos),
    ("youki", 10, 14, TagKind::Talos),
    ("zerotier", 10, 14, TagKind::Talos),
    ("zfs", 8, 14, TagKind::Zfs),
];

/// Old names of extensions. The Image Factory accepts an old name if the extension exists under its new name.
const ALIASES: [(&str, &str); 11] = [
    ("v4l-uvc", "v4l-uvc-drivers"),
    ("usb-modem", "usb-modem-drivers"),
    ("gasket", "gasket-driver"),
    ("talos-vmtoolsd", "vmtoolsd-guest-agent"),
    ("xe-guest-utilities", "xen-guest-agent"),
    ("nvidia-container-toolkit", "nvidia-container-toolkit-lts"),
    ("nvidia-open-gpu-kernel-modules", "nvidia-open-gpu-kernel-modules-lts"),
    ("nonfree-kmod-nvidia", "nonfree-kmod-nvidia-lts"),
    ("nvidia-fabricmanager", "nvidia-fabric-manager-lts"),
    ("i915-ucode", "i915"),
    ("amdgpu-firmware", "amdgpu"),
];

impl TagKind {
    fn text(self, talos: &Version) -> String {
        let minor = usize::try_from(talos.minor.saturating_sub(FIRST_MINOR)).unwrap_or_default();
        let of = |versions: Versions| versions.get(minor).copied().unwrap_or_default();
        let built = |versions| format!("{}-v{talos}", of(versions));
        let toolkit = |driver| format!("{}-{}", of(driver), of(TOOLKIT));
        match self {
            Self::Talos => format!("v{talos}"),
            Self::Firmware => built(FIRMWARE),
            Self::IntelUcode => of(INTEL_UCODE).to_owned(),
            Self::Crun => of(CRUN).to_owned(),
            Self::Drbd => built(DRBD),
            Self::Gvisor => of(GVISOR).to_owned(),
            Self::Iscsi => of(ISCSI).to_owned(),
            Self::Kata => of(KATA).to_owned(),
            Self::Qemu => of(QEMU).to_owned(),
            Self::Spin => of(SPIN).to_owned(),
            Self::Tailscale => of(TAILSCALE).to_owned(),
            Self::UtilLinux => of(UTIL_LINUX).to_owned(),
            Self::Zfs => built(ZFS),
            Self::NvidiaLts => built(NVIDIA_LTS),
            Self::NvidiaProduction => built(NVIDIA_PRODUCTION),
            Self::ToolkitLts => toolkit(NVIDIA_LTS),
            Self::ToolkitProduction => toolkit(NVIDIA_PRODUCTION),
            Self::FabricLts => of(NVIDIA_LTS).to_owned(),
            Self::FabricProduction => of(NVIDIA_PRODUCTION).to_owned(),
        }
    }
}

/// All extensions of a Talos version, sorted by name.
pub(crate) fn extensions(talos: &Version) -> Vec<Extension> {
    let there =
        EXTENSIONS.iter().filter(|(_, first, last, _)| (first..=last).contains(&&talos.minor));
    there
        .map(|(name, _, _, tag)| {
            let reference = format!("ghcr.io/siderolabs/{name}:{}", tag.text(talos));
            Extension {
                name: format!("siderolabs/{name}"),
                digest: super::digest(&reference),
                reference,
                author: "Sidero Labs",
                description: format!("The extension {name}."),
            }
        })
        .collect()
}

/// Whether a Talos version has an extension with this name, or with the new name if this is an old name.
pub(crate) fn is_extension(talos: &Version, name: &str) -> bool {
    let Some(name) = name.strip_prefix("siderolabs/") else { return false };
    let is_there = |name: &str| {
        let found = EXTENSIONS.iter().find(|(known, ..)| *known == name);
        found.is_some_and(|(_, first, last, _)| (first..=last).contains(&&talos.minor))
    };
    let alias = ALIASES.iter().find(|(old, _)| *old == name);
    is_there(name) || alias.is_some_and(|(_, new)| is_there(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn reference(talos: &str, name: &str) -> Option<String> {
        let found = extensions(&version(talos)).into_iter().find(|it| it.name == name);
        found.map(|extension| extension.reference)
    }

    #[test]
    fn extensions_differ_by_minor_release() {
        assert_eq!(
            reference("1.13.6", "siderolabs/qemu-guest-agent").as_deref(),
            Some("ghcr.io/siderolabs/qemu-guest-agent:11.0.2")
        );
        assert_eq!(
            reference("1.10.3", "siderolabs/zfs").as_deref(),
            Some("ghcr.io/siderolabs/zfs:2.3.3-v1.10.3")
        );
        assert_eq!(
            reference("1.12.0", "siderolabs/nvidia-container-toolkit-production").as_deref(),
            Some("ghcr.io/siderolabs/nvidia-container-toolkit-production:570.211.01-v1.18.2")
        );
        assert_eq!(reference("1.11.6", "siderolabs/netbird"), None);
        assert!(reference("1.12.0", "siderolabs/netbird").is_some());
        assert!(EXTENSIONS.is_sorted_by_key(|row| row.0));
    }

    #[test]
    fn old_extension_names_are_accepted() {
        let is = |talos, name| is_extension(&version(talos), name);
        assert!(is("1.13.6", "siderolabs/i915-ucode"));
        assert!(is("1.8.4", "siderolabs/i915-ucode"));
        assert!(!is("1.8.4", "siderolabs/i915"));
        assert!(is("1.9.0", "siderolabs/nvidia-container-toolkit"));
        // The Image Factory maps this old name to a new name that is not published.
        assert!(!is("1.9.0", "siderolabs/nvidia-fabricmanager"));
        assert!(!is("1.9.0", "qemu-guest-agent"));
        assert!(!is("1.9.0", "siderolabs/nonsense"));
    }
}
