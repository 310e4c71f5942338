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

use crate::preflight::device;
use crate::support::{HEAD, desired, errors, home, plan, single};
use crate::world::{empty, foreign, host, settled, vmid};

const FACTORY: &str = "https://factory.talos.dev";
const GPU: &str = "gpu: {pci: '0000:28:00.0'}";

fn warnings(plan: &talmox_plan::plan::Plan) -> Vec<String> {
    let warnings = plan.findings.iter().filter(|one| one.severity == Severity::Warning);
    warnings.map(|one| format!("{}: {}", one.subject, one.message)).collect()
}

fn stranger(who: &str) -> PortSeen {
    PortSeen::Other(who.to_owned())
}

#[test]
fn whoever_has_the_address_of_a_new_node_is_named() {
    let desired = single("cores: 2");
    let told = |seen: Option<TalosSeen>, port: Option<PortSeen>| {
        let mut world = empty();
        world.nodes.extend(seen.map(|seen| ("cp-1".to_owned(), seen)));
        world.ports.extend(port.map(|port| (("cp-1".to_owned(), 6443), port)));
        errors(&plan(&desired, &world)).join("\n")
    };
    let other = "its SMBIOS UUID is 1, not 2".to_owned();
    assert_snapshot!(
        told(Some(TalosSeen::Maintenance { mismatch: Some(other) }), None),
        @"cp-1: its address 10.0.0.11 is in use: a Talos in maintenance mode (its SMBIOS UUID is 1, not 2) answers at port 50000"
    );
    assert_snapshot!(
        told(Some(TalosSeen::NotTalos("something that does not speak TLS".to_owned())), None),
        @"cp-1: its address 10.0.0.11 is in use: something that does not speak TLS answers at port 50000"
    );
    assert_snapshot!(
        told(Some(TalosSeen::Nothing("refused".to_owned())), Some(stranger("a TLS server"))),
        @"cp-1: its address 10.0.0.11 is in use: a TLS server answers at port 6443"
    );
    assert_snapshot!(
        told(None, Some(PortSeen::ThisCluster)),
        @"cp-1: its address 10.0.0.11 is in use: the Kubernetes API of this cluster answers at port 6443"
    );
    assert_eq!(told(Some(TalosSeen::Nothing("refused".to_owned())), None), "");
    // A VM of this cluster that is still booting gets no error, because the run waits for it.
    let mut world = settled(&desired);
    world.nodes.insert("cp-1".to_owned(), TalosSeen::NotTalos("something".to_owned()));
    assert_eq!(errors(&plan(&desired, &world)), Vec::<String>::new());
}

