//! VMs: what they are made of, and where they live.

use std::net::IpAddr;

use crate::language::{List, Setting, Sum, mapping};
use crate::value::{
    Bios, Bridge, Cores, Datastore, DiskBus, DiskSize, Filesystem, HostAddress, MacAddress,
    MachineType, MappingName, Memory, Mtu, PciAddress, Pool, PveHost, Tag, VlanId, VolumeName,
};

mapping! {
    /// What a VM is made of.
    called "a machine"
    pub struct Hardware {
        /// CPU cores.
        cores ["cpu", "cpus"]: Setting<Cores>,
        /// Memory: a number of MiB, or with a unit (`8G`).
        memory ["ram", "memory_mb"]: Setting<Memory>,
        /// The system disk: a number of GiB, or with a unit (`40G`).
        disk ["disk_gb"]: Setting<DiskSize>,
        /// The bus of the system disk.
        disk_bus: Setting<DiskBus>,
        /// The CPU that the VM sees; Talos needs x86-64-v2 or better.
        cpu_type: Setting<String>,
        /// Pass the host's NUMA layout on.
        numa: Setting<bool>,
        /// The chipset.
        machine_type: Setting<MachineType>,
        /// The firmware.
        bios: Setting<Bios>,
        /// Add a TPM 2.0.
        tpm: Setting<bool>,
        /// Boot the SecureBoot image with its keys enrolled.
        secureboot: Setting<bool>,
        /// Tell the guest that disks are SSDs.
        ssd: Setting<bool>,
        /// Give freed blocks back to the storage.
        discard: Setting<bool>,
        /// Start with the host.
        onboot: Setting<bool>,
        /// Refuse to delete the VM or its disks.
        protection: Setting<bool>,
        /// A GPU (or another PCI device) to pass through.
        gpu: Gpu,
        /// Further disks.
        disks: List<Disk>,
        /// Further network cards; the first one follows from `bridge`, `ip` and `mac`.
        nics: List<Nic>,
        /// Tagged networks on the first network card, seen inside the guest.
        vlans: List<Vlan>,
        "gpu_pci_bdf" => gpu (Gpu).pci,
        "gpu_pcie_mode" => gpu (Gpu).pcie,
        "gpu_rombar" => gpu (Gpu).rombar,
    }
}

mapping! {
    /// A PCI device passed through: by its address, or by a mapping of the Proxmox cluster.
    called "`gpu`"
    pub struct Gpu {
        /// Its address on the host.
        pci ["bdf"]: Setting<PciAddress>,
        /// The name of a PCI mapping. A token may use it without being root.
        mapping: Setting<MappingName>,
        /// Present it as a PCIe device.
        pcie: Setting<bool>,
        /// Show the device's ROM to the guest.
        rombar: Setting<bool>,
        /// Make it the primary graphics card.
        x_vga: Setting<bool>,
        either pci or mapping,
    }
}

mapping! {
    /// A further disk.
    called "a disk"
    pub struct Disk {
        /// Its size: a number of GiB, or with a unit.
        size: Setting<DiskSize>,
        /// The storage it is on. Default: that of the system disk.
        datastore: Setting<Datastore>,
        /// Make it a Talos user volume of this name, mounted at `/var/mnt/<name>`.
        volume: Setting<VolumeName>,
        /// The file system of that volume.
        filesystem: Setting<Filesystem>,
    }
}

mapping! {
    /// A further network card.
    called "a network card"
    pub struct Nic {
        /// The bridge it is attached to.
        bridge: Setting<Bridge>,
        /// Its address, with prefix length.
        ip ["address"]: Setting<HostAddress>,
        /// Ask DHCP for an address.
        dhcp: Setting<bool>,
        /// VLAN tag, set on the bridge.
        vlan: Setting<VlanId>,
        /// MTU.
        mtu: Setting<Mtu>,
        /// Its MAC. Default: derived from the cluster's id and the node's name.
        mac: Setting<MacAddress>,
    }
}

mapping! {
    /// A tagged network inside the guest. The bridge must let the tag through.
    called "a VLAN"
    pub struct Vlan {
        /// Its tag.
        id: Setting<VlanId>,
        /// The node's address on it, with prefix length.
        ip ["address"]: Setting<HostAddress>,
        /// MTU.
        mtu: Setting<Mtu>,
    }
}

mapping! {
    /// Where a VM lives.
    called "a machine"
    pub struct Placement {
        /// The Proxmox host.
        host ["node"]: Setting<PveHost>,
        /// The storage for its disks.
        datastore ["disk_pool"]: Setting<Datastore>,
        /// The bridge of its first network card.
        bridge ["network_bridge"]: Setting<Bridge>,
        /// VLAN tag of its first network card.
        vlan: Setting<VlanId>,
        /// MTU of its first network card.
        mtu: Setting<Mtu>,
        /// Its default gateway.
        gateway: Setting<IpAddr>,
        /// The resource pool it is put into.
        pool: Setting<Pool>,
        /// The template to clone, by name or vmid; with `boot: template`.
        template: Setting<String>,
        /// Tags. They add up.
        tags: Sum<Tag>,
    }
}
