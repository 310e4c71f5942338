//! Findings about other machines, other VMs, devices, storages and image servers.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use talmox_plan::observed::{
    KubernetesSeen, Observed, Offer, PassedOn, PortSeen, Registered, SourceSeen, TalosSeen,
    Unobserved, Unread, VipSeen, VmSeen,
};
use talmox_plan::plan::{self, Severity, show};
use talmox_plan::planning::{self, PlanOptions};
use talmox_pve_types::api::mapping::{Mapped, MappedDevice, PciMapping};
use talmox_pve_types::api::node::{Bridge, PciDevice};
use talmox_pve_types::property::HostPci;

use crate::observed_state::{empty, foreign, host, settled, vmid};
use crate::preflight::device;
use crate::support::{HEAD, desired, errors, home, plan, single};

const FACTORY: &str = "https://factory.talos.dev";
const GPU: &str = "gpu: {pci: '0000:28:00.0'}";

fn warnings(plan: &talmox_plan::plan::Plan) -> Vec<String> {
    let warnings = plan.findings.iter().filter(|one| one.severity == Severity::Warning);
    warnings.map(|one| format!("{}: {}", one.subject, one.message)).collect()
}

fn other_server(who: &str) -> PortSeen {
    PortSeen::Other(who.to_owned())
}

#[test]
fn another_machine_at_the_address_of_a_new_node_is_reported() {
    let desired = single("cores: 2");
    let reported = |seen: Option<TalosSeen>, port: Option<PortSeen>| {
        let mut observed = empty();
        observed.nodes.extend(seen.map(|seen| ("cp-1".to_owned(), seen)));
        observed.ports.extend(port.map(|port| (("cp-1".to_owned(), 6443), port)));
        errors(&plan(&desired, &observed)).join("\n")
    };
    let other = "its SMBIOS UUID is 1, not 2".to_owned();
    assert_snapshot!(
        reported(Some(TalosSeen::Maintenance { mismatch: Some(other) }), None),
        @"cp-1: its address 10.0.0.11 is in use: a Talos in maintenance mode (its SMBIOS UUID is 1, not 2) answers at port 50000"
    );
    assert_snapshot!(
        reported(Some(TalosSeen::NotTalos("something that does not speak TLS".to_owned())), None),
        @"cp-1: its address 10.0.0.11 is in use: something that does not speak TLS answers at port 50000"
    );
    assert_snapshot!(
        reported(Some(TalosSeen::Nothing("connection refused".to_owned())), Some(other_server("a TLS server"))),
        @"cp-1: its address 10.0.0.11 is in use: a TLS server answers at port 6443"
    );
    assert_snapshot!(
        reported(None, Some(PortSeen::ThisCluster)),
        @"cp-1: its address 10.0.0.11 is in use: the Kubernetes API of this cluster answers at port 6443"
    );
    assert_eq!(reported(Some(TalosSeen::Nothing("connection refused".to_owned())), None), "");
    // A VM of this cluster that is still booting gets no error, because the run waits for it.
    let mut observed = settled(&desired);
    observed.nodes.insert("cp-1".to_owned(), TalosSeen::NotTalos("something".to_owned()));
    assert_eq!(errors(&plan(&desired, &observed)), Vec::<String>::new());
}

