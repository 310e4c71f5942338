//! The least time that a cluster can take on machines of a profile: what must have happened before what, each as long
//! as the profile says that the work behind it takes. What the engine itself takes is none of it, and nothing is measured.
//!
//! Of a plan it takes which machines there are to be, and not the order of its steps: an edge that nothing needs makes
//! a run longer, and must not make this longer as well. What has to wait for what is written down here:
//!
//! - a disk is filled from an image, and the image lies on the host before that;
//! - what is done to one VM is done one after the other: create, resize, finish, start;
//! - a machine that has booted takes a config, whatever the others do;
//! - etcd is bootstrapped on one control plane, once that answers; the others join it one by one;
//! - a worker gets its certificate from any control plane, and registers once there is an API server.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_lab::pve::{Profile, Work};
use talmox_plan::plan::{Action, CreateVm, Plan, StepId};
use talmox_pve::id::DiskSlot;

/// How long etcd waits for a leader before it elects one, whatever the machines are.
const ELECTION: Duration = Duration::from_secs(1);

/// The image that disks are made of, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) length: u64,
    pub(crate) used: u64,
}

pub(crate) type Ends = BTreeMap<StepId, Duration>;

/// When each step of a plan ends at the earliest, from the beginning of the first.
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

/// What a node is, and the moments of its life.
#[derive(Clone, Copy, Default)]
struct Node {
    is_control_plane: bool,
    /// Disks that are allocated, the one that is filled among them.
    disks: u32,
    /// It grows a disk.
    grows: bool,
    /// From when on its etcd has a vote.
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

    /// The factory builds the image, the host fetches it.
    fn fetched(&self) -> Duration {
        self.time(Work::Build) + self.time(Work::Fetch { bytes: self.image.length })
    }

    /// Every disk is allocated; one is then filled.
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

    /// It has booted, and has its config.
    fn configured(&self, node: Node) -> Duration {
        self.started(node) + self.time(Work::Firmware) + self.time(Work::Boot)
    }

    /// The image of a container is pulled, and what is in it started.
    fn container(&self) -> Duration {
        self.time(Work::Pull) + self.time(Work::Service)
    }

    /// From when on a node can run containers; control planes start trustd as well.
    fn runtime(&self, node: Node) -> Duration {
        self.configured(node) + self.time(Work::Service) * if node.is_control_plane { 2 } else { 1 }
    }

    /// Its time is in sync, which trustd, etcd and the kubelet wait for.
    fn in_time(&self, node: Node) -> Duration {
        self.configured(node) + self.time(Work::TimeSync)
    }

    /// Its image was pulled, which is done once containers run and the time is in sync.
    fn pulled(&self, node: Node) -> Duration {
        self.runtime(node).max(self.in_time(node)) + self.time(Work::Pull)
    }

    /// From when on a configured node answers. A worker gets its certificate from trustd.
    fn answers(&self, node: Node) -> Duration {
        let planes = self.nodes.values().filter(|other| other.is_control_plane);
        let signs = |plane: &Node| self.in_time(*plane) + self.time(Work::Service);
        let trustd = planes.map(signs).min().unwrap_or_default();
        let signed = if node.is_control_plane { Duration::ZERO } else { trustd };
        self.configured(node).max(signed) + self.time(Work::Service)
    }

    /// Who votes in etcd from when on: the first once it was told to; then the others, as they come, for there is one
    /// learner at a time. All pull the image before they look for a cluster.
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
            // It asks to be a learner, starts, and has learnt.
            last = last.max(pulled) + self.time(Work::Service) * 3;
            self.nodes.get_mut(&name).unwrap().votes = Some(last);
        }
    }

    /// The API server of a control plane whose etcd has a vote.
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

    /// All pods run: those of the network on each node, CoreDNS once one node has a network, and on each control plane
    /// its own, which its kubelet shows in the API after they have come up.
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
