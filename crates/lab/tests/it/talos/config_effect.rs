//! Tests of the effects of configs and hardware, including failures.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use talmox_lab::NodeSettings;
use talmox_talos_api::client::{Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Client, TalosError, Verdict};

use super::test_bed::{SCHEMATIC, TestBed, new_bundle, until};

async fn dmesg(client: &Client) -> Option<String> {
    let bytes = client.dmesg(false).await.ok()?.all().await.ok()?;
    String::from_utf8(bytes).ok()
}

async fn until_log(client: &Client, line: &str) {
    until(line, || async { dmesg(client).await?.contains(line).then_some(()) }).await;
}

#[test]
fn a_node_with_wrong_secrets_does_not_join() {
    let bed = TestBed::new("v1.13.6");
    for number in [11, 12, 13, 14] {
        bed.start(number);
    }
    let other = new_bundle().certs.os.crt_base64();
    bed.lab.wait(async {
        bed.bootstrap(11).await;
        let token = "machine:\n  token: abcdef.0123456789abcdef\n";
        bed.apply(12, &bed.patched(12, false, token)).await;
        let authority = format!("machine:\n  ca:\n    crt: {other}\n");
        bed.apply(13, &bed.patched(13, false, &authority)).await;
        // A node that starts later with the right secrets can join.
        let right = bed.configure(14, false).await;
        bed.ready(&right).await;
        for number in [12, 13] {
            assert!(matches!(bed.probe(number).await, Verdict::Nothing(_)), "{number}");
        }
    });
    bed.lab.stop();
}

#[test]
fn duplicate_addresses_reach_both_machines() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.start_with(12, &[("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.1")]);
    bed.lab.wait(async {
        let mut met = BTreeSet::new();
        for _ in 0..400 {
            if let Verdict::Maintenance(found) = bed.probe(11).await {
                met.extend(found.machine.uuid);
            }
            if met.len() == 2 {
                break;
            }
        }
        let both = ["01234567-89ab-4def-8123-45678900000b", "01234567-89ab-4def-8123-45678900000c"];
        assert_eq!(met, both.map(str::to_owned).into());
    });
    bed.lab.stop();
}

#[test]
fn a_wrong_gateway_prevents_time_sync_and_pulls() {
    let gateway = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let around = NodeSettings { gateways: vec![gateway], ..NodeSettings::default() };
    let bed = TestBed::with("v1.13.6", SCHEMATIC, around);
    bed.start_with(11, &[("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.99")]);
    bed.start_with(12, &[("ipconfig0", "ip=10.0.0.12/24,gw=10.0.0.99")]);
    bed.lab.wait(async {
        let client = bed.configure(11, true).await;
        until("the rejection", || async {
            match client.bootstrap().await.unwrap_err() {
                TalosError::NotYet { reason, .. } => {
                    (reason == "bootstrap is not available yet").then_some(())
                }
                _ => None,
            }
        })
        .await;
        let kubelet = async |client: &Client| {
            let services = client.services().await.ok()?;
            services.into_iter().find(|service| service.id == "kubelet")
        };
        // The kubelet waits for the time synchronization, which fails on this node.
        until("the kubelet to wait", || async {
            kubelet(&client).await.filter(|kubelet| kubelet.state == "Waiting")
        })
        .await;
        // With time synchronization disabled, the image pull fails instead.
        let timeless = "machine:\n  time:\n    disabled: true\n";
        let second = bed.configure_with(12, &bed.patched(12, true, timeless)).await;
        until_log(&second, "failed to pull the image of kubelet").await;
        assert_eq!(kubelet(&second).await.unwrap().state, "Preparing");
        let image = "factory.talos.dev/nocloud-installer/0000:v1.13.6";
        let rejected = format!("{:?}", client.legacy_pull(image, true).await.unwrap_err());
        assert!(rejected.contains("network is unreachable"), "{rejected}");
    });
    bed.lab.stop();
}

#[test]
fn the_guest_agent_needs_its_extension() {
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    for (schematic, is_there) in [(SCHEMATIC, true), ("customization: {}\n", false)] {
        let bed = TestBed::with("v1.13.6", schematic, NodeSettings::default());
        bed.start(11);
        bed.lab.wait(async {
            let client = bed.configure(11, true).await;
            until("an answer of Proxmox", || async {
                let status = bed.lab.get(interfaces).status;
                (status == if is_there { 200 } else { 500 }).then_some(())
            })
            .await;
            until("the kubelet", || async {
                let services = client.services().await.ok()?;
                services.iter().any(|service| service.id == "kubelet").then_some(())
            })
            .await;
            let services = client.services().await.unwrap();
            let agent = services.iter().any(|service| service.id == "ext-qemu-guest-agent");
            assert_eq!(agent, is_there);
        });
        bed.lab.stop();
    }
}

