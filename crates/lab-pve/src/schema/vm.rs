//! Schema of VM options.

use std::sync::LazyLock;

use super::check::check_text;
use super::format::Format;
use super::formats::{FormatName, shared};
use super::property::{
    Property, Schema, TableEntry, ValueKind, each, flag, formatted, integer, number, numbered,
};
use super::property::{one_of, p, pattern, properties, split_index, text};
use super::value_format::{
    ADDRESS, BOOT_DISK, CPU_SET, DNS_NAME, HOTPLUG, STARTUP, STORAGE_ID, TAG,
};
use super::value_format::{CONFIG_ID, URL_ENCODED, VOLUME_ID};
use crate::Release;

/// Families of drives with their maximum number of drives, in the order in which error messages list them. `efidisk0` and
/// `tpmstate0` follow, then `unused0` to `unused255`.
pub(crate) const DRIVES: [(&str, u16); 4] = [("ide", 4), ("scsi", 31), ("virtio", 16), ("sata", 6)];
pub(crate) const UNUSED: u16 = 256;

pub(crate) fn drive_names() -> impl Iterator<Item = String> {
    DRIVES
        .into_iter()
        .flat_map(|(bus, count)| (0..count).map(move |index| format!("{bus}{index}")))
        .chain(["efidisk0".to_owned(), "tpmstate0".to_owned()])
}

pub(crate) fn is_drive(name: &str) -> bool {
    let on_a_bus = || {
        let (bus, index) = split_index(name)?;
        DRIVES.into_iter().find(|(known, count)| *known == bus && index < *count)
    };
    matches!(name, "efidisk0" | "tpmstate0") || on_a_bus().is_some()
}

/// Schema of one VM option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VmOption {
    /// Type of the option. Proxmox returns integers and booleans as JSON numbers.
    pub(crate) kind: ValueKind,
    /// Format of the property string; `None` if the value is not a property string.
    pub(crate) format: Option<&'static Format>,
    release: Release,
    property: &'static Property,
}

impl VmOption {
    /// Whether a value is valid for this VM option.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        check_text(self.release, "", self.property, text).is_ok()
    }
}

/// Whether a VM option exists in this release.
pub fn is_vm_option(release: Release, key: &str) -> bool {
    vm_option(release, key).is_some()
}

/// Schema of a VM option; `None` if the option does not exist.
pub(crate) fn vm_option(release: Release, key: &str) -> Option<VmOption> {
    static V8: LazyLock<[Schema; 2]> = LazyLock::new(|| schemas(Release::V8));
    static V9: LazyLock<[Schema; 2]> = LazyLock::new(|| schemas(Release::V9));
    let [settable, internal]: &'static [Schema; 2] = match release {
        Release::V8 => &V8,
        Release::V9 => &V9,
    };
    let property: &'static Property = settable.get(key).or_else(|| internal.get(key))?;
    let format = property.format().map(AsRef::as_ref);
    Some(VmOption { kind: property.kind, format, release, property })
}

fn schemas(release: Release) -> [Schema; 2] {
    [Schema::new(release, options(release)), Schema::new(release, internal_options(release))]
}

/// Options that Proxmox writes into a config, and that clients cannot set.
fn internal_options(release: Release) -> [TableEntry; 7] {
    [
        p("meta", properties(shared(release, FormatName::Meta))),
        p("parent", formatted(CONFIG_ID).longest(40)),
        p("running-nets-host-mtu", text().since(Release::V9)),
        p("runningcpu", text()),
        p("runningmachine", text()),
        p("snaptime", integer().min(0)),
        p("vmstate", formatted(VOLUME_ID)),
    ]
}

const KEYBOARDS: [&str; 25] = [
    "de", "de-ch", "da", "en-gb", "en-us", "es", "fi", "fr", "fr-be", "fr-ca", "fr-ch", "hu", "is",
    "it", "ja", "lt", "mk", "nl", "no", "pl", "pt", "pt-br", "sv", "sl", "tr",
];

/// Keyboard layouts of VMs and of the datacenter.
pub(crate) fn keyboard() -> Property {
    one_of(KEYBOARDS)
}

/// Table entries of the parameters that set VM options.
pub(crate) fn options(release: Release) -> impl Iterator<Item = TableEntry> {
    devices(release)
        .into_iter()
        .chain(machine(release))
        .chain(processor_and_memory(release))
        .chain(cloud_init(release))
        .chain(general_options())
}

