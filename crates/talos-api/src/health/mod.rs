//! Health of a cluster: the sixteen checks of talosctl, performed by the client.
//!
//! Each round reads every node once, all nodes at the same time. All checks evaluate the data of the round. Therefore
//! every check has a state and the time of its last change from the first round on. The checks of Kubernetes evaluate a
//! [`KubeView`].

mod kube;
mod talos_checks;
mod view;

use talmox_clock::{Clock, Moment};

pub use kube::{KubeNode, KubePod, KubeView, Replicas};
pub use view::{NodeView, Seen, Subject, Unavailable, look};

/// Health check. The variants are in the order in which components start.
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

    /// Condition that the check requires.
    pub fn name(self) -> &'static str {
        match self {
            Self::EtcdHealthy => "etcd is healthy",
            Self::EtcdConsistent => "etcd members report the same member list",
            Self::EtcdOnControlPlanes => "etcd members are control planes",
            Self::ApiReady => "the Talos API answers on all nodes",
            Self::Memory => "all nodes have enough memory",
            Self::Disks => "all nodes have enough disk",
            Self::NoDiagnostics => "no node reports a diagnostic",
            Self::KubeletHealthy => "kubelet is healthy on all control planes",
            Self::Booted => "all nodes have booted",
            Self::NodesReport => "all nodes are registered in Kubernetes",
            Self::StaticPods => "all control plane pods run",
            Self::ControlPlaneReady => "all control plane components are ready",
            Self::NodesReady => "all nodes are ready",
            Self::KubeProxy => "kube-proxy is ready",
            Self::CoreDns => "CoreDNS is ready",
            Self::Schedulable => "all nodes are schedulable",
        }
    }

    /// What the check is about, for a check that has not passed: its name would contradict that.
    pub fn topic(self) -> &'static str {
        match self {
            Self::EtcdHealthy => "etcd",
            Self::EtcdConsistent => "etcd member lists",
            Self::EtcdOnControlPlanes => "etcd members",
            Self::ApiReady => "Talos API",
            Self::Memory => "memory",
            Self::Disks => "disks",
            Self::NoDiagnostics => "diagnostics",
            Self::KubeletHealthy => "kubelet",
            Self::Booted => "boot",
            Self::NodesReport => "node registration",
            Self::StaticPods => "control plane pods",
            Self::ControlPlaneReady => "control plane components",
            Self::NodesReady => "node readiness",
            Self::KubeProxy => "kube-proxy",
            Self::CoreDns => "CoreDNS",
            Self::Schedulable => "schedulable nodes",
        }
    }
}

/// State of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Passed,
    /// The check has not passed yet. The text names the node, service or condition that is missing.
    Waiting(String),
    /// The check cannot pass, but is not required.
    Skipped(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub check: Check,
    pub state: State,
    /// Nodes that cannot report the data of the check, with the reason. `state` covers the other nodes only.
    pub unavailable: Option<String>,
    /// Time of the last change between passed, waiting and skipped. A new reason for waiting does not change it.
    pub since: Moment,
}

/// Properties of the cluster that the checks depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Whether a CNI is expected. If not, the checks that need a CNI are skipped until a CNI is installed.
    pub has_cni: bool,
}

/// State of all checks, over several rounds.
#[derive(Clone, Debug)]
pub struct ClusterHealth {
    clock: Clock,
    settings: HealthSettings,
    reports: Vec<Report>,
}

impl ClusterHealth {
    pub fn new(clock: Clock, settings: HealthSettings) -> Self {
        let since = clock.moment();
        let reports = Check::ALL.map(|check| Report {
            check,
            state: State::Waiting("not checked yet".to_owned()),
            unavailable: None,
            since,
        });
        Self { clock, settings, reports: reports.to_vec() }
    }

    /// Evaluates one round. Without a `kube` view, the checks of Kubernetes wait.
    pub fn update(&mut self, nodes: &[NodeView], kube: Option<&KubeView>) {
        let now = self.clock.moment();
        for report in &mut self.reports {
            let silent = talos_checks::silent(report.check, nodes);
            let state = match &silent {
                Some(silent) if silent.are_all => State::Skipped(silent.text.clone()),
                _ => talos_checks::node_check(report.check, nodes)
                    .unwrap_or_else(|| kube::check(report.check, nodes, kube, self.settings)),
            };
            report.unavailable = silent.map(|silent| silent.text);
            if std::mem::discriminant(&state) != std::mem::discriminant(&report.state) {
                report.since = now;
            }
            report.state = state;
        }
    }

    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The first check that does not pass yet, with the reason. `None` if the cluster is healthy.
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
