//! Changes of the inventory after the cluster was created: their classes and their reasons.

use insta::assert_snapshot;
use talmox_plan::observed::{KubernetesSeen, Observed, PortSeen, Registered, TalosSeen, VipSeen};
use talmox_plan::plan::{Class, FieldValue, Left, Plan, show};
use talmox_plan::planning::{DestroyOptions, destroy, foreign_vms};
use talmox_pve_types::config::{VmConfig, VmOptions};

use crate::observed_state::{carry_out, host, put, settled, taken, vmid};
use crate::support::{desired, errors, home, home_with, ids, plan, single, text, warnings};

pub(crate) fn class_of(plan: &Plan, object: &str) -> Class {
    let found = plan.changes.iter().find(|change| change.object.to_string() == object);
    found.unwrap_or_else(|| panic!("{object}\n{}", show::text(plan))).class
}

/// A settled cluster in which Kubernetes answers and lists all nodes.
pub(crate) fn running(desired: &talmox_plan::desired::Desired) -> Observed {
    let mut observed = settled(desired);
    let nodes = desired.nodes.iter().map(|node| node.name.clone()).collect();
    observed.kubernetes = KubernetesSeen::Answers(Registered { nodes, ..Registered::default() });
    observed.vip = VipSeen::Answers(PortSeen::ThisCluster);
    observed
}

#[test]
fn another_gateway() {
    let observed = running(&home());
    let changed = home_with("gateway: 10.0.0.1,", "gateway: 10.0.0.2,");
    let plan = plan(&changed, &observed);
    for name in ["cp-1", "wk-1"] {
        assert_eq!(class_of(&plan, &format!("vm {name}")), Class::Drain);
        assert_eq!(class_of(&plan, &format!("node {name}")), Class::Drain);
    }
    let text = show::text(&plan);
    assert_snapshot!(text.split("\n\n").next().unwrap());
}

#[test]
fn other_nameservers_are_a_live_change() {
    let observed = running(&home());
    let changed = home_with("nameservers: [1.1.1.1, 8.8.8.8]", "nameservers: [9.9.9.9]");
    let plan = plan(&changed, &observed);
    assert!(plan.changes.iter().all(|change| change.class == Class::Live), "{}", show::text(&plan));
    assert_eq!(plan.changes.len(), 10, "{}", show::text(&plan));
    // The removal of all nameservers takes effect at once too.
    let plan = self::plan(&home_with("nameservers: [1.1.1.1, 8.8.8.8], ", ""), &observed);
    assert_eq!(class_of(&plan, "vm cp-1"), Class::Live);
}

#[test]
fn a_control_plane_cannot_move() {
    let observed = running(&home());
    let changed = home_with("ip: 10.0.0.12", "ip: 10.0.0.19");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn a_node_with_a_volume_gets_another_address_with_a_new_volume() {
    let observed = running(&single("boot: cidata"));
    let text = format!(
        "{}controlplane:\n  - {{name: cp-1, ip: 10.0.0.99, vmid: 300, boot: cidata}}\n",
        crate::support::HEAD
    );
    let plan = plan(&desired(&text), &observed);
    assert_eq!(class_of(&plan, "node cp-1"), Class::Drain);
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    let at = |id: &str| {
        ids.iter().position(|known| *known == id).unwrap_or_else(|| panic!("{id}: {ids:?}"))
    };
    let order = [
        "talos/cp-1/config",
        "vm/cp-1/upload-config",
        "vm/cp-1/attach-config",
        "vm/cp-1/shutdown",
        "vm/cp-1/start",
        "talos/cp-1/return",
        "vm/cp-1/detach-renewed",
    ];
    assert!(order.map(at).is_sorted(), "{ids:?}");
    assert!(at("vm/cp-1/scrub-config") > at("vm/cp-1/attach-config"), "{ids:?}");
    assert!(!ids.iter().any(|id| id.ends_with("/create") || id.ends_with("/destroy")), "{ids:?}");
}

#[test]
fn a_shrunk_disk() {
    let observed = running(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disk: 20G}");
    assert_snapshot!(text(&changed, &observed));
}

#[test]
fn removed_disks_and_cards() {
    let with = "ip: 10.0.0.21, disks: [{size: 5}], nics: [{bridge: vmbr1}]}";
    let observed = running(&home_with("ip: 10.0.0.21}", with));
    assert_snapshot!(text(&home(), &observed));
}

#[test]
fn a_disk_on_another_storage_is_left() {
    let mut changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disks: [{size: 5}]}");
    let observed = running(&changed);
    changed.nodes[3].vm.disks[1].storage = "local".parse().unwrap();
    let plan = plan(&changed, &observed);
    let left = plan.changes.iter().find(|change| change.object.to_string() == "vm wk-1").unwrap();
    assert_eq!(left.left, Some(Left::Impossible), "{}", show::text(&plan));
    assert!(left.note.as_ref().unwrap().contains("move it in Proxmox"), "{left:?}");
    assert!(plan.steps.is_empty(), "{:?}", ids(&plan));
}

