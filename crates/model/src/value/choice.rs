//! Settings whose value is one of a few words.

use std::fmt;

use serde_json::Value as Json;
use talmox_yaml::Scalar;

use crate::language::{Leaf, constant_choice};

/// Declares an enum, with the word of each variant.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])+
        $name:ident, $expected:literal {
            $($(#[doc = $variant_doc:literal])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $variant_doc])+ $variant,)+ }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Leaf for $name {
            const EXPECTED: &'static str = $expected;
            const WORDS: &'static [&'static str] = &[$($word,)+];

            fn parse(scalar: &Scalar) -> Result<Self, Option<String>> {
                match scalar.text.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(None),
                }
            }

            fn schema() -> Json {
                constant_choice(&[$($word,)+])
            }

            fn show(&self) -> String {
                self.as_str().to_owned()
            }
        }
    };
}

choice! {
    /// How a node gets its address and config at first boot.
    Boot, "one of `cloudinit`, `cidata`, `meta`, `dhcp`, `template`" {
        /// The address comes from the cloud-init drive of Proxmox. The config is sent over the network to the node in
        /// maintenance mode.
        Cloudinit = "cloudinit",
        /// The address and the config are on a volume that Proxmox attaches to the VM. No config is sent over the
        /// network.
        Cidata = "cidata",
        /// The address is in META key 0xa of a metal image.
        Meta = "meta",
        /// The address comes from DHCP.
        Dhcp = "dhcp",
        /// The VM is a clone of an existing template.
        Template = "template",
    }
}

choice! {
    /// Component that holds the virtual address of the control planes.
    VipBy, "`talos` or `kube-vip`" {
        /// Talos. The control planes elect the holder of the address.
        Talos = "talos",
        /// kube-vip, which is installed as an add-on.
        KubeVip = "kube-vip",
    }
}

choice! {
    /// Tool that takes over an add-on.
    Handover, "`gitops`" {
        /// Argo CD or Flux.
        Gitops = "gitops",
    }
}

choice! {
    /// Form of the network settings in machine configs.
    NetworkForm, "`interfaces` or `documents`" {
        /// `machine.network.interfaces`, matched by MAC address.
        Interfaces = "interfaces",
        /// Network documents such as `LinkConfig`. They require Talos 1.12.
        Documents = "documents",
    }
}

choice! {
    /// Bus of the system disk.
    DiskBus, "one of `scsi`, `virtio`, `sata`" {
        /// virtio-scsi-pci.
        Scsi = "scsi",
        /// virtio-blk.
        Virtio = "virtio",
        /// AHCI.
        Sata = "sata",
    }
}

choice! {
    /// Chipset of the VM.
    MachineType, "`q35` or `i440fx`" {
        /// Chipset with PCIe, which GPUs need.
        Q35 = "q35",
        /// Chipset with PCI only.
        I440fx = "i440fx",
    }
}

choice! {
    /// Firmware of the VM.
    Bios, "`ovmf` (UEFI) or `seabios`" {
        /// UEFI.
        Ovmf = "ovmf",
        /// Legacy BIOS.
        Seabios = "seabios",
    }
}

choice! {
    /// Operating system of a node.
    Os, "`talos` or `ubuntu`" {
        /// Talos Linux.
        Talos = "talos",
        /// Ubuntu with cloud-init. talmox creates and configures the VM, but installs no software in it.
        Ubuntu = "ubuntu",
    }
}

choice! {
    /// File system of user volumes.
    Filesystem, "`xfs` or `ext4`" {
        /// XFS.
        Xfs = "xfs",
        /// ext4.
        Ext4 = "ext4",
    }
}

choice! {
    /// Driver branch of NVIDIA.
    NvidiaDriver, "one of `production`, `lts`" {
        /// Production branch.
        Production = "production",
        /// Long-term support branch.
        Lts = "lts",
    }
}

/// Role of a node in the cluster. The list that contains the node determines its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    ControlPlane,
    Worker,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
        })
    }
}
