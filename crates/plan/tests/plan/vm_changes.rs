//! Each difference of a VM, with its class and its steps.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::plan::{Action, Change, ChangeVm, Class, Left, Plan, show};
use talmox_plan::planning::{PlanOptions, RemovalConsent, Scope, plan_within};
use talmox_pve_types::config::{PendingChange, PendingOption, VmOptions};

use crate::changes::{class_of, running};
use crate::support::{HEAD, desired, home, home_with, ids, plan, warnings};
use crate::world::{carry_out, host, put, settled, vmid};

const STOP: [&str; 2] = ["node/wk-1/drain", "vm/wk-1/shutdown"];
const BACK: [&str; 4] =
    ["vm/wk-1/start", "talos/wk-1/return", "node/wk-1/uncordon", "cluster/health"];

/// The home cluster with additional settings of wk-1.
fn with(settings: &str) -> Desired {
    home_with("ip: 10.0.0.21}", &format!("ip: 10.0.0.21, {settings}}}"))
}

/// The steps of a stop of wk-1, with these steps while the VM is stopped.
fn stopped_for(steps: &[&'static str]) -> Vec<&'static str> {
    [STOP.as_slice(), steps, BACK.as_slice()].concat()
}

fn within(desired: &Desired, world: &Observed, scope: &Scope) -> Plan {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    plan_within(desired, world, options, scope)
}

fn change_of<'a>(plan: &'a Plan, id: &str) -> &'a ChangeVm {
    let step = plan.steps.iter().find(|step| step.id.as_str() == id);
    match step.map(|step| &step.action) {
        Some(Action::ChangeVm(change)) => change,
        _ => panic!("{id}: {:?}", ids(plan)),
    }
}

fn left<'a>(plan: &'a Plan, object: &str) -> &'a Change {
    let mut left = plan.changes.iter().filter(|change| change.left.is_some());
    left.find(|change| change.object.to_string() == object).unwrap()
}

const CHANGE: &str = "vm/wk-1/change";

#[test]
fn every_option_has_its_class_and_its_steps() {
    let world = running(&home());
    let stop = || stopped_for(&[CHANGE]);
    for (settings, class, steps) in [
        ("cores: 3", Class::Drain, stop()),
        ("memory: 5G", Class::Drain, stop()),
        ("cpu_type: x86-64-v3", Class::Drain, stop()),
        ("machine_type: i440fx", Class::Drain, stop()),
        ("numa: true", Class::Drain, stop()),
        ("tpm: true", Class::Drain, stop()),
        ("ssd: true", Class::Drain, stop()),
        ("gpu: {mapping: gpu}", Class::Drain, stop()),
        ("disk: 50G", Class::Drain, stopped_for(&["vm/wk-1/grow-scsi0"])),
        ("disk: 50G, ssd: true", Class::Drain, stopped_for(&[CHANGE, "vm/wk-1/grow-scsi0"])),
        ("cores: 3, tags: [blue]", Class::Drain, stop()),
        ("disks: [{size: 5}]", Class::Live, vec![CHANGE]),
        ("bridge: vmbr1", Class::Live, vec![CHANGE, "talos/wk-1/return"]),
        ("vlan: 40", Class::Live, vec![CHANGE, "talos/wk-1/return"]),
        ("onboot: false", Class::Live, vec![CHANGE]),
        ("protection: true", Class::Live, vec![CHANGE]),
        ("tags: [blue]", Class::Live, vec![CHANGE]),
        ("pool: other", Class::Live, vec![CHANGE]),
    ] {
        let changed = with(settings);
        let plan = plan(&changed, &world);
        assert_eq!(class_of(&plan, "vm wk-1"), class, "{settings}");
        assert_eq!(ids(&plan), steps, "{settings}");
        assert_eq!(plan.open_changes().count(), 0, "{settings}: {}", show::text(&plan));
        let mut after = world.clone();
        carry_out(&changed, &plan, &mut after, usize::MAX);
        let rest = self::plan(&changed, &after);
        assert!(rest.is_empty(), "{settings}: {}", show::text(&rest));
    }
}

#[test]
fn only_what_differs_is_set() {
    let world = running(&home());
    let plan = plan(&with("memory: 5G, tags: [blue]"), &world);
    let change = change_of(&plan, CHANGE);
    let keys: Vec<&str> = change.set.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["memory", "tags"]);
    assert_eq!(change.set.get("memory"), Some("5120"));
    assert_eq!((change.delete.len(), &change.pool), (0, &None));
}