#[test]
fn a_vm_without_disk_serials_is_unchanged() {
    for (bus, has_warning) in [("scsi", false), ("virtio", true), ("sata", true)] {
        let settings = format!("disk_bus: {bus}, disks: [{{size: 5, volume: data}}, {{size: 5}}]");
        let desired = home_with("ip: 10.0.0.21}", &format!("ip: 10.0.0.21, {settings}}}"));
        let mut observed = running(&desired);
        assert!(plan(&desired, &observed).is_empty());
        assert!(warnings(&plan(&desired, &observed)).is_empty(), "{bus}");
        let seen = observed.pve.vms.get_mut(&vmid(303)).unwrap();
        let config = seen.config.as_ref().unwrap();
        let without = config.iter().map(|(key, value)| {
            let parts = value.split(',').filter(|part| !part.starts_with("serial="));
            (key.to_owned(), parts.collect::<Vec<_>>().join(","))
        });
        seen.config = Ok(VmConfig::new(without.collect::<Vec<_>>()));
        let plan = plan(&desired, &observed);
        assert!(plan.is_empty(), "{}", show::text(&plan));
        let found = warnings(&plan);
        assert_eq!(found.len(), usize::from(has_warning), "{found:?}");
        if has_warning {
            let text = show::text(&plan);
            assert!(text.contains(&format!("disk {bus}1 of its VM has no serial")), "{text}");
            assert!(text.contains(&format!("serial=drive-{bus}1")), "{text}");
        }
    }
}

#[test]
fn device_letters_in_old_configs_are_not_a_change() {
    let disks = "ip: 10.0.0.21, disks: [{size: 5, volume: data}]}";
    let desired = home_with("ip: 10.0.0.21}", disks);
    let mut observed = running(&desired);
    for seen in observed.nodes.values_mut() {
        let TalosSeen::OwnNode(node) = seen else { panic!() };
        let config = node.config.as_ref().unwrap().expose();
        let link = |slot: &str| format!("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-{slot}");
        assert!(config.contains(&link("scsi0")), "{config}");
        let selector = format!("\"{}\" in disk.symlinks", link("scsi1"));
        let old = config
            .replace(&selector, "disk.dev_path == \"/dev/sdb\"")
            .replace(&link("scsi0"), "/dev/sda");
        node.config = Some(talmox_talos_config::secret::SecretText::new(old));
    }
    let plan = plan(&desired, &observed);
    assert!(plan.is_empty(), "{}", show::text(&plan));
}

