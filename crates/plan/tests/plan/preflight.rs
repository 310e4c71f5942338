//! Preflight checks.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use talmox_plan::observed::{AddressSource, IdSeen, TalosSeen, VmAddress};
use talmox_plan::planning::{DestroyOptions, destroy};
use talmox_pve_types::api::access::Permissions;
use talmox_pve_types::api::mapping::{Mapped, MappedDevice, PciMapping};
use talmox_pve_types::api::node::{Bridge, PciDevice};
use talmox_pve_types::config::VmOptions;

use crate::observed_state::{empty, foreign, host, put, settled, template, vmid};
use crate::support::{desired_of, errors, home, ids, plan, single, text, token, warnings};

/// The privileges of a token with the minimal roles.
fn narrow() -> Permissions {
    let vm = [
        "VM.Allocate",
        "VM.Audit",
        "VM.Clone",
        "VM.Config.CDROM",
        "VM.Config.CPU",
        "VM.Config.Cloudinit",
        "VM.Config.Disk",
        "VM.Config.HWType",
        "VM.Config.Memory",
        "VM.Config.Network",
        "VM.Config.Options",
        "VM.PowerMgmt",
        "Pool.Audit",
    ];
    let on = |path: &str, rights: &[&str]| {
        let rights = rights.iter().map(|right| ((*right).to_owned(), false)).collect();
        (path.to_owned(), rights)
    };
    let lock = ["Pool.Allocate", "Pool.Audit"].map(|right| (right.to_owned(), true));
    Permissions(BTreeMap::from([
        ("/pool/talmox-lock".to_owned(), BTreeMap::from(lock)),
        on("/pool/talos", &vm),
        on("/storage/local-lvm", &["Datastore.AllocateSpace"]),
        on("/storage/local", &["Datastore.Audit", "Datastore.AllocateTemplate"]),
        on("/sdn/zones/localnetwork/vmbr0", &["SDN.Use"]),
    ]))
}

#[test]
fn the_documented_roles_are_enough() {
    let mut observed = empty();
    observed.pve.permissions = narrow();
    template(&mut observed, 9000, "talos-v1.11.2-base");
    let clone = "template, template: talos-v1.11.2-base";
    for boot in ["cloudinit", "cidata", "meta", "dhcp", clone] {
        let plan = plan(&single(&format!("boot: {boot}, disk: 20G")), &observed);
        assert_eq!(errors(&plan), Vec::<String>::new(), "{boot}");
        assert!(!plan.steps.is_empty());
    }
}

#[test]
fn each_missing_right_is_reported_with_the_commands_that_grant_it() {
    for (path, right) in [
        ("/pool/talos", "VM.Allocate"),
        ("/pool/talos", "VM.Config.Options"),
        ("/pool/talos", "VM.PowerMgmt"),
        ("/storage/local-lvm", "Datastore.AllocateSpace"),
        ("/storage/local", "Datastore.AllocateTemplate"),
        ("/sdn/zones/localnetwork/vmbr0", "SDN.Use"),
    ] {
        let mut observed = empty();
        observed.pve.permissions = narrow();
        observed.pve.permissions.0.get_mut(path).unwrap().remove(right).unwrap();
        let plan = plan(&home(), &observed);
        assert_eq!(errors(&plan), [format!("{path}: the token lacks {right}")]);
    }
    let mut observed = empty();
    observed.pve.permissions = Permissions::default();
    let plan = plan(&home(), &observed);
    let shown: Vec<String> = plan
        .errors()
        .map(|one| format!("{}: {}\n{}", one.subject, one.message, one.hint.as_ref().unwrap()))
        .collect();
    assert_snapshot!(shown.join("\n\n"));
}