/// The VM of the node may have another name and other tags, and be on a host that cannot be read.
#[test]
fn a_node_that_may_be_on_a_host_that_is_down_is_not_made_anew() {
    let mut world = settled(&home());
    world.pve.vms.remove(&vmid(303)).unwrap();
    world.pve.resources.guests.retain(|guest| guest.vmid != vmid(303));
    world.nodes.insert("wk-1".to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    let told = |mut world: Observed, host: &str, was_up: bool| {
        let reason = Unobserved::Unreachable("the host does not run".to_owned());
        for number in [700, 701] {
            let unread = Unread { host: host.parse().unwrap(), reason: reason.clone() };
            world.pve.unread.insert(vmid(number), unread);
        }
        errors(&planning::plan(
            &home(),
            &world,
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
        assert_eq!(told(world.clone(), host, was_up), missing(host));
    }
    let new = Observed { are_secrets_new: true, ..world.clone() };
    assert_eq!(told(new, "pve1", false), none, "no VM can have its marker yet");
    let known = |names: &[&str]| {
        let nodes = names.iter().map(|name| (*name).to_owned()).collect();
        KubernetesSeen::Answers(Registered { nodes, ..Registered::default() })
    };
    world.kubernetes = known(&["cp-1", "wk-1"]);
    assert_eq!(told(world.clone(), "pve2", false), missing("pve2"), "it is somewhere");
    world.kubernetes = known(&["cp-1"]);
    assert_eq!(told(world, "pve1", true), none, "it is a new one");
}

/// The VM of cp-3 was created under another name, and the names in the inventory were changed since.
#[test]
fn what_cannot_be_read_keeps_etcd_from_being_bootstrapped() {
    let bootstraps = |world: &Observed| {
        let plan = planning::plan(
            &home(),
            world,
            PlanOptions { has_client_files: false, was_up: false, was_bootstrapped: false },
        );
        let is_bootstrap = |step: &plan::Step| step.id.as_str() == "etcd/bootstrap";
        (plan.steps.iter().any(is_bootstrap), errors(&plan))
    };
    let mut world = settled(&home());
    for name in ["cp-1", "cp-2", "cp-3"] {
        world.nodes.insert(name.to_owned(), TalosSeen::Nothing("timed out".to_owned()));
    }
    assert_eq!(
        bootstraps(&world),
        (true, vec![]),
        "each of them must still say that it has no data"
    );
    let told = "home: etcd is not bootstrapped: a VM that cannot be read may be a control plane with etcd data: ";
    let mut unread = world.clone();
    let (host, reason) = (host("pve2"), Unobserved::Unreadable("no such file".to_owned()));
    unread.pve.unread.insert(vmid(700), Unread { host: host.clone(), reason: reason.clone() });
    assert_eq!(bootstraps(&unread), (false, vec![format!("{told}VM 700 on pve2 (no such file)")]));
    unread.are_secrets_new = true;
    assert_eq!(bootstraps(&unread), (true, vec![]));
    let seen = VmSeen { host, is_running: true, config: Err(reason), pending: vec![] };
    world.pve.vms.insert(vmid(701), seen);
    assert_eq!(bootstraps(&world), (false, vec![format!("{told}VM 701 on pve2 (no such file)")]));
}

#[test]
fn the_virtual_address_is_the_clusters_alone() {
    let desired = home();
    let mut world = empty();
    world.vip = VipSeen::Answers(stranger("the Kubernetes API of another cluster"));
    assert_eq!(
        errors(&plan(&desired, &world)),
        [
            "network.vip: 10.0.0.20 is in use: the Kubernetes API of another cluster answers at port 6443"
        ]
    );
    world.vip = VipSeen::Answers(PortSeen::ThisCluster);
    assert_eq!(errors(&plan(&desired, &world)).len(), 1, "before there is a cluster");
    let mut world = settled(&desired);
    world.vip = VipSeen::Answers(PortSeen::ThisCluster);
    assert!(plan(&desired, &world).findings.is_empty());
    world.vip = VipSeen::Answers(stranger("something that does not speak TLS"));
    let plan = plan(&desired, &world);
    assert_eq!(errors(&plan), Vec::<String>::new());
    assert_eq!(
        warnings(&plan),
        [
            "network.vip: 10.0.0.20 does not lead to this cluster: something that does not speak TLS answers at port 6443"
        ]
    );
}

fn sources(place: &str, seen: SourceSeen) -> Observed {
    let mut world = empty();
    world.sources.insert(place.to_owned(), seen);
    world
}

#[test]
fn images_must_be_there_to_be_had() {
    let desired = single("image: {extensions: [siderolabs/i915-ucode, siderolabs/nvidia-open]}");
    let known = ["siderolabs/i915", "siderolabs/nvidia-open-gpu-kernel-modules-lts"];
    let known: BTreeSet<String> = known.map(str::to_owned).into();
    let world = sources(FACTORY, SourceSeen::Offers(Offer::Extensions(known)));
    assert_snapshot!(show::findings(&plan(&desired, &world)), @"
    error[extension-missing]: https://factory.talos.dev: the Image Factory has no extension siderolabs/nvidia-open for Talos v1.11.2
      hint: correct `image.extensions`; similar: siderolabs/nvidia-open-gpu-kernel-modules-lts
    ");
    let similar = vec!["v1.11.0".to_owned(), "v1.11.1".to_owned()];
    let world = sources(FACTORY, SourceSeen::Offers(Offer::NoSuchVersion { similar }));
    assert_snapshot!(show::findings(&plan(&desired, &world)), @"
    error[factory-version-missing]: https://factory.talos.dev: the Image Factory has no Talos v1.11.2
      hint: correct `talos_version`; available: v1.11.1, v1.11.0
    ");
    let world = sources(FACTORY, SourceSeen::Unreachable("connection refused".to_owned()));
    assert_snapshot!(show::findings(&plan(&desired, &world)), @"
    error[source-unreachable]: https://factory.talos.dev: the Image Factory cannot be queried: connection refused
      hint: check `image.factory`, and that this machine can reach it
    ");
    // With a schematic ID in the inventory, talmox need not reach the factory, because the host downloads the image.
    let named = single(&format!("image: {{schematic: {}}}", "ab".repeat(32)));
    assert_snapshot!(show::findings(&plan(&named, &world)), @"
    warning[source-unreachable]: https://factory.talos.dev: this machine cannot reach it: connection refused
      hint: check that the hosts can reach it: they download the images, and nothing was verified
    ");
    // A plan that fetches no image has no finding about image servers.
    let mut world = settled(&desired);
    world.sources.insert(FACTORY.to_owned(), SourceSeen::Unreachable("refused".to_owned()));
    assert!(plan(&desired, &world).findings.is_empty());
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
    let mut world = empty();
    let mapped = MappedDevice {
        node: host("pve1"),
        path: "0000:28:00.0".to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: Some(12),
        subsystem_id: None,
    };
    let mapped = Mapped { devices: vec![mapped], ..Mapped::default() };
    world.pve.devices.insert(host("pve1"), Ok(vec![device()]));
    world.pve.mappings = Some(Ok(vec![PciMapping { id: "rtx".parse().unwrap(), mapped }]));
    world
}

#[test]
fn a_device_is_for_one_vm_at_a_time() {
    let mut world = with_device();
    assert!(plan(&single(GPU), &world).findings.is_empty());
    for text in ["28:00,pcie=1", "mapping=rtx", "0000:28:00.0"] {
        world.pve.passed_on.insert(vmid(100), holder(&["0000:01:00.0", text], true));
        assert_eq!(
            errors(&plan(&single(GPU), &world)),
            ["cp-1: VM 100 (games) is running with the PCI device 0000:28:00.0 of pve1"],
            "{text}"
        );
        let by_name = plan(&single("gpu: {mapping: rtx}"), &world);
        assert_eq!(errors(&by_name).len(), 1, "{text}");
    }
    world.pve.passed_on.insert(vmid(100), holder(&["mapping=rtx"], false));
    let off = plan(&single(GPU), &world);
    assert_eq!(errors(&off), Vec::<String>::new());
    assert_eq!(
        warnings(&off),
        ["cp-1: VM 100 (games) also has the PCI device 0000:28:00.0 of pve1"]
    );
    world.pve.passed_on.insert(vmid(100), holder(&["28:00.1"], true));
    assert!(plan(&single(GPU), &world).findings.is_empty(), "another function");
    world.pve.passed_on.clear();
    let both = desired(&format!(
        "{HEAD}controlplane: [{{name: cp-1, ip: 10.0.0.11, {GPU}}}]\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, gpu: {{mapping: rtx}}}}]\n"
    ));
    assert_eq!(
        errors(&plan(&both, &world)),
        ["wk-1: the PCI device 0000:28:00.0 of pve1 is also assigned to cp-1"]
    );
}

#[test]
fn a_mapping_must_fit_its_host() {
    let mut world = with_device();
    let problem = "Invalid configuration: pci device '0000:28:00.0' not found\n".to_owned();
    let place = (host("pve1"), "rtx".parse().unwrap());
    world.pve.mapping_problems.insert(place, vec![problem]);
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &world)),
        [
            "cp-1: the PCI mapping rtx does not match the devices of pve1: Invalid configuration: pci device '0000:28:00.0' not found"
        ]
    );
    let mut world = with_device();
    let Some(Ok(devices)) = world.pve.devices.get_mut(&host("pve1")) else { panic!() };
    devices[0].iommu_group = None;
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &world)),
        ["cp-1: pve1 has no IOMMU: 0000:28:00.0 cannot be passed through"]
    );
    devices_of(&mut world).clear();
    assert_eq!(
        errors(&plan(&single("gpu: {mapping: rtx}"), &world)),
        ["cp-1: pve1 has no PCI device 0000:28:00.0"]
    );
    let unknown = plan(&single("gpu: {mapping: other}"), &world);
    assert_eq!(
        errors(&unknown),
        ["cp-1: PCI mapping other not found, or the token lacks Mapping.Audit on it"]
    );
    let line = "pveum acl modify /mapping/pci/other --tokens 'talmox@pve!ci' --roles TalmoxDevice";
    assert!(show::findings(&unknown).contains(line), "{}", show::findings(&unknown));
}

fn devices_of(world: &mut Observed) -> &mut Vec<PciDevice> {
    world.pve.devices.get_mut(&host("pve1")).unwrap().as_mut().unwrap()
}

#[test]
fn names_that_somebody_else_has_are_told() {
    let mut world = empty();
    foreign(&mut world, 250, "cp-1", "precious");
    let plan = plan(&single("cores: 2"), &world);
    assert_eq!(errors(&plan), Vec::<String>::new());
    let place = "cp-1: VM 250 (cp-1) on pve1 is in its place, and talmox does not manage it";
    assert_eq!(warnings(&plan), [format!("{place}: it does not carry talmox's marker")]);
}

#[test]
fn vlans_are_for_bridges_that_know_them() {
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
        let mut world = empty();
        world.pve.bridges.insert(host("pve1"), Ok(vec![bridge(kind, vlan_aware)]));
        let plan = plan(&tagged, &world);
        assert_eq!(errors(&plan), Vec::<String>::new());
        assert_eq!(warnings(&plan).len(), count, "{kind} {vlan_aware}: {:?}", plan.findings);
    }
}

