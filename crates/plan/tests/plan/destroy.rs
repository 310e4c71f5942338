//! Plans of `destroy`: findings before anything is deleted, and reasons to keep the secrets.

use talmox_plan::desired::Desired;
use talmox_plan::observed::{IdSeen, Observed, TalosSeen, Unobserved};
use talmox_plan::plan::{Plan, Severity, show};
use talmox_plan::planning::{DestroyOptions, destroy};
use talmox_pve_types::api::access::Permissions;
use talmox_pve_types::api::qemu::Vm;
use talmox_pve_types::config::VmOptions;

use crate::observed_state::{appear, config_of, empty, host, put, settled, vmid};
use crate::support::{errors, home, home_with, ids, warnings};

fn end(desired: &Desired, observed: &Observed) -> Plan {
    destroy(desired, observed, DestroyOptions::default())
}

/// Asserts that the same finding is a warning, and an error if the secrets are deleted too.
fn assert_finding(desired: &Desired, observed: &Observed, expected: &str) {
    let plain = end(desired, observed);
    assert_eq!((errors(&plain), warnings(&plain)), (vec![], vec![expected.to_owned()]));
    let options = DestroyOptions { images: false, secrets: true };
    let with_secrets = destroy(desired, observed, options);
    assert_eq!(errors(&with_secrets), [expected]);
    assert!(with_secrets.findings.iter().all(|finding| finding.hint.is_some()));
}

#[test]
fn a_protected_vm_is_reported_before_anything_is_deleted() {
    let desired = home();
    let mut observed = settled(&desired);
    put(&mut observed.pve, vmid(301), &VmOptions::new().protection(true), &[]);
    let plan = end(&desired, &observed);
    assert_eq!(errors(&plan), ["cp-2: its VM 301 is protected from deletion"]);
    let json = show::json(&plan);
    let reported = &json["findings"][0];
    assert_eq!((&reported["severity"], &reported["subject"]), (&"error".into(), &"cp-2".into()));
    let hint = reported["hint"].as_str().unwrap();
    assert!(hint.ends_with("on pve1: qm set 301 --protection 0"), "{hint}");
}

#[test]
fn without_vm_audit_the_absence_of_vms_is_not_assumed() {
    let desired = home();
    let mut observed = empty();
    assert!(end(&desired, &observed).findings.is_empty());
    observed.pve.permissions = Permissions::default();
    let plan = end(&desired, &observed);
    let blind =
        "/pool/talos: the token lacks VM.Audit: VMs of the cluster may exist that it cannot see";
    assert_eq!(errors(&plan), [blind]);
    let shown = show::findings(&plan);
    let line = "pveum acl modify /pool/talos --tokens 'talmox@pve!ci' --roles TalmoxVM";
    assert!(shown.contains(line), "{shown}");
    let bare = home_with(", pool: talos", "");
    let all = "/vms: the token lacks VM.Audit: VMs of the cluster may exist that it cannot see";
    assert_eq!(errors(&end(&bare, &observed)), [all]);
}

#[test]
fn missing_rights_are_reported_before_anything_is_deleted() {
    let desired = home();
    let mut observed = settled(&desired);
    let rights = observed.pve.permissions.0.get_mut("/").unwrap();
    rights.remove("VM.Allocate");
    rights.remove("VM.PowerMgmt");
    let plan = end(&desired, &observed);
    assert_eq!(errors(&plan), ["/pool/talos: the token lacks VM.Allocate, VM.PowerMgmt"]);
    for seen in observed.pve.vms.values_mut() {
        seen.is_running = false;
    }
    let plan = end(&desired, &observed);
    assert_eq!(
        errors(&plan),
        ["/pool/talos: the token lacks VM.Allocate"],
        "what is off needs no stop"
    );
}

/// A partly deleted cluster is useless: the remaining etcd members have no majority, and the cluster cannot be created again.
#[test]
fn nothing_is_deleted_while_a_vm_is_unreadable() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.get_mut(&vmid(303)).unwrap().config =
        Err(Unobserved::Unreachable("no route to host".to_owned()));
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("no route".to_owned()));
    let why = "pve1: VM 303 may belong to this cluster, and cannot be read: no route to host";
    assert_eq!(errors(&end(&desired, &observed)), [why]);
}

/// talmox gives the UUID of a node only to VMs of this inventory or of a copy. So the VM may be in use under a copy of the
/// inventory.
#[test]
fn a_vm_with_the_uuid_of_a_node_and_no_marker_prevents_all_deletions() {
    let desired = home();
    let mut observed = settled(&desired);
    put(&mut observed.pve, vmid(303), &VmOptions::new().description("my notes"), &[]);
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("off".to_owned()));
    let place = "wk-1: VM 303 (wk-1) on pve1 has the vmid, name or UUID of this node, but talmox does not manage it";
    let why = "it does not carry talmox's marker";
    for secrets in [false, true] {
        let plan = destroy(&desired, &observed, DestroyOptions { images: false, secrets });
        assert_eq!(errors(&plan), [format!("{place}: {why}")]);
    }
}

