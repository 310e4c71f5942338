//! Options of running VMs that need no stop of their own: network cards, notes, tags, the start order, the boot order and the
//! guest agent; and options that need one.

use std::time::Duration;

use talmox_lab::pve::Action as FaultAction;
use talmox_plan::ownership::Marker;
use talmox_plan::plan::{Change, Class, Left, Object, Plan, show};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmOptions;
use talmox_pve::id::VmId;

use super::rig::{ADMIN, LabOptions, Rig};
use super::versions::{PVE_9_TALOS_11, PVE_9_TALOS_12, PVE_9_TALOS_13};
use super::vm_change::{WK_1, WK_2, boot_ids, edit, has_step, inventory, with};

const FETCH: &str = "    - {path: /nodes/pve1, ugid: talmox@pve, roleid: TalmoxFetch}\n";
const ROLES: &str = "    - {roleid: TalmoxNet, privs: [SDN.Use]}\n";

/// A lab in which the token has these further privileges on these paths.
fn yard_with(release: &'static str, rights: &[(&str, &str, &str)]) -> LabOptions {
    let (mut roles, mut grants) = (String::new(), String::new());
    for (role, path, privileges) in rights {
        roles.push_str(&format!("    - {{roleid: {role}, privs: [{privileges}]}}\n"));
        for login in ["talmox@pve", "\"talmox@pve!ci\""] {
            grants.push_str(&format!("    - {{path: {path}, ugid: {login}, roleid: {role}}}\n"));
        }
    }
    let with = vec![(ROLES, format!("{ROLES}{roles}")), (FETCH, format!("{grants}{FETCH}"))];
    LabOptions { release, with, ..LabOptions::default() }
}

/// Names of the options of a VM that wait for a stop.
async fn pending(rig: &Rig, vmid: u32) -> Vec<String> {
    let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap());
    let options = rig.client(ADMIN).send(&qemu::pending(&vm)).await.unwrap();
    let waiting = options.into_iter().filter(|option| option.pending.is_some());
    waiting.map(|option| option.key).collect()
}

fn change_of<'a>(plan: &'a Plan, field: &str) -> &'a Change {
    let has_field = |change: &&Change| change.fields.iter().any(|one| one.path == field);
    plan.changes.iter().find(has_field).unwrap_or_else(|| panic!("{}", show::text(plan)))
}

#[tokio::test(flavor = "multi_thread")]
async fn firewall_notes_tags_and_start_order_change_while_the_vm_runs() {
    for release in ["9.2", "8.4"] {
        let rig = Rig::of(yard_with(release, &[("TalmoxStart", "/", "Sys.Modify")]));
        let base = inventory(PVE_9_TALOS_12);
        rig.up(&with(&base, "wk-1", "tags: [blue], notes: rack 1")).await.assert_done();
        let boots = boot_ids(&rig).await;
        let text = rig.vms().await[&WK_1].config["description"].clone();
        assert!(text.trim_end().ends_with("\n\nrack 1"), "{text}");
        // A user of Proxmox adds a tag, and text around the marker.
        let by_hand = VmOptions::new()
            .description(&format!("# Mine\n\n{}\n\nby hand", text.trim_end()))
            .set("tags", "blue;home;mine;talmox");
        edit(&rig, WK_1, by_hand).await;
        rig.assert_converged(&with(&base, "wk-1", "tags: [blue], notes: rack 1")).await;

        let settings = "firewall: true, notes: rack 2, startup: {order: 2, up: 30s}";
        let ran = rig.converge(&with(&base, "wk-1", settings)).await;
        let config = rig.vms().await[&WK_1].config.clone();
        assert!(config["net0"].contains("firewall=1"), "{config:?}");
        assert_eq!(config["startup"], "order=2,up=30");
        assert_eq!(config["tags"], "home;mine;talmox", "{}", show::text(&ran.plan));
        let text = config["description"].trim_end();
        assert!(text.starts_with("# Mine\n\nNode wk-1 of the cluster home."), "{text}");
        assert!(text.ends_with("\n\nrack 2\n\nby hand"), "{text}");
        assert!(!text.contains("rack 1"), "{text}");
        let marker = Marker::find(text).unwrap();
        assert_eq!(marker.own_tags.to_string(), "home;talmox");
        assert!(pending(&rig, WK_1).await.is_empty());
        assert_eq!(boot_ids(&rig).await, boots);

        // Removed notes go, and text of users stays.
        rig.converge(&with(&base, "wk-1", "firewall: true")).await;
        let config = rig.vms().await[&WK_1].config.clone();
        let text = config["description"].trim_end();
        assert!(!text.contains("rack 2") && text.ends_with("\n\nby hand"), "{text}");
        assert_eq!(config["startup"], "order=2,up=30", "without `startup:` the VM keeps it");
        assert_eq!(boot_ids(&rig).await, boots);
    }
}