/// The VM of the node may have another name and other tags, and be on a host that cannot be read.
#[test]
fn a_node_that_may_be_on_an_offline_host_is_not_created_again() {
    let mut observed = settled(&home());
    observed.pve.vms.remove(&vmid(303)).unwrap();
    observed.pve.resources.guests.retain(|guest| guest.vmid != vmid(303));
    observed.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    let reported = |mut observed: Observed, host: &str, was_up: bool| {
        let reason = Unobserved::Unreachable("the host does not run".to_owned());
        for number in [700, 701] {
            let unread = Unread { host: host.parse().unwrap(), reason: reason.clone() };
            observed.pve.unread.insert(vmid(number), unread);
        }
        errors(&planning::plan(
            &home(),
            &observed,
            PlanOptions { has_client_files: true, was_up, was_bootstrapped: false },
        ))
    };
    let missing = |host: &str| {
        vec![format!(
            "wk-1: its VM is missing, and may be one that cannot be read, under another name: \
             VM 700 on {host} (the host does not run), or 1 more"
        )]
    };
    let none = Vec::<String>::new();
    for (host, was_up) in [("pve1", true), ("pve1", false), ("pve2", true), ("pve2", false)] {
        // A new checkout of the repository has no client files, and `host:` can be edited.
        assert_eq!(reported(observed.clone(), host, was_up), missing(host));
    }
    let new = Observed { are_secrets_new: true, ..observed.clone() };
    assert_eq!(reported(new, "pve1", false), none, "no VM can have its marker yet");
    let known = |names: &[&str]| {
        let nodes = names.iter().map(|name| (*name).to_owned()).collect();
        KubernetesSeen::Answers(Registered { nodes, ..Registered::default() })
    };
    observed.kubernetes = known(&["cp-1", "wk-1"]);
    assert_eq!(reported(observed.clone(), "pve2", false), missing("pve2"), "it is somewhere");
    observed.kubernetes = known(&["cp-1"]);
    assert_eq!(reported(observed, "pve1", true), none, "it is a new one");
}