#[test]
fn the_guest_agent_reports_current_addresses() {
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        addresses: [10.0.0.78/24]\n";
    let bed = TestBed::new("v1.11.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.configure(11, true).await;
        let before = bed.lab.get(interfaces).text();
        assert!(before.contains("\"10.0.0.11\"") && !before.contains("10.0.0.78"), "{before}");
        let config = bed.patched(11, true, patch);
        let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
        // The answer may be lost, because the node gets another address and another certificate.
        let applied = client.apply(&apply).await;
        assert!(matches!(applied, Ok(_) | Err(TalosError::Lost { .. })), "{applied:?}");
        let after = bed.lab.get(interfaces).text();
        assert!(after.contains("\"10.0.0.11\"") && after.contains("\"10.0.0.78\""), "{after}");
    });
    bed.lab.stop();
}

#[test]
fn drivers_load_if_their_device_exists() {
    let schematic = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/nvidia-container-toolkit-production\n            - siderolabs/nvidia-open-gpu-kernel-modules-production\n";
    let card = "nodes:\n  - name: pve\n    pci:\n      - {address: '0000:01:00.0', vendor: '0x10de', device: '0x2204', iommu_group: 1}\nmappings:\n  pci:\n    - {id: gpu, map: ['id=10de:2204,iommugroup=1,node=pve,path=0000:01:00.0']}\n";
    let bed = TestBed::on(card, "v1.13.6", schematic);
    bed.start(11);
    bed.start_with(12, &[("hostpci0", "mapping=gpu")]);
    let modules = "machine:\n  kernel:\n    modules:\n      - name: nvidia\n";
    let service = async |client: &Client| {
        let found = until("the service", || async {
            let services = client.services().await.ok()?;
            services.into_iter().find(|service| service.id == "ext-nvidia-persistenced")
        });
        found.await.state
    };
    bed.lab.wait(async {
        let without = bed.configure_with(11, &bed.patched(11, true, modules)).await;
        until_log(&without, "failed to load kernel module \"nvidia\": no such device").await;
        assert_eq!(service(&without).await, "Waiting");
        let with = bed.configure_with(12, &bed.patched(12, true, modules)).await;
        assert_eq!(service(&with).await, "Running");
        // Kernel modules are loaded before services start.
        let log = dmesg(&with).await.unwrap();
        assert!(!log.contains("failed to load kernel module"), "{log}");
    });
    bed.lab.stop();
}

#[test]
fn addresses_of_the_drive_and_of_the_config_are_combined() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        addresses: [10.0.0.78/24]\n";
    let both = ["eth0/10.0.0.11/24".to_owned(), "eth0/10.0.0.78/24".to_owned()];
    let addresses = async |client: &Client| -> Option<Vec<String>> {
        let all = client.list(ResourceKind::ADDRESS_STATUS).await.ok()?;
        Some(all.into_iter().map(|one| one.id).filter(|id| id.starts_with("eth0/10.")).collect())
    };
    bed.lab.wait(async {
        let client = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        assert_eq!(addresses(&client).await.unwrap(), both);
        let node = client.get(ResourceKind::NODE_IP, "kubelet").await.unwrap().unwrap();
        let text = node.yaml().expose();
        assert!(text.contains("10.0.0.11") && !text.contains("10.0.0.78"), "{text}");
        // The node answers on the second address as well.
        assert!(matches!(bed.probe(78).await, Verdict::OwnNode));
    });
    bed.stop(11);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = bed.lab.request("PUT", "/nodes/pve/qemu/111/config", form, "delete=ide2");
    assert_eq!(answer.status, 200);
    bed.power(11, "start");
    bed.lab.wait(async {
        let client = bed.client(11);
        let found = until("addresses without the drive", || async { addresses(&client).await });
        assert_eq!(found.await, both);
    });
    bed.lab.stop();
}

#[test]
fn a_shared_address_is_not_an_endpoint_of_the_talos_api() {
    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        dhcp: false\n        addresses: [10.0.0.11/24]\n        vip:\n          ip: 10.0.0.50\n";
    bed.lab.wait(async {
        let client = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        assert!(matches!(bed.probe(50).await, Verdict::Nothing(_)));
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        until("the shared address", || async {
            match bed.probe(50).await {
                Verdict::OtherName { presented } => {
                    assert!(!presented.iter().any(|name| name.contains("10.0.0.50")));
                    Some(())
                }
                _ => None,
            }
        })
        .await;
    });
    bed.lab.stop();
}
