//! What services say of themselves.

use super::realm::Realm;
use super::service::{Health, Service, ServiceState};

impl Realm {
    /// A service enters a state.
    pub(crate) fn enter(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        state: ServiceState,
        message: &str,
    ) {
        let now = self.now();
        self.change_node(vmid, boot, |node| {
            let service = node.services.entry(service.to_owned()).or_insert_with(Service::new);
            service.enter(state, message, now);
        });
    }

    pub(crate) fn set_health(
        &self,
        vmid: u32,
        boot: u64,
        service: &str,
        healthy: bool,
        message: &str,
    ) {
        let since = self.now();
        self.change_node(vmid, boot, |node| {
            if let Some(service) = node.services.get_mut(service) {
                service.health = Some(Health { healthy, message: message.to_owned(), since });
            }
        });
    }
}
