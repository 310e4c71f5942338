//! Tests of config settings for addresses, disks and the node object.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use talmox_lab::NodeSettings;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::{Client, Verdict};

use super::test_bed::{SCHEMATIC, TestBed, until};
use crate::kubectl::Kubectl;

const NODE_STATUS: ResourceKind<'_> = ResourceKind::new("k8s", "NodeStatuses.kubernetes.talos.dev");

async fn addresses(client: &Client) -> Vec<String> {
    let all = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
    all.into_iter()
        .map(|one| one.id)
        .filter(|id| id.starts_with("eth") && !id.contains("fe80:"))
        .collect()
}

#[test]
fn every_network_card_gets_its_config_from_the_drive() {
    let leases: BTreeMap<String, String> =
        [("bc:24:11:00:02:0b".to_owned(), "10.0.2.77/24".to_owned())].into();
    let around = NodeSettings { leases, ..NodeSettings::default() };
    let bed = TestBed::with("v1.13.6", SCHEMATIC, around);
    bed.start_with(
        11,
        &[
            ("net1", "virtio=BC:24:11:00:01:0B,bridge=vmbr0"),
            ("ipconfig1", "ip=10.0.1.11/24"),
            ("net2", "virtio=BC:24:11:00:02:0B,bridge=vmbr0"),
            ("ipconfig2", "ip=dhcp"),
        ],
    );
    let subnets = "machine:\n  kubelet:\n    nodeIP:\n      validSubnets: [10.0.1.0/24]\n  nodeLabels: {rack: r7}\n  nodeAnnotations: {example.com/owner: ops}\n  nodeTaints: {dedicated: 'db:NoSchedule'}\ncluster:\n  etcd:\n    advertisedSubnets: ['!10.0.0.0/24', '!10.0.2.0/24']\n";
    bed.lab.wait(async {
        let config = bed.patched(11, true, subnets);
        let client = bed.configure_with(11, &config).await;
        let all = ["eth0/10.0.0.11/24", "eth1/10.0.1.11/24", "eth2/10.0.2.77/24"];
        assert_eq!(addresses(&client).await, all);
        let node = client.get(ResourceKind::NODE_IP, "kubelet").await.unwrap().unwrap();
        let text = node.yaml().expose();
        assert!(text.contains("10.0.1.11") && !text.contains("10.0.0.11"), "{text}");

        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        bed.ready(&client).await;
        let members = client.etcd_members().await.unwrap();
        assert_eq!(members[0].peer_urls, ["https://10.0.1.11:2380"]);
        let status =
            until("the node object", || async { client.get(NODE_STATUS, "node-11").await.ok()? })
                .await;
        let text = status.yaml().expose();
        assert!(text.contains("rack: r7") && text.contains("example.com/owner: ops"), "{text}");
        // Settings that are removed from the config are removed from the Node object as well.
        let bare = bed.patched(11, true, &subnets.replace("{example.com/owner: ops}", "{}"));
        let apply = talmox_talos_api::client::Apply {
            config: &bare,
            mode: talmox_talos_api::client::ApplyMode::NoReboot,
            dry_run: false,
        };
        client.apply(&apply).await.unwrap();
        until("the node object without the label", || async {
            let status: Resource = client.get(NODE_STATUS, "node-11").await.ok()??;
            (!status.yaml().expose().contains("example.com/owner: ops")).then_some(())
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn vlans_and_bonds_are_links_and_can_have_a_shared_address() {
    let networks = vec![Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(10, 0, 20, 0)];
    let around = NodeSettings { networks, ..NodeSettings::default() };
    let bed = TestBed::with("v1.13.6", SCHEMATIC, around);
    let more = [
        ("net1", "virtio=BC:24:11:00:01:0B,bridge=vmbr0"),
        ("net2", "virtio=BC:24:11:00:02:0B,bridge=vmbr0"),
    ];
    bed.start_with(11, &more);
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector: {hardwareAddr: bc:24:11:00:00:0b}\n        addresses: [10.0.0.11/24]\n        vlans:\n          - vlanId: 20\n            addresses: [10.0.20.11/24]\n            vip: {ip: 10.0.20.50}\n      - interface: bond0\n        addresses: [10.0.1.11/24]\n        bond: {mode: active-backup, interfaces: [eth1, eth2]}\n";
    bed.lab.wait(async {
        let client = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        let link =
            async |name: &str| client.get(ResourceKind::LINK_STATUS, name).await.unwrap().unwrap();
        let of = async |name: &str, keys: &[&str]| -> Vec<String> {
            let link = link(name).await;
            keys.iter().map(|key| link.text(key).unwrap_or_default()).collect()
        };
        let card = of("eth0", &["index"]).await;
        let vlan = of("eth0.20", &["linkIndex", "kind", "vlan.vlanID", "hardwareAddr"]).await;
        assert_eq!(vlan, [card[0].as_str(), "vlan", "20", "bc:24:11:00:00:0b"]);
        let bond = of("bond0", &["index", "kind", "bondMaster.mode", "operationalState"]).await;
        assert_eq!(bond[1..], ["bond", "active-backup", "up"]);
        // All members of a bond use the MAC address of the first member. Each member keeps its permanent address.
        let second =
            of("eth2", &["masterIndex", "slaveKind", "hardwareAddr", "permanentAddr"]).await;
        let macs = ["bc:24:11:00:01:0b", "bc:24:11:00:02:0b"];
        assert_eq!(second, [bond[0].as_str(), "bond", macs[0], macs[1]]);
        let addresses = async || {
            let all = client.list(ResourceKind::ADDRESS_STATUS).await.unwrap();
            let ids = all.into_iter().map(|one| one.id);
            ids.filter(|id| !id.starts_with("lo/") && !id.contains("fe80:"))
                .collect::<BTreeSet<_>>()
        };
        let own = ["eth0/10.0.0.11/24", "eth0.20/10.0.20.11/24", "bond0/10.0.1.11/24"];
        let own = own.map(str::to_owned).into();
        assert_eq!(addresses().await, own);

        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        until("the shared address", || async {
            addresses().await.contains("eth0.20/10.0.20.50/32").then_some(())
        })
        .await;
        let reach = bed.lab.lab().ready().reach;
        let shared = format!("{}:6443", reach["10.0.20.50"]);
        until("the Kubernetes API on the shared address", || async {
            tokio::net::TcpStream::connect(&shared).await.ok()
        })
        .await;
    });
    bed.lab.stop();
}

#[test]
fn a_linked_clone_on_files_boots_from_its_own_disk() {
    let hosts = "storages: [{storage: local, type: dir, path: /var/lib/vz, content: 'iso,import,images'}, {storage: local-lvm, type: lvmthin, vgname: pve, thinpool: data, content: images}]";
    let bed = TestBed::on(hosts, "v1.13.6", SCHEMATIC);
    bed.run(
        "/nodes/pve/qemu",
        "vmid=900&memory=4096&scsi0=local:0,import-from%3Dlocal:import/talos.qcow2",
    );
    bed.run("/nodes/pve/qemu/900/template", "");
    bed.run("/nodes/pve/qemu/900/clone", "newid=111");
    bed.set(
        11,
        "ide2=local-lvm:cloudinit&ipconfig0=ip%3D10.0.0.11/24&net0=virtio%3DBC:24:11:00:00:0B,bridge%3Dvmbr0&boot=order%3Dscsi0",
    );
    bed.power(11, "start");
    bed.lab.wait(async {
        let client = bed.maintenance(11);
        until("maintenance mode", || async {
            client.list(ResourceKind::ADDRESS_STATUS).await.ok()
        })
        .await;
        // The clone writes data to its own disk. The data is still there after a restart.
        bed.configure(11, true).await;
    });
    bed.lab.stop();
}

/// A DHCP lease provides a default route, resolvers and time servers. The route has the leased address as its source, and the
/// protocol `boot`.
#[test]
fn a_lease_brings_a_route_a_resolver_and_a_time_server() {
    let leases = [("bc:24:11:00:00:0b".to_owned(), "10.0.0.11/24".to_owned())].into();
    let bed =
        TestBed::with("v1.13.6", SCHEMATIC, NodeSettings { leases, ..NodeSettings::default() });
    bed.start_with(11, &[("ide2", "none,media=cdrom"), ("ipconfig0", "ip=dhcp")]);
    let kind = |name: &'static str| ResourceKind::new("network", name);
    bed.lab.wait(async {
        let client = bed.maintenance(11);
        let spec = async |name: &'static str, id: &'static str| {
            let found = client.get(kind(name), id).await.ok()??;
            Some(found.yaml().expose().to_owned())
        };
        let route =
            until("the route", || spec("RouteStatuses.net.talos.dev", "inet4/10.0.0.1//1024"));
        let route = route.await;
        for line in ["gateway: 10.0.0.1", "src: 10.0.0.11", "outLinkName: eth0", "protocol: boot"] {
            assert!(route.contains(line), "{line}\n{route}");
        }
        for (name, id, lines) in [
            ("ResolverStatuses.net.talos.dev", "resolvers", ["dnsServers:", "- 10.0.0.1"]),
            ("ResolverSpecs.net.talos.dev", "resolvers", ["- 10.0.0.1", "layer: operator"]),
            ("TimeServerStatuses.net.talos.dev", "timeservers", ["timeServers:", "- 10.0.0.1"]),
            ("TimeServerSpecs.net.talos.dev", "timeservers", ["- 10.0.0.1", "layer: operator"]),
        ] {
            let text = spec(name, id).await.unwrap();
            assert!(lines.iter().all(|line| text.contains(line)), "{name}\n{text}");
        }
        // The machine config replaces the resolvers and the time servers.
        let patch =
            "machine:\n  network: {nameservers: [9.9.9.9]}\n  time: {servers: [time.example]}\n";
        let client = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        let servers = client.get(kind("ResolverSpecs.net.talos.dev"), "resolvers").await;
        let text = servers.unwrap().unwrap().yaml().expose().to_owned();
        assert!(text.contains("9.9.9.9") && !text.contains("10.0.0.1"), "{text}");
        assert!(text.contains("layer: configuration"), "{text}");
        let servers = client.get(kind("TimeServerStatuses.net.talos.dev"), "timeservers").await;
        let text = servers.unwrap().unwrap().yaml().expose().to_owned();
        assert!(text.contains("time.example") && !text.contains("10.0.0.1"), "{text}");
    });
    bed.lab.stop();
}

#[test]
fn a_cluster_works_with_a_single_loopback_address() {
    let around = NodeSettings { has_one_loopback: true, ..NodeSettings::default() };
    let bed = TestBed::with("v1.13.6", SCHEMATIC, around);
    for number in [11, 21] {
        bed.start(number);
    }
    let reach = bed.lab.lab().ready().reach;
    assert!(!reach.contains_key("10.0.0.11"));
    for at in ["10.0.0.11:50000", "10.0.0.21:50000", "10.0.0.50:6443"] {
        assert!(reach[at].starts_with("127.0.0.1:"), "{at}: {}", reach[at]);
    }
    let patch = "machine:\n  network:\n    interfaces:\n      - interface: eth0\n        addresses: [10.0.0.11/24]\n        vip: {ip: 10.0.0.50}\n";
    let kubeconfig = bed.lab.wait(async {
        let plane = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        until("bootstrap", || async { plane.bootstrap().await.ok() }).await;
        bed.ready(&plane).await;
        let worker = bed.configure(21, false).await;
        bed.ready(&worker).await;
        plane.kubeconfig().await.unwrap()
    });
    // kubectl does not use the reach map of the lab, so it connects to the loopback address of the shared endpoint.
    let kubeconfig = kubeconfig.expose().replace("10.0.0.11:6443", &reach["10.0.0.50:6443"]);
    if let Some(kubectl) = Kubectl::find(&kubeconfig) {
        kubectl.run("wait --for=condition=Ready nodes --all --timeout=90s");
        let nodes = kubectl.run("get nodes");
        assert!(nodes.contains("node-11") && nodes.contains("node-21"), "{nodes}");
    }
    bed.lab.stop();
}

#[test]
fn volumes_are_on_a_matching_disk_or_report_that_none_matches() {
    let bed = TestBed::new("v1.13.6");
    bed.start_with(11, &[("scsi1", "local-lvm:50")]);
    let volume = |name: &str, wanted: &str, least: &str| {
        format!(
            "---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: {name}\nprovisioning:\n  diskSelector:\n    match: {wanted}\n  minSize: {least}\n  maxSize: 20GiB\n"
        )
    };
    let documents = [
        volume("data", "'!system_disk'", "10GiB"),
        volume("huge", "'!system_disk'", "100GiB").replace("20GiB", "200GiB"),
        volume("fast", "disk.transport == 'nvme'", "1GiB"),
        "---\napiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning:\n  maxSize: 8GiB\n"
            .to_owned(),
        volume("rest", "system_disk", "1GiB"),
    ];
    bed.lab.wait(async {
        let config = bed.config(11, true);
        let config = format!("{}{}", config.expose(), documents.concat());
        let config = talmox_talos_config::secret::SecretText::new(config);
        let client = bed.configure_with(11, &config).await;
        let volumes = client.list(ResourceKind::VOLUME_STATUS).await.unwrap();
        let of = |id: &str, key: &str| {
            let found = volumes.iter().find(|volume| volume.id == id).expect(id);
            found.text(key).unwrap_or_default()
        };
        // The device letter of the system disk can change at each boot.
        let disks = client.disks().await.unwrap();
        let system = disks.iter().find(|disk| disk.system_disk).unwrap().device_name.clone();
        assert_eq!(of("u-data", "phase"), "ready");
        assert_ne!(of("u-data", "parentLocation"), system);
        assert_eq!(of("u-data", "location"), format!("{}1", of("u-data", "parentLocation")));
        assert_eq!(of("u-data", "size"), (20_u64 << 30).to_string());
        assert_eq!(of("u-huge", "phase"), "failed");
        assert!(of("u-huge", "errorMessage").contains("1 have not enough space"));
        assert_eq!(of("u-fast", "errorMessage"), "no disks matched selector for volume");
        assert_eq!(of("EPHEMERAL", "size"), (8_u64 << 30).to_string());
        assert_eq!(of("u-rest", "phase"), "ready");
        assert_eq!(of("u-rest", "parentLocation"), system);
    });
    bed.lab.stop();
}

#[test]
fn talos_is_installed_on_the_selected_disk() {
    let bed = TestBed::new("v1.13.6");
    let url = bed.image_url("nocloud-amd64.iso");
    bed.download("iso", "talos.iso", &url);
    let from_cd = [
        ("ide0", "local:iso/talos.iso,media=cdrom"),
        ("scsi0", "local-lvm:20"),
        ("scsi1", "local-lvm:40"),
        ("boot", "order=scsi0;scsi1;ide0"),
    ];
    bed.start_with(11, &from_cd);
    bed.lab.wait(async {
        let none = "machine:\n  install:\n    diskSelector:\n      size: '>= 1TB'\n";
        bed.apply(11, &bed.patched(11, true, none)).await;
        let anonymous = bed.maintenance(11);
        // No disk matches, so the installation fails and the node reboots into maintenance mode.
        until("maintenance mode after the reboot", || async {
            let status = anonymous.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()??;
            status.text("stage").filter(|stage| stage == "maintenance")
        })
        .await;
        let larger = "machine:\n  install:\n    diskSelector:\n      size: '> 30GB'\n";
        let client = bed.configure_with(11, &bed.patched(11, true, larger)).await;
        let disks = client.disks().await.unwrap();
        let system = disks.iter().find(|disk| disk.system_disk).unwrap();
        assert_eq!(system.size, 40 << 30);
    });
    // Although the CD is first in the boot order, the installed system is used.
    bed.stop(11);
    bed.set(11, "boot=order%3Dide0%3Bscsi1");
    bed.power(11, "start");
    bed.start(12);
    bed.lab.wait(async {
        let other = bed.maintenance(12);
        until("the machine that was started later", || async {
            other.get(ResourceKind::MACHINE_STATUS, "machine").await.ok()?
        })
        .await;
        assert!(matches!(bed.probe(11).await, Verdict::Nothing(_)));
        assert!(bed.is_running(11));
    });
    bed.stop(11);
    bed.set(11, "boot=order%3Dscsi1%3Bide0");
    bed.power(11, "start");
    bed.lab.wait(async {
        let client = bed.client(11);
        until("the installed system", || async { client.version().await.ok() }).await;
    });
    bed.lab.stop();
}
