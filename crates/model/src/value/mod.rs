//! Types of single values. Each type parses its notation and reports invalid values.

mod basic;
mod boot_device;
mod chart;
mod choice;
mod cni;
mod duration;
mod mac;
mod name;
mod naming;
mod network;
mod patch;
mod pci;
mod secret;
mod size;
mod taint;
mod url;
mod uuid;
mod version;

pub use basic::{
    Checksum, Cores, FileMode, FilePath, Fingerprint, Mtu, SchematicId, Sockets, StartOrder,
    VlanId, VmId, VmIdRange,
};
pub use boot_device::BootDevice;
pub use chart::{AddonWait, Chart, ChartValues, ChartVersion};
pub use choice::{
    Bios, Boot, DiskBus, Filesystem, Handover, MachineType, NetworkForm, NvidiaDriver, Os, Role,
    VipBy,
};
pub use cni::Cni;
pub use duration::Duration;
pub use name::{
    Bridge, ClassName, ClusterName, Datastore, DomainName, Extension, MappingName, NamespaceName,
    NodeName, Pool, PveHost, SubjectName, Tag, VolumeName,
};
pub(crate) use name::{label_key, label_value};
pub use naming::{AnnotationKey, KubeletArgument, LabelKey, Sysctl, Target};
pub use network::{Cidr, HostAddress};
pub use patch::Patch;
pub use pci::PciAddress;
pub use secret::{SecretCommand, SecretRef};
pub use size::{DiskSize, Memory};
pub use taint::Taint;
pub use talmox_values::{HttpUrl, MacAddress};
pub use url::ProxmoxUrl;
pub use uuid::Uuid;
pub use version::{KubernetesVersion, TalosVersion};