#[test]
fn tags_of_users_are_not_a_change() {
    let desired = home();
    let mut observed = running(&desired);
    put(&mut observed.pve, vmid(303), &VmOptions::new().set("tags", "home;rack-7;talmox"), &[]);
    assert!(plan(&desired, &observed).is_empty());
    put(&mut observed.pve, vmid(303), &VmOptions::new().set("tags", "rack-7;talmox"), &[]);
    let plan = plan(&desired, &observed);
    assert_eq!(class_of(&plan, "vm wk-1"), Class::Live);
    let field = &plan.changes[0].fields[0];
    let tags = field.new.as_ref().and_then(FieldValue::as_text);
    assert_eq!(tags, Some("home;rack-7;talmox"), "they stay");
}

#[test]
fn without_the_right_to_read_pools_the_pool_is_not_compared() {
    let desired = home();
    let mut observed = running(&desired);
    for guest in &mut observed.pve.resources.guests {
        guest.pool = None;
    }
    assert_eq!(class_of(&plan(&desired, &observed), "vm cp-1"), Class::Live);
    observed.pve.permissions.0.get_mut("/").unwrap().remove("Pool.Audit");
    assert!(plan(&desired, &observed).is_empty());
}

#[test]
fn a_system_disk_in_another_slot_needs_a_replacement() {
    let observed = running(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disk_bus: virtio}");
    assert_eq!(class_of(&plan(&changed, &observed), "vm wk-1"), Class::Replace);
}

#[test]
fn devices_without_hotplug_need_a_restart() {
    let mut observed = running(&home());
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, disks: [{size: 5}]}");
    for (hotplug, class) in [
        ("network,disk,usb", Class::Live),
        ("1", Class::Live),
        ("disk", Class::Live),
        ("network", Class::Drain),
        ("0", Class::Drain),
    ] {
        put(&mut observed.pve, vmid(303), &VmOptions::new().set("hotplug", hotplug), &[]);
        assert_eq!(class_of(&plan(&changed, &observed), "vm wk-1"), class, "{hotplug}");
    }
    // A network card that the inventory no longer contains.
    let mut observed =
        running(&home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, nics: [{bridge: vmbr1}]}"));
    put(&mut observed.pve, vmid(303), &VmOptions::new().set("hotplug", "disk"), &[]);
    assert_eq!(class_of(&plan(&home(), &observed), "vm wk-1"), Class::Drain);
}

#[test]
fn removing_a_tpm_destroys_its_keys() {
    let observed = running(&home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, tpm: true}"));
    assert_eq!(class_of(&plan(&home(), &observed), "disk wk-1/tpmstate0"), Class::Destroy);
}

/// The class of each option, according to how Proxmox applies the option to a running VM.
#[test]
fn each_setting_has_its_change_class() {
    let observed = running(&home());
    for (setting, class) in [
        ("cores: 3", Class::Drain),
        ("memory: 5G", Class::Drain),
        ("cpu_type: x86-64-v3", Class::Drain),
        ("machine_type: i440fx", Class::Drain),
        ("numa: true", Class::Drain),
        ("bios: seabios", Class::Drain),
        ("tpm: true", Class::Drain),
        ("ssd: true", Class::Drain),
        ("gpu: {mapping: gpu}", Class::Drain),
        ("disk: 50G", Class::Drain),
        // A disk cannot shrink, so the change is left.
        ("disk: 20G", Class::Drain),
        ("vmid: 333", Class::Replace),
        ("disks: [{size: 5}]", Class::Live),
        // The card is added at once. Its address takes effect with the cloud-init drive at the next start.
        ("nics: [{bridge: vmbr1}]", Class::Drain),
        ("bridge: vmbr1", Class::Live),
        ("vlan: 40", Class::Live),
        ("onboot: false", Class::Live),
        ("protection: true", Class::Live),
        ("tags: [blue]", Class::Live),
        ("pool: other", Class::Live),
    ] {
        let changed = home_with("ip: 10.0.0.21}", &format!("ip: 10.0.0.21, {setting}}}"));
        assert_eq!(class_of(&plan(&changed, &observed), "vm wk-1"), class, "{setting}");
    }
}

