//! Settings with a few possible words.

use std::fmt;

use serde_json::Value as Json;
use talmox_yaml::Scalar;

use crate::language::{Leaf, constant_choice};

/// Declares an enum with the word that stands for each variant.
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
        /// Address by Proxmox's cloud-init drive, config sent to Talos's maintenance mode.
        Cloudinit = "cloudinit",
        /// Address and config on a volume that Proxmox attaches to the VM: no config crosses the network.
        Cidata = "cidata",
        /// Address baked into a metal image as META key 0xa.
        Meta = "meta",
        /// Address by DHCP.
        Dhcp = "dhcp",
        /// A clone of a prepared template.
        Template = "template",
    }
}

choice! {
    /// Who holds the virtual address of the control plane.
    VipBy, "`talos` or `kube-vip`" {
        /// Talos itself, by layer 2.
        Talos = "talos",
        /// kube-vip, which comes as an add-on.
        KubeVip = "kube-vip",
    }
}

choice! {
    /// The pod network.
    Cni, "`flannel` (Talos's own) or `none` (you bring one, such as Cilium)" {
        /// Talos's own.
        Flannel = "flannel",
        /// None; an add-on brings one.
        None = "none",
    }
}

choice! {
    /// In which form network settings are rendered.
    NetworkForm, "`interfaces` or `documents`" {
        /// `machine.network.interfaces`, chosen by MAC.
        Interfaces = "interfaces",
        /// LinkConfig and its kin, from Talos 1.12.
        Documents = "documents",
    }
}

choice! {
    /// The bus that the system disk is attached to.
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
    /// The chipset.
    MachineType, "`q35` or `i440fx`" {
        /// PCIe, needed for GPUs.
        Q35 = "q35",
        /// Plain PCI.
        I440fx = "i440fx",
    }
}

choice! {
    /// The firmware.
    Bios, "`ovmf` (UEFI) or `seabios`" {
        /// UEFI.
        Ovmf = "ovmf",
        /// Legacy BIOS.
        Seabios = "seabios",
    }
}

choice! {
    /// The operating system of a node.
    Os, "`talos` or `ubuntu`" {
        /// Talos Linux.
        Talos = "talos",
        /// Ubuntu with cloud-init: the VM is made and set up, what runs in it is yours.
        Ubuntu = "ubuntu",
    }
}

choice! {
    /// A file system for user volumes.
    Filesystem, "`xfs` or `ext4`" {
        /// XFS.
        Xfs = "xfs",
        /// ext4.
        Ext4 = "ext4",
    }
}

choice! {
    /// Which of the NVIDIA driver lines.
    NvidiaDriver, "one of `production`, `lts`" {
        /// The production line.
        Production = "production",
        /// The long-term line.
        Lts = "lts",
    }
}

/// What a node is to the cluster. Not written by users: it follows from the list a node stands in.
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