/// A token from a release before the cluster lock keeps working, with a warning. If the plan bootstraps etcd, it is an error,
/// because a second run could create a second etcd cluster.
#[test]
fn a_token_without_the_rights_for_locks_is_an_error_before_a_bootstrap() {
    let desired = home();
    let mut observed = empty();
    observed.pve.permissions = narrow();
    observed.pve.permissions.0.remove("/pool/talmox-lock");
    let lacks = "/pool/talmox-lock: the token lacks Pool.Allocate, Pool.Audit: runs from other machines or folders are not \
                 locked out of this cluster";
    let first = plan(&desired, &observed);
    let bootstraps = ", and two runs that bootstrap etcd at once create two clusters";
    assert_eq!(errors(&first), [format!("{lacks}{bootstraps}")]);
    let hint = first.errors().next().unwrap().hint.clone().unwrap();
    let line = "pveum acl modify /pool/talmox-lock --tokens 'talmox@pve!ci' --roles TalmoxLock";
    assert!(hint.contains(line) && hint.contains("pveum pool add talmox-lock"), "{hint}");

    let mut observed = settled(&desired);
    let settled = plan(&desired, &observed);
    assert!(
        settled.is_empty() && settled.findings.is_empty(),
        "nothing is changed, nothing is locked"
    );
    observed.pve.permissions.0.get_mut("/").unwrap().remove("Pool.Allocate");
    let unchanged = plan(&desired, &observed);
    assert!(unchanged.findings.is_empty(), "{:?}", unchanged.findings);
    observed.pve.vms.get_mut(&vmid(303)).unwrap().is_running = false;
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    let later = plan(&desired, &observed);
    assert_eq!(errors(&later), Vec::<String>::new());
    let warned = warnings(&later).into_iter().any(|one| {
        one.starts_with("/pool/talmox-lock: the token lacks Pool.Allocate: ")
            && one.ends_with("make sure that no other machine runs `up` or `destroy`")
    });
    assert!(warned, "{:?}", later.findings);
    let end = destroy(&desired, &observed, DestroyOptions::default());
    assert!(
        warnings(&end).iter().any(|one| one.starts_with("/pool/talmox-lock: ")),
        "{:?}",
        end.findings
    );
}

