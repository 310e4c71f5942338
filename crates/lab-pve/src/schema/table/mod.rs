//! Tables of endpoints, by area.

mod access;
mod agent;
mod cluster;
mod ha;
mod node;
mod pool;
mod qemu;
mod snapshot;
mod status;
mod storage;
mod volume;

use super::endpoint::{Endpoint, Table};
use super::property::{Property, text};
use crate::Release;

pub(super) fn endpoints(release: Release) -> Vec<Endpoint> {
    let table = Table(release);
    let areas = [
        access::endpoints(table),
        agent::endpoints(table),
        cluster::endpoints(table),
        ha::endpoints(table),
        node::endpoints(table),
        pool::endpoints(table),
        qemu::endpoints(table),
        snapshot::endpoints(table),
        status::endpoints(table),
        storage::endpoints(table),
        volume::endpoints(table),
    ];
    areas.into_iter().flatten().collect()
}

/// Digest of a config file. A client sends it back to detect changes by other clients.
fn digest() -> Property {
    text().longest(64)
}

/// Digest of a VM config. Its maximum length is lower than that of other digests.
fn vm_digest() -> Property {
    text().longest(40)
}
