//! The least time that a plan can take on machines of a profile: the longest chain of its steps, each as long as the
//! profile says that the work behind it takes. What the engine itself takes is none of it, and nothing is measured.
//!
//! A step that waits for a node waits for what goes on there since its config came, whoever looks. So there is a chain
//! of moments for each node beside the steps, after the order in which Talos does things.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_engine::plan::{Action, CreateVm, Plan, StepId};
use talmox_lab::pve::{Profile, Work};
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

/// When each step ends at the earliest, from the beginning of the first.
pub(crate) fn ends(plan: &Plan, profile: Profile, image: Image) -> Ends {
    let mut floor = Floor { profile, image, nodes: BTreeMap::new(), ends: BTreeMap::new() };
    for step in &plan.steps {
        let begin = step.after.iter().filter_map(|before| floor.ends.get(before)).max();
        let begin = begin.copied().unwrap_or_default();
        let end = floor.end(&step.action, begin);
        floor.ends.insert(step.id.clone(), end);
    }
    floor.ends
}

struct Floor {
    profile: Profile,
    image: Image,
    nodes: BTreeMap<String, Node>,
    ends: Ends,
}

/// The moments of a node, as far as they are known.
#[derive(Clone, Copy, Default)]
struct Node {
    is_control_plane: bool,
    configured: Duration,
    /// From when on its etcd has a vote.
    votes: Option<Duration>,
}

impl Floor {
    fn time(&self, work: Work) -> Duration {
        self.profile.time(work)
    }

    fn end(&mut self, action: &Action, begin: Duration) -> Duration {
        match action {
            Action::FetchImage(_) => {
                begin + self.time(Work::Build) + self.time(Work::Fetch { bytes: self.image.length })
            }
            Action::CreateVm(create) => begin + self.create(create),
            Action::ResizeDisk(_) => begin + self.time(Work::Allocate),
            Action::FinishVm(_) => begin + self.time(Work::Call),
            Action::StartVm(_) => begin + self.time(Work::Start),
            Action::ApplyConfig(apply) => {
                let configured = begin + self.time(Work::Firmware) + self.time(Work::Boot);
                let is_control_plane = apply.node.is_control_plane;
                let node = Node { is_control_plane, configured, votes: None };
                self.nodes.insert(apply.node.name.clone(), node);
                self.api(node)
            }
            Action::BootstrapEtcd(bootstrap) => {
                let node = self.nodes[&bootstrap.node.name];
                let in_time = node.configured + self.time(Work::TimeSync);
                let votes =
                    begin.max(in_time).max(self.runtime(node)) + self.container() + ELECTION;
                self.nodes.get_mut(&bootstrap.node.name).unwrap().votes = Some(votes);
                votes
            }
            Action::AwaitMember(member) => {
                let node = self.nodes[&member.node.name];
                let votes =
                    if node.is_control_plane { self.vote(&member.node.name) } else { begin };
                begin.max(votes).max(self.registered(node))
            }
            Action::AwaitVip(_) => begin.max(self.first_api_server()),
            Action::AwaitHealth(_) => begin.max(self.health()),
            Action::PostSchematic(_) | Action::WriteClientFiles(_) => begin,
            other => panic!("no figure for {}", other.kind()),
        }
    }

    /// Every disk is allocated; one is then filled.
    fn create(&self, create: &CreateVm) -> Duration {
        let disks = create.options.iter().filter(|(key, _)| key.parse::<DiskSlot>().is_ok());
        let disks = u32::try_from(disks.count()).unwrap();
        self.time(Work::Allocate) * disks + self.time(Work::Copy { bytes: self.image.used })
    }

    /// The image of a container is pulled, and what is in it started.
    fn container(&self) -> Duration {
        self.time(Work::Pull) + self.time(Work::Service)
    }

    /// From when on a node can run containers; control planes start trustd as well.
    fn runtime(&self, node: Node) -> Duration {
        node.configured + self.time(Work::Service) * if node.is_control_plane { 2 } else { 1 }
    }

    /// From when on a configured node answers. A worker gets its certificate from trustd.
    fn api(&self, node: Node) -> Duration {
        let planes = self.nodes.values().filter(|other| other.is_control_plane);
        let trustd = planes.map(|plane| self.runtime(*plane)).min().unwrap_or_default();
        let signed = if node.is_control_plane { Duration::ZERO } else { trustd };
        node.configured.max(signed) + self.time(Work::Service)
    }

    /// Control planes join etcd one after the other: there is one learner at a time.
    fn vote(&mut self, name: &str) -> Duration {
        let node = self.nodes[name];
        if let Some(votes) = node.votes {
            return votes;
        }
        let last = self.nodes.values().filter_map(|other| other.votes).max().unwrap_or_default();
        let asked = last.max(self.runtime(node)) + self.time(Work::Service);
        let votes = asked + self.container() + self.time(Work::Service);
        self.nodes.get_mut(name).unwrap().votes = Some(votes);
        votes
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
        self.first_api_server().max(self.runtime(node) + self.container())
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
