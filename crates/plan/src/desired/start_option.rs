//! Options of a VM that concern its start: the devices that it boots from, and its position in the start order of its host.

use talmox_model::inventory::Startup;
use talmox_model::value::Duration;
use talmox_model::{Node, Setting};
use talmox_pve_types::id::DiskSlot;
use talmox_pve_types::property::BootOrder;

/// The boot order of the inventory. By default the VM boots from its system disk only.
pub(super) fn boot_order(node: &Node, system: &DiskSlot) -> BootOrder {
    let order = &node.settings().hardware.boot_order;
    if order.is_empty() {
        return BootOrder::of([system]);
    }
    BootOrder::of(order.values())
}

/// The option `startup`. None if the inventory does not set it.
pub(super) fn startup(startup: &Startup) -> Option<String> {
    let delay = |key: &str, delay: &Setting<Duration>| {
        delay.get().map(|delay| format!("{key}={}", delay.get().as_secs()))
    };
    let order = startup.order.get().map(|order| format!("order={order}"));
    let parts = [order, delay("up", &startup.up), delay("down", &startup.down)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(","))
}