/// A drive value without the volume would create another volume.
#[test]
fn a_disk_with_other_options_keeps_its_volume() {
    let world = running(&home());
    let config = crate::world::config_of(&world.pve, vmid(303));
    let volume = config.get("scsi0").unwrap().split(',').next().unwrap();
    let plan = plan(&with("ssd: true"), &world);
    let value = change_of(&plan, CHANGE).set.get("scsi0").unwrap();
    assert!(value.contains(volume) && value.contains("ssd=1"), "{value}");
}

#[test]
fn a_killed_change_is_continued_anywhere() {
    let world = running(&home());
    let changed = with("memory: 5G, disk: 50G");
    let whole = plan(&changed, &world);
    let mut end = world.clone();
    carry_out(&changed, &whole, &mut end, usize::MAX);
    // The last step is the health check of the cluster, which changes nothing.
    for count in 0..whole.steps.len() - 1 {
        let mut cut = world.clone();
        carry_out(&changed, &whole, &mut cut, count);
        let rest = plan(&changed, &cut);
        assert_eq!(rest.open_changes().count(), 0, "after {count}: {}", show::text(&rest));
        assert!(ids(&rest).contains(&"node/wk-1/uncordon"), "after {count}: {:?}", ids(&rest));
        carry_out(&changed, &rest, &mut cut, usize::MAX);
        let again = plan(&changed, &cut);
        assert!(again.is_empty(), "after {count}: {}", show::text(&again));
        let config = |world: &Observed| crate::world::config_of(&world.pve, vmid(303));
        assert_eq!(config(&cut), config(&end), "after {count}");
    }
}

#[test]
fn a_stopped_vm_takes_everything_before_its_start() {
    let mut world = running(&home());
    world.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    let plan = plan(&with("memory: 5G, disk: 50G"), &world);
    assert!(plan.changes.iter().all(|change| change.class == Class::Live), "{}", show::text(&plan));
    let steps = ids(&plan);
    let expected = [CHANGE, "vm/wk-1/grow-scsi0", "vm/wk-1/start", "talos/wk-1/apply"];
    assert_eq!(steps[..4], expected);
    assert!(!steps.contains(&"node/wk-1/drain"), "{steps:?}");
}

#[test]
fn no_disk_shrinks_and_the_rest_is_done() {
    let world = running(&home());
    let plan = plan(&with("disk: 20G, memory: 5G"), &world);
    let left = left(&plan, "vm wk-1");
    assert_eq!(left.left, Some(Left::Impossible));
    assert!(left.note.as_ref().unwrap().contains("no disk can shrink"), "{left:?}");
    assert_eq!(ids(&plan), stopped_for(&[CHANGE]));
}

#[test]
fn a_disk_that_is_no_longer_wanted_stays_and_a_card_goes() {
    let world = running(&with("disks: [{size: 5}], nics: [{bridge: vmbr1}]"));
    let plan = plan(&home(), &world);
    let disk = left(&plan, "disk wk-1/scsi1");
    assert_eq!((disk.class, disk.left), (Class::Destroy, Some(Left::Impossible)));
    let change = change_of(&plan, CHANGE);
    assert_eq!(change.delete, ["ipconfig1", "net1"]);
}

#[test]
fn another_machine_needs_consent() {
    let world = running(&home());
    for settings in ["vmid: 333", "disk_bus: virtio"] {
        let plan = plan(&with(settings), &world);
        let left = left(&plan, "vm wk-1");
        assert_eq!(
            (left.class, left.left),
            (Class::Replace, Some(Left::NeedsConsent)),
            "{settings}"
        );
        assert!(plan.steps.iter().all(|step| step.action.kind() != "change-vm"), "{settings}");
    }
}

fn wait_for_start(world: &mut Observed, key: &str, value: &str, pending: PendingChange) {
    let option = PendingOption {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        pending: Some(pending),
    };
    world.pve.vms.get_mut(&vmid(303)).unwrap().pending.push(option);
}

#[test]
fn what_waits_for_a_start_is_started() {
    let mut world = running(&home());
    put(&mut world.pve, vmid(303), &VmOptions::new().memory_mib(8192), &[]);
    wait_for_start(&mut world, "memory", "4096", PendingChange::Set("8192".to_owned()));
    let waits = plan(&with("memory: 8G"), &world);
    assert_eq!(class_of(&waits, "vm wk-1"), Class::Drain);
    assert_eq!(ids(&waits), stopped_for(&[]));
    let mut after = world.clone();
    carry_out(&with("memory: 8G"), &waits, &mut after, usize::MAX);
    assert!(plan(&with("memory: 8G"), &after).is_empty());
    // Setting the current value again reverts the pending value without a stop.
    let reverted = plan(&with("memory: 4G"), &world);
    assert_eq!(class_of(&reverted, "vm wk-1"), Class::Live);
    assert_eq!(ids(&reverted), [CHANGE]);
}

