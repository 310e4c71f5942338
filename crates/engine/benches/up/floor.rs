//! Minimum time in which a cluster can be created in a lab with a certain profile. It is computed from the times that the
//! profile defines for each kind of work, and from the order in which work must happen. The time that the engine itself takes
//! is not included, and nothing is measured.
//!
//! Only the set of machines comes from the plan, not the order of its steps. An unnecessary dependency makes a run longer,
//! but must not make this minimum longer. The necessary order is defined here:
//!
//! - a disk is filled from an image, so the image must be on the host before;
//! - the steps of one VM run one after the other: create, resize, finish, start;
//! - a machine that has booted accepts a config, independent of the other machines;
//! - etcd is bootstrapped on one control plane after it answers; the others join etcd one by one;
//! - a worker gets its certificate from any control plane, and registers after the first API server has started.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_lab::pve::{Profile, Work};
use talmox_plan::plan::{Action, CreateVm, Plan, StepId};
use talmox_pve::id::DiskSlot;

/// Time that etcd waits for a leader before an election, independent of the profile.
const ELECTION: Duration = Duration::from_secs(1);

/// Size of the image that disks are created from, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) length: u64,
    pub(crate) used: u64,
}

pub(crate) type Ends = BTreeMap<StepId, Duration>;

/// Earliest end of each step of a plan, counted from the start of the first step.
pub(crate) fn ends(plan: &Plan, profile: Profile, image: Image) -> Ends {
    let floor = Floor::new(plan, profile, image);
    plan.steps
        .iter()
        .map(|step| (step.id.clone(), floor.end(&step.action, step.node.as_deref())))
        .collect()
}

struct Floor {
    profile: Profile,
    image: Image,
    nodes: BTreeMap<String, Node>,
}

/// Properties of a node that determine its times.
#[derive(Clone, Copy, Default)]
struct Node {
    is_control_plane: bool,
    /// Number of disks that are allocated, including the disk that is filled from the image.
    disks: u32,
    /// Whether a disk is resized.
    grows: bool,
    /// Time at which the etcd of the node becomes a voting member.
    votes: Option<Duration>,
}

impl Floor {
    fn new(plan: &Plan, profile: Profile, image: Image) -> Self {
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut first = None;
        for step in &plan.steps {
            let Some(name) = &step.node else { continue };
            let node = nodes.entry(name.clone()).or_default();
            match &step.action {
                Action::CreateVm(create) => node.disks = disks(create),
                Action::ResizeDisk(_) => node.grows = true,
                Action::ApplyConfig(apply) => node.is_control_plane = apply.node.is_control_plane,
                Action::BootstrapEtcd(_) => first = Some(name.clone()),
                _ => {}
            }
        }
        let mut floor = Self { profile, image, nodes };
        floor.elect(&first.unwrap());
        floor
    }

    fn time(&self, work: Work) -> Duration {
        self.profile.time(work)
    }

    fn end(&self, action: &Action, name: Option<&str>) -> Duration {
        let node = || self.nodes[name.unwrap()];
        match action {
            Action::PostSchematic(_) => Duration::ZERO,
            Action::FetchImage(_) => self.fetched(),
            Action::CreateVm(_) => self.created(node()),
            Action::ResizeDisk(_) => self.resized(node()),
            Action::FinishVm(_) => self.finished(node()),
            Action::StartVm(_) => self.started(node()),
            Action::ApplyConfig(_) => self.answers(node()),
            Action::BootstrapEtcd(_) => node().votes.unwrap(),
            Action::AwaitMember(_) => node().votes.unwrap_or_default().max(self.registered(node())),
            Action::AwaitVip(_) | Action::WriteClientFiles(_) => self.first_api_server(),
            Action::AwaitHealth(_) => self.health(),
            other => panic!("no figure for {}", other.kind()),
        }
    }

    /// Time at which the image is on the host. The factory builds the image, then the host downloads it.
    fn fetched(&self) -> Duration {
        self.time(Work::Build) + self.time(Work::Fetch { bytes: self.image.length })
    }

    /// Time at which the VM is created. All disks are allocated, then one is filled.
    fn created(&self, node: Node) -> Duration {
        let filled = self.time(Work::Copy { bytes: self.image.used });
        self.fetched() + self.time(Work::Allocate) * node.disks + filled
    }

    fn resized(&self, node: Node) -> Duration {
        let growth = if node.grows { self.time(Work::Allocate) } else { Duration::ZERO };
        self.created(node) + growth
    }