#[test]
fn room_is_summed_up() {
    let gib = 1_u64 << 30;
    let mut world = empty();
    // Three control planes and two workers with a disk of 40 GiB each.
    world.pve.resources.storages[1].used = Some(701 * gib);
    assert_eq!(
        warnings(&plan(&home(), &world)),
        ["pve1/local-lvm: new disks may grow to 200 GiB, and 199 GiB are free"]
    );
    world.pve.resources.storages[1].kind = Some("lvm".to_owned());
    assert_eq!(errors(&plan(&home(), &world)).len(), 1, "no room is found later");
    let mut world = empty();
    world.pve.resources.storages[0].used = world.pve.resources.storages[0].total;
    assert_eq!(
        warnings(&plan(&home(), &world)),
        ["pve1/local: new images take about 1 GiB, and 0 GiB are free"]
    );
    // The space of a shared storage is counted once for all hosts.
    let spread = desired(&format!(
        "{}controlplane: [{{name: cp-1, ip: 10.0.0.11, disk: 150G, host: pve1}}]\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, disk: 150G, host: pve2}}]\n",
        HEAD.replace("node: pve1, ", "")
    ));
    let mut world = empty();
    for storage in
        world.pve.resources.storages.iter_mut().filter(|one| one.storage.as_str() == "local-lvm")
    {
        storage.used = Some(700 * gib);
    }
    assert_eq!(warnings(&plan(&spread, &world)), Vec::<String>::new());
    for storage in &mut world.pve.resources.storages {
        storage.shared = true;
    }
    assert_eq!(
        warnings(&plan(&spread, &world)),
        ["local-lvm: new disks may grow to 300 GiB, and 200 GiB are free"]
    );
}

