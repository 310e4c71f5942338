//! Each difference of a VM, with its class and its steps.

use std::collections::BTreeSet;

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::ownership::{Adoption, Marker};
use talmox_plan::plan::{Action, Change, ChangeVm, Class, Left, Plan, show};
use talmox_plan::planning::{PlanOptions, RemovalConsent, Scope, locations_after, plan_within};
use talmox_pve_types::config::{PendingChange, PendingOption, VmConfig, VmOptions};
use talmox_pve_types::property::Tags;

use crate::changes::{class_of, running};
use crate::observed_state::{carry_out, host, put, settled, vmid};
use crate::support::{HEAD, desired, home, home_with, ids, plan, warnings};

const STOP: [&str; 2] = ["node/wk-1/drain", "vm/wk-1/shutdown"];
const START_AGAIN: [&str; 4] =
    ["vm/wk-1/start", "talos/wk-1/return", "node/wk-1/uncordon", "cluster/health"];

/// The home cluster with additional settings of wk-1.
fn with(settings: &str) -> Desired {
    home_with("ip: 10.0.0.21}", &format!("ip: 10.0.0.21, {settings}}}"))
}

/// The steps of a stop of wk-1, with these steps while the VM is stopped.
fn stopped_for(steps: &[&'static str]) -> Vec<&'static str> {
    [STOP.as_slice(), steps, START_AGAIN.as_slice()].concat()
}

fn within(desired: &Desired, observed: &Observed, scope: &Scope) -> Plan {
    let options = PlanOptions { has_client_files: true, was_up: true, was_bootstrapped: false };
    plan_within(desired, observed, options, scope)
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
    let observed = running(&home());
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
        ("sockets: 2", Class::Drain, stop()),
        ("firewall: true", Class::Live, vec![CHANGE, "talos/wk-1/return"]),
        ("notes: rack 1", Class::Live, vec![CHANGE]),
        ("boot_order: [scsi0, net0]", Class::Live, vec![CHANGE]),
    ] {
        let changed = with(settings);
        let plan = plan(&changed, &observed);
        assert_eq!(class_of(&plan, "vm wk-1"), class, "{settings}");
        assert_eq!(ids(&plan), steps, "{settings}");
        assert_eq!(plan.open_changes().count(), 0, "{settings}: {}", show::text(&plan));
        let mut after = observed.clone();
        carry_out(&changed, &plan, &mut after, usize::MAX);
        let rest = self::plan(&changed, &after);
        assert!(rest.is_empty(), "{settings}: {}", show::text(&rest));
    }
}

#[test]
fn only_differing_options_are_set() {
    let observed = running(&home());
    let plan = plan(&with("memory: 5G, tags: [blue]"), &observed);
    let change = change_of(&plan, CHANGE);
    let keys: Vec<&str> = change.set.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["description", "memory", "tags"], "the marker records the tags");
    assert_eq!(change.set.get("memory"), Some("5120"));
    assert_eq!((change.delete.len(), &change.pool), (0, &None));
}

/// A drive value without the volume would create another volume.
#[test]
fn a_disk_with_other_options_keeps_its_volume() {
    let observed = running(&home());
    let config = crate::observed_state::config_of(&observed.pve, vmid(303));
    let volume = config.get("scsi0").unwrap().split(',').next().unwrap();
    let plan = plan(&with("ssd: true"), &observed);
    let value = change_of(&plan, CHANGE).set.get("scsi0").unwrap();
    assert!(value.contains(volume) && value.contains("ssd=1"), "{value}");
}

#[test]
fn a_change_killed_anywhere_is_continued() {
    let observed = running(&home());
    let changed = with("memory: 5G, disk: 50G");
    let whole = plan(&changed, &observed);
    let mut end = observed.clone();
    carry_out(&changed, &whole, &mut end, usize::MAX);
    // The last step is the health check of the cluster, which changes nothing.
    for count in 0..whole.steps.len() - 1 {
        let mut cut = observed.clone();
        carry_out(&changed, &whole, &mut cut, count);
        let rest = plan(&changed, &cut);
        assert_eq!(rest.open_changes().count(), 0, "after {count}: {}", show::text(&rest));
        assert!(ids(&rest).contains(&"node/wk-1/uncordon"), "after {count}: {:?}", ids(&rest));
        carry_out(&changed, &rest, &mut cut, usize::MAX);
        let again = plan(&changed, &cut);
        assert!(again.is_empty(), "after {count}: {}", show::text(&again));
        let config =
            |observed: &Observed| crate::observed_state::config_of(&observed.pve, vmid(303));
        assert_eq!(config(&cut), config(&end), "after {count}");
    }
}