/// The VM of cp-3 was created under another name, and the names in the inventory were changed since.
#[test]
fn unreadable_vms_prevent_a_bootstrap() {
    let bootstraps = |observed: &Observed| {
        let plan = planning::plan(
            &home(),
            observed,
            PlanOptions { has_client_files: false, was_up: false, was_bootstrapped: false },
        );
        let is_bootstrap = |step: &plan::Step| step.id.as_str() == "etcd/bootstrap";
        (plan.steps.iter().any(is_bootstrap), errors(&plan))
    };
    let mut observed = settled(&home());
    for name in ["cp-1", "cp-2", "cp-3"] {
        observed.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    assert_eq!(
        bootstraps(&observed),
        (true, vec![]),
        "each of them must still say that it has no data"
    );
    let reported = "home: etcd is not bootstrapped: a VM that cannot be read may be a control plane with etcd data: ";
    let mut unread = observed.clone();
    let (host, reason) = (host("pve2"), Unobserved::Unreadable("no such file".to_owned()));
    unread.pve.unread.insert(vmid(700), Unread { host: host.clone(), reason: reason.clone() });
    assert_eq!(
        bootstraps(&unread),
        (false, vec![format!("{reported}VM 700 on pve2 (no such file)")])
    );
    unread.are_secrets_new = true;
    assert_eq!(bootstraps(&unread), (true, vec![]));
    let seen = VmSeen { host, is_running: true, config: Err(reason), pending: vec![] };
    observed.pve.vms.insert(vmid(701), seen);
    assert_eq!(
        bootstraps(&observed),
        (false, vec![format!("{reported}VM 701 on pve2 (no such file)")])
    );
}

#[test]
fn a_shared_address_in_use_is_an_error() {
    let desired = home();
    let mut observed = empty();
    observed.vip = VipSeen::Answers(other_server("the Kubernetes API of another cluster"));
    assert_eq!(
        errors(&plan(&desired, &observed)),
        [
            "network.vip: 10.0.0.20 is in use: the Kubernetes API of another cluster answers at port 6443"
        ]
    );
    observed.vip = VipSeen::Answers(PortSeen::ThisCluster);
    assert_eq!(errors(&plan(&desired, &observed)).len(), 1, "before there is a cluster");
    let mut observed = settled(&desired);
    observed.vip = VipSeen::Answers(PortSeen::ThisCluster);
    assert!(plan(&desired, &observed).findings.is_empty());
    observed.vip = VipSeen::Answers(other_server("something that does not speak TLS"));
    let plan = plan(&desired, &observed);
    assert_eq!(errors(&plan), Vec::<String>::new());
    assert_eq!(
        warnings(&plan),
        [
            "network.vip: 10.0.0.20 does not lead to this cluster: something that does not speak TLS answers at port 6443"
        ]
    );
}

fn sources(place: &str, seen: SourceSeen) -> Observed {
    let mut observed = empty();
    observed.sources.insert(place.to_owned(), seen);
    observed
}

#[test]
fn missing_images_are_errors() {
    let desired = single("image: {extensions: [siderolabs/i915-ucode, siderolabs/nvidia-open]}");
    let known = ["siderolabs/i915", "siderolabs/nvidia-open-gpu-kernel-modules-lts"];
    let known: BTreeSet<String> = known.map(str::to_owned).into();
    let observed = sources(FACTORY, SourceSeen::Offers(Offer::Extensions(known)));
    assert_snapshot!(show::findings(&plan(&desired, &observed)), @"
    error[extension-missing]: https://factory.talos.dev: the Image Factory has no extension siderolabs/nvidia-open for Talos v1.11.2
      hint: correct `image.extensions`; similar: siderolabs/nvidia-open-gpu-kernel-modules-lts
    ");
    let similar = vec!["v1.11.0".to_owned(), "v1.11.1".to_owned()];
    let observed = sources(FACTORY, SourceSeen::Offers(Offer::NoSuchVersion { similar }));
    assert_snapshot!(show::findings(&plan(&desired, &observed)), @"
    error[factory-version-missing]: https://factory.talos.dev: the Image Factory has no Talos v1.11.2
      hint: correct `talos_version`; available: v1.11.1, v1.11.0
    ");
    let observed = sources(FACTORY, SourceSeen::Unreachable("connection refused".to_owned()));
    assert_snapshot!(show::findings(&plan(&desired, &observed)), @"
    error[source-unreachable]: https://factory.talos.dev: the Image Factory cannot be queried: connection refused
      hint: check `image.factory`, and that this machine can reach it
    ");
    // With a schematic ID in the inventory, talmox need not reach the factory, because the host downloads the image.
    let named = single(&format!("image: {{schematic: {}}}", "ab".repeat(32)));
    assert_snapshot!(show::findings(&plan(&named, &observed)), @"
    warning[source-unreachable]: https://factory.talos.dev: this machine cannot reach it: connection refused
      hint: check that the hosts can reach it: they download the images, and nothing was verified
    ");
    // A plan that fetches no image has no finding about image servers.
    let mut observed = settled(&desired);
    observed
        .sources
        .insert(FACTORY.to_owned(), SourceSeen::Unreachable("connection refused".to_owned()));
    assert!(plan(&desired, &observed).findings.is_empty());
}

fn holder(devices: &[&str], is_running: bool) -> PassedOn {
    PassedOn {
        host: host("pve1"),
        name: Some("games".to_owned()),
        is_running,
        devices: devices.iter().map(|text| HostPci::parse(text)).collect(),
    }
}

/// An observed state in which the PCI device exists and has a mapping.
fn with_device() -> Observed {
    let mut observed = empty();
    let mapped = MappedDevice {
        node: host("pve1"),
        path: "0000:28:00.0".to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: Some(12),
        subsystem_id: None,
    };
    let mapped = Mapped { devices: vec![mapped], ..Mapped::default() };
    observed.pve.devices.insert(host("pve1"), Ok(vec![device()]));
    observed.pve.mappings = Some(Ok(vec![PciMapping { id: "rtx".parse().unwrap(), mapped }]));
    observed
}

#[test]
fn a_device_in_use_by_another_vm_is_an_error() {
    let mut observed = with_device();
    assert!(plan(&single(GPU), &observed).findings.is_empty());
    for text in ["28:00,pcie=1", "mapping=rtx", "0000:28:00.0"] {
        observed.pve.passed_on.insert(vmid(100), holder(&["0000:01:00.0", text], true));
        assert_eq!(
            errors(&plan(&single(GPU), &observed)),
            ["cp-1: VM 100 (games) is running with the PCI device 0000:28:00.0 of pve1"],
            "{text}"
        );
        let by_name = plan(&single("gpu: {mapping: rtx}"), &observed);
        assert_eq!(errors(&by_name).len(), 1, "{text}");
    }
    observed.pve.passed_on.insert(vmid(100), holder(&["mapping=rtx"], false));
    let off = plan(&single(GPU), &observed);
    assert_eq!(errors(&off), Vec::<String>::new());
    assert_eq!(
        warnings(&off),
        ["cp-1: VM 100 (games) also has the PCI device 0000:28:00.0 of pve1"]
    );
    observed.pve.passed_on.insert(vmid(100), holder(&["28:00.1"], true));
    assert!(plan(&single(GPU), &observed).findings.is_empty(), "another function");
    observed.pve.passed_on.clear();
    let both = desired(&format!(
        "{HEAD}controlplane: [{{name: cp-1, ip: 10.0.0.11, {GPU}}}]\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, gpu: {{mapping: rtx}}}}]\n"
    ));
    assert_eq!(
        errors(&plan(&both, &observed)),
        ["wk-1: the PCI device 0000:28:00.0 of pve1 is also assigned to cp-1"]
    );
}

#[test]
fn a_mapping_must_match_its_host() {
    let mut observed = with_device();
    let problem = "Invalid configuration: pci device '0000:28:00.0' not found\n".to_owned();
    let place = (host("pve1"), "rtx".parse().unwrap());
    observed.pve.mapping_problems.insert(place, vec![problem]);
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &observed)),
        [
            "cp-1: the PCI mapping rtx does not match the devices of pve1: Invalid configuration: pci device '0000:28:00.0' not found"
        ]
    );
    let mut observed = with_device();
    let Some(Ok(devices)) = observed.pve.devices.get_mut(&host("pve1")) else { panic!() };
    devices[0].iommu_group = None;
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &observed)),
        ["cp-1: pve1 has no IOMMU: 0000:28:00.0 cannot be passed through"]
    );
    devices_of(&mut observed).clear();
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &observed)),
        ["cp-1: pve1 has no PCI device 0000:28:00.0"]
    );
    let unknown = plan(&single("gpu: {mapping: other}"), &observed);
    assert_eq!(
        errors(&unknown),
        ["cp-1: PCI mapping other not found, or the token lacks Mapping.Audit on it"]
    );
    let line = "pveum acl modify /mapping/pci/other --tokens 'talmox@pve!ci' --roles TalmoxDevice";
    assert!(show::findings(&unknown).contains(line), "{}", show::findings(&unknown));
}

