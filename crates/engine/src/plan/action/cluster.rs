//! What is done to nodes and to the cluster they make.

use std::net::IpAddr;
use std::time::Duration;

use talmox_pve::id::VmId;
use talmox_talos_api::Expected;
use talmox_talos_config::secret::SecretText;

use super::super::step::StepId;
use super::vm::OwnVm;
use crate::ownership::ClusterMark;
use crate::settled::Shape;

/// Where a node is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    At(IpAddr),
    /// At the address that its guest agent tells.
    AskAgent,
}

/// A node that runs Talos.
#[derive(Clone, Debug)]
pub struct TalosNode {
    pub name: String,
    pub own: OwnVm,
    pub contact: Contact,
    /// Which machine must be there before anything is sent to it, or made of what it says.
    pub expected: Expected,
    pub is_control_plane: bool,
}

/// How a node gets its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigBy {
    /// We send it, to a node in maintenance mode that proves to be the one.
    Maintenance,
    /// It read it from its volume; there is nothing to be done but to wait.
    Volume,
}

/// Gives a node its config, and waits until it answers as a node of the cluster, at its address
/// and by its name.
#[derive(Clone, Debug)]
pub struct ApplyConfig {
    pub node: TalosNode,
    pub by: ConfigBy,
    /// Whether Proxmox wrote a drive for its first boot. Then it must also be the machine that the drive names.
    pub has_drive: bool,
    pub config: SecretText,
    /// The version that the config is made for, such as `v1.11.2`.
    pub talos_version: String,
    /// The template that it is cloned from, if it is and was never in the cluster: what Talos that holds only the
    /// machine itself can tell.
    pub template: Option<String>,
    /// What it must become.
    pub shape: Shape,
    /// Whether this run starts its VM.
    pub is_started: bool,
    /// How often a VM whose port stays closed is reset.
    pub resets: u32,
    /// For the port to open, each time.
    pub boot: Duration,
    /// Steps without which it never comes back: a worker has its certificate from a control plane,
    /// and finds that for sure once there is a cluster. Taking the config needs none of them.
    pub needs: Vec<StepId>,
    /// For all of it.
    pub deadline: Duration,
}

/// Waits until a machine with another system can be logged in to.
#[derive(Clone, Debug)]
pub struct AwaitUbuntu {
    pub own: OwnVm,
    pub contact: Contact,
    /// Whether a guest agent is going to answer; otherwise port 22 must.
    pub has_agent: bool,
    pub deadline: Duration,
}

/// Why another control plane is known to have no etcd data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Its disk is made in this run. Whether this run really made it is looked at once more before anything is bootstrapped;
    /// if not, it has to answer like any other.
    FreshDisk,
    /// It has to say so itself, before anything is bootstrapped.
    Answer,
}

/// Another control plane.
#[derive(Clone, Debug)]
pub struct Witness {
    pub node: TalosNode,
    pub evidence: Evidence,
}

/// A node of the inventory, as its VM is recognised whatever its name, tags and notes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSign {
    pub name: String,
    pub uuid: String,
    pub vmid: VmId,
    /// Whether it is a control plane that runs Talos.
    pub has_etcd: bool,
}

/// By what the VMs and addresses of a cluster are recognised at the moment of its bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSigns {
    /// The name, which is a tag of its VMs.
    pub cluster: String,
    pub mark: ClusterMark,
    pub nodes: Vec<NodeSign>,
    /// Addresses that lead to any control plane that is up: the shared one, and that of the endpoint.
    pub addresses: Vec<IpAddr>,
}

/// Bootstraps etcd on the first control plane, by its own address.
#[derive(Clone, Debug)]
pub struct BootstrapEtcd {
    pub node: TalosNode,
    /// What every VM and address is held against: any of them may be of this cluster, and hold its data.
    pub signs: ClusterSigns,
    /// Every other control plane. One that has to answer and does not, or has etcd data, is a
    /// reason to refuse.
    pub witnesses: Vec<Witness>,
    pub deadline: Duration,
}

/// Waits until a node has joined: its kubelet is registered, and a control plane is a member of
/// etcd.
#[derive(Clone, Debug)]
pub struct AwaitMember {
    pub node: TalosNode,
    /// What it must have become, where no other step of the run has looked.
    pub shape: Option<Shape>,
    pub deadline: Duration,
}

/// Who is to bring the virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VipBringer {
    /// Talos, as soon as there is etcd.
    Talos,
    /// The add-on of this name.
    Addon(String),
    /// Perhaps something that cannot be looked into from here.
    Perhaps,
    /// Nobody who is known of.
    Nobody,
}

/// Waits until the virtual address answers. Where it is not known that somebody brings it, that it does not is
/// told, and no failure.
#[derive(Clone, Debug)]
pub struct AwaitVip {
    pub address: IpAddr,
    pub port: u16,
    pub by: VipBringer,
    pub deadline: Duration,
}

/// When a cluster counts as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthGoal {
    /// All nodes are ready.
    Ready,
    /// All nodes are registered, and ready if pods have a network: nobody is known to bring one.
    Registered,
    /// The same, but one of the add-ons may bring a network a while after it was applied.
    Settled,
}

#[derive(Clone, Debug)]
pub struct AwaitHealth {
    pub nodes: Vec<TalosNode>,
    pub goal: HealthGoal,
    pub deadline: Duration,
}

/// Hands kubeconfig and talosconfig to whoever writes files.
#[derive(Clone, Debug)]
pub struct WriteClientFiles {
    pub cluster: String,
    /// Where the Kubernetes API is found.
    pub server: String,
    /// The shared address, where that is where it is found: until it answers, the first control plane
    /// is named instead.
    pub shared: Option<SharedAddress>,
    /// The control planes, as Talos's clients find them.
    pub endpoints: Vec<TalosNode>,
    /// All nodes that run Talos.
    pub nodes: Vec<TalosNode>,
    pub deadline: Duration,
}

/// An address that control planes share.
#[derive(Clone, Debug)]
pub struct SharedAddress {
    pub address: IpAddr,
    pub port: u16,
    pub meanwhile: Meanwhile,
}

/// What is done about client files while the shared address does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// It is waited for as long as this step does so, if there is one. After that they lead around it.
    Await(Option<StepId>),
    /// They lead around it. A later step of the same run writes them once more.
    Around,
    /// Nothing: an earlier step has written ones that lead around it.
    Leave,
}

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Where it came from, for messages.
    pub origin: String,
    pub text: String,
}

/// Where the manifests of an add-on come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddonSource {
    Texts(Vec<Manifest>),
    Url {
        url: String,
        /// SHA-256 in hexadecimal digits.
        checksum: Option<String>,
    },
}

/// Applies the manifests of an add-on and waits until they work.
#[derive(Clone, Debug)]
pub struct ApplyAddon {
    pub name: String,
    pub source: AddonSource,
    pub deadline: Duration,
}