fn devices(release: Release) -> Vec<TableEntry> {
    let format = |name| properties(shared(release, name));
    vec![
        numbered("ide", 4, format(FormatName::Ide)),
        numbered("sata", 6, format(FormatName::Sata)),
        numbered("scsi", 31, format(FormatName::Scsi)),
        numbered("virtio", 16, format(FormatName::Virtio)),
        numbered("unused", UNUSED, format(FormatName::Unused)),
        p("cdrom", format(FormatName::Cdrom)),
        p("efidisk0", format(FormatName::EfiDisk)),
        p("tpmstate0", format(FormatName::TpmState)),
        numbered("net", 32, format(FormatName::Net)),
        numbered("hostpci", 16, format(FormatName::HostPci)),
        numbered("usb", 14, format(FormatName::Usb)),
        numbered("serial", 4, pattern("(/dev/.+|socket)")),
        numbered("parallel", 3, pattern(r"/dev/parport\d+|/dev/usb/lp\d+")),
        numbered("virtiofs", 10, format(FormatName::VirtioFs)),
        p("audio0", format(FormatName::Audio)),
        p("ivshmem", format(FormatName::Ivshmem)),
        p("rng0", format(FormatName::Rng)),
        p("spice_enhancements", format(FormatName::Spice)),
        p("vga", format(FormatName::Vga)),
        p("watchdog", format(FormatName::Watchdog)),
    ]
}

fn machine(release: Release) -> [TableEntry; 18] {
    let format = |name| properties(shared(release, name));
    let controllers =
        ["lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"];
    let systems = [
        "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24",
        "l26", "solaris",
    ];
    let generation = r"(?:[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}|[01])";
    let date = r"(now|\d{4}-\d{1,2}-\d{1,2}(T\d{1,2}:\d{1,2}:\d{1,2})?)";
    [
        p("acpi", flag()),
        p("agent", format(FormatName::Agent)),
        p("arch", one_of(["x86_64", "aarch64"])),
        p("args", text()),
        p("bios", one_of(["seabios", "ovmf"])),
        p("boot", format(FormatName::Boot)),
        p("bootdisk", formatted(BOOT_DISK).like(r"(ide|sata|scsi|virtio)\d+")),
        p("keyboard", keyboard()),
        p("kvm", flag()),
        p("localtime", flag()),
        p("machine", format(FormatName::Machine)),
        p("ostype", one_of(systems)),
        p("scsihw", one_of(controllers)),
        p("smbios1", format(FormatName::Smbios1).longest(512)),
        p("startdate", pattern(date)),
        p("tablet", flag()),
        p("tdf", flag()),
        p("vmgenid", pattern(generation)),
    ]
}

fn processor_and_memory(release: Release) -> [TableEntry; 18] {
    let format = |name| properties(shared(release, name));
    [
        p("affinity", formatted(CPU_SET)),
        p("allow-ksm", flag().since(Release::V9)),
        p("amd-sev", format(FormatName::Sev)),
        p("balloon", integer().min(0)),
        p("cores", integer().min(1)),
        p("cpu", format(FormatName::Cpu)),
        p("cpulimit", number().min(0).max(128)),
        p("cpuunits", integer().min(1).max(262_144)),
        p("hugepages", one_of(["any", "2", "1024"])),
        p("intel-tdx", format(FormatName::Tdx).since(Release::V9)),
        p("keephugepages", flag()),
        p("memory", format(FormatName::Memory)),
        p("numa", flag()),
        numbered("numa", 8, format(FormatName::Numa)),
        p("shares", integer().min(0).max(50_000)),
        p("smp", integer().min(1)),
        p("sockets", integer().min(1)),
        p("vcpus", integer().min(1)),
    ]
}

fn cloud_init(release: Release) -> [TableEntry; 9] {
    let format = |name| properties(shared(release, name));
    [
        p("cicustom", format(FormatName::CiCustom)),
        p("cipassword", text()),
        p("citype", one_of(["configdrive2", "nocloud", "opennebula"])),
        p("ciupgrade", flag()),
        p("ciuser", text()),
        numbered("ipconfig", 32, format(FormatName::IpConfig)),
        p("nameserver", each(ADDRESS)),
        p("searchdomain", text()),
        p("sshkeys", formatted(URL_ENCODED)),
    ]
}

/// Options for name, protection, start order and similar.
fn general_options() -> [TableEntry; 16] {
    let locks = [
        "backup",
        "clone",
        "create",
        "migrate",
        "rollback",
        "snapshot",
        "snapshot-delete",
        "suspending",
        "suspended",
    ];
    [
        p("autostart", flag()),
        p("description", text().longest(8192)),
        p("freeze", flag()),
        p("hookscript", formatted(VOLUME_ID)),
        p("hotplug", formatted(HOTPLUG)),
        p("lock", one_of(locks)),
        p("migrate_downtime", number().min(0)),
        p("migrate_speed", integer().min(0)),
        p("name", formatted(DNS_NAME)),
        p("onboot", flag()),
        p("protection", flag()),
        p("reboot", flag()),
        p("startup", formatted(STARTUP)),
        p("tags", each(TAG)),
        p("template", flag()),
        p("vmstatestorage", formatted(STORAGE_ID)),
    ]
}