fn devices_of(observed: &mut Observed) -> &mut Vec<PciDevice> {
    observed.pve.devices.get_mut(&host("pve1")).unwrap().as_mut().unwrap()
}

#[test]
fn foreign_vms_with_the_name_of_a_node_are_reported() {
    let mut observed = empty();
    foreign(&mut observed, 250, "cp-1", "precious");
    let plan = plan(&single("cores: 2"), &observed);
    assert_eq!(errors(&plan), Vec::<String>::new());
    let place = "cp-1: VM 250 (cp-1) on pve1 has the vmid, name or UUID of this node, but talmox does not manage it";
    assert_eq!(warnings(&plan), [format!("{place}: it does not carry talmox's marker")]);
}

#[test]
fn a_vlan_needs_a_vlan_aware_bridge() {
    let bridge = |kind: &str, vlan_aware| Bridge {
        name: "vmbr0".parse().unwrap(),
        kind: kind.to_owned(),
        active: true,
        vlan_aware,
        cidr: None,
        comments: None,
    };
    let tagged = single("vlan: 40");
    for (kind, vlan_aware, count) in [("bridge", false, 1), ("bridge", true, 0), ("vnet", false, 0)]
    {
        let mut observed = empty();
        observed.pve.bridges.insert(host("pve1"), Ok(vec![bridge(kind, vlan_aware)]));
        let plan = plan(&tagged, &observed);
        assert_eq!(errors(&plan), Vec::<String>::new());
        assert_eq!(warnings(&plan).len(), count, "{kind} {vlan_aware}: {:?}", plan.findings);
    }
}