#[test]
fn storages_must_exist_and_allow_the_content() {
    let mut observed = empty();
    observed.pve.resources.storages[0].content = vec!["iso".to_owned()];
    observed.pve.resources.storages[1].status = "unknown".to_owned();
    assert_snapshot!(errors(&plan(&home(), &observed)).join("\n"), @"
    pve1/local: the storage does not allow the content type import
    pve1/local-lvm: the storage is unknown
    ");
    observed.pve.resources.storages.clear();
    assert_eq!(errors(&plan(&home(), &observed)).len(), 2);
}

#[test]
fn hosts_must_be_up_and_large_enough() {
    let mut observed = empty();
    observed.pve.resources.hosts[0].status = "offline".to_owned();
    assert_eq!(
        errors(&plan(&home(), &observed)),
        ["pve1: the host is offline, and new VMs must be created on it"]
    );
    let observed = empty();
    assert_eq!(
        errors(&plan(&single("host: pve9"), &observed)),
        ["pve9: Proxmox has no such host; it has: pve1, pve2"]
    );
    assert_eq!(
        errors(&plan(&single("cores: 32, memory: 128G"), &observed)),
        ["cp-1: pve1 has fewer than 32 cores", "cp-1: pve1 has less than 128 GiB of memory"]
    );
    let bridge = Bridge {
        name: "vmbr0".parse().unwrap(),
        kind: "bridge".to_owned(),
        active: true,
        vlan_aware: false,
        cidr: None,
        comments: None,
    };
    let mut observed = empty();
    observed.pve.bridges.insert(host("pve1"), Ok(vec![bridge]));
    assert_eq!(errors(&plan(&single("bridge: vmbr0"), &observed)), Vec::<String>::new());
    assert_eq!(
        errors(&plan(&single("bridge: vmbr7"), &observed)),
        ["pve1: the host has no bridge vmbr7; it has: vmbr0"]
    );
}

#[test]
fn an_old_proxmox_is_an_error() {
    let mut observed = empty();
    observed.pve.version.as_mut().unwrap().version = "8.3.1".to_owned();
    assert_eq!(
        errors(&plan(&home(), &observed)),
        ["proxmox: Proxmox VE 8.3.1 is too old: 8.4 is needed"]
    );
    observed.pve.version.as_mut().unwrap().version = "8.4.1".to_owned();
    assert_eq!(errors(&plan(&home(), &observed)), Vec::<String>::new());
}

/// A restore from a backup may be creating the VM, so the check that the VM is empty must come before the deletion.
#[track_caller]
fn assert_proof_before_deletion(hint: &str, host: &str, vmid: u32) {
    let proof = hint.find(&format!("on {host}: qm config {vmid}")).unwrap();
    let exception = hint.find("may hold data: leave it").unwrap();
    let deletion = hint.find(&format!("qm destroy {vmid}")).unwrap();
    assert!(proof < exception && exception < deletion, "{hint}");
}

#[test]
fn an_unfinished_vm_of_an_interrupted_task_is_reported() {
    let mut observed = empty();
    let left = IdSeen::Taken { making: None, made_by_login: true, lock: Some("create".to_owned()) };
    observed.pve.ids.insert(vmid(300), left);
    let plan = plan(&single("cores: 2"), &observed);
    assert_eq!(
        errors(&plan),
        ["cp-1: an interrupted task left VM 300 unfinished and locked (create)"]
    );
    let hint = plan.errors().next().unwrap().hint.as_deref();
    assert_proof_before_deletion(hint.unwrap(), "its host", 300);
}

#[test]
fn a_vm_that_is_being_created_is_waited_for() {
    let mut observed = empty();
    let upid = "UPID:pve2:0001A2B3:0012ABCD:65F0C0DE:qmcreate:300:talmox@pve!ci:";
    let making =
        IdSeen::Taken { making: Some(upid.parse().unwrap()), made_by_login: true, lock: None };
    observed.pve.ids.insert(vmid(300), making);
    let plan = plan(&single("boot: cidata"), &observed);
    assert_eq!(errors(&plan), Vec::<String>::new());
    assert_eq!(
        ids(&plan)[2..5],
        ["vm/cp-1/create", "vm/cp-1/resize", "vm/cp-1/scrub-config"],
        "no second upload"
    );
    let create = plan.steps.iter().find(|step| step.id.as_str() == "vm/cp-1/create").unwrap();
    assert_eq!(create.action.burden().host, Some(host("pve2")), "where the task runs");
}

pub(crate) fn device() -> PciDevice {
    PciDevice {
        address: "0000:28:00.0".to_owned(),
        vendor: "10de".to_owned(),
        device: "2204".to_owned(),
        subsystem_vendor: None,
        subsystem_device: None,
        class: "030000".to_owned(),
        iommu_group: Some(12),
        vendor_name: None,
        device_name: None,
        mediated: false,
    }
}

#[test]
fn a_gpu_gets_a_mapping() {
    let desired = single("gpu: {pci: '0000:28:00.0'}");
    let mut observed = empty();
    observed.pve.devices.insert(host("pve1"), Ok(vec![device()]));
    observed.pve.mappings = Some(Ok(vec![]));
    assert_snapshot!(text(&desired, &observed));

    let mapped = MappedDevice {
        node: host("pve1"),
        path: "0000:28:00.0".to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: None,
        subsystem_id: None,
    };
    let mapped = Mapped { devices: vec![mapped], ..Mapped::default() };
    observed.pve.mappings = Some(Ok(vec![PciMapping { id: "rtx".parse().unwrap(), mapped }]));
    let plan_with_name = plan(&desired, &observed);
    assert!(!ids(&plan_with_name).iter().any(|id| id.starts_with("mapping/")));
    assert!(format!("{plan_with_name:?}").contains("mapping=rtx,pcie=1"));

    // A mapping with several devices of the host does not select a single device.
    let Some(Ok(mappings)) = &mut observed.pve.mappings else { panic!() };
    let mut second = mappings[0].mapped.devices[0].clone();
    second.path = "0000:41:00.0".to_owned();
    mappings[0].mapped.devices.push(second);
    let of_many = plan(&desired, &observed);
    assert!(ids(&of_many).iter().any(|id| id.starts_with("mapping/")), "{:?}", ids(&of_many));

    observed.pve.mappings = Some(Ok(vec![]));
    observed
        .pve
        .devices
        .insert(host("pve1"), Ok(vec![PciDevice { iommu_group: None, ..device() }]));
    assert_eq!(
        errors(&plan(&desired, &observed)),
        ["cp-1: pve1 has no IOMMU: 0000:28:00.0 cannot be passed through"]
    );
    observed.pve.permissions = narrow();
    observed.pve.devices.clear();
    assert_eq!(
        errors(&plan(&desired, &observed)),
        [
            "cp-1: the PCI device 0000:28:00.0 has no mapping, and the token may not create one: only root@pam can use a PCI address without a mapping"
        ]
    );
}

#[test]
fn only_root_may_pass_raw_devices_through() {
    let inventory = format!(
        "{}controlplane: [{{name: cp-1, ip: 10.0.0.11, gpu: {{pci: '0000:28:00.0'}}}}]\n",
        crate::support::HEAD
    );
    let root = talmox_plan::desired::Login { user: "root@pam".to_owned(), token: None };
    assert!(root.is_root() && !token().is_root());
    let plan = plan(&desired_of(&inventory, "id", root), &empty());
    assert!(format!("{plan:?}").contains("\"hostpci0\": \"0000:28:00.0,pcie=1\""));
}

/// Another VM has the address of a new node, according to its config or its guest agent.
#[test]
fn addresses_of_other_vms_are_found() {
    let desired = single("cores: 2");
    let with_config = |is_running: bool| {
        let mut observed = empty();
        foreign(&mut observed, 120, "mail", "");
        let address = VmOptions::new().set("ipconfig0", "ip=10.0.0.11/16,gw=10.0.0.1");
        put(&mut observed.pve, vmid(120), &address, &[]);
        observed.pve.vms.get_mut(&vmid(120)).unwrap().is_running = is_running;
        plan(&desired, &observed)
    };
    let running = with_config(true);
    let message = "cp-1: its address 10.0.0.11 is in use: VM 120 (mail) has it in its config";
    assert_eq!(errors(&running), [message]);
    assert!(!ids(&running).contains(&"talos/cp-1/apply"), "{:?}", ids(&running));
    let stopped = with_config(false);
    assert_eq!(errors(&stopped), Vec::<String>::new());
    let message =
        "cp-1: its address 10.0.0.11 belongs to a stopped VM: VM 120 (mail) has it in its config";
    assert!(warnings(&stopped).contains(&message.to_owned()));

    let by_agent = |address: &str| {
        let mut observed = empty();
        observed.pve.addresses.push(VmAddress {
            vmid: vmid(120),
            name: None,
            address: address.parse().unwrap(),
            source: AddressSource::Agent,
            is_running: true,
        });
        errors(&plan(&desired, &observed))
    };
    let node = "cp-1: its address 10.0.0.11 is in use: the guest agent of VM 120 reports it";
    assert_eq!(by_agent("10.0.0.11"), [node]);
    let vip = "network.vip: 10.0.0.20 is in use: the guest agent of VM 120 reports it";
    assert_eq!(by_agent("10.0.0.20"), [vip]);
    // The VM of the node itself does not count as another holder of the address.
    let again = plan(&desired, &settled(&desired));
    assert_eq!(errors(&again), Vec::<String>::new());
}