#[test]
fn a_stopped_vm_is_changed_before_its_start() {
    let mut observed = running(&home());
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    let plan = plan(&with("memory: 5G, disk: 50G"), &observed);
    assert!(plan.changes.iter().all(|change| change.class == Class::Live), "{}", show::text(&plan));
    let steps = ids(&plan);
    let expected = [CHANGE, "vm/wk-1/grow-scsi0", "vm/wk-1/start", "talos/wk-1/apply"];
    assert_eq!(steps[..4], expected);
    assert!(!steps.contains(&"node/wk-1/drain"), "{steps:?}");
}

#[test]
fn no_disk_shrinks_and_the_rest_is_done() {
    let observed = running(&home());
    let plan = plan(&with("disk: 20G, memory: 5G"), &observed);
    let left = left(&plan, "vm wk-1");
    assert_eq!(left.left, Some(Left::Impossible));
    assert!(left.note.as_ref().unwrap().contains("no disk can shrink"), "{left:?}");
    assert_eq!(ids(&plan), stopped_for(&[CHANGE]));
}

#[test]
fn a_removed_disk_is_kept_and_a_removed_card_is_deleted() {
    let observed = running(&with("disks: [{size: 5}], nics: [{bridge: vmbr1}]"));
    let plan = plan(&home(), &observed);
    let disk = left(&plan, "disk wk-1/scsi1");
    assert_eq!((disk.class, disk.left), (Class::Destroy, Some(Left::Impossible)));
    let change = change_of(&plan, CHANGE);
    assert_eq!(change.delete, ["ipconfig1", "net1"]);
}

#[test]
fn a_change_that_needs_a_replacement_needs_consent() {
    let observed = running(&home());
    for settings in ["vmid: 333", "disk_bus: virtio"] {
        let plan = plan(&with(settings), &observed);
        let left = left(&plan, "vm wk-1");
        assert_eq!(
            (left.class, left.left),
            (Class::Replace, Some(Left::NeedsConsent)),
            "{settings}"
        );
        assert!(plan.steps.iter().all(|step| step.action.kind() != "change-vm"), "{settings}");
    }
}

fn wait_for_start(observed: &mut Observed, key: &str, value: &str, pending: PendingChange) {
    let option = PendingOption {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        pending: Some(pending),
    };
    observed.pve.vms.get_mut(&vmid(303)).unwrap().pending.push(option);
}

#[test]
fn pending_changes_lead_to_a_restart() {
    let mut observed = running(&home());
    put(&mut observed.pve, vmid(303), &VmOptions::new().memory_mib(8192), &[]);
    wait_for_start(&mut observed, "memory", "4096", PendingChange::Set("8192".to_owned()));
    let waits = plan(&with("memory: 8G"), &observed);
    assert_eq!(class_of(&waits, "vm wk-1"), Class::Drain);
    assert_eq!(ids(&waits), stopped_for(&[]));
    let mut after = observed.clone();
    carry_out(&with("memory: 8G"), &waits, &mut after, usize::MAX);
    assert!(plan(&with("memory: 8G"), &after).is_empty());
    // Setting the current value again reverts the pending value without a stop.
    let reverted = plan(&with("memory: 4G"), &observed);
    assert_eq!(class_of(&reverted, "vm wk-1"), Class::Live);
    assert_eq!(ids(&reverted), [CHANGE]);
}

/// Proxmox applies the guest agent with a stop, and nodes work without it, so no run stops a VM for it.
#[test]
fn the_guest_agent_waits_for_a_stop_of_another_reason() {
    let agent = "image: {extensions: [siderolabs/qemu-guest-agent]}";
    let mut observed = running(&with(agent));
    let config = crate::observed_state::config_of(&observed.pve, vmid(303));
    let others = config.iter().filter(|(key, _)| *key != "agent");
    let others = others.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let without_agent = VmConfig::new(others);
    observed.pve.vms.get_mut(&vmid(303)).unwrap().config = Ok(without_agent);
    let first = plan(&with(agent), &observed);
    assert_eq!(class_of(&first, "vm wk-1"), Class::Live);
    assert_eq!(ids(&first), [CHANGE]);
    assert!(show::text(&first).contains("next stop and start"), "{}", show::text(&first));

    observed.pve.vms.get_mut(&vmid(303)).unwrap().config = Ok(config);
    wait_for_start(&mut observed, "agent", "0", PendingChange::Set("1".to_owned()));
    let waits = plan(&with(agent), &observed);
    assert!(waits.is_empty(), "{}", show::text(&waits));
    let warning = "wk-1: VM 303 uses these options after its next stop and start: agent";
    assert_eq!(warnings(&waits), [warning]);
    let stopped = plan(&with(&format!("{agent}, cores: 3")), &observed);
    assert_eq!(ids(&stopped), stopped_for(&[CHANGE]));
    assert_eq!(warnings(&stopped), [""; 0]);
}

