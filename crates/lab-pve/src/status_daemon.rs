//! Status daemon (`pvestatd`): samples all VMs every few seconds.
//!
//! `/cluster/resources` and `/pools` return the last sample. So a VM that was just created or stopped appears there with a
//! delay.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::pve_state::{PveState, Sample, Vm};
use super::schema::parse_size;
use super::site::Site;

const INTERVAL: Duration = Duration::from_secs(10);
/// Seconds after which the last sample of an offline host expires.
const SAMPLE_LIFETIME: u64 = 300;

/// Takes samples repeatedly, as long as the site exists.
pub(crate) async fn run(site: Weak<Site>) {
    while let Some(clock) = site.upgrade().map(|site| site.clock) {
        clock.sleep(INTERVAL).await;
        if let Some(site) = site.upgrade() {
            take_samples(&site);
        }
    }
}

/// Takes one sample of all online hosts.
pub(crate) fn take_samples(site: &Arc<Site>) {
    let now = site.now();
    let pve_state = &mut *site.pve_state();
    pve_state.sampled = samples(pve_state, now);
}

fn samples(pve_state: &PveState, now: u64) -> BTreeMap<u32, Sample> {
    let mut samples = BTreeMap::new();
    for (vmid, vm) in &pve_state.vms {
        let is_up = pve_state.hosts.get(&vm.node).is_some_and(|host| host.online);
        let sample = match pve_state.sampled.get(vmid) {
            _ if is_up => Some(sample(*vmid, vm, now)),
            Some(old) if old.taken + SAMPLE_LIFETIME > now => Some(old.clone()),
            _ => None,
        };
        samples.extend(sample.map(|sample| (*vmid, sample)));
    }
    samples
}

fn sample(vmid: u32, vm: &Vm, now: u64) -> Sample {
    let config = vm.run.as_ref().map_or(&vm.config, |run| &run.config);
    // The value is limited, because a config may contain any number.
    let number = |key: &str, default: u64| {
        config.get(key).and_then(|value| value.parse().ok()).unwrap_or(default).min(1 << 16)
    };
    Sample {
        name: vm.config.get("name").cloned().unwrap_or_else(|| format!("VM {vmid}")),
        template: vm.is_template(),
        since: vm.run.as_ref().map(|run| run.since),
        cores: number("sockets", 1) * number("cores", 1),
        memory: memory(config) << 20,
        disk: boot_disk(vm),
        taken: now,
    }
}

/// Configured memory in MiB.
pub(crate) fn memory(config: &BTreeMap<String, String>) -> u64 {
    let value = config.get("memory").map_or("512", String::as_str);
    value.strip_prefix("current=").unwrap_or(value).parse::<u64>().unwrap_or(512).min(1 << 32)
}

/// Size in bytes of the first disk in the boot order.
fn boot_disk(vm: &Vm) -> u64 {
    let order = vm.config.get("boot").and_then(|boot| boot.strip_prefix("order="));
    let devices = order.into_iter().flat_map(|order| order.split(';'));
    let mut drives = devices.filter_map(|device| vm.config.get(device));
    let disk = drives.find(|drive| !drive.contains("media=cdrom") && drive.contains("size="));
    let size = disk.and_then(|drive| drive.split(',').find_map(|part| part.strip_prefix("size=")));
    size.and_then(parse_size).unwrap_or_default()
}
