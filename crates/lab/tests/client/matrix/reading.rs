//! All operations of the client that only read. Each is one step in the test scenario. The client retries them if a connection
//! breaks, because they change nothing.

use std::pin::Pin;

use talmox_pve::api::{access, cluster, ha, mapping, node, pool, qemu, storage, task};
use talmox_pve::{Client, PveError, Request};

use super::operation::{Operation, Step, URL, operation};
use crate::rig::{id, vm, vmid};

type Asked = Pin<Box<dyn Future<Output = Result<(), PveError>>>>;

/// Request that only reads. It hides the type of the answer.
pub(super) struct Reading {
    pub(super) path: String,
    ask: Box<dyn Fn(Client) -> Asked>,
}

impl Reading {
    pub(super) async fn ask(&self, client: &Client) -> Result<(), PveError> {
        (self.ask)(client.clone()).await
    }
}

fn read<T: 'static>(name: &'static str, request: Request<T>) -> Operation {
    let path = request.path().to_owned();
    let ask = move |client: Client| -> Asked {
        let request = request.clone();
        Box::pin(async move { client.send(&request).await.map(drop) })
    };
    operation(name, Step::Read(Reading { path, ask: Box::new(ask) }))
}

/// Read operations that exist in every release.
pub(super) fn common() -> Vec<Operation> {
    let (host, local) = (id("pve2"), id("local"));
    let (idle, running) = (vm(101), vm(102));
    vec![
        read("permissions", access::permissions()),
        read("version", cluster::version()),
        read("cluster status", cluster::status()),
        read("resources", cluster::resources()),
        read("next id", cluster::next_id()),
        read("free id", cluster::is_free(vmid(300))),
        read("datacenter options", cluster::options()),
        read("HA resources", ha::resources()),
        read("mappings", mapping::list(None)),
        read("mapping", mapping::get(&id("gpu"))),
        read("hosts", node::list()),
        read("bridges", node::bridges(&host)),
        read("PCI devices", node::pci_devices(&host)),
        read("pools", pool::list()),
        read("pool", pool::get(&id("talos"))),
        read("storages", storage::list()),
        read("storages of a host", storage::on_node(&host)),
        read("storage", storage::status(&host, &local)),
        read("content", storage::content(&host, &local, None, None)),
        read("metadata of a URL", storage::url_metadata(&host, URL, true)),
        read("tasks", task::list(&host, &task::Filter::default())),
        read("VMs", qemu::list(&host)),
        read("VM status", qemu::current(&running)),
        read("VM config", qemu::config(&idle)),
        read("VM config as it runs", qemu::current_config(&running)),
        read("pending changes", qemu::pending(&running)),
        read("snapshots", qemu::snapshots(&vm(103))),
        read("whether it can migrate", qemu::check_migrate(&idle, None)),
    ]
}

/// Read operations that exist only in this release.
pub(super) fn own(release: &str) -> Vec<Operation> {
    vec![if release == "8.4" {
        read("HA groups", ha::groups())
    } else {
        read("HA rules", ha::rules())
    }]
}