    fn finished(&self, node: Node) -> Duration {
        self.resized(node) + self.time(Work::Call)
    }

    fn started(&self, node: Node) -> Duration {
        self.finished(node) + self.time(Work::Start)
    }

    /// Time at which the node has booted and has its config. A Talos 1.13 node closes its API while it leaves maintenance mode,
    /// and starts its services after that.
    fn configured(&self, node: Node) -> Duration {
        let booted = self.started(node) + self.time(Work::Firmware) + self.time(Work::Boot);
        booted + self.time(Work::Switch)
    }

    /// Time to pull the image of a container and to start the container.
    fn container(&self) -> Duration {
        self.time(Work::Pull) + self.time(Work::Service)
    }

    /// Time at which a node can run containers. Control planes start trustd as well.
    fn runtime(&self, node: Node) -> Duration {
        self.configured(node) + self.time(Work::Service) * if node.is_control_plane { 2 } else { 1 }
    }

    /// Time at which the clock of the node is in sync. trustd, etcd and the kubelet wait for that.
    fn in_time(&self, node: Node) -> Duration {
        self.configured(node) + self.time(Work::TimeSync)
    }

    /// Time at which the node has pulled its first image. The pull starts after containers can run and the clock is in sync.
    fn pulled(&self, node: Node) -> Duration {
        self.runtime(node).max(self.in_time(node)) + self.time(Work::Pull)
    }

    /// Time at which a configured node answers. A worker gets its certificate from trustd.
    fn answers(&self, node: Node) -> Duration {
        let planes = self.nodes.values().filter(|other| other.is_control_plane);
        let signs = |plane: &Node| self.in_time(*plane) + self.time(Work::Service);
        let trustd = planes.map(signs).min().unwrap_or_default();
        let signed = if node.is_control_plane { Duration::ZERO } else { trustd };
        self.configured(node).max(signed) + self.time(Work::Service)
    }

    /// Computes when each control plane becomes a voting member of etcd. The first one votes after the bootstrap. The others
    /// follow in the order in which they are ready, because etcd has one learner at a time. All of them pull the image before
    /// they look for a cluster.
    fn elect(&mut self, first: &str) {
        let node = self.nodes[first];
        let ready = self.answers(node).max(self.pulled(node));
        let mut last = ready + self.time(Work::Service) + ELECTION;
        self.nodes.get_mut(first).unwrap().votes = Some(last);
        let is_other = |(name, node): &(&String, &Node)| *name != first && node.is_control_plane;
        let mut others: Vec<(Duration, String)> = self
            .nodes
            .iter()
            .filter(is_other)
            .map(|(name, node)| (self.pulled(*node), name.clone()))
            .collect();
        others.sort();
        for (pulled, name) in others {
            // The member is added as a learner, starts, and becomes a voting member.
            last = last.max(pulled) + self.time(Work::Service) * 3;
            self.nodes.get_mut(&name).unwrap().votes = Some(last);
        }
    }

    /// Time at which the API server of a control plane runs, if its etcd votes from `votes` on.
    fn api_server(&self, votes: Duration) -> Duration {
        votes + self.container()
    }

    fn first_api_server(&self) -> Duration {
        let votes = self.nodes.values().filter_map(|node| node.votes).min();
        self.api_server(votes.unwrap_or_default())
    }

    fn registered(&self, node: Node) -> Duration {
        self.first_api_server().max(self.pulled(node) + self.time(Work::Service))
    }

    /// Time at which all pods run: the pods of the network on each node, CoreDNS after one node has a network, and the pods
    /// of each control plane. The kubelet shows the pods of a control plane in the API after they have started.
    fn health(&self) -> Duration {
        let ready = |node: &Node| self.registered(*node) + self.container();
        let all = self.nodes.values().map(ready);
        let dns = all.clone().min().unwrap_or_default() + self.container();
        let shown = self.nodes.values().filter_map(|node| node.votes).map(|votes| {
            let first = self.first_api_server();
            let server = self.api_server(votes);
            let noticed = if server == first { server } else { server + self.time(Work::Service) };
            noticed + self.container()
        });
        all.chain([dns]).chain(shown).max().unwrap_or_default()
    }
}

fn disks(create: &CreateVm) -> u32 {
    let disks = create.options.iter().filter(|(key, _)| key.parse::<DiskSlot>().is_ok());
    u32::try_from(disks.count()).unwrap()
}