#[test]
fn everything_is_in_one_report() {
    let mut world = with_device();
    world.pve.resources.pools.clear();
    let pool = world.pve.permissions.0.get_mut("/").unwrap();
    pool.insert("Pool.Audit".to_owned(), true);
    pool.remove("SDN.Use");
    pool.remove("Datastore.AllocateTemplate");
    foreign(&mut world, 250, "wk-1", "precious");
    foreign(&mut world, 300, "other", "precious");
    world.pve.passed_on.insert(vmid(100), holder(&["mapping=rtx"], true));
    world.pve.resources.storages[0].content = vec!["iso".to_owned(), "backup".to_owned()];
    world.pve.resources.hosts[0].memory = Some(60 << 30);
    world.pve.resources.storages[1].used = world.pve.resources.storages[1].total;
    world.vip =
        VipSeen::Answers(stranger("a TLS server with a certificate for nas.lan by nas.lan"));
    world
        .nodes
        .insert("cp-2".to_owned(), TalosSeen::OtherMachine("a node of another cluster".to_owned()));
    let refused = SourceSeen::Unreachable("connection refused".to_owned());
    world.sources.insert(FACTORY.to_owned(), refused);
    let desired = desired(&format!(
        "{HEAD}controlplane:\n  - {{name: cp-1, ip: 10.0.0.11, vmid: 300}}\n  \
         - {{name: cp-2, ip: 10.0.0.12, cores: 32}}\n  - {{name: cp-3, ip: 10.0.0.13}}\n\
         workers: [{{name: wk-1, ip: 10.0.0.21, {GPU}}}]\n"
    ));
    let plan = plan(&desired, &world);
    assert!(plan.findings.iter().all(|finding| finding.hint.is_some()));
    assert_snapshot!(show::findings(&plan));
}
