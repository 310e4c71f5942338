//! HA manager: keeps managed VMs in their requested state. If a host fails, the manager restarts its VMs on another host.
//!
//! API calls only record a request. The manager runs every few seconds and starts tasks as root, so a requested change happens
//! some time after the call.

mod host_choice;
mod manager_action;
mod manager_round;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

pub(crate) use host_choice::affinity_partners;
pub(crate) use manager_round::round;
pub(crate) use request::{request_migrate, request_start, request_stop};

use super::pve_state::{Ha, HaServiceState, PveState};
use super::schema::split_list;
use super::site::Site;
use super::vm::timestamp;

const INTERVAL: Duration = Duration::from_secs(10);

/// Runs the HA manager for as long as the site exists.
pub(crate) async fn run(site: Weak<Site>) {
    while let Some(clock) = site.upgrade().map(|site| site.clock) {
        clock.sleep(INTERVAL).await;
        if let Some(site) = site.upgrade() {
            round(&site);
        }
    }
}

impl PveState {
    /// Whether the HA manager manages this VM. Then only the manager may start, stop and migrate the VM.
    pub(crate) fn is_ha_managed(&self, vmid: u32) -> bool {
        is_managed(self, &format!("vm:{vmid}"))
    }

    /// State of a VM in the HA manager; `None` if the VM is not an HA resource.
    pub(crate) fn ha_state(&self, vmid: u32) -> Option<&str> {
        let sid = format!("vm:{vmid}");
        let service = self.ha.services.get(&sid).map(|service| service.state.name());
        service.or_else(|| self.ha.resources.get(&sid)?.get("state").map(String::as_str))
    }

    /// Whether more than half of the hosts are online.
    pub(crate) fn is_quorate(&self) -> bool {
        let online = self.hosts.values().filter(|host| host.online).count();
        online * 2 > self.hosts.len()
    }
}

impl Ha {
    pub(crate) fn is_used(&self) -> bool {
        !self.resources.is_empty()
    }
}

impl HaServiceState {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Migrate { online: true, .. } => "migrate",
            Self::Migrate { online: false, .. } => "relocate",
            Self::Fence => "fence",
            Self::Error => "error",
        }
    }
}

pub(crate) fn is_managed(pve_state: &PveState, sid: &str) -> bool {
    pve_state.ha.resources.get(sid).is_some_and(|options| requested(options) != "ignored")
}

/// Requested state of an HA resource.
pub(crate) fn requested(options: &BTreeMap<String, String>) -> &str {
    match options.get("state").map_or("started", String::as_str) {
        "enabled" => "started",
        state => state,
    }
}

/// Records a migration request. The next round of the manager starts the migration.
pub(crate) fn record_migration_request(
    pve_state: &mut PveState,
    sid: &str,
    target: &str,
    online: bool,
) {
    if let Some(service) = pve_state.ha.services.get_mut(sid) {
        service.state = HaServiceState::Migrate { target: target.to_owned(), online };
    }
}

/// Ends the error state of a resource, as Proxmox does when a user sets the resource to `disabled`.
pub(crate) fn clear_error(pve_state: &mut PveState, sid: &str) {
    if let Some(service) = pve_state.ha.services.get_mut(sid) {
        service.state = HaServiceState::Stopped;
        service.failures = 0;
    }
}

/// Removes a resource from all rules, and deletes rules that become empty.
pub(crate) fn remove_from_rules(pve_state: &mut PveState, sid: &str) {
    pve_state.ha.rules.retain(|_, rule| {
        let list = rule.get("resources").map_or("", String::as_str);
        let left: BTreeSet<&str> = split_list(list).into_iter().filter(|id| *id != sid).collect();
        let left = Vec::from_iter(left).join(",");
        let stays = !left.is_empty();
        rule.insert("resources".to_owned(), left);
        stays
    });
}

/// Time in the format of the HA manager: `Sun Nov 15 09:19:05 2026`.
pub(crate) fn local_time(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = timestamp::date_time(seconds);
    let mut parts = text.split(['-', ' ']);
    let mut next = || parts.next().unwrap_or_default();
    let (year, month, day, time) = (next(), next(), next(), next());
    let weekday = DAYS[usize::try_from(seconds / 86_400 % 7).unwrap_or_default()];
    let month = month.parse::<usize>().map_or("", |month| MONTHS[month - 1]);
    format!("{weekday} {month} {:>2} {time} {year}", day.trim_start_matches('0'))
}
