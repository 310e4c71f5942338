//! What a config and a machine say has effects, the unwanted ones too.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use talmox_lab::NodeSettings;
use talmox_talos_api::client::{Apply, ApplyMode, ResourceKind};
use talmox_talos_api::{Client, TalosError, Verdict};

use super::world::{SCHEMATIC, World, new_bundle, until};

async fn dmesg(client: &Client) -> Option<String> {
    let bytes = client.dmesg(false).await.ok()?.all().await.ok()?;
    String::from_utf8(bytes).ok()
}

async fn until_log(client: &Client, line: &str) {
    until(line, || async { dmesg(client).await?.contains(line).then_some(()) }).await;
}

#[test]
fn who_has_the_wrong_secrets_never_joins() {
    let world = World::new("v1.13.6");
    for number in [11, 12, 13, 14] {
        world.start(number);
    }
    let other = new_bundle().certs.os.crt_base64();
    world.lab.wait(async {
        world.bootstrap(11).await;
        let token = "machine:\n  token: abcdef.0123456789abcdef\n";
        world.apply(12, &world.patched(12, false, token)).await;
        let authority = format!("machine:\n  ca:\n    crt: {other}\n");
        world.apply(13, &world.patched(13, false, &authority)).await;
        // One that has the right ones, and comes later, is well.
        let right = world.configure(14, false).await;
        world.ready(&right).await;
        for number in [12, 13] {
            assert!(matches!(world.probe(number).await, Verdict::Nothing(_)), "{number}");
        }
    });
    world.lab.stop();
}

#[test]
fn two_machines_with_one_address_are_both_met() {
    let world = World::new("v1.13.6");
    world.start(11);
    world.start_with(12, &[("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.1")]);
    world.lab.wait(async {
        let mut met = BTreeSet::new();
        for _ in 0..400 {
            if let Verdict::Maintenance(found) = world.probe(11).await {
                met.extend(found.machine.uuid);
            }
            if met.len() == 2 {
                break;
            }
        }
        let both = ["01234567-89ab-4def-8123-45678900000b", "01234567-89ab-4def-8123-45678900000c"];
        assert_eq!(met, both.map(str::to_owned).into());
    });
    world.lab.stop();
}

