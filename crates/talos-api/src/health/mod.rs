//! The health of a cluster, by the sixteen checks that talosctl makes, seen from here.
//!
//! Every node is looked at once per round, all at the same time; the checks judge what was seen and
//! ask nobody. So all of them are there from the first round on, each with its state, its reason
//! and since when it has been so. Those that concern Kubernetes judge a [`KubeView`].

mod judge;
mod kube;
mod view;

use talmox_clock::{Clock, Moment};

pub use kube::{KubeNode, KubePod, KubeView, Replicas};
pub use view::{NodeView, Seen, Subject, Untold, look};

/// What is checked, in the order that things come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    EtcdHealthy,
    EtcdConsistent,
    EtcdOnControlPlanes,
    ApiReady,
    Memory,
    Disks,
    NoDiagnostics,
    KubeletHealthy,
    Booted,
    NodesReport,
    StaticPods,
    ControlPlaneReady,
    NodesReady,
    KubeProxy,
    CoreDns,
    Schedulable,
}

impl Check {
    pub const ALL: [Self; 16] = [
        Self::EtcdHealthy,
        Self::EtcdConsistent,
        Self::EtcdOnControlPlanes,
        Self::ApiReady,
        Self::Memory,
        Self::Disks,
        Self::NoDiagnostics,
        Self::KubeletHealthy,
        Self::Booted,
        Self::NodesReport,
        Self::StaticPods,
        Self::ControlPlaneReady,
        Self::NodesReady,
        Self::KubeProxy,
        Self::CoreDns,
        Self::Schedulable,
    ];

    /// What must be so.
    pub fn name(self) -> &'static str {
        match self {
            Self::EtcdHealthy => "etcd is healthy",
            Self::EtcdConsistent => "etcd members agree about each other",
            Self::EtcdOnControlPlanes => "etcd members are control planes",
            Self::ApiReady => "the Talos API answers on all nodes",
            Self::Memory => "all nodes have enough memory",
            Self::Disks => "all nodes have enough disk",
            Self::NoDiagnostics => "no node complains",
            Self::KubeletHealthy => "kubelet is healthy on all control planes",
            Self::Booted => "all nodes have booted",
            Self::NodesReport => "all nodes are in Kubernetes",
            Self::StaticPods => "all control plane pods run",
            Self::ControlPlaneReady => "all control plane components are ready",
            Self::NodesReady => "all nodes are ready",
            Self::KubeProxy => "kube-proxy is ready",
            Self::CoreDns => "CoreDNS is ready",
            Self::Schedulable => "all nodes can be scheduled on",
        }
    }
}

/// How a check stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Passed,
    /// Not yet, and why: which node, which service, which condition.
    Waiting(String),
    /// It cannot pass, and need not.
    Skipped(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub check: Check,
    pub state: State,
    /// Which nodes will not tell what is judged, and why: the state is that of the others, if there are any.
    pub untold: Option<String>,
    /// Since when it passes, waits or is skipped. A new reason for waiting does not count.
    pub since: Moment,
}

/// What is known of the cluster beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the pods must get a network. Otherwise nodes stay NotReady until somebody brings one,
    /// which is no illness; once it is there, they must become ready.
    pub has_cni: bool,
}

/// All checks, over many rounds.
#[derive(Clone, Debug)]
pub struct Health {
    clock: Clock,
    settings: Settings,
    reports: Vec<Report>,
}

impl Health {
    pub fn new(clock: Clock, settings: Settings) -> Self {
        let since = clock.moment();
        let reports = Check::ALL.map(|check| Report {
            check,
            state: State::Waiting("nobody has looked yet".to_owned()),
            untold: None,
            since,
        });
        Self { clock, settings, reports: reports.to_vec() }
    }

    /// Judges one round. Without a view of Kubernetes, its checks wait.
    pub fn update(&mut self, nodes: &[NodeView], kube: Option<&KubeView>) {
        let now = self.clock.moment();
        for report in &mut self.reports {
            let silent = judge::silent(report.check, nodes);
            let state = match &silent {
                Some(silent) if silent.are_all => State::Skipped(silent.text.clone()),
                _ => judge::node_check(report.check, nodes)
                    .unwrap_or_else(|| kube::check(report.check, nodes, kube, self.settings)),
            };
            report.untold = silent.map(|silent| silent.text);
            if std::mem::discriminant(&state) != std::mem::discriminant(&report.state) {
                report.since = now;
            }
            report.state = state;
        }
    }

    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The first check that does not pass, and why: what a wait can show.
    pub fn waits_for(&self) -> Option<(Check, &str)> {
        self.reports.iter().find_map(|report| match &report.state {
            State::Waiting(why) => Some((report.check, why.as_str())),
            _ => None,
        })
    }

    pub fn is_healthy(&self) -> bool {
        self.waits_for().is_none()
    }
}
