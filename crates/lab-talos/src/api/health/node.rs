//! Health checks that inspect the Talos nodes.

use super::{CheckContext, Verdict};
use crate::resource;
use crate::service::ServiceState;
use crate::talos_state::Node;

const MIB: u64 = 1 << 20;
const MIN_CONTROL_PLANE_MEMORY: u64 = (1848 - 150) * MIB;
const MIN_WORKER_MEMORY: u64 = (1024 - 150) * MIB;
/// Minimum size of a disk that has enough space for the system partitions and images.
const MIN_DISK_SIZE: u64 = 6 << 30;

pub(super) fn etcd(context: &CheckContext<'_>) -> Verdict {
    context.each(&context.cluster.control_planes, |node| service(node, "etcd"))
}

pub(super) fn kubelet(context: &CheckContext<'_>) -> Verdict {
    context.each(&context.cluster.control_planes, |node| service(node, "kubelet"))
}

fn service(node: &Node, id: &str) -> Option<String> {
    let Some(service) = node.services.get(id) else {
        return Some(format!("service \"{id}\" not found"));
    };
    if service.state != ServiceState::Running {
        let expected = ServiceState::Running.name();
        return Some(format!(
            "service \"{id}\" not in expected state \"{expected}\": current state [{}] {}",
            service.state.name(),
            service.events.back().map(|last| last.message.as_str()).unwrap_or_default()
        ));
    }
    let is_healthy = service.health.as_ref().is_some_and(|health| health.healthy);
    (!is_healthy).then(|| format!("service is not healthy: {id}"))
}

/// Passes if all control planes belong to one etcd cluster that has quorum.
pub(super) fn consistent(context: &CheckContext<'_>) -> Verdict {
    let own = context.node.etcd.map(|part| part.cluster);
    context.each(&context.cluster.control_planes, |node| {
        let Some(part) = node.etcd else { return Some("etcd is not running".to_owned()) };
        if Some(part.cluster) != own {
            return Some("etcd member ids don't match".to_owned());
        }
        let cluster = context.talos.etcds.get(&part.cluster)?;
        let learner = cluster.members.values().find(|member| member.is_learner);
        learner.map(|member| format!("etcd member {} is a learner", member.name))
    })
}

pub(super) fn on_control_planes(context: &CheckContext<'_>) -> Verdict {
    let cluster = context.node.etcd.and_then(|part| context.talos.etcds.get(&part.cluster));
    let Some(cluster) = cluster else { return Verdict::Failed("etcd is not running".to_owned()) };
    let known = context.at(&context.cluster.control_planes);
    let strange = cluster.members.values().find(|member| {
        !known.iter().any(|(_, node)| node.is_some_and(|node| node.network.has(member.peer)))
    });
    strange.map_or(Verdict::Passed, |member| {
        Verdict::Failed(format!(
            "mismatch between etcd members and control plane nodes: {}",
            member.peer
        ))
    })
}

pub(super) fn apid(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    context.each(&all, |node| service(node, "apid"))
}

pub(super) fn memory(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    context.each(&all, |node| {
        let least =
            if node.is_control_plane() { MIN_CONTROL_PLANE_MEMORY } else { MIN_WORKER_MEMORY };
        let has = super::super::status::memory_in_kib(node).0 * 1024;
        (has < least).then(|| {
            format!("expected at least {} MiB of memory, got {} MiB", least / MIB, has / MIB)
        })
    })
}

pub(super) fn disks(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    context.each(&all, |node| {
        let system = node.system_disk.as_ref()?;
        let disk = node.hardware.disks.iter().find(|disk| disk.device == system.device)?;
        (disk.size < MIN_DISK_SIZE)
            .then(|| format!("ephemeral partition of {} is too small", disk.device))
    })
}

pub(super) fn diagnostics(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    context.each(&all, |node| resource::diagnostics(node).into_iter().next())
}

pub(super) fn booted(context: &CheckContext<'_>) -> Verdict {
    let all: Vec<_> = context.cluster.all().collect();
    context.each(&all, |node| {
        let stage = node.stage.name();
        (stage != "running").then(|| format!("node is in stage {stage}"))
    })
}
