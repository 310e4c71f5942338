//! Formats of property strings, by name.

mod cpu;
mod datacenter;
mod device;
mod drive;
mod guest;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::format::Format;
use crate::Release;

pub(crate) use cpu::cpu_models;

/// Name of a property string format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FormatName {
    Agent,
    Audio,
    BandwidthLimit,
    Boot,
    CiCustom,
    /// Obsolete option `cdrom`: like `ide2`, without `import-from`.
    Cdrom,
    Cpu,
    Crs,
    EfiDisk,
    Ha,
    HostPci,
    Ide,
    IpConfig,
    Ivshmem,
    Machine,
    Memory,
    Meta,
    Migration,
    Net,
    NextId,
    Notify,
    Numa,
    PciMap,
    PruneBackups,
    Rng,
    Sata,
    Scsi,
    Sev,
    Smbios1,
    Spice,
    TagStyle,
    Tdx,
    TpmState,
    U2f,
    Unused,
    Usb,
    UserTagAccess,
    Vga,
    Virtio,
    VirtioFs,
    Watchdog,
    WebAuthn,
}

/// Format with this name in a release.
pub(crate) fn format(release: Release, name: FormatName) -> &'static Format {
    shared(release, name)
}

/// Format with this name in a release, as an [`Arc`] that the endpoint tables can share.
pub(super) fn shared(release: Release, name: FormatName) -> &'static Arc<Format> {
    type Formats = BTreeMap<FormatName, Arc<Format>>;
    static V8: LazyLock<Formats> = LazyLock::new(|| all(Release::V8));
    static V9: LazyLock<Formats> = LazyLock::new(|| all(Release::V9));
    let formats: &'static Formats = match release {
        Release::V8 => &V8,
        Release::V9 => &V9,
    };
    &formats[&name]
}

pub(super) fn all(release: Release) -> BTreeMap<FormatName, Arc<Format>> {
    let makers = [drive::FORMATS, device::FORMATS, guest::FORMATS, datacenter::FORMATS];
    makers.concat().into_iter().map(|(name, make)| (name, Arc::new(make(release)))).collect()
}

/// Constructors of property string formats, by name.
type Makers = &'static [(FormatName, fn(Release) -> Format)];