#[test]
fn a_wrong_gateway_leads_nowhere() {
    let gateway = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let around = NodeSettings { gateways: vec![gateway], ..NodeSettings::default() };
    let world = World::with("v1.13.6", SCHEMATIC, around);
    world.start_with(11, &[("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.99")]);
    world.start_with(12, &[("ipconfig0", "ip=10.0.0.12/24,gw=10.0.0.99")]);
    world.lab.wait(async {
        let client = world.configure(11, true).await;
        until("a refusal", || async {
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
        // It waits for the time, which it cannot ask for.
        until("a kubelet that waits", || async {
            kubelet(&client).await.filter(|kubelet| kubelet.state == "Waiting")
        })
        .await;
        // Without the time to wait for, it is the image that it cannot get.
        let timeless = "machine:\n  time:\n    disabled: true\n";
        let second = world.configure_with(12, &world.patched(12, true, timeless)).await;
        until_log(&second, "failed to pull the image of kubelet").await;
        assert_eq!(kubelet(&second).await.unwrap().state, "Preparing");
        let image = "factory.talos.dev/nocloud-installer/0000:v1.13.6";
        let refused = format!("{:?}", client.legacy_pull(image, true).await.unwrap_err());
        assert!(refused.contains("network is unreachable"), "{refused}");
    });
    world.lab.stop();
}

#[test]
fn what_an_image_has_no_extension_for_is_not_there() {
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    for (schematic, is_there) in [(SCHEMATIC, true), ("customization: {}\n", false)] {
        let world = World::with("v1.13.6", schematic, NodeSettings::default());
        world.start(11);
        world.lab.wait(async {
            let client = world.configure(11, true).await;
            until("an answer of Proxmox", || async {
                let status = world.lab.get(interfaces).status;
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
        world.lab.stop();
    }
}

#[test]
fn an_agent_tells_of_the_addresses_that_there_are_now() {
    let interfaces = "/nodes/pve/qemu/111/agent/network-get-interfaces";
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        addresses: [10.0.0.78/24]\n";
    let world = World::new("v1.11.6");
    world.start(11);
    world.lab.wait(async {
        let client = world.configure(11, true).await;
        let before = world.lab.get(interfaces).text();
        assert!(before.contains("\"10.0.0.11\"") && !before.contains("10.0.0.78"), "{before}");
        let config = world.patched(11, true, patch);
        let apply = Apply { config: &config, mode: ApplyMode::NoReboot, dry_run: false };
        // The answer may be lost: who has another address shows another certificate.
        let applied = client.apply(&apply).await;
        assert!(matches!(applied, Ok(_) | Err(TalosError::Lost { .. })), "{applied:?}");
        let after = world.lab.get(interfaces).text();
        assert!(after.contains("\"10.0.0.11\"") && after.contains("\"10.0.0.78\""), "{after}");
    });
    world.lab.stop();
}

#[test]
fn drivers_load_where_their_device_is() {
    let schematic = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/nvidia-container-toolkit-production\n            - siderolabs/nvidia-open-gpu-kernel-modules-production\n";
    let card = "nodes:\n  - name: pve\n    pci:\n      - {address: '0000:01:00.0', vendor: '0x10de', device: '0x2204', iommu_group: 1}\nmappings:\n  pci:\n    - {id: gpu, map: ['id=10de:2204,iommugroup=1,node=pve,path=0000:01:00.0']}\n";
    let world = World::on(card, "v1.13.6", schematic);
    world.start(11);
    world.start_with(12, &[("hostpci0", "mapping=gpu")]);
    let modules = "machine:\n  kernel:\n    modules:\n      - name: nvidia\n";
    let service = async |client: &Client| {
        let found = until("the service", || async {
            let services = client.services().await.ok()?;
            services.into_iter().find(|service| service.id == "ext-nvidia-persistenced")
        });
        found.await.state
    };
    world.lab.wait(async {
        let without = world.configure_with(11, &world.patched(11, true, modules)).await;
        until_log(&without, "failed to load kernel module \"nvidia\": no such device").await;
        assert_eq!(service(&without).await, "Waiting");
        let with = world.configure_with(12, &world.patched(12, true, modules)).await;
        assert_eq!(service(&with).await, "Running");
        // Modules are loaded before services start.
        let log = dmesg(&with).await.unwrap();
        assert!(!log.contains("failed to load kernel module"), "{log}");
    });
    world.lab.stop();
}

#[test]
fn addresses_of_the_drive_and_of_the_config_add_up_and_stay() {
    let world = World::new("v1.13.6");
    world.start(11);
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        addresses: [10.0.0.78/24]\n";
    let both = ["eth0/10.0.0.11/24".to_owned(), "eth0/10.0.0.78/24".to_owned()];
    let addresses = async |client: &Client| -> Option<Vec<String>> {
        let all = client.list(ResourceKind::ADDRESS_STATUS).await.ok()?;
        Some(all.into_iter().map(|one| one.id).filter(|id| id.starts_with("eth0/10.")).collect())
    };
    world.lab.wait(async {
        let client = world.configure_with(11, &world.patched(11, true, patch)).await;
        assert_eq!(addresses(&client).await.unwrap(), both);
        let node = client.get(ResourceKind::NODE_IP, "kubelet").await.unwrap().unwrap();
        let text = node.yaml().expose();
        assert!(text.contains("10.0.0.11") && !text.contains("10.0.0.78"), "{text}");
        // The second address is answered on as well.
        assert!(matches!(world.probe(78).await, Verdict::Ours));
    });
    world.stop(11);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = world.lab.request("PUT", "/nodes/pve/qemu/111/config", form, "delete=ide2");
    assert_eq!(answer.status, 200);
    world.power(11, "start");
    world.lab.wait(async {
        let client = world.client(11);
        let found = until("addresses without the drive", || async { addresses(&client).await });
        assert_eq!(found.await, both);
    });
    world.lab.stop();
}

#[test]
fn a_shared_address_is_no_endpoint_of_the_talos_api() {
    let world = World::new("v1.13.6");
    world.start(11);
    let patch = "machine:\n  network:\n    interfaces:\n      - deviceSelector:\n          hardwareAddr: bc:24:11:00:00:0b\n        dhcp: false\n        addresses: [10.0.0.11/24]\n        vip:\n          ip: 10.0.0.50\n";
    world.lab.wait(async {
        let client = world.configure_with(11, &world.patched(11, true, patch)).await;
        assert!(matches!(world.probe(50).await, Verdict::Nothing(_)));
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        until("the shared address", || async {
            match world.probe(50).await {
                Verdict::OtherName { presented } => {
                    assert!(!presented.iter().any(|name| name.contains("10.0.0.50")));
                    Some(())
                }
                _ => None,
            }
        })
        .await;
    });
    world.lab.stop();
}
