//! The official extensions: which there are for a Talos version, and what they are called.
//!
//! Names, the minors that have them, and the versions of those that matter are as they were
//! published; refs of the others and all digests are made up, the same every time.

use semver::Version;
use serde::Serialize;

/// As the factory lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Extension {
    pub(crate) name: String,
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    digest: String,
    author: &'static str,
    description: String,
}

/// What stands behind the colon of a ref.
#[derive(Clone, Copy, Debug)]
enum Tag {
    /// The version of Talos that it was built for.
    Talos,
    /// The day of the firmware, and Talos's version.
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

/// One version for each minor from 1.8 on.
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

/// Names without `siderolabs/`, the first and the last minor that have them.
const EXTENSIONS: &[(&str, u64, u64, Tag)] = &[
    ("amazon-ena", 10, 14, Tag::Talos),
    ("amd-ucode", 8, 14, Tag::Firmware),
    ("amdgpu", 9, 14, Tag::Firmware),
    ("amdgpu-firmware", 8, 8, Tag::Firmware),
    ("binfmt-misc", 8, 14, Tag::Talos),
    ("bird2", 12, 14, Tag::Talos),
    ("bnx2-bnx2x", 8, 14, Tag::Firmware),
    ("btrfs", 8, 14, Tag::Talos),
    ("chelsio-drivers", 8, 14, Tag::Talos),
    ("chelsio-firmware", 8, 14, Tag::Firmware),
    ("cloudflared", 9, 14, Tag::Talos),
    ("crun", 8, 14, Tag::Crun),
    ("ctr", 10, 14, Tag::Talos),
    ("drbd", 8, 14, Tag::Drbd),
    ("dvb-cx23885", 9, 14, Tag::Talos),
    ("dvb-m88ds3103", 11, 14, Tag::Talos),
    ("ecr-credential-provider", 8, 14, Tag::Talos),
    ("fuse3", 8, 14, Tag::Talos),
    ("gasket-driver", 8, 14, Tag::Talos),
    ("glibc", 9, 14, Tag::Talos),
    ("gpio-pinctrl", 12, 14, Tag::Talos),
    ("gvisor", 8, 14, Tag::Gvisor),
    ("gvisor-debug", 8, 14, Tag::Talos),
    ("hailort", 11, 14, Tag::Talos),
    ("harbor-credential-provider", 14, 14, Tag::Talos),
    ("hello-world-service", 8, 14, Tag::Talos),
    ("hyperv-guest-agent", 14, 14, Tag::Talos),
    ("i915", 9, 14, Tag::Firmware),
    ("i915-ucode", 8, 8, Tag::Firmware),
    ("intel-ice-firmware", 8, 14, Tag::Firmware),
    ("intel-npu", 13, 14, Tag::Talos),
    ("intel-ucode", 8, 14, Tag::IntelUcode),
    ("iscsi-tools", 8, 14, Tag::Iscsi),
    ("joydev", 13, 14, Tag::Talos),
    ("kata-containers", 8, 14, Tag::Kata),
    ("kata-containers-snp", 14, 14, Tag::Talos),
    ("lldpd", 9, 14, Tag::Talos),
    ("mdadm", 8, 14, Tag::Talos),
    ("mei", 8, 14, Tag::Talos),
    ("mellanox-mstflint", 12, 14, Tag::Talos),
    ("metal-agent", 9, 14, Tag::Talos),
    ("multipath-tools", 12, 14, Tag::Talos),
    ("nebula", 10, 14, Tag::Talos),
    ("netbird", 12, 14, Tag::Talos),
    ("newt", 11, 14, Tag::Talos),
    ("nfs-utils", 12, 14, Tag::Talos),
    ("nfsd", 10, 14, Tag::Talos),
    ("nfsrahead", 11, 14, Tag::Talos),
    ("nonfree-kmod-nvidia-lts", 8, 14, Tag::NvidiaLts),
    ("nonfree-kmod-nvidia-production", 8, 14, Tag::NvidiaProduction),
    ("nut-client", 8, 14, Tag::Talos),
    ("nvidia-container-toolkit-lts", 8, 14, Tag::ToolkitLts),
    ("nvidia-container-toolkit-production", 8, 14, Tag::ToolkitProduction),
    ("nvidia-fabricmanager-lts", 8, 14, Tag::FabricLts),
    ("nvidia-fabricmanager-production", 8, 14, Tag::FabricProduction),
    ("nvidia-gdrdrv-device", 12, 14, Tag::Talos),
    ("nvidia-open-gpu-kernel-modules-lts", 8, 14, Tag::NvidiaLts),
    ("nvidia-open-gpu-kernel-modules-production", 8, 14, Tag::NvidiaProduction),
    ("nvme-cli", 10, 14, Tag::Talos),
    ("panfrost", 10, 14, Tag::Talos),
    ("px-fuse", 13, 14, Tag::Talos),
    ("qemu-guest-agent", 8, 14, Tag::Qemu),
    ("qlogic-firmware", 8, 14, Tag::Firmware),
    ("realtek-firmware", 8, 14, Tag::Firmware),
    ("revpi-firmware", 10, 14, Tag::Talos),
    ("rockchip-rknn", 13, 14, Tag::Talos),
    ("soci-snapshotter", 12, 14, Tag::Talos),
    ("spin", 8, 14, Tag::Spin),
    ("stargz-snapshotter", 8, 14, Tag::Talos),
    ("tailscale", 8, 14, Tag::Tailscale),
    ("tenstorrent", 11, 14, Tag::Talos),
    ("thunderbolt", 8, 14, Tag::Talos),
    ("trident-iscsi-tools", 12, 14, Tag::Talos),
    ("uhid", 13, 14, Tag::Talos),
    ("uinput", 8, 14, Tag::Talos),
    ("usb-audio-drivers", 12, 14, Tag::Talos),
    ("usb-modem-drivers", 8, 14, Tag::Talos),
    ("util-linux-tools", 8, 14, Tag::UtilLinux),
    ("v4l-uvc-drivers", 8, 14, Tag::Talos),
    ("vc4", 10, 14, Tag::Talos),
    ("vmtoolsd-guest-agent", 8, 14, Tag::Talos),
    ("wasmedge", 8, 14, Tag::Talos),
    ("xdma-driver", 10, 14, Tag::Talos),
    ("xe", 12, 14, Tag::Firmware),
    ("xen-guest-agent", 8, 14, Tag::Talos),
    ("youki", 10, 14, Tag::Talos),
    ("zerotier", 10, 14, Tag::Talos),
    ("zfs", 8, 14, Tag::Zfs),
];

/// Old names that the factory still understands where the new one is there.
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

impl Tag {
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

/// All extensions for a Talos version, by name.
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

/// Whether there is such an extension for a Talos version, by this name or its new one.
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
    fn minors_have_their_own() {
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
    fn old_names_are_understood() {
        let is = |talos, name| is_extension(&version(talos), name);
        assert!(is("1.13.6", "siderolabs/i915-ucode"));
        assert!(is("1.8.4", "siderolabs/i915-ucode"));
        assert!(!is("1.8.4", "siderolabs/i915"));
        assert!(is("1.9.0", "siderolabs/nvidia-container-toolkit"));
        // The new name that the factory knows for it is one that nobody publishes.
        assert!(!is("1.9.0", "siderolabs/nvidia-fabricmanager"));
        assert!(!is("1.9.0", "qemu-guest-agent"));
        assert!(!is("1.9.0", "siderolabs/nonsense"));
    }
}