/// The old node answers at the address of the renamed node.
fn answering(observed: &Observed, old: &str, new: &str) -> Observed {
    let mut observed = observed.clone();
    let seen = observed.nodes.remove(old).unwrap();
    observed.nodes.insert(new.to_owned(), seen);
    observed
}

#[test]
fn a_node_with_another_name() {
    let observed = running(&home());
    let changed = home_with("name: cp-2, ip: 10.0.0.12", "name: cp-9, ip: 10.0.0.12");
    assert_snapshot!(text(&changed, &answering(&observed, "cp-2", "cp-9")));
    let changed = home_with("name: wk-2, ip", "name: wk-9, ip");
    let text = text(&changed, &answering(&observed, "wk-2", "wk-9"));
    assert_snapshot!("a_worker_with_another_name", text);
}

#[test]
fn a_stopped_vm_is_started() {
    let desired = home();
    let mut observed = running(&desired);
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("connection refused".to_owned()));
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn a_node_that_does_not_answer_is_waited_for() {
    let desired = home();
    let mut observed = running(&desired);
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("connection refused".to_owned()));
    assert_snapshot!(text(&desired, &observed));
}

#[test]
fn after_a_power_failure_vms_are_started_and_none_created() {
    let desired = home();
    let mut observed = settled(&desired);
    for seen in observed.pve.vms.values_mut() {
        seen.is_running = false;
    }
    for node in &desired.nodes {
        observed.nodes.insert(node.name.clone(), TalosSeen::Nothing("no route".to_owned()));
    }
    let plan = plan(&desired, &observed);
    assert!(plan.changes.iter().all(|change| change.class == Class::Live), "{}", show::text(&plan));
    assert!(ids(&plan).contains(&"cluster/health"), "{:?}", ids(&plan));
}

#[test]
fn missing_storages_and_hosts_are_reported() {
    let observed = running(&home());
    let changed = home_with("node: pve1,", "node: pve1, image_datastore: attic,");
    let plan = plan(&changed, &observed);
    assert_eq!(errors(&plan), Vec::<String>::new());
    assert_eq!(
        warnings(&plan),
        [
            "pve1/attic: storage not found, or the token lacks Datastore.Audit on it: no VM can be created with it"
        ]
    );
    let changed = home_with("ip: 10.0.0.21}", "ip: 10.0.0.21, host: pve7}");
    let plan = self::plan(&changed, &observed);
    assert_eq!(warnings(&plan), ["pve7: Proxmox has no such host; it has: pve1, pve2"]);

    let mut down = observed.clone();
    let storages = down.pve.resources.storages.iter_mut();
    storages
        .filter(|it| it.storage.as_str() == "local")
        .for_each(|it| it.status = "unknown".into());
    let plan = self::plan(&home(), &down);
    assert_eq!(
        warnings(&plan),
        ["pve1/local: the storage is unknown: no VM can be created with it"]
    );
}

