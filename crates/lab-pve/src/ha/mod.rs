//! The HA manager: keeps managed VMs in the state that was asked for, and brings them up elsewhere
//! when their host is gone.
//!
//! Callers only write down what they want. The manager looks every few seconds and gives the work
//! as tasks of root's, so that what a caller asked for happens some time after the call.

mod place;
mod request;
mod round;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

pub(crate) use place::mates;
pub(crate) use request::{request_migrate, request_start, request_stop};
pub(crate) use round::round;

use super::schema::split_list;
use super::site::Site;
use super::vm::timestamp;
use super::world::{Ha, ServiceState, World};

const INTERVAL: Duration = Duration::from_secs(10);

/// Looks again and again, for as long as the site is there.
pub(crate) async fn run(site: Weak<Site>) {
    while let Some(clock) = site.upgrade().map(|site| site.clock) {
        clock.sleep(INTERVAL).await;
        if let Some(site) = site.upgrade() {
            round(&site);
        }
    }
}

impl World {
    /// Whether a VM is started, stopped and moved by the manager only.
    pub(crate) fn is_ha_managed(&self, vmid: u32) -> bool {
        is_managed(self, &format!("vm:{vmid}"))
    }

    /// How the manager sees a VM, if it is a resource.
    pub(crate) fn ha_state(&self, vmid: u32) -> Option<&str> {
        let sid = format!("vm:{vmid}");
        let service = self.ha.services.get(&sid).map(|service| service.state.name());
        service.or_else(|| self.ha.resources.get(&sid)?.get("state").map(String::as_str))
    }

    /// More than half of the hosts are there.
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

impl ServiceState {
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

pub(crate) fn is_managed(world: &World, sid: &str) -> bool {
    world.ha.resources.get(sid).is_some_and(|options| requested(options) != "ignored")
}

/// The state that is asked for.
pub(crate) fn requested(options: &BTreeMap<String, String>) -> &str {
    match options.get("state").map_or("started", String::as_str) {
        "enabled" => "started",
        state => state,
    }
}

/// Asks for a move, which the next round begins.
pub(crate) fn order_move(world: &mut World, sid: &str, target: &str, online: bool) {
    if let Some(service) = world.ha.services.get_mut(sid) {
        service.state = ServiceState::Migrate { target: target.to_owned(), online };
    }
}

/// Whoever disables a resource says that he has seen what went wrong.
pub(crate) fn clear_error(world: &mut World, sid: &str) {
    if let Some(service) = world.ha.services.get_mut(sid) {
        service.state = ServiceState::Stopped;
        service.failures = 0;
    }
}

/// Takes a resource out of all rules, and rules that are then empty away.
pub(crate) fn forget_in_rules(world: &mut World, sid: &str) {
    world.ha.rules.retain(|_, rule| {
        let list = rule.get("resources").map_or("", String::as_str);
        let left: BTreeSet<&str> = split_list(list).into_iter().filter(|id| *id != sid).collect();
        let left = Vec::from_iter(left).join(",");
        let stays = !left.is_empty();
        rule.insert("resources".to_owned(), left);
        stays
    });
}

/// `Sun Nov 15 09:19:05 2026`, as the manager writes times.
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
