use std::sync::{Arc, Mutex};

use super::*;
use crate::Release;
use crate::api::testing::ApiTestBench;
use crate::pve_state::{Caller, StorageKind, Task};
use crate::storage::fixture;

/// Runs rounds of the HA manager and their tasks until no more tasks start.
async fn run_until_idle(bench: &ApiTestBench) {
    for _ in 0..20 {
        round(&bench.site);
        bench.site.clock.sleep(Duration::from_secs(2)).await;
    }
}

fn bench(release: Release, vmids: &[u32]) -> ApiTestBench {
    let bench = ApiTestBench::new(release);
    for vmid in vmids {
        bench.add_vm(*vmid, "pve1", &[]);
        bench.site.pve_state().ha.resources.insert(format!("vm:{vmid}"), BTreeMap::new());
    }
    let third = bench.site.pve_state().hosts["pve1"].clone();
    bench.site.pve_state().hosts.insert("pve3".to_owned(), third);
    bench
}

fn set_rule(bench: &ApiTestBench, name: &str, options: &[(&str, &str)]) {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    bench.site.pve_state().ha.rules.insert(name.to_owned(), options.collect());
}

fn is_running(bench: &ApiTestBench, vmid: u32) -> bool {
    bench.site.pve_state().vms[&vmid].is_running()
}

fn node(bench: &ApiTestBench, vmid: u32) -> String {
    bench.site.pve_state().vms[&vmid].node.clone()
}

/// Takes a host offline, as if its last contact was `seconds` ago.
fn take_offline(bench: &ApiTestBench, host: &str, seconds: u64) {
    let since = bench.site.now() - seconds;
    let mut pve_state = bench.site.pve_state();
    pve_state.hosts.get_mut(host).expect("a host").online = false;
    pve_state.vms.values_mut().filter(|vm| vm.node == host).for_each(|vm| vm.run = None);
    pve_state.ha.missed.insert(host.to_owned(), since);
}

#[tokio::test]
async fn request_task_ends_before_the_manager_acts() {
    let bench = bench(Release::V9, &[101]);
    run_until_idle(&bench).await;
    assert!(is_running(&bench, 101), "the default requested state is started");
    let caller = Caller::parse("ops@pve");
    let upid = request_stop(&bench.site, "pve1", 101, &caller);
    tokio::task::yield_now().await;
    let task =
        |pve_state: &PveState| -> Task { pve_state.tasks.get(&upid).expect("the task").clone() };
    let request_task = task(&bench.site.pve_state());
    assert_eq!((request_task.kind.as_str(), request_task.owner.as_str()), ("hastop", "ops@pve"));
    assert_eq!(request_task.log, ["Requesting HA stop for VM 101", "TASK OK"]);
    assert!(is_running(&bench, 101), "the request task ended and the VM still runs");
    run_until_idle(&bench).await;
    assert!(!is_running(&bench, 101));
    request_start(&bench.site, "pve1", 101, &caller);
    tokio::task::yield_now().await;
    run_until_idle(&bench).await;
    assert!(is_running(&bench, 101));
    request_migrate(&bench.site, "pve1", 101, "pve2", &caller);
    tokio::task::yield_now().await;
    run_until_idle(&bench).await;
    assert_eq!((node(&bench, 101).as_str(), is_running(&bench, 101)), ("pve2", true));
    let pve_state = bench.site.pve_state();
    let by_root = pve_state.tasks.iter().filter(|task| task.owner == "root@pam");
    let kinds: Vec<&str> = by_root.map(|task| task.kind.as_str()).collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(pve_state.ha_state(101), Some("started"));
}

/// Power states of a VM, each with the caller that changed it.
type PowerStates = Vec<(bool, Option<Caller>)>;

#[tokio::test]
async fn observers_see_no_caller_for_actions_of_the_manager() {
    let bench = bench(Release::V9, &[101]);
    let changes: Arc<Mutex<PowerStates>> = Arc::default();
    let recorded = Arc::clone(&changes);
    bench.site.observe(move |pve_state, caller| {
        let is_running = pve_state.vms[&101].is_running();
        let mut recorded = recorded.lock().expect("the lock");
        if recorded.last().is_none_or(|(before, _)| *before != is_running) {
            recorded.push((is_running, caller.cloned()));
        }
    });
    run_until_idle(&bench).await;
    request_stop(&bench.site, "pve1", 101, &Caller::parse("ops@pve"));
    tokio::task::yield_now().await;
    run_until_idle(&bench).await;
    let changes = changes.lock().expect("the lock").clone();
    assert_eq!(changes, [(false, None), (true, None), (false, None)]);
}

