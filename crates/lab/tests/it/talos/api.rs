//! Tests of the Talos API, in maintenance mode and on a configured node.

use talmox_talos_api::client::{Apply, ApplyMode, LogSource, ResourceKind, Service};
use talmox_talos_api::{Code, TalosError};
use talmox_talos_config::client::ClientRole;

use super::test_bed::{SCHEMATIC_ID, TestBed, until};

fn code(error: TalosError) -> (Code, String) {
    match error {
        TalosError::No { code, message, .. } => (code, message),
        other => panic!("{other:?}"),
    }
}

async fn text(
    client: &talmox_talos_api::Client,
    kind: ResourceKind<'_>,
    id: &str,
    path: &str,
) -> Option<String> {
    client.get(kind, id).await.ok()??.text(path)
}

#[test]
fn maintenance_mode_serves_only_basic_information() {
    for (version, is_unified) in [("v1.12.7", false), ("v1.13.6", true)] {
        let bed = TestBed::new(version);
        bed.start(11);
        bed.lab.wait(async {
            let client = bed.maintenance(11);
            let machine = until("maintenance mode", || async {
                text(&client, ResourceKind::SYSTEM_INFORMATION, "systeminformation", "uuid").await
            });
            assert_eq!(machine.await, "01234567-89ab-4def-8123-45678900000b");
            let links = client.list(ResourceKind::LINK_STATUS).await.unwrap();
            let card = links.iter().find(|link| link.id == "eth0").unwrap();
            assert_eq!(card.text("permanentAddr").unwrap(), "bc:24:11:00:00:0b");
            let stage = text(&client, ResourceKind::MACHINE_STATUS, "machine", "stage").await;
            assert_eq!(stage.unwrap(), "maintenance");
            let disks = client.disks().await.unwrap();
            let system = disks.iter().find(|disk| disk.system_disk).unwrap();
            assert_eq!((system.device_name.as_str(), system.size), ("/dev/sda", 20 << 30));

            let secret = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await;
            assert_eq!(code(secret.unwrap_err()).0, Code::PermissionDenied);
            let (bootstrap, wanted) =
                (client.bootstrap().await.unwrap_err(), client.version().await);
            if is_unified {
                assert_eq!(wanted.unwrap().tag, version);
                let rejected = (Code::PermissionDenied, "not authorized".to_owned());
                assert_eq!(code(bootstrap), rejected);
            } else {
                let rejected = "API is not implemented in maintenance mode".to_owned();
                assert_eq!(code(wanted.unwrap_err()), (Code::Unimplemented, rejected.clone()));
                assert_eq!(code(bootstrap), (Code::Unimplemented, rejected));
            }
        });
        bed.lab.stop();
    }
}