/// The start order needs a broad right. Without it, the VM is created, and a warning has the command for an administrator.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_order_that_the_token_may_not_set_is_a_warning() {
    let rig = Rig::of(PVE_9_TALOS_12.lab_options());
    let text = with(&inventory(PVE_9_TALOS_12), "wk-1", "startup: {order: 2}");
    let plan = rig.plan(&text).await;
    let shown = show::findings(&plan);
    assert!(shown.contains("qm set 301 --startup order=2"), "{shown}");
    rig.up(&text).await.assert_done();
    assert!(!rig.vms().await[&WK_1].config.contains_key("startup"));
    rig.assert_converged(&text).await;
    edit(&rig, WK_1, VmOptions::new().startup("order=2")).await;
    let plan = rig.plan(&text).await;
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", show::text(&plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_are_changed_with_a_drain() {
    let rig = Rig::of(PVE_9_TALOS_12.lab_options());
    let base = inventory(PVE_9_TALOS_13);
    rig.up(&base).await.assert_done();
    let boots = boot_ids(&rig).await;
    let ran = rig.converge(&with(&base, "wk-1", "sockets: 2")).await;
    assert!(has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
    let vms = rig.vms().await;
    assert_eq!(vms[&WK_1].config["sockets"], "2");
    let after = boot_ids(&rig).await;
    assert_ne!(after["wk-1"], boots["wk-1"]);
    assert_eq!(after["wk-2"], boots["wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_boot_order_waits_for_the_next_stop() {
    let rig = Rig::of(PVE_9_TALOS_12.lab_options());
    let base = inventory(PVE_9_TALOS_12);
    rig.up(&base).await.assert_done();
    let boots = boot_ids(&rig).await;
    let text = with(&base, "wk-1", "boot_order: [scsi0, net0]");
    let ran = rig.converge(&text).await;
    assert!(!has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
    assert_eq!(pending(&rig, WK_1).await, ["boot"]);
    assert_eq!(boot_ids(&rig).await, boots);
    let shown = show::findings(&rig.plan(&text).await);
    assert!(shown.contains("after its next stop and start: boot"), "{shown}");

    rig.converge(&with(&base, "wk-1", "boot_order: [scsi0, net0], cores: 3")).await;
    assert!(pending(&rig, WK_1).await.is_empty());
    let config = rig.vms().await[&WK_1].config.clone();
    assert_eq!((config["boot"].as_str(), config["cores"].as_str()), ("order=scsi0;net0", "3"));
}

/// Proxmox applies the guest agent with a stop of the VM. The option is set, and no node is drained for it.
#[tokio::test(flavor = "multi_thread")]
async fn no_node_is_drained_for_the_guest_agent() {
    let rig = Rig::of(PVE_9_TALOS_12.lab_options());
    let nodes = inventory(PVE_9_TALOS_11);
    let base = format!("{nodes}image: {{extensions: [siderolabs/qemu-guest-agent]}}\n");
    rig.up(&base).await.assert_done();
    // A user of Proxmox disables the agent of two VMs, and starts them again.
    for (vmid, address) in [(WK_1, [10_u8, 0, 0, 21]), (WK_2, [10, 0, 0, 22])] {
        rig.stop_vm(vmid).await;
        edit(&rig, vmid, VmOptions::new().set("agent", "0")).await;
        let vm = Vm::new(&"pve1".parse().unwrap(), VmId::new(vmid).unwrap());
        rig.client(ADMIN).send(&qemu::start(&vm)).await.unwrap();
        while rig.talos(address.into()).boot_id().await.is_err() {
            rig.lab.clock().sleep(Duration::from_secs(1)).await;
        }
    }
    let boots = boot_ids(&rig).await;
    let ran = rig.converge(&base).await;
    assert_eq!(change_of(&ran.plan, "agent").class, Class::Live);
    for vmid in [WK_1, WK_2] {
        assert_eq!(pending(&rig, vmid).await, ["agent"]);
    }
    assert_eq!(boot_ids(&rig).await, boots);

    // The next stop applies it.
    rig.converge(&with(&base, "wk-1", "cores: 3")).await;
    assert!(pending(&rig, WK_1).await.is_empty());
    assert_eq!(pending(&rig, WK_2).await, ["agent"]);
    assert!(rig.vms().await[&WK_1].config["agent"].contains('1'));
    assert_ne!(boot_ids(&rig).await["wk-1"], boots["wk-1"]);
}

/// A lab whose hosts have a GPU without a mapping.
fn yard_with_a_gpu(rights: &[(&str, &str, &str)]) -> LabOptions {
    let device = "    pci: [{address: '0000:29:00.0', vendor: '0x10de', device: '0x2204', iommu_group: 13}]\n";
    let mut lab_options = yard_with("9.2", rights);
    lab_options.with.push(("  - name: pve1\n", format!("  - name: pve1\n{device}")));
    lab_options
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_by_its_address_gets_a_mapping_on_an_existing_vm() {
    let rig = Rig::of(yard_with_a_gpu(&[
        ("TalmoxHost", "/", "Sys.Audit"),
        ("TalmoxMapping", "/mapping/pci", "Mapping.Audit, Mapping.Modify, Mapping.Use"),
    ]));
    let base = inventory(PVE_9_TALOS_12);
    rig.up(&base).await.assert_done();
    let boots = boot_ids(&rig).await;
    let ran = rig.converge(&with(&base, "wk-1", "gpu: {pci: '0000:29:00.0'}")).await;
    let config = rig.vms().await[&WK_1].config.clone();
    let device = &config["hostpci0"];
    assert!(device.contains("mapping=pci-pve1-0000-29-00-0"), "{device}");
    assert!(has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
    let after = boot_ids(&rig).await;
    assert_ne!(after["wk-1"], boots["wk-1"]);
    assert_eq!(after["wk-2"], boots["wk-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_by_its_address_is_left_if_the_token_may_not_map_it() {
    let rig = Rig::of(yard_with_a_gpu(&[("TalmoxHost", "/", "Sys.Audit")]));
    let base = inventory(PVE_9_TALOS_12);
    rig.up(&base).await.assert_done();
    let before = rig.vms().await;
    let plan = rig.plan(&with(&base, "wk-1", "gpu: {pci: '0000:29:00.0'}")).await;
    assert_eq!(change_of(&plan, "hostpci0").left, Some(Left::Blocked), "{}", show::text(&plan));
    let shown = show::findings(&plan);
    assert!(shown.contains("only root@pam can use a PCI address without a mapping"), "{shown}");
    assert_eq!(rig.vms().await, before);
}

/// A VM that runs must not be changed as if it were stopped, so a VM without a reported power state counts as running.
#[tokio::test(flavor = "multi_thread")]
async fn a_vm_with_an_unknown_power_state_counts_as_running() {
    let rig = Rig::of(PVE_9_TALOS_12.lab_options());
    let base = inventory(PVE_9_TALOS_12);
    rig.up(&base).await.assert_done();
    rig.stop_vm(WK_1).await;
    let message = "no answer from the host".to_owned();
    let refuse = FaultAction::Reject { status: 500, message };
    rig.inject_fault("GET", "/nodes/{node}/qemu/*/status/current", u64::MAX, refuse);
    let text = with(&base, "wk-1", "cores: 3");
    let plan = rig.plan(&text).await;
    assert_eq!(change_of(&plan, "cores").class, Class::Drain, "{}", show::text(&plan));
    let is_start = |change: &&Change| {
        change.object == Object::Vm("wk-1".to_owned())
            && change.fields.iter().any(|field| field.path == "status")
    };
    assert_eq!(plan.changes.iter().filter(is_start).count(), 0, "{}", show::text(&plan));

    rig.lab.faults().clear();
    let ran = rig.converge(&text).await;
    assert!(!has_step(&ran, "node/wk-1/drain"), "{}", show::text(&ran.plan));
    assert_eq!(rig.vms().await[&WK_1].config["cores"], "3");
}
