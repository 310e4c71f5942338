//! Hardware of VMs, and their placement on Proxmox.

use std::net::IpAddr;

use crate::language::{List, Setting, Sum, mapping};
use crate::value::{
    Bios, BootDevice, Bridge, Cores, Datastore, DiskBus, DiskSize, Duration, Filesystem,
    HostAddress, MacAddress, MachineType, MappingName, Memory, Mtu, PciAddress, Pool, PveHost,
    Sockets, StartOrder, Tag, VlanId, VolumeName,
};

mapping! {
    /// Hardware of a VM.
    called "a machine"
    pub struct Hardware {
        /// CPU cores, of each socket.
        cores ["cpu", "cpus"]: Setting<Cores>,
        /// CPU sockets. Default: 1.
        sockets: Setting<Sockets>,
        /// Memory: a number of MiB, or with a unit (`8G`).
        memory ["ram", "memory_mb"]: Setting<Memory>,
        /// The system disk: a number of GiB, or with a unit (`40G`).
        disk ["disk_gb"]: Setting<DiskSize>,
        /// The bus of the system disk.
        disk_bus: Setting<DiskBus>,
        /// The CPU type of the VM; Talos needs x86-64-v2 or better.
        cpu_type: Setting<String>,
        /// Show the host's NUMA topology to the guest.
        numa: Setting<bool>,
        /// The chipset.
        machine_type: Setting<MachineType>,
        /// The firmware.
        bios: Setting<Bios>,
        /// Add a TPM 2.0.
        tpm: Setting<bool>,
        /// Boot the SecureBoot image with its keys enrolled.
        secureboot: Setting<bool>,
        /// Present disks as SSDs to the guest.
        ssd: Setting<bool>,
        /// Give freed blocks back to the storage.
        discard: Setting<bool>,
        /// Start the VM when the host starts.
        onboot: Setting<bool>,
        /// When the host starts and stops the VM, relative to its other VMs. The token needs Sys.Modify on `/` for it.
        startup: Startup,
        /// Devices that the VM boots from, in this order, such as `[scsi0, net0]`. Default: the system disk.
        boot_order: List<BootDevice>,
        /// Protect the VM and its disks against deletion.
        protection: Setting<bool>,
        /// Text for the notes of the VM. It is written below the marker; other text in the notes stays.
        notes: Setting<String>,
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
    /// Start and stop order of the VMs of a host. If it is not set, talmox keeps the one of the VM.
    called "`startup`"
    pub struct Startup {
        /// Position: VMs with lower numbers start first and stop last.
        order: Setting<StartOrder>,
        /// Time that the host waits after the start of the VM before it starts the next one.
        up: Setting<Duration>,
        /// Time that the host waits for the VM to shut down before it stops the VM.
        down: Setting<Duration>,
    }
}

mapping! {
    /// A PCI device passed through: by its address, or by a mapping of the Proxmox cluster.
    called "`gpu`"
    pub struct Gpu {
        /// Address of the device on the host.
        pci ["bdf"]: Setting<PciAddress>,
        /// Name of a PCI mapping. Unlike a PCI address, an API token can use it.
        mapping: Setting<MappingName>,
        /// Present the device as a PCIe device.
        pcie: Setting<bool>,
        /// Show the device's ROM to the guest.
        rombar: Setting<bool>,
        /// Make the device the primary graphics card.
        x_vga: Setting<bool>,
        either pci or mapping,
    }
}

mapping! {
    /// A further disk.
    called "a disk"
    pub struct Disk {
        /// Size of the disk: a number of GiB, or with a unit.
        size: Setting<DiskSize>,
        /// Storage of the disk. Default: that of the system disk.
        datastore: Setting<Datastore>,
        /// Name of a Talos user volume on the disk, mounted at `/var/mnt/<name>`.
        volume: Setting<VolumeName>,
        /// The file system of that volume.
        filesystem: Setting<Filesystem>,
    }
}

mapping! {
    /// A further network card.
    called "a network card"
    pub struct Nic {
        /// Bridge of the network card.
        bridge: Setting<Bridge>,
        /// Address with prefix length.
        ip ["address"]: Setting<HostAddress>,
        /// Request an address by DHCP.
        dhcp: Setting<bool>,
        /// VLAN tag, set on the bridge.
        vlan: Setting<VlanId>,
        /// MTU.
        mtu: Setting<Mtu>,
        /// Let the firewall of Proxmox filter the traffic of the network card. Default: false.
        firewall: Setting<bool>,
        /// MAC address. Default: derived from the cluster's id and the node's name.
        mac: Setting<MacAddress>,
    }
}

mapping! {
    /// A tagged network inside the guest. The bridge must let the tag through.
    called "a VLAN"
    pub struct Vlan {
        /// VLAN tag.
        id: Setting<VlanId>,
        /// The node's address in the VLAN, with prefix length.
        ip ["address"]: Setting<HostAddress>,
        /// MTU.
        mtu: Setting<Mtu>,
    }
}

mapping! {
    /// Placement of a VM on Proxmox.
    called "a machine"
    pub struct Placement {
        /// The Proxmox host that runs the VM.
        host ["node"]: Setting<PveHost>,
        /// The storage of the VM's disks.
        datastore ["disk_pool"]: Setting<Datastore>,
        /// The bridge of the first network card.
        bridge ["network_bridge"]: Setting<Bridge>,
        /// VLAN tag of the first network card.
        vlan: Setting<VlanId>,
        /// MTU of the first network card.
        mtu: Setting<Mtu>,
        /// Let the firewall of Proxmox filter the traffic of the first network card. Default: false.
        firewall: Setting<bool>,
        /// The default gateway of the node.
        gateway: Setting<IpAddr>,
        /// The resource pool of the VM.
        pool: Setting<Pool>,
        /// The template to clone, by name or vmid; with `boot: template`.
        template: Setting<String>,
        /// Tags of the VM. Tags of all layers are combined.
        tags: Sum<Tag>,
    }
}