#[test]
fn a_single_node_cluster_is_bootstrapped() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let again = client.bootstrap().await.unwrap_err();
        assert_eq!(code(again).0, Code::AlreadyExists);

        let version = client.version().await.unwrap();
        assert_eq!((version.tag.as_str(), version.platform.as_str()), ("v1.13.6", "nocloud"));
        assert_eq!(client.hostname().await.unwrap(), "node-11");
        let services = client.services().await.unwrap();
        for wanted in ["apid", "etcd", "kubelet", "cri", "trustd"] {
            let service = services.iter().find(|service| service.id == wanted);
            assert!(service.is_some_and(Service::is_fine), "{wanted}: {services:?}");
        }
        let members = client.etcd_members().await.unwrap();
        assert_eq!(members.iter().map(|m| m.hostname.as_str()).collect::<Vec<_>>(), ["node-11"]);
        let kubeconfig = client.kubeconfig().await.unwrap();
        assert!(kubeconfig.expose().contains("server: https://10.0.0.11:6443\n"));

        let extensions = client.list(ResourceKind::EXTENSION_STATUS).await.unwrap();
        let schematic = extensions.iter().find_map(|extension| {
            let is_it = extension.text("metadata.name")? == "schematic";
            extension.text("metadata.version").filter(|_| is_it)
        });
        assert_eq!(schematic.unwrap(), SCHEMATIC_ID);
        let members = client.list(ResourceKind::MEMBER).await.unwrap();
        assert_eq!(members[0].text("machineType").unwrap(), "controlplane");
        let config = client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap().unwrap();
        assert_eq!(config.config_text(), bed.config(11, true));

        let log = client.logs(&LogSource::Service("etcd".to_owned()), Some(5), false).await;
        assert!(!log.unwrap().all().await.unwrap().is_empty());
        let dmesg = client.dmesg(false).await.unwrap().all().await.unwrap();
        let dmesg = String::from_utf8(dmesg).unwrap();
        assert!(dmesg.contains("service[etcd](Running)"));
        // The times of all lines differ.
        let times = dmesg.lines().map(|line| line.split(['[', ']']).nth(1).unwrap());
        let times: Vec<&str> = times.collect();
        assert!(times.is_sorted() && times.first() < times.last(), "{times:?}");
        let release = client.read("/etc/os-release").await.unwrap();
        assert!(String::from_utf8(release).unwrap().contains("VERSION_ID=v1.13.6\n"));
        assert!(!client.has_file("/etc/passwd").await.unwrap());

        let nodes = ["10.0.0.11".to_owned()];
        let hour = std::time::Duration::from_hours(1);
        let mut health = client.health_check(&nodes, &[], hour).await.unwrap();
        let mut said = vec![];
        while let Some(line) = health.next().await.unwrap() {
            said.push(line);
        }
        assert_eq!(said[0], "discovered nodes: [\"10.0.0.11\"]");
        assert_eq!(
            said[1..3],
            ["waiting for etcd to be healthy: ...", "waiting for etcd to be healthy: OK"]
        );
        assert_eq!(said.last().unwrap(), "waiting for all k8s nodes to report schedulable: OK");
    });
    bed.lab.stop();
}

#[test]
fn roles_allow_their_methods() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let admin = bed.bootstrap(11).await;
        let reader = bed.client_as(11, &[ClientRole::Reader]);
        assert_eq!(reader.version().await.unwrap().tag, "v1.13.6");
        assert_eq!(reader.etcd_members().await.unwrap().len(), 1);
        let rejected = (Code::PermissionDenied, "not authorized".to_owned());
        assert_eq!(code(reader.kubeconfig().await.unwrap_err()), rejected);
        assert_eq!(code(reader.boot_id().await.unwrap_err()), rejected);
        let config = reader.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap_err();
        assert_eq!(code(config), rejected);
        let backup = bed.client_as(11, &[ClientRole::EtcdBackup]);
        let snapshot = backup.etcd_snapshot().await.unwrap().all().await.unwrap();
        talmox_talos_api::client::check_snapshot(&snapshot).unwrap();
        // The file consists of full pages, and has no checksum at its end.
        let mut copied = vec![];
        admin.etcd_database(&mut copied).await.unwrap();
        assert_eq!((copied.len() % 4096, &copied[16..20]), (0, &snapshot[16..20]));
        assert_eq!(code(backup.services().await.unwrap_err()), rejected);

        let made = admin
            .client_configuration(&[ClientRole::Reader], std::time::Duration::from_hours(24 * 365));
        let made = made.await.unwrap();
        assert!(made.talosconfig.expose().starts_with("context: reader@home\n"));
    });
    bed.lab.stop();
}

#[test]
fn watches_report_changes() {
    use talmox_talos_api::client::Change;

    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let mut watch = client.watch(ResourceKind::NODENAME, None).await.unwrap();
        let Some(Change::Created(name)) = watch.next().await.unwrap() else { panic!("no name") };
        assert_eq!(
            (name.text("nodename").unwrap().as_str(), name.version.as_str()),
            ("node-11", "1")
        );
        assert_eq!(watch.next().await.unwrap(), Some(Change::Bootstrapped));
        let config = bed.config(11, true).expose().replace("node-11", "renamed");
        let config = talmox_talos_config::secret::SecretText::new(config);
        let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
        client.apply(&apply).await.unwrap();
        let Some(Change::Updated(name)) = watch.next().await.unwrap() else { panic!("no change") };
        assert_eq!(
            (name.text("nodename").unwrap().as_str(), name.version.as_str()),
            ("renamed", "2")
        );
        let mut missing = client.watch(ResourceKind::NODENAME, Some("other")).await.unwrap();
        assert!(matches!(missing.next().await.unwrap(), Some(Change::Destroyed(_))));
    });
    bed.lab.stop();
}
