//! Version, memory and services of a node.

use std::time::Duration;

use prost_types::Timestamp;
use talmox_talos_api::proto::machine::{
    FeaturesInfo, MemInfo, Memory, PlatformInfo, ServiceEvent, ServiceEvents, ServiceHealth,
    ServiceInfo, ServiceList, Version, VersionInfo,
};

use crate::service::Service;
use crate::talos_state::Node;

pub(super) fn version(node: &Node) -> Version {
    let name = node.platform.name.clone();
    let mode = if name == "metal" { "metal" } else { "cloud" };
    Version {
        metadata: None,
        version: Some(VersionInfo {
            tag: node.version.to_string(),
            sha: "undefined".to_owned(),
            built: String::new(),
            go_version: "undefined".to_owned(),
            os: "linux".to_owned(),
            arch: "amd64".to_owned(),
        }),
        platform: Some(PlatformInfo { name, mode: mode.to_owned() }),
        features: Some(FeaturesInfo { rbac: true }),
    }
}

/// The total memory divided by this number is reserved by firmware and kernel.
const RESERVED_DIVISOR: u64 = 50;

/// Total, free and available memory in KiB.
pub(super) fn memory_in_kib(node: &Node) -> (u64, u64, u64) {
    let total = node.hardware.memory / 1024;
    let total = total - total / RESERVED_DIVISOR;
    (total, total / 2, total / 4 * 3)
}

pub(super) fn memory(node: &Node) -> Memory {
    let (memtotal, memfree, memavailable) = memory_in_kib(node);
    Memory { metadata: None, meminfo: Some(MemInfo { memtotal, memfree, memavailable }) }
}

pub(super) fn services(node: &Node) -> ServiceList {
    let services = node.services.iter().map(|(id, service)| info(id, service));
    ServiceList { metadata: None, services: services.collect() }
}

fn info(id: &str, service: &Service) -> ServiceInfo {
    let events = service.events.iter().map(|moment| ServiceEvent {
        msg: moment.message.clone(),
        state: moment.state.name().to_owned(),
        ts: Some(timestamp(moment.at)),
    });
    let health = match &service.health {
        Some(health) => ServiceHealth {
            unknown: false,
            healthy: health.healthy,
            last_message: health.message.clone(),
            last_change: Some(timestamp(health.since)),
        },
        None => ServiceHealth { unknown: true, ..ServiceHealth::default() },
    };
    ServiceInfo {
        id: id.to_owned(),
        state: service.state.name().to_owned(),
        events: Some(ServiceEvents { events: events.collect() }),
        health: Some(health),
    }
}

pub(crate) fn timestamp(since_epoch: Duration) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since_epoch.subsec_nanos()).unwrap_or_default(),
    }
}
