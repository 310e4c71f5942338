//! Configs that are sent to machines that cannot prove their identity, and VMs that were created with another `boot:`.

use talmox_plan::observed::TalosSeen;
use talmox_plan::plan::{Action, ConfigBy, show};
use talmox_pve_types::config::VmOptions;

use crate::observed_state::{carry_out, empty, put, settled, template, vmid};
use crate::support::{errors, home, ids, plan, single, warnings, whole_plan};

const NAMES: &str = "home: the configs of cp-1, cp-2, cp-3 and 2 more are sent to machines in maintenance mode, which cannot \
                     prove their identity: a machine between this one and them can read the keys of the cluster";

#[test]
fn a_config_sent_to_maintenance_mode_is_a_warning() {
    assert_eq!(warnings(&whole_plan(&home(), &empty())), [NAMES]);
    let mut observed = empty();
    template(&mut observed, 9000, "talos-v1.11.2-base");
    for boot in ["cloudinit", "meta", "dhcp", "template, template: talos-v1.11.2-base, disk: 20G"] {
        let plan = whole_plan(&single(&format!("boot: {boot}")), &observed);
        let reported = warnings(&plan);
        assert_eq!(reported.len(), 1, "{boot}: {reported:?}");
        assert!(
            reported[0].starts_with("home: the config of cp-1 is sent to machines in"),
            "{reported:?}"
        );
        let hint = plan.findings[0].hint.as_deref().unwrap();
        assert!(hint.contains("`boot: cidata`"), "{hint}");
    }
    let running = whole_plan(&home(), &settled(&home()));
    assert_eq!(warnings(&running), Vec::<String>::new(), "nothing is sent to a cluster that runs");
}

#[test]
fn a_config_on_a_volume_is_not_sent() {
    let desired = single("boot: cidata");
    let plan = whole_plan(&desired, &empty());
    assert!(plan.findings.is_empty(), "{}", show::text(&plan));
    for step in &plan.steps {
        if let Action::ApplyConfig(apply) = &step.action {
            assert_eq!(apply.by, ConfigBy::Volume);
        }
    }
    assert!(ids(&plan).contains(&"vm/cp-1/scrub-config"));
}

/// `cloudinit` was the default of `boot:` in earlier releases. VMs that were created with it do not change.
#[test]
fn a_vm_with_a_cloudinit_drive_keeps_it_with_another_boot_way() {
    let cards = "nics: [{bridge: vmbr1, ip: 10.9.0.1/24}, {bridge: vmbr2}]";
    for card in ["cores: 2", cards] {
        let observed = settled(&single(&format!("boot: cloudinit, {card}")));
        let plan = whole_plan(&single(&format!("boot: cidata, {card}")), &observed);
        assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
    }
    let mut observed = empty();
    template(&mut observed, 9000, "talos-v1.11.2-base");
    let clone = single("boot: template, template: talos-v1.11.2-base, disk: 20G");
    let made = plan(&clone, &observed);
    carry_out(&clone, &made, &mut observed, usize::MAX);
    let after = whole_plan(&single("boot: cidata, disk: 20G"), &observed);
    assert!(after.is_empty(), "{}", show::text(&after));
}

/// The VM is compared with its cloud-init drive, so another address is still a difference.
#[test]
fn a_kept_cloudinit_drive_is_compared() {
    let observed = settled(&single("boot: cloudinit"));
    let moved = |boot: &str| single(&format!("boot: {boot}, gateway: 10.0.0.9"));
    let before = plan(&moved("cloudinit"), &observed);
    assert!(!before.is_empty());
    assert_eq!(show::text(&plan(&moved("cidata"), &observed)), show::text(&before));
}

#[test]
fn no_config_is_sent_to_a_vm_without_its_volume() {
    let mut observed = settled(&single("boot: cloudinit"));
    for mismatch in [None, Some("its instance id is 1, not 2".to_owned())] {
        observed.nodes.insert("cp-1".to_owned(), TalosSeen::Maintenance { mismatch });
        let plan = whole_plan(&single("boot: cidata"), &observed);
        assert_eq!(
            errors(&plan),
            [
                "cp-1: a machine in maintenance mode answers at its address, and VM 300 has no volume with a config to read"
            ]
        );
        let hint = plan.errors().next().unwrap().hint.as_deref().unwrap();
        assert!(hint.starts_with("nothing is sent to it."), "{hint}");
        assert!(!hint.contains("destroy"), "{hint}");
        let applies = |id: &&str| id.ends_with("/apply");
        assert_eq!(ids(&plan).into_iter().find(applies), None);
    }
}

#[test]
fn an_unfinished_vm_of_another_boot_way_is_not_finished() {
    let before = single("boot: cloudinit");
    let mut observed = empty();
    let made = plan(&before, &observed);
    let created = made.steps.iter().position(|step| step.id.as_str() == "vm/cp-1/create").unwrap();
    carry_out(&before, &made, &mut observed, created + 1);
    assert_eq!(
        errors(&whole_plan(&before, &observed)),
        Vec::<String>::new(),
        "with the boot way of its creation"
    );
    let after = whole_plan(&single("boot: cidata"), &observed);
    let expected = "cp-1: VM 300 was created without a volume for its config by a run that did not finish: `boot: cidata` \
                    cannot finish it";
    assert_eq!(errors(&after), [expected]);
    // With its cidata volume, the VM can be finished.
    let drive = VmOptions::new().set("scsi30", "local-lvm:vm-300-disk-7,size=4M");
    put(&mut observed.pve, vmid(300), &drive, &[]);
    assert_eq!(errors(&whole_plan(&single("boot: cidata"), &observed)), Vec::<String>::new());
}

/// Proxmox does not remove a drive from a protected VM, so the VM is protected after its cidata volume is removed.
#[test]
fn a_vm_is_protected_once_its_volume_is_gone() {
    let desired = single("boot: cidata, protection: true");
    let mut observed = empty();
    let made = plan(&desired, &observed);
    for step in &made.steps {
        match &step.action {
            Action::CreateVm(create) => assert_eq!(create.options.get("protection"), Some("0")),
            Action::FinishVm(finish) => assert_eq!(finish.set.get("protection"), None),
            Action::DetachCidata(detach) => assert!(detach.protect),
            _ => {}
        }
    }
    // The run is killed after each step. No other step protects the VM, and the next run finishes all changes.
    for count in 0..=made.steps.len() {
        observed = empty();
        carry_out(&desired, &made, &mut observed, count);
        let rest = plan(&desired, &observed);
        assert_eq!(rest.open_changes().count(), 0, "{count}\n{}", show::text(&rest));
        carry_out(&desired, &rest, &mut observed, usize::MAX);
        let config = observed.pve.vms[&vmid(300)].config.clone().unwrap();
        assert_eq!((config.get("protection"), config.get("scsi30")), (Some("1"), None), "{count}");
        let after = plan(&desired, &observed);
        assert!(after.is_empty(), "{count}\n{}", show::text(&after));
    }
}