#[test]
fn a_vm_without_its_marker_is_foreign() {
    let desired = home();
    let mut observed = running(&desired);
    for number in [300, 303] {
        let notes = VmOptions::new().description("my notes");
        put(&mut observed.pve, vmid(number), &notes, &[]);
        taken(&mut observed, number);
    }
    let reported = foreign_vms(&desired, &observed.pve);
    let marker = "has the vmid, name or UUID of this node, but talmox does not manage it: it does not carry talmox's marker";
    assert_eq!(reported["cp-1"], format!("VM 300 (cp-1) on pve1 {marker}"));
    assert_eq!(reported["wk-1"], format!("VM 303 (wk-1) on pve1 {marker}"));
    // The UUID, the name and the tags of both VMs prove whose VMs they are.
    let restored = plan(&desired, &observed);
    assert_eq!(ids(&restored), ["vm/cp-1/restore-marker", "vm/wk-1/restore-marker"]);
    assert_eq!((restored.errors().count(), warnings(&restored).len()), (0, 2));
    assert_eq!(class_of(&restored, "vm wk-1"), Class::Live);
    let mut whole = observed.clone();
    carry_out(&desired, &restored, &mut whole, usize::MAX);
    assert!(plan(&desired, &whole).is_empty());
    // Without the tags, they do not.
    let mut untagged = observed.clone();
    for number in [300, 303] {
        put(&mut untagged.pve, vmid(number), &VmOptions::new().set("tags", "mine"), &[]);
    }
    let left = plan(&desired, &untagged);
    let why = "is not provably an owned VM: it does not carry talmox's marker";
    for (name, number) in [("cp-1", 300), ("wk-1", 303)] {
        let expected = format!("{name}: VM {number} has its UUID, but {why}");
        assert!(errors(&left).contains(&expected), "{:?}", errors(&left));
    }
    assert_eq!((ids(&left).len(), left.blocking_errors().count()), (0, 0));
    assert!(left.open_changes().all(|change| change.left == Some(Left::Blocked)));

    let end = destroy(&desired, &observed, DestroyOptions::default());
    let ids = ids(&end);
    assert!(!ids.contains(&"vm/cp-1/destroy") && !ids.contains(&"vm/wk-1/destroy"), "{ids:?}");
    assert!(ids.contains(&"vm/cp-2/destroy"), "{ids:?}");
    let expected: Vec<String> =
        ["cp-1", "wk-1"].iter().map(|name| format!("{name}: {}", reported[*name])).collect();
    assert_eq!(errors(&end), expected, "with the UUIDs of nodes they keep everything from going");
}

#[test]
fn a_foreign_vm_of_the_same_name_is_a_warning() {
    let desired = home();
    let mut observed = crate::observed_state::empty();
    crate::observed_state::foreign(&mut observed, 777, "wk-1", "of another team");
    let plan = plan(&desired, &observed);
    let place = "VM 777 (wk-1) on pve1 has the vmid, name or UUID of this node";
    let expected =
        format!("wk-1: {place}, but talmox does not manage it: it does not carry talmox's marker");
    assert_eq!((warnings(&plan), plan.errors().count()), (vec![expected], 0));
}

#[test]
fn an_unhealthy_cluster_is_waited_for() {
    let desired = home();
    let mut observed = running(&desired);
    assert!(plan(&desired, &observed).is_empty());
    let KubernetesSeen::Answers(registered) = &mut observed.kubernetes else { panic!() };
    registered.problem = Some("wk-2 is not ready".to_owned());
    assert_snapshot!(text(&desired, &observed));
    assert_eq!(ids(&plan(&desired, &observed)), ["cluster/health"]);

    observed.kubernetes = KubernetesSeen::Silent("no API server answers yet".to_owned());
    observed.vip = VipSeen::Silent;
    assert_eq!(ids(&plan(&desired, &observed)), ["vip", "cluster/health"]);
    let missing = talmox_plan::planning::PlanOptions {
        has_client_files: false,
        was_up: false,
        was_bootstrapped: false,
    };
    let plan = talmox_plan::planning::plan(&desired, &observed, missing);
    assert_eq!(ids(&plan), ["vip", "kubeconfig", "cluster/health"]);
}

#[test]
fn a_vm_on_another_host_is_not_a_change() {
    let desired = home();
    let mut observed = running(&desired);
    observed.pve.vms.get_mut(&vmid(300)).unwrap().host = host("pve2");
    assert!(plan(&desired, &observed).is_empty());
}

#[test]
fn a_node_that_lost_its_config_gets_it_again() {
    let desired = home();
    let mut observed = running(&desired);
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Maintenance { mismatch: None });
    let plan = plan(&desired, &observed);
    assert_eq!(class_of(&plan, "node wk-1"), Class::Create);
}