#[test]
fn a_stop_that_deletes_a_disk_needs_consent() {
    let mut world = running(&home());
    let volume = "local-lvm:vm-303-disk-9,size=5G";
    wait_for_start(&mut world, "scsi5", volume, PendingChange::Destroy);
    let changed = with("memory: 5G");
    let plan = plan(&changed, &world);
    assert_eq!(left(&plan, "vm wk-1").left, Some(Left::NeedsConsent));
    assert!(plan.steps.is_empty(), "{:?}", ids(&plan));
    assert_eq!(
        warnings(&plan),
        ["wk-1: Proxmox deletes volumes of its VM when the VM is stopped: scsi5"]
    );
    let removal = RemovalConsent::Nodes(BTreeSet::from(["wk-1".to_owned()]));
    let agreed = within(&changed, &world, &Scope { removal, ..Scope::default() });
    assert_eq!(ids(&agreed), stopped_for(&[CHANGE]));
}

#[test]
fn a_vm_moves_to_the_host_of_its_node() {
    let mut world = running(&home());
    let changed = with("host: pve2");
    let offline = plan(&changed, &world);
    assert_eq!(class_of(&offline, "vm wk-1"), Class::Drain, "its disks are local");
    assert_eq!(ids(&offline), stopped_for(&["vm/wk-1/migrate"]));
    let mut after = world.clone();
    carry_out(&changed, &offline, &mut after, usize::MAX);
    assert!(plan(&changed, &after).is_empty());

    for storage in &mut world.pve.resources.storages {
        storage.shared = true;
    }
    let online = plan(&changed, &world);
    assert_eq!(class_of(&online, "vm wk-1"), Class::Live);
    assert_eq!(ids(&online), ["vm/wk-1/migrate", "talos/wk-1/return"]);
    let is_online = |plan: &Plan| {
        plan.steps.iter().find_map(|step| match &step.action {
            Action::MigrateVm(migrate) => Some(migrate.is_online),
            _ => None,
        })
    };
    assert_eq!((is_online(&online), is_online(&offline)), (Some(true), Some(false)));
    // If the VM is stopped for another reason, it is migrated while it is stopped.
    let both = plan(&with("host: pve2, memory: 5G"), &world);
    assert_eq!(ids(&both), stopped_for(&["vm/wk-1/migrate", CHANGE]));
    assert_eq!(is_online(&both), Some(false));
    // A device prevents a live migration.
    put(&mut world.pve, vmid(303), &VmOptions::new().set("usb0", "host=1-1"), &[]);
    assert_eq!(class_of(&plan(&changed, &world), "vm wk-1"), Class::Drain);
}

#[test]
fn a_vm_stays_where_ha_or_people_put_it() {
    let mut world = running(&home());
    world.pve.vms.get_mut(&vmid(303)).unwrap().host = host("pve2");
    let followed = plan(&home(), &world);
    assert!(followed.is_empty(), "{}", show::text(&followed));
    assert_eq!(warnings(&followed).len(), 1);

    let changed = with("host: pve1");
    assert!(ids(&plan(&changed, &world)).contains(&"vm/wk-1/migrate"));
    let guests = &mut world.pve.resources.guests;
    guests.iter_mut().find(|guest| guest.vmid == vmid(303)).unwrap().ha_state =
        Some("started".to_owned());
    let managed = plan(&changed, &world);
    assert!(managed.is_empty(), "{}", show::text(&managed));
    assert_eq!(
        warnings(&managed),
        ["wk-1: its VM is on pve2, and the inventory says pve1"],
        "HA would move it back"
    );
}

#[test]
fn without_the_right_to_migrate_a_vm_stays() {
    let mut world = running(&home());
    world.pve.permissions.0.get_mut("/").unwrap().remove("VM.Migrate");
    let plan = plan(&with("host: pve2"), &world);
    assert!(plan.is_empty(), "{}", show::text(&plan));
    let hint = plan.findings[0].hint.as_deref().unwrap();
    assert!(hint.contains("TalmoxMigrate --append --privs \"VM.Migrate\""), "{hint}");
}

#[test]
fn another_system_is_restarted_without_a_drain() {
    let text = |memory: &str| {
        format!(
            "{HEAD}machine: {{os: ubuntu, memory: {memory}, image: {{url: 'https://example.org/noble.img'}}}}\n\
             controlplane: [{{name: u-1, ip: 10.0.0.31}}]\n"
        )
    };
    let world = settled(&desired(&text("4G")));
    let plan = plan(&desired(&text("5G")), &world);
    assert_eq!(class_of(&plan, "vm u-1"), Class::Reboot);
    let expected = ["vm/u-1/shutdown", "vm/u-1/change", "vm/u-1/start", "ubuntu/u-1/return"];
    assert_eq!(ids(&plan), expected);
}
