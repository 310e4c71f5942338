//! VM of a node, as options of Proxmox.
//!
//! Options that depend on the observed state are added later: the volume of the image, and the mapping of a PCI device.

use talmox_model::inventory::Gpu;
use talmox_model::value::{Bios, Boot, DiskBus, DiskSize, MachineType};
use talmox_model::{Cluster, Node, Setting};
use talmox_pve_types::config::{VmConfig, VmOptions};
use talmox_pve_types::id::{BadId, ConfigId, DiskSlot, StorageId, VolumeId};
use talmox_pve_types::property::{
    Agent, Drive, GIB, HostPci, Net, PciSource, Properties, Smbios, Tags,
};
use talmox_talos_config::secret::SecretText;

use super::error::DeriveError;
use super::identity::NodeIdentity;
use super::{cloud_config, disk_identity, first_address, start_option};
use crate::ownership::inventory_notes;

/// Tag of every owned VM. Another tag is the name of the cluster. The tags do not prove ownership, but talmox does not change
/// a VM that is tagged with the name of another cluster.
pub const TAG: &str = "talmox";

/// The slot of the cloud-init drive of Proxmox.
const CLOUDINIT: &str = "ide2";

/// The options that a template passes on to its clones.
const SHARED: &[&str] = &[
    "agent", "balloon", "bios", "boot", "cores", "cpu", "machine", "memory", "ostype", "scsihw",
    "serial0",
];

/// A disk of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    pub slot: DiskSlot,
    pub storage: StorageId,
    pub gib: u32,
    /// Options of the disk, such as `discard` and `ssd`.
    pub options: Properties,
    /// The name of the Talos user volume on the disk. None if the disk has no user volume.
    pub volume: Option<String>,
}