#[test]
fn the_needed_space_of_all_disks_is_added() {
    let gib = 1_u64 << 30;
    let mut observed = empty();
    // Three control planes and two workers with a disk of 40 GiB each.
    observed.pve.resources.storages[1].used = Some(701 * gib);
    assert_eq!(
        warnings(&plan(&home(), &observed)),
        ["pve1/local-lvm: new disks may grow to 200 GiB, and 199 GiB are free"]
    );
    observed.pve.resources.storages[1].kind = Some("lvm".to_owned());
    assert_eq!(errors(&plan(&home(), &observed)).len(), 1, "no room is found later");
    let mut observed = empty();
    observed.pve.resources.storages[0].used = observed.pve.resources.storages[0].total;
    assert_eq!(
        warnings(&plan(&home(), &observed)),
        ["pve1/local: new images take about 1 GiB, and 0 GiB are free"]
    );
    // The space of a shared storage is counted once for all hosts.
    let spread = desired(&format!(
        "{}controlplane: [{{name: cp-1, ip: 10.0.0.11, disk: 150G, host: pve1}}]\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, disk: 150G, host: pve2}}]\n",
        HEAD.replace("node: pve1, ", "")
    ));
    let mut observed = empty();
    for storage in
        observed.pve.resources.storages.iter_mut().filter(|one| one.storage.as_str() == "local-lvm")
    {
        storage.used = Some(700 * gib);
    }
    assert_eq!(warnings(&plan(&spread, &observed)), Vec::<String>::new());
    for storage in &mut observed.pve.resources.storages {
        storage.shared = true;
    }
    assert_eq!(
        warnings(&plan(&spread, &observed)),
        ["local-lvm: new disks may grow to 300 GiB, and 200 GiB are free"]
    );
}

#[test]
fn all_findings_are_in_one_report() {
    let mut observed = with_device();
    observed.pve.resources.pools.clear();
    let pool = observed.pve.permissions.0.get_mut("/").unwrap();
    pool.insert("Pool.Audit".to_owned(), true);
    pool.remove("SDN.Use");
    pool.remove("Datastore.AllocateTemplate");
    foreign(&mut observed, 250, "wk-1", "precious");
    foreign(&mut observed, 300, "other", "precious");
    observed.pve.passed_on.insert(vmid(100), holder(&["mapping=rtx"], true));
    observed.pve.resources.storages[0].content = vec!["iso".to_owned(), "backup".to_owned()];
    observed.pve.resources.hosts[0].memory = Some(60 << 30);
    observed.pve.resources.storages[1].used = observed.pve.resources.storages[1].total;
    observed.vip =
        VipSeen::Answers(other_server("a TLS server with a certificate for nas.lan by nas.lan"));
    observed
        .nodes
        .insert("cp-2".to_owned(), TalosSeen::OtherMachine("a node of another cluster".to_owned()));
    let rejected = SourceSeen::Unreachable("connection refused".to_owned());
    observed.sources.insert(FACTORY.to_owned(), rejected);
    let desired = desired(&format!(
        "{HEAD}controlplane:\n  - {{name: cp-1, ip: 10.0.0.11, vmid: 300}}\n  \
         - {{name: cp-2, ip: 10.0.0.12, cores: 32}}\n  - {{name: cp-3, ip: 10.0.0.13}}\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, {GPU}}}]\n"
    ));
    let plan = plan(&desired, &observed);
    assert!(plan.findings.iter().all(|finding| finding.hint.is_some()));
    assert_snapshot!(show::findings(&plan));
}