#[test]
fn only_tags_that_talmox_set_are_removed() {
    let mut observed = running(&with("tags: [blue]"));
    let tags = |plan: &Plan| change_of(plan, CHANGE).set.get("tags").map(str::to_owned);
    put(&mut observed.pve, vmid(303), &VmOptions::new().set("tags", "blue;home;mine;talmox"), &[]);
    assert!(plan(&with("tags: [blue]"), &observed).is_empty());
    let fewer = plan(&home(), &observed);
    assert_eq!(class_of(&fewer, "vm wk-1"), Class::Live);
    assert_eq!(tags(&fewer).as_deref(), Some("home;mine;talmox"));
    let mut after = observed.clone();
    carry_out(&home(), &fewer, &mut after, usize::MAX);
    assert!(plan(&home(), &after).is_empty());
    // A user sets the same tag again, and it stays.
    put(&mut after.pve, vmid(303), &VmOptions::new().set("tags", "blue;home;mine;talmox"), &[]);
    assert!(plan(&home(), &after).is_empty());
}

/// `talmox adopt` does not change the tags of a VM, and later plans contain no change of them.
#[test]
fn an_adopted_vm_keeps_its_tags() {
    let mut observed = running(&home());
    let config = crate::observed_state::config_of(&observed.pve, vmid(303));
    let marker = Marker::find(config.description()).unwrap();
    let marker = Marker { are_tags_rejected: true, own_tags: Tags::default(), ..marker };
    let adoption =
        Adoption::of("the id of the test's cluster", "wk-1", &config.smbios().uuid.unwrap());
    let notes = marker.adopt("made by Terraform", "home", &adoption);
    let adopted = VmOptions::new().description(&notes).set("tags", "mine");
    put(&mut observed.pve, vmid(303), &adopted, &[]);
    let plan = plan(&home(), &observed);
    assert!(plan.is_empty(), "{}", show::text(&plan));
    let warning = "wk-1: `talmox adopt` left the tags of VM 303 as they were, and the VM lacks tags of the inventory";
    assert_eq!(warnings(&plan), [warning]);
}

#[test]
fn notes_are_written_beside_the_marker_and_the_text_of_users_stays() {
    let mut observed = running(&with("notes: rack 1"));
    let text = crate::observed_state::config_of(&observed.pve, vmid(303)).description().to_owned();
    assert!(text.ends_with("\n\nrack 1"), "{text}");
    let by_hand = VmOptions::new().description(&format!("# Mine\n\n{text}\n\nby hand"));
    put(&mut observed.pve, vmid(303), &by_hand, &[]);
    assert!(plan(&with("notes: rack 1"), &observed).is_empty());
    for (settings, end) in [("notes: rack 2", "\n\nrack 2\n\nby hand"), ("cores: 2", "\n\nby hand")]
    {
        let changed = with(settings);
        let plan = plan(&changed, &observed);
        assert_eq!(ids(&plan), [CHANGE], "{settings}");
        carry_out(&changed, &plan, &mut observed, usize::MAX);
        let text =
            crate::observed_state::config_of(&observed.pve, vmid(303)).description().to_owned();
        assert!(text.starts_with("# Mine\n\nNode wk-1") && text.ends_with(end), "{text}");
        assert!(self::plan(&changed, &observed).is_empty(), "{settings}");
    }
}

#[test]
fn the_start_order_needs_a_right() {
    let mut observed = running(&home());
    let changed = with("startup: {order: 2, up: 30s, down: 2m}");
    let denied = plan(&changed, &observed);
    assert!(denied.is_empty(), "{}", show::text(&denied));
    let warning = "wk-1: the start order of VM 303 is not set: the token lacks Sys.Modify on /";
    assert_eq!(warnings(&denied), [warning]);
    observed.pve.permissions.0.get_mut("/").unwrap().insert("Sys.Modify".to_owned(), true);
    let allowed = plan(&changed, &observed);
    assert_eq!(ids(&allowed), [CHANGE]);
    let startup = change_of(&allowed, CHANGE).set.get("startup");
    assert_eq!(startup, Some("order=2,up=30,down=120"));
    carry_out(&changed, &allowed, &mut observed, usize::MAX);
    assert!(plan(&changed, &observed).is_empty());
    // Without `startup:`, the VM keeps its start order.
    assert!(plan(&home(), &observed).is_empty());
}

