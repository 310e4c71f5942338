//! The checks that nodes themselves answer.

use super::{Scene, Verdict};
use crate::resource;
use crate::service::ServiceState;
use crate::talos_state::Node;

const MIB: u64 = 1 << 20;
const MEMORY_OF_CONTROL_PLANES: u64 = (1848 - 150) * MIB;
const MEMORY_OF_WORKERS: u64 = (1024 - 150) * MIB;
/// A disk with less than this is too small for the partitions of the system and for images.
const DISK: u64 = 6 << 30;

pub(super) fn etcd(scene: &Scene<'_>) -> Verdict {
    scene.each(&scene.cluster.control_planes, |node| service(node, "etcd"))
}

pub(super) fn kubelet(scene: &Scene<'_>) -> Verdict {
    scene.each(&scene.cluster.control_planes, |node| service(node, "kubelet"))
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
    let is_well = service.health.as_ref().is_some_and(|health| health.healthy);
    (!is_well).then(|| format!("service is not healthy: {id}"))
}

/// All control planes are of one etcd cluster, and it works.
pub(super) fn consistent(scene: &Scene<'_>) -> Verdict {
    let own = scene.node.etcd.map(|part| part.cluster);
    scene.each(&scene.cluster.control_planes, |node| {
        let Some(part) = node.etcd else { return Some("etcd is not running".to_owned()) };
        if Some(part.cluster) != own {
            return Some("etcd member ids don't match".to_owned());
        }
        let cluster = scene.talos.etcds.get(&part.cluster)?;
        let learner = cluster.members.values().find(|member| member.is_learner);
        learner.map(|member| format!("etcd member {} is a learner", member.name))
    })
}

pub(super) fn on_control_planes(scene: &Scene<'_>) -> Verdict {
    let cluster = scene.node.etcd.and_then(|part| scene.talos.etcds.get(&part.cluster));
    let Some(cluster) = cluster else { return Verdict::Failed("etcd is not running".to_owned()) };
    let known = scene.at(&scene.cluster.control_planes);
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

pub(super) fn apid(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    scene.each(&all, |node| service(node, "apid"))
}

pub(super) fn memory(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    scene.each(&all, |node| {
        let least =
            if node.is_control_plane() { MEMORY_OF_CONTROL_PLANES } else { MEMORY_OF_WORKERS };
        let has = super::super::status::memory_in_kib(node).0 * 1024;
        (has < least).then(|| {
            format!("expected at least {} MiB of memory, got {} MiB", least / MIB, has / MIB)
        })
    })
}

pub(super) fn disks(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    scene.each(&all, |node| {
        let system = node.system_disk.as_ref()?;
        let disk = node.hardware.disks.iter().find(|disk| disk.device == system.device)?;
        (disk.size < DISK).then(|| format!("ephemeral partition of {} is too small", disk.device))
    })
}

pub(super) fn diagnostics(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    scene.each(&all, |node| resource::diagnostics(node).into_iter().next())
}

pub(super) fn booted(scene: &Scene<'_>) -> Verdict {
    let all: Vec<_> = scene.cluster.all().collect();
    scene.each(&all, |node| {
        let stage = node.stage.name();
        (stage != "running").then(|| format!("node is in stage {stage}"))
    })
}