/// A copied inventory has the same marker and UUID, so only tags and notes name the cluster.
#[test]
fn a_vm_with_neither_tags_nor_notes_of_the_cluster_prevents_all_deletions() {
    let desired = home();
    let settled = settled(&desired);
    let description = config_of(&settled.pve, vmid(303)).description().to_owned();
    let bare = description.lines().last().unwrap().to_owned();
    let reported = |tags: &str, description: &str| {
        let mut observed = settled.clone();
        let set = VmOptions::new().set("tags", tags).description(description);
        put(&mut observed.pve, vmid(303), &set, &[]);
        errors(&end(&desired, &observed))
    };
    let none = Vec::<String>::new();
    assert_eq!(reported("mine", &description), none, "its notes name the cluster");
    assert_eq!(reported("talmox;home", &bare), none, "its tags do");
    let expected = "wk-1: VM 303 on pve1 has its marker and UUID, but neither tags (mine) nor notes name the cluster home";
    assert_eq!(reported("mine", &bare), [expected]);
}

#[test]
fn a_foreign_vm_of_the_same_name_does_not_keep_the_secrets() {
    let mut observed = empty();
    crate::observed_state::foreign(&mut observed, 250, "cp-1", "precious");
    let options = DestroyOptions { images: false, secrets: true };
    let plan = destroy(&home(), &observed, options);
    assert_eq!((errors(&plan).len(), warnings(&plan).len()), (0, 1), "{:?}", plan.findings);
}

/// A user cloned a VM, and Proxmox gave the clone another UUID.
#[test]
fn a_copy_of_a_vm_keeps_the_secrets() {
    let desired = home();
    let mut observed = settled(&desired);
    let own = config_of(&observed.pve, vmid(300));
    let other = "00000000-0000-4000-8000-000000000000";
    appear(&mut observed.pve, &Vm::new(&host("pve2"), vmid(350)), own);
    let smbios = VmOptions::new().set("smbios1", format!("uuid={other}"));
    put(&mut observed.pve, vmid(350), &smbios, &[]);
    let own = desired.node("cp-1").unwrap().identity.uuid;
    let why = format!("it has the marker of this node, but the UUID {other} and not {own}");
    let expected =
        format!("cp-1: VM 350 on pve2 has its marker or UUID, and is not an owned VM: {why}");
    assert_finding(&desired, &observed, &expected);
}

#[test]
fn two_vms_that_claim_to_be_the_same_node_are_both_named() {
    let desired = home();
    let mut observed = settled(&desired);
    let copy = config_of(&observed.pve, vmid(300));
    appear(&mut observed.pve, &Vm::new(&host("pve2"), vmid(350)), copy);
    let expected = ["cp-1: VM 300 and VM 350 both have its marker and UUID"];
    assert_eq!(errors(&end(&desired, &observed)), expected);
    assert_eq!(errors(&crate::support::plan(&desired, &observed)), expected);
}

#[test]
fn a_node_that_answers_without_a_vm_keeps_the_secrets() {
    let desired = home();
    let mut observed = settled(&desired);
    observed.pve.vms.remove(&vmid(303)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(303));
    let what = "a node of this cluster answers at 10.0.0.21, and its VM is not visible";
    assert_finding(&desired, &observed, &format!("wk-1: {what}"));
    // The VM of a renamed node is destroyed under its old name.
    let mut renamed = settled(&desired);
    let seen = renamed.nodes.remove("wk-2").unwrap();
    renamed.nodes.insert("wk-9".to_owned(), seen);
    let plan = end(&home_with("name: wk-2, ip", "name: wk-9, ip"), &renamed);
    assert!(plan.findings.is_empty(), "{:?}", plan.findings);
    assert!(ids(&plan).contains(&"vm/wk-2/destroy"), "{:?}", ids(&plan));
}

#[test]
fn a_vm_that_is_not_visible_is_not_duplicated_and_keeps_the_secrets() {
    let desired = home();
    let mut observed = settled(&desired);
    for number in [300, 303] {
        observed.pve.vms.remove(&vmid(number)).unwrap();
        observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(number));
    }
    for name in ["cp-1", "wk-1"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("off".to_owned()));
    }
    let made_by_login = IdSeen::Taken { making: None, made_by_login: true, lock: None };
    observed.pve.ids.insert(vmid(303), made_by_login);
    let strange = IdSeen::Taken { making: None, made_by_login: false, lock: None };
    observed.pve.ids.insert(vmid(300), strange);
    let options = DestroyOptions { images: false, secrets: true };
    let expected = [
        "cp-1: VM 300 exists, and the token may not see it",
        "proxmox: VM 303 exists, and the token may not see it, although it was created with this login",
    ];
    let plan = destroy(&desired, &observed, options);
    assert_eq!(errors(&plan), expected);
    assert!(show::findings(&plan).contains("pveum pool modify talos --vms 303"));
    assert_eq!(warnings(&end(&desired, &observed)), expected);
    let up = crate::support::plan(&desired, &observed);
    let own = "wk-1: VM 303 exists, and the token may not see it, although it was created with this login";
    assert!(errors(&up).contains(&own.to_owned()), "{:?}", errors(&up));
    assert!(!ids(&up).contains(&"vm/wk-1/create"), "{:?}", ids(&up));
    assert!(up.findings.iter().any(|finding| finding.severity == Severity::Error));
}