#[tokio::test]
async fn resources_of_failed_host_are_recovered_elsewhere() {
    let bench = bench(Release::V9, &[101]);
    bench.add_vm(200, "pve1", &[("onboot", "1")]);
    run_until_idle(&bench).await;
    take_offline(&bench, "pve1", 70);
    round(&bench.site);
    assert_eq!(bench.site.pve_state().ha_state(101), Some("fence"));
    assert_eq!(node(&bench, 101), "pve1");
    take_offline(&bench, "pve1", 130);
    run_until_idle(&bench).await;
    assert_eq!((node(&bench, 101).as_str(), is_running(&bench, 101)), ("pve2", true));
    assert_eq!((node(&bench, 200).as_str(), is_running(&bench, 200)), ("pve1", false));
    // The host is online again and starts its VMs with `onboot`.
    bench.site.pve_state().hosts.get_mut("pve1").expect("a host").online = true;
    run_until_idle(&bench).await;
    assert!(is_running(&bench, 200));
    assert_eq!(node(&bench, 101), "pve2");
}

#[tokio::test]
async fn manager_does_nothing_without_quorum() {
    let bench = bench(Release::V9, &[101]);
    run_until_idle(&bench).await;
    take_offline(&bench, "pve1", 500);
    take_offline(&bench, "pve3", 500);
    run_until_idle(&bench).await;
    assert_eq!(node(&bench, 101), "pve1");
}

#[tokio::test]
async fn affinity_rules_choose_the_host() {
    let bench = bench(Release::V9, &[101, 102]);
    set_rule(
        &bench,
        "spread",
        &[("type", "resource-affinity"), ("affinity", "negative"), ("resources", "vm:101,vm:102")],
    );
    run_until_idle(&bench).await;
    take_offline(&bench, "pve1", 500);
    run_until_idle(&bench).await;
    assert_ne!(node(&bench, 101), node(&bench, 102));
    set_rule(
        &bench,
        "home",
        &[
            ("type", "node-affinity"),
            ("nodes", "pve2,pve3:5"),
            ("strict", "1"),
            ("resources", "vm:102"),
        ],
    );
    let pve_state = bench.site.pve_state();
    assert_eq!(host_choice::choose_host(&pve_state, "vm:102", None).as_deref(), Some("pve3"));
}

#[tokio::test]
async fn resource_that_cannot_start_ends_in_error_state() {
    let bench = bench(Release::V9, &[101]);
    // A template can migrate but not start.
    let template = ("template".to_owned(), "1".to_owned());
    bench.site.pve_state().vms.get_mut(&101).expect("the VM").config.extend([template]);
    run_until_idle(&bench).await;
    assert_eq!(bench.site.pve_state().ha_state(101), Some("error"));
    assert!(!is_running(&bench, 101));
    assert_ne!(node(&bench, 101), "pve1", "the manager relocated it");
    clear_error(&mut bench.site.pve_state(), "vm:101");
    assert_eq!(bench.site.pve_state().ha_state(101), Some("stopped"));
}

#[tokio::test]
async fn vm_with_local_disks_cannot_be_recovered_elsewhere() {
    let bench = bench(Release::V9, &[101]);
    let mut thin = fixture::storage(StorageKind::LvmThin);
    thin.put("pve1", "vm-101-disk-0", fixture::volume("raw", 1 << 30));
    {
        let mut pve_state = bench.site.pve_state();
        pve_state.storages = [("thin".to_owned(), thin)].into();
        let disk = ("scsi0".to_owned(), "thin:vm-101-disk-0,size=1G".to_owned());
        pve_state.vms.get_mut(&101).expect("the VM").config.extend([disk]);
    }
    run_until_idle(&bench).await;
    assert!(is_running(&bench, 101), "the VM starts on its own host");
    take_offline(&bench, "pve1", 130);
    run_until_idle(&bench).await;
    assert_ne!(node(&bench, 101), "pve1");
    assert!(!is_running(&bench, 101));
    assert_eq!(bench.site.pve_state().ha_state(101), Some("error"));
}

#[test]
fn times_have_the_format_of_the_ha_manager() {
    assert_eq!(local_time(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(local_time(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(local_time(1_794_734_345), "Sun Nov 15 09:19:05 2026");
}
