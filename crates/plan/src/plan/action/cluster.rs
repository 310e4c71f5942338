//! Actions on nodes and on the cluster.

use std::net::IpAddr;
use std::time::Duration;

use talmox_pve_types::id::VmId;
use talmox_talos_config::machine::Expected;
use talmox_talos_config::secret::SecretText;

use super::vm::OwnVm;
use crate::desired::{AddonSource, Contact, ExpectedNetwork};
use crate::ownership::ClusterMark;
use crate::plan::step_id::StepId;

/// A node that runs Talos.
#[derive(Clone, Debug)]
pub struct TalosNode {
    pub name: String,
    pub own: OwnVm,
    pub contact: Contact,
    /// The machine that must answer before anything is sent to it, or any of its answers is used.
    pub expected: Expected,
    pub is_control_plane: bool,
}

/// How a node gets its config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigBy {
    /// talmox sends it to the machine in maintenance mode, after a check of its identity.
    Maintenance,
    /// The machine reads it from its volume; the step only waits.
    Volume,
}

/// Applies the config of a node, and waits until the node answers with the credentials of the cluster, at its address and with its name.
#[derive(Clone, Debug)]
pub struct ApplyConfig {
    pub node: TalosNode,
    pub by: ConfigBy,
    /// Whether the VM has a cloud-init drive. Then the machine must also have the instance id of that drive.
    pub has_drive: bool,
    pub config: SecretText,
    /// The Talos version of the config, such as `v1.11.2`.
    pub talos_version: String,
    /// The template that the VM is cloned from, if the node was never in the cluster. Which Talos a template contains, only the
    /// running machine shows.
    pub template: Option<String>,
    /// The network that the config describes.
    pub shape: ExpectedNetwork,
    /// Whether this run starts its VM.
    pub is_started: bool,
    /// How often a VM whose port stays closed is reset.
    pub resets: u32,
    /// Timeout of each boot.
    pub boot: Duration,
    /// Steps without which the node never answers: a worker gets its certificate from a control plane. They are not needed to
    /// apply the config.
    pub needs: Vec<StepId>,
    /// For the whole step.
    pub deadline: Duration,
}

/// Waits until a machine with an operating system other than Talos answers.
#[derive(Clone, Debug)]
pub struct AwaitUbuntu {
    pub own: OwnVm,
    pub contact: Contact,
    /// Whether the guest agent must answer; otherwise port 22 must.
    pub has_agent: bool,
    pub deadline: Duration,
}

/// Why another control plane is known to have no etcd data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Its disk is created in this run. The bootstrap step checks that this run really created it; if not, the control plane
    /// must answer like any other.
    FreshDisk,
    /// It must report so itself before the bootstrap.
    Answer,
}

/// Another control plane, and how it shows that it has no etcd data.
#[derive(Clone, Debug)]
pub struct Witness {
    pub node: TalosNode,
    pub evidence: Evidence,
}

/// Signs of a node by which its VM is recognised, whatever its name, tags and notes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSign {
    pub name: String,
    pub uuid: String,
    pub vmid: VmId,
    /// Whether it is a control plane that runs Talos.
    pub has_etcd: bool,
}

/// Signs by which the VMs and addresses of a cluster are recognised at its bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSigns {
    /// The name of the cluster, which is a tag of its VMs.
    pub cluster: String,
    pub mark: ClusterMark,
    pub nodes: Vec<NodeSign>,
    /// The shared address and that of the endpoint: they lead to any control plane that runs.
    pub addresses: Vec<IpAddr>,
}

/// Bootstraps etcd on the first control plane, by its own address.
#[derive(Clone, Debug)]
pub struct BootstrapEtcd {
    pub node: TalosNode,
    /// Signs of the cluster. Every VM and address with one of them may hold etcd data.
    pub signs: ClusterSigns,
    /// Every other control plane. The step fails if one must answer and does not, or has etcd data.
    pub witnesses: Vec<Witness>,
    pub deadline: Duration,
}

/// Waits until a node has joined: its kubelet is registered, and a control plane is a member of
/// etcd.
#[derive(Clone, Debug)]
pub struct AwaitMember {
    pub node: TalosNode,
    /// The network that the node must have, if no other step of the run has checked it.
    pub shape: Option<ExpectedNetwork>,
    pub deadline: Duration,
}

/// Holder of the virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VipBringer {
    /// Talos, as soon as etcd runs.
    Talos,
    /// The add-on of this name.
    Addon(String),
    /// Possibly something that cannot be checked.
    Perhaps,
    /// No holder is known.
    Nobody,
}

/// Waits until the virtual address answers. If no holder is known for certain, a timeout is only reported.
#[derive(Clone, Debug)]
pub struct AwaitVip {
    pub address: IpAddr,
    pub port: u16,
    pub by: VipBringer,
    pub deadline: Duration,
}

/// When a cluster counts as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthGoal {
    /// All nodes are ready.
    Ready,
    /// All nodes are registered, and ready if there is a pod network. None is known.
    Registered,
    /// As `Registered`, but an add-on may bring a pod network some time after it was applied.
    Settled,
}

#[derive(Clone, Debug)]
pub struct AwaitHealth {
    pub nodes: Vec<TalosNode>,
    pub goal: HealthGoal,
    pub deadline: Duration,
}

/// Passes kubeconfig and talosconfig to the caller, which writes the files.
#[derive(Clone, Debug)]
pub struct WriteClientFiles {
    pub cluster: String,
    /// The endpoint of the Kubernetes API.
    pub server: String,
    /// The shared address, if it is the endpoint: until it answers, kubeconfig leads to the first control plane.
    pub shared: Option<SharedAddress>,
    /// The control planes, which are the endpoints of talosconfig.
    pub endpoints: Vec<TalosNode>,
    /// All nodes that run Talos.
    pub nodes: Vec<TalosNode>,
    pub deadline: Duration,
}

/// The shared address of control planes.
#[derive(Clone, Debug)]
pub struct SharedAddress {
    pub address: IpAddr,
    pub port: u16,
    pub meanwhile: Meanwhile,
}

/// Content of client files while the shared address does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// Wait for the shared address as long as this step does, if there is one; then lead to a control plane.
    Await(Option<StepId>),
    /// Lead to a control plane. A later step of the run writes them again.
    Around,
    /// Write nothing: an earlier step has written files that lead to a control plane.
    Leave,
}

/// Applies the manifests of an add-on, and waits until its workloads run.
#[derive(Clone, Debug)]
pub struct ApplyAddon {
    pub name: String,
    pub source: AddonSource,
    pub deadline: Duration,
}