#[test]
fn a_stop_that_deletes_a_disk_needs_consent() {
    let mut observed = running(&home());
    let volume = "local-lvm:vm-303-disk-9,size=5G";
    wait_for_start(&mut observed, "scsi5", volume, PendingChange::Destroy);
    let changed = with("memory: 5G");
    let plan = plan(&changed, &observed);
    assert_eq!(left(&plan, "vm wk-1").left, Some(Left::NeedsConsent));
    assert!(plan.steps.is_empty(), "{:?}", ids(&plan));
    assert_eq!(
        warnings(&plan),
        ["wk-1: Proxmox deletes volumes of its VM when the VM is stopped: scsi5"]
    );
    let removal = RemovalConsent::Nodes(BTreeSet::from(["wk-1".to_owned()]));
    let agreed = within(&changed, &observed, &Scope { removal, ..Scope::default() });
    assert_eq!(ids(&agreed), stopped_for(&[CHANGE]));
}

#[test]
fn a_vm_moves_to_the_host_of_its_node() {
    let mut observed = running(&home());
    let changed = with("host: pve2");
    let offline = plan(&changed, &observed);
    assert_eq!(class_of(&offline, "vm wk-1"), Class::Drain, "its disks are local");
    assert_eq!(ids(&offline), stopped_for(&["vm/wk-1/migrate"]));
    let hosts: Vec<String> = locations_after(&changed, &observed.pve, &offline)
        .into_iter()
        .map(|(_, vm)| vm.unwrap().node.to_string())
        .collect();
    assert_eq!(hosts, ["pve1", "pve1", "pve1", "pve2", "pve1"]);
    let mut after = observed.clone();
    carry_out(&changed, &offline, &mut after, usize::MAX);
    assert!(plan(&changed, &after).is_empty());

    for storage in &mut observed.pve.resources.storages {
        storage.shared = true;
    }
    let online = plan(&changed, &observed);
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
    let both = plan(&with("host: pve2, memory: 5G"), &observed);
    assert_eq!(ids(&both), stopped_for(&["vm/wk-1/migrate", CHANGE]));
    assert_eq!(is_online(&both), Some(false));
    // A device prevents a live migration.
    put(&mut observed.pve, vmid(303), &VmOptions::new().set("usb0", "host=1-1"), &[]);
    assert_eq!(class_of(&plan(&changed, &observed), "vm wk-1"), Class::Drain);
}

#[test]
fn a_vm_stays_on_the_host_that_ha_or_a_user_chose() {
    let mut observed = running(&home());
    observed.pve.vms.get_mut(&vmid(303)).unwrap().host = host("pve2");
    let followed = plan(&home(), &observed);
    assert!(followed.is_empty(), "{}", show::text(&followed));
    assert_eq!(warnings(&followed).len(), 1);

    let changed = with("host: pve1");
    assert!(ids(&plan(&changed, &observed)).contains(&"vm/wk-1/migrate"));
    let guests = &mut observed.pve.resources.guests;
    guests.iter_mut().find(|guest| guest.vmid == vmid(303)).unwrap().ha_state =
        Some("started".to_owned());
    let managed = plan(&changed, &observed);
    assert!(managed.is_empty(), "{}", show::text(&managed));
    assert_eq!(
        warnings(&managed),
        ["wk-1: its VM is on pve2, and the inventory says pve1"],
        "HA would move it back"
    );
}

#[test]
fn without_the_right_to_migrate_a_vm_stays() {
    let mut observed = running(&home());
    observed.pve.permissions.0.get_mut("/").unwrap().remove("VM.Migrate");
    let plan = plan(&with("host: pve2"), &observed);
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
    let observed = settled(&desired(&text("4G")));
    let plan = plan(&desired(&text("5G")), &observed);
    assert_eq!(class_of(&plan, "vm u-1"), Class::Reboot);
    let expected = ["vm/u-1/shutdown", "vm/u-1/change", "vm/u-1/start", "ubuntu/u-1/return"];
    assert_eq!(ids(&plan), expected);
}