/// The PCI device that is passed through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSource {
    Mapping(ConfigId),
    /// Address of the device, such as `0000:28:00.0`.
    Address(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSpec {
    pub source: GpuSource,
    pub pcie: bool,
    pub rombar: bool,
    pub x_vga: bool,
}

impl GpuSpec {
    /// The option `hostpciN` with this source.
    pub fn hostpci(&self, source: PciSource) -> HostPci {
        let Self { pcie, rombar, x_vga, .. } = *self;
        HostPci { pcie, rombar, x_vga, ..HostPci::new(source) }
    }
}

/// Desired state of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent parts that a VM has or has not")]
pub struct VmSpec {
    /// All options except drives, PCI devices, tags, the start order and the description.
    pub options: VmOptions,
    pub tags: Tags,
    /// Text for the description of the VM, beside the marker.
    pub notes: Option<String>,
    /// Start order of the VM on its host, as Proxmox spells it. Only a token with the privilege Sys.Modify can set it.
    pub startup: Option<String>,
    /// The storage of the system disk, the EFI disk and the TPM state.
    pub storage: StorageId,
    /// The disks of the VM. The first one is the system disk.
    pub disks: Vec<DiskSpec>,
    pub has_efi: bool,
    pub has_tpm: bool,
    /// Whether the VM has a cloud-init drive with the address of the node.
    pub has_cloudinit: bool,
    /// The slot of the cidata volume. None if the VM has no cidata volume.
    pub cidata: Option<DiskSlot>,
    /// The options of a VM that still has a cloud-init drive from an earlier `boot:`. None for VMs that cannot have such a
    /// drive.
    kept_drive: Option<VmOptions>,
    pub gpu: Option<GpuSpec>,
    pub memory_mib: u64,
    /// CPU cores of each socket.
    pub cores: u32,
    pub sockets: u32,
    /// The bridge and the VLAN tag of each network card.
    pub bridges: Vec<(String, Option<u16>)>,
    pub has_agent: bool,
}

impl VmSpec {
    pub(super) fn of(
        cluster: &Cluster,
        node: &Node,
        identity: &NodeIdentity,
        config: &SecretText,
    ) -> Result<Self, DeriveError> {
        let hardware = &node.settings().hardware;
        let placement = &node.settings().placement;
        let boot = *node.settings().system.boot.required();
        let storage: StorageId = placement.datastore.required().as_str().parse()?;
        let bus = *hardware.disk_bus.required();
        let disks = disks(node, &storage, bus)?;
        // Operating systems other than Talos always get their settings on a volume.
        let by_volume = boot == Boot::Cidata || !node.is_talos();
        let has_cloudinit = !by_volume && boot != Boot::Meta;
        let is_q35 = *hardware.machine_type.required() == MachineType::Q35;
        let has_efi = *hardware.bios.required() == Bios::Ovmf;
        let memory_mib = hardware.memory.required().mib();
        let cores = hardware.cores.required().get();
        let sockets = hardware.sockets.get().map_or(1, |sockets| sockets.get());
        let mut options = VmOptions::new()
            .name(node.name.value.as_str())
            .ostype("l26")
            .machine(if is_q35 { "q35" } else { "pc" })
            .bios(if has_efi { "ovmf" } else { "seabios" })
            .cpu(hardware.cpu_type.required())
            .cores(cores)
            .memory_mib(memory_mib)
            .balloon_mib(0)
            .numa(*hardware.numa.required())
            // Talos hangs with virtio-scsi-single.
            .scsihw("virtio-scsi-pci")
            .onboot(*hardware.onboot.required())
            .protection(*hardware.protection.required())
            .serial_socket(0)
            .smbios1(&Smbios::with_uuid(&identity.uuid.to_string()))
            .boot(&start_option::boot_order(node, &disks[0].slot));
        // Proxmox creates one socket by default.
        if sockets > 1 {
            options = options.sockets(sockets);
        }
        let has_agent = has_agent(node, config);
        if has_agent {
            options = options.agent(Agent { enabled: true });
        }
        let nets = nets(node, identity)?;
        for (index, net) in (0_u8..).zip(&nets) {
            options = options.net(index, net);
        }
        if has_cloudinit {
            options = cloudinit(options, cluster, node)?;
        }
        let may_have_drive = by_volume && node.is_talos();
        let kept_drive = may_have_drive.then(|| cloudinit(VmOptions::new(), cluster, node));
        Ok(Self {
            options,
            tags: tags(cluster, node),
            notes: hardware.notes.get().and_then(|notes| inventory_notes::normalized(notes)),
            startup: start_option::startup(&hardware.startup),
            storage,
            disks,
            has_efi,
            has_tpm: *hardware.tpm.required(),
            has_cloudinit,
            cidata: by_volume.then(|| cidata_slot(bus)).transpose()?,
            kept_drive: kept_drive.transpose()?,
            gpu: gpu(&hardware.gpu)?,
            memory_mib,
            cores,
            sockets,
            bridges: nets
                .iter()
                .filter_map(|net| Some((net.bridge.as_ref()?.to_string(), net.vlan)))
                .collect(),
            has_agent,
        })
    }

    /// The VM with the cloud-init drive that it was created with. None if the VM has no such drive. `boot:` concerns the
    /// first boot only, so a later change of `boot:` or of its default is not drift.
    pub(super) fn with_kept_drive(&self, config: &VmConfig) -> Option<Self> {
        let kept = self.kept_drive.as_ref()?;
        let has_drive =
            config.get(CLOUDINIT).is_some_and(|drive| Drive::parse(drive).is_cloudinit());
        has_drive.then(|| {
            let options = self.options.clone();
            let options = kept.iter().fold(options, |set, (key, value)| set.set(key, value));
            Self { options, has_cloudinit: true, kept_drive: None, ..self.clone() }
        })
    }

    /// Whether the cidata volume is detached after the node has started. True for Talos only, because Talos reads the volume
    /// once.
    pub(crate) fn loses_volume(&self) -> bool {
        self.cidata.is_some() && self.kept_drive.is_some()
    }

    /// The number of CPUs that the guest sees.
    pub(crate) fn cpus(&self) -> u32 {
        self.cores.saturating_mul(self.sockets)
    }

    pub(crate) fn is_protected(&self) -> bool {
        self.options.get("protection") == Some("1")
    }

    /// The options of the create request, without tags.
    pub fn create(
        &self,
        image: &VolumeId,
        cidata: Option<&VolumeId>,
        hostpci: Option<&HostPci>,
        description: &str,
    ) -> VmOptions {
        // A host that reboots during the creation must not start an unfinished VM.
        let mut half_made = self.options.clone().description(description).onboot(false);
        if self.loses_volume() {
            // Proxmox does not remove a drive from a protected VM, and the cidata volume is removed later.
            half_made = half_made.protection(false);
        }
        let mut options = self.firmware(half_made);
        for (index, disk) in self.disks.iter().enumerate() {
            let mut drive = match index {
                0 => Drive::import(&disk.storage, image),
                _ => Drive::new(&disk.storage, disk.gib),
            };
            drive.options = disk.options.clone();
            options = options.drive(&disk.slot, &drive);
        }
        if let (Some(slot), Some(volume)) = (&self.cidata, cidata) {
            options = options.drive(slot, &Drive::import(&self.storage, volume));
        }
        if self.has_cloudinit {
            options = self.with_cloudinit(options);
        }
        with_hostpci(options, hostpci)
    }

    /// The options of a template for such VMs: hardware and system disk, without an identity.
    pub fn template(&self, name: &str, image: &VolumeId, description: &str) -> VmOptions {
        let shared = self.options.iter().filter(|(key, _)| SHARED.contains(key));
        let options = shared.fold(VmOptions::new(), |set, (key, value)| set.set(key, value));
        let system = &self.disks[0];
        let mut drive = Drive::import(&system.storage, image);
        drive.options = system.options.clone();
        self.firmware(options.name(name).description(description)).drive(&system.slot, &drive)
    }

    /// The options that are set after the create request, without tags.
    pub fn after_create(&self) -> VmOptions {
        let onboot = self.options.iter().filter(|(key, _)| *key == "onboot");
        onboot.fold(VmOptions::new(), |options, (key, value)| options.set(key, value))
    }

    /// The options that are set after the clone request. The system disk and the EFI disk come from the template.
    pub fn after_clone(&self, hostpci: Option<&HostPci>, has_cloudinit: bool) -> VmOptions {
        // The template may have another number of sockets.
        let mut options = self.options.clone().sockets(self.sockets);
        for disk in &self.disks[1..] {
            let mut drive = Drive::new(&disk.storage, disk.gib);
            drive.options = disk.options.clone();
            options = options.drive(&disk.slot, &drive);
        }
        if self.has_cloudinit && !has_cloudinit {
            options = self.with_cloudinit(options);
        }
        with_hostpci(options, hostpci)
    }

    /// The options that an existing VM is compared with. They do not contain the cidata volume, because that volume is
    /// detached after the node has read it.
    pub fn desired_options(&self, hostpci: Option<&HostPci>) -> VmOptions {
        let mut options = self.firmware(self.options.clone().tags(&self.tags));
        options = options.sockets(self.sockets);
        if let Some(startup) = &self.startup {
            options = options.startup(startup);
        }
        for disk in &self.disks {
            let mut drive = Drive::new(&disk.storage, disk.gib);
            drive.options = disk.options.clone();
            options = options.drive(&disk.slot, &drive);
        }
        if self.has_cloudinit {
            options = self.with_cloudinit(options);
        }
        with_hostpci(options, hostpci)
    }

    /// The storage and the full size in bytes of each disk.
    pub fn room(&self) -> impl Iterator<Item = (&StorageId, u64)> {
        self.disks.iter().map(|disk| (&disk.storage, u64::from(disk.gib) * GIB))
    }

    fn firmware(&self, options: VmOptions) -> VmOptions {
        let mut options = options;
        if self.has_efi {
            // With the pre-enrolled keys of Microsoft, Talos would not boot, or could not enroll its own keys.
            let efi =
                Drive::new(&self.storage, 1).with("efitype", "4m").with("pre-enrolled-keys", 0);
            options = options.set("efidisk0", efi);
        }
        if self.has_tpm {
            options =
                options.set("tpmstate0", Drive::new(&self.storage, 1).with("version", "v2.0"));
        }
        options
    }

    fn with_cloudinit(&self, options: VmOptions) -> VmOptions {
        options.set(CLOUDINIT, Drive::cloudinit(&self.storage))
    }
}

fn with_hostpci(options: VmOptions, hostpci: Option<&HostPci>) -> VmOptions {
    match hostpci {
        Some(device) => options.hostpci(0, device),
        None => options,
    }
}

fn disks(node: &Node, storage: &StorageId, bus: DiskBus) -> Result<Vec<DiskSpec>, DeriveError> {
    let hardware = &node.settings().hardware;
    let mut options = Properties::default();
    if *hardware.discard.required() {
        options.set("discard", "on");
    }
    // virtio-blk disks do not have the option `ssd`.
    if *hardware.ssd.required() && bus != DiskBus::Virtio {
        options.set("ssd", 1);
    }
    let disk = |index: usize, storage: StorageId, size: DiskSize| {
        let mut options = options.clone();
        if let Some(serial) = disk_identity::serial(bus, index) {
            options.set("serial", serial);
        }
        Ok::<_, BadId>(DiskSpec {
            slot: format!("{}{index}", bus.as_str()).parse()?,
            storage,
            gib: gib(size),
            options,
            volume: None,
        })
    };
    let mut disks = vec![disk(0, storage.clone(), *hardware.disk.required())?];
    for (index, further) in hardware.disks.values().enumerate() {
        let storage = match further.datastore.get() {
            Some(own) => own.as_str().parse()?,
            None => storage.clone(),
        };
        let size = further.size.get().copied().unwrap_or(DiskSize::from_gib(1));
        let volume = further.volume.get().map(|name| name.as_str().to_owned());
        disks.push(DiskSpec { volume, ..disk(index + 1, storage, size)? });
    }
    Ok(disks)
}

/// A size in whole GiB, rounded up.
fn gib(size: DiskSize) -> u32 {
    u32::try_from(size.bytes().div_ceil(GIB)).unwrap_or(u32::MAX)
}

/// The slot of the cidata volume. It is the last slot of its bus, so that a disk that is added later does not need the slot.
/// Disks on this bus can be detached from a running VM.
fn cidata_slot(bus: DiskBus) -> Result<DiskSlot, BadId> {
    match bus {
        DiskBus::Scsi | DiskBus::Virtio => "scsi30",
        DiskBus::Sata => "virtio15",
    }
    .parse()
}

fn nets(node: &Node, identity: &NodeIdentity) -> Result<Vec<Net>, DeriveError> {
    let placement = &node.settings().placement;
    let own_bridge = placement.bridge.required().as_str();
    let mut first = Net::virtio(identity.macs[0], &own_bridge.parse()?);
    first.vlan = placement.vlan.get().map(|vlan| vlan.get());
    first.firewall = placement.firewall.get().copied().unwrap_or_default();
    let mut nets = vec![first];
    for (index, nic) in node.settings().hardware.nics.values().enumerate() {
        let bridge = nic.bridge.get().map_or(own_bridge, |bridge| bridge.as_str());
        let mut net = Net::virtio(identity.macs[index + 1], &bridge.parse()?);
        net.vlan = nic.vlan.get().map(|vlan| vlan.get());
        net.firewall = nic.firewall.get().copied().unwrap_or_default();
        nets.push(net);
    }
    Ok(nets)
}

/// The settings of the cloud-init drive. They must match the machine config, because the node would otherwise apply both.
fn cloudinit(
    mut options: VmOptions,
    cluster: &Cluster,
    node: &Node,
) -> Result<VmOptions, DeriveError> {
    options = options.ipconfig(0, &first_address::first(cluster, node)?);
    let further = node.settings().hardware.nics.values();
    for (index, nic) in (1_u8..).zip(further) {
        if let Some(address) = first_address::further(nic) {
            options = options.ipconfig(index, &address);
        }
    }
    let network = &cluster.file.network;
    let join = |items: Vec<String>| items.join(" ");
    let nameservers = join(network.nameservers.values().map(ToString::to_string).collect());
    if !nameservers.is_empty() {
        options = options.nameserver(&nameservers);
    }
    let search = join(network.search.values().map(ToString::to_string).collect());
    if !search.is_empty() {
        options = options.searchdomain(&search);
    }
    Ok(options)
}

fn tags(cluster: &Cluster, node: &Node) -> Tags {
    let own = node.settings().placement.tags.values().map(talmox_model::value::Tag::as_str);
    Tags::of([TAG, cluster.name.as_str()].into_iter().chain(own))
}

/// Whether the guest agent is enabled in Proxmox: only if it is installed in the VM. If an enabled agent does not answer,
/// Proxmox waits for a timeout at every action.
fn has_agent(node: &Node, config: &SecretText) -> bool {
    if node.is_talos() {
        node.settings().system.image.has_extension("siderolabs/qemu-guest-agent")
    } else {
        cloud_config::installs_agent(config)
    }
}

fn gpu(gpu: &Gpu) -> Result<Option<GpuSpec>, DeriveError> {
    let source = match (gpu.mapping.get(), gpu.pci.get()) {
        (Some(mapping), _) => GpuSource::Mapping(mapping.as_str().parse()?),
        (None, Some(address)) => GpuSource::Address(address.to_string()),
        (None, None) => return Ok(None),
    };
    let flag = |setting: &Setting<bool>| setting.get().copied();
    Ok(Some(GpuSpec {
        source,
        pcie: flag(&gpu.pcie).unwrap_or(true),
        rombar: flag(&gpu.rombar).unwrap_or(true),
        x_vga: flag(&gpu.x_vga).unwrap_or(false),
    }))
}
