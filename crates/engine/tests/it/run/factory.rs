//! Creates a VM from a schematic, with the Image Factory of the lab, over TLS.

use talmox_engine::factory;
use talmox_plan::plan::{Action, CreateVm, FetchImage, FetchWay, PostSchematic};
use talmox_pve::property::GIB;
use talmox_talos_config::schematic::Schematic;

use super::rig::{DEADLINE, RELEASES, Rig, TALMOX, id, machine, own, step};

const FACTORY: &str = "https://factory.talos.dev";

#[tokio::test]
async fn a_vm_is_created_from_the_image_of_a_schematic() {
    let ways = [FetchWay::Download, FetchWay::Stream];
    for (release, way) in RELEASES.into_iter().zip(ways) {
        let rig = Rig::start(release);
        let own = own("cp-1", 300);
        let schematic = Schematic::default().with_extensions(["siderolabs/qemu-guest-agent"]);
        let post = PostSchematic {
            factory: FACTORY.to_owned(),
            id: schematic.id(),
            yaml: schematic.to_yaml(),
            deadline: DEADLINE,
        };
        let volume = "local:import/talos-v1.11.2.qcow2";
        let fetch = FetchImage {
            host: id("pve1"),
            volume: id(volume),
            url: format!("{FACTORY}/image/{}/v1.11.2/nocloud-amd64.qcow2", schematic.id()),
            checksum: None,
            sums: vec![],
            ways: vec![way],
            is_present: false,
            deadline: DEADLINE,
        };
        let create = CreateVm {
            own: own.clone(),
            pool: Some(id("talos")),
            options: machine(&own, volume),
            running: None,
            deadline: DEADLINE,
        };
        let steps = [
            step("schematic", Action::PostSchematic(post), &[]),
            step("image", Action::FetchImage(fetch), &["schematic"]),
            step("create", Action::CreateVm(create), &["image"]),
        ];
        let ran = rig.run(&steps).await;
        assert_eq!(ran.results(), ["schematic done", "image done", "create done"]);
        let disk = rig.config(&own.vm).await.drive(&id("scsi0")).unwrap();
        assert!(disk.size().is_some_and(|size| size >= GIB), "{disk:?}");
        let again = rig.run(&steps).await;
        assert_eq!(again.results(), ["schematic already", "image already", "create already"]);
    }
}

#[tokio::test]
async fn the_factory_lists_its_extensions() {
    let rig = Rig::start("9.2");
    let web = rig.context(TALMOX).web;
    let found = factory::extensions(&web, FACTORY, "v1.11.2").await.unwrap();
    assert!(found.iter().any(|extension| extension.name == "siderolabs/tailscale"), "{found:?}");
}
