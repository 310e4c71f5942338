use super::*;
use crate::Release;
use crate::api::testing::Bench;
use crate::storage::fixture;
use crate::world::{Caller, StorageKind, Task};

/// Lets rounds and tasks follow each other until nothing is left to do.
async fn settle(bench: &Bench) {
    for _ in 0..20 {
        round(&bench.site);
        bench.site.clock.sleep(Duration::from_secs(2)).await;
    }
}

fn bench(release: Release, vmids: &[u32]) -> Bench {
    let bench = Bench::new(release);
    for vmid in vmids {
        bench.add_vm(*vmid, "pve1", &[]);
        bench.site.world().ha.resources.insert(format!("vm:{vmid}"), BTreeMap::new());
    }
    let third = bench.site.world().hosts["pve1"].clone();
    bench.site.world().hosts.insert("pve3".to_owned(), third);
    bench
}

fn set_rule(bench: &Bench, name: &str, options: &[(&str, &str)]) {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    bench.site.world().ha.rules.insert(name.to_owned(), options.collect());
}

fn is_running(bench: &Bench, vmid: u32) -> bool {
    bench.site.world().vms[&vmid].is_running()
}

fn node(bench: &Bench, vmid: u32) -> String {
    bench.site.world().vms[&vmid].node.clone()
}

/// The host is gone, and has been missed for so many seconds.
fn lose(bench: &Bench, host: &str, seconds: u64) {
    let since = bench.site.now() - seconds;
    let mut world = bench.site.world();
    world.hosts.get_mut(host).expect("a host").online = false;
    world.vms.values_mut().filter(|vm| vm.node == host).for_each(|vm| vm.run = None);
    world.ha.missed.insert(host.to_owned(), since);
}

#[tokio::test]
async fn requests_are_over_at_once_and_done_later() {
    let bench = bench(Release::V9, &[101]);
    settle(&bench).await;
    assert!(is_running(&bench, 101), "a resource is to be started unless something else is said");
    let caller = Caller::parse("ops@pve");
    let upid = request_stop(&bench.site, "pve1", 101, &caller);
    tokio::task::yield_now().await;
    let task = |world: &World| -> Task { world.tasks.get(&upid).expect("the task").clone() };
    let asked = task(&bench.site.world());
    assert_eq!((asked.kind.as_str(), asked.owner.as_str()), ("hastop", "ops@pve"));
    assert_eq!(asked.log, ["Requesting HA stop for VM 101", "TASK OK"]);
    assert!(is_running(&bench, 101), "the request is over and the VM still runs");
    settle(&bench).await;
    assert!(!is_running(&bench, 101));
    request_start(&bench.site, "pve1", 101, &caller);
    tokio::task::yield_now().await;
    settle(&bench).await;
    assert!(is_running(&bench, 101));
    request_migrate(&bench.site, "pve1", 101, "pve2", &caller);
    tokio::task::yield_now().await;
    settle(&bench).await;
    assert_eq!((node(&bench, 101).as_str(), is_running(&bench, 101)), ("pve2", true));
    let world = bench.site.world();
    let by_root = world.tasks.iter().filter(|task| task.owner == "root@pam");
    let kinds: Vec<&str> = by_root.map(|task| task.kind.as_str()).collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(world.ha_state(101), Some("started"));
}

#[tokio::test]
async fn a_lost_host_gives_up_its_resources_after_a_while() {
    let bench = bench(Release::V9, &[101]);
    bench.add_vm(200, "pve1", &[("onboot", "1")]);
    settle(&bench).await;
    lose(&bench, "pve1", 70);
    round(&bench.site);
    assert_eq!(bench.site.world().ha_state(101), Some("fence"));
    assert_eq!(node(&bench, 101), "pve1");
    lose(&bench, "pve1", 130);
    settle(&bench).await;
    assert_eq!((node(&bench, 101).as_str(), is_running(&bench, 101)), ("pve2", true));
    assert_eq!((node(&bench, 200).as_str(), is_running(&bench, 200)), ("pve1", false));
    // The host is back, and starts what is to start with it.
    bench.site.world().hosts.get_mut("pve1").expect("a host").online = true;
    settle(&bench).await;
    assert!(is_running(&bench, 200));
    assert_eq!(node(&bench, 101), "pve2");
}

#[tokio::test]
async fn nothing_is_decided_without_a_majority() {
    let bench = bench(Release::V9, &[101]);
    settle(&bench).await;
    lose(&bench, "pve1", 500);
    lose(&bench, "pve3", 500);
    settle(&bench).await;
    assert_eq!(node(&bench, 101), "pve1");
}

#[tokio::test]
async fn rules_say_where_resources_go() {
    let bench = bench(Release::V9, &[101, 102]);
    set_rule(
        &bench,
        "spread",
        &[("type", "resource-affinity"), ("affinity", "negative"), ("resources", "vm:101,vm:102")],
    );
    settle(&bench).await;
    lose(&bench, "pve1", 500);
    settle(&bench).await;
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
    let world = bench.site.world();
    assert_eq!(place::place(&world, "vm:102", None).as_deref(), Some("pve3"));
}

#[tokio::test]
async fn what_cannot_start_anywhere_ends_in_error() {
    let bench = bench(Release::V9, &[101]);
    // Templates can move, but not start.
    let template = ("template".to_owned(), "1".to_owned());
    bench.site.world().vms.get_mut(&101).expect("the VM").config.extend([template]);
    settle(&bench).await;
    assert_eq!(bench.site.world().ha_state(101), Some("error"));
    assert!(!is_running(&bench, 101));
    assert_ne!(node(&bench, 101), "pve1", "it was tried elsewhere");
    clear_error(&mut bench.site.world(), "vm:101");
    assert_eq!(bench.site.world().ha_state(101), Some("stopped"));
}

#[tokio::test]
async fn local_disks_are_lost_with_their_host() {
    let bench = bench(Release::V9, &[101]);
    let mut thin = fixture::storage(StorageKind::LvmThin);
    thin.put("pve1", "vm-101-disk-0", fixture::volume("raw", 1 << 30));
    {
        let mut world = bench.site.world();
        world.storages = [("thin".to_owned(), thin)].into();
        let disk = ("scsi0".to_owned(), "thin:vm-101-disk-0,size=1G".to_owned());
        world.vms.get_mut(&101).expect("the VM").config.extend([disk]);
    }
    settle(&bench).await;
    assert!(is_running(&bench, 101), "at home it starts");
    lose(&bench, "pve1", 130);
    settle(&bench).await;
    assert_ne!(node(&bench, 101), "pve1");
    assert!(!is_running(&bench, 101));
    assert_eq!(bench.site.world().ha_state(101), Some("error"));
}

#[test]
fn times_are_written_as_the_manager_does() {
    assert_eq!(local_time(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(local_time(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(local_time(1_794_734_345), "Sun Nov 15 09:19:05 2026");
}
