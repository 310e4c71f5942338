//! Tests of an image on its way from the Image Factory to the disk of a VM, through the Proxmox API.

use std::path::Path;
use std::time::Duration;

use talmox_lab_environment::Profile;
use talmox_lab_talos::image::{Medium, Platform, System, cidata_files};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage::{self, Content, Download};
use talmox_pve::client::{self, Client, Credentials, Endpoint, Limits, Timeouts, Trust};
use talmox_pve::config::VmOptions;
use talmox_pve::id::VmId;
use talmox_pve::property::Drive;
use talmox_talos_config::schematic::Schematic;

use crate::{Lab, Settings};

const TIMEOUT: Duration = Duration::from_mins(30);

/// Lab whose Image Factory already has the schematic.
fn lab(state: &Path, schematic: &Schematic) -> Lab {
    let folder = state.join("schematics");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{}.yaml", schematic.id()));
    std::fs::write(file, schematic.to_yaml()).unwrap();
    let state = Some(state.to_owned());
    let profile = Profile::Instant;
    Lab::start(Settings { state, profile, speed: 1000.0, ..Settings::default() }).unwrap()
}

fn client(lab: &Lab) -> Client {
    let pve = lab.ready().pve;
    let address = lab.address();
    let reach = Some(talmox_talos_api::Address::new(address.ip().to_string(), address.port()));
    let settings = client::Settings {
        endpoints: vec![Endpoint { reach, ..Endpoint::new("pve", 8006) }],
        trust: Trust::Authorities(std::fs::read(pve.ca).unwrap()),
        credentials: Credentials::Token(
            format!("{}={}", pve.token_id, pve.token_secret).parse().unwrap(),
        ),
        limits: Limits::default(),
        timeouts: Timeouts::default(),
        clock: lab.clock(),
        seed: 0,
    };
    Client::new(settings).unwrap()
}

async fn download(client: &Client, url: String, name: &str) {
    let wanted = Download {
        url,
        content: Content::Import,
        name: name.parse().unwrap(),
        checksum: None,
        compression: None,
        verify_certificates: true,
    };
    let request = storage::download(&"pve".parse().unwrap(), &"local".parse().unwrap(), &wanted);
    client.run(&request, TIMEOUT).await.unwrap();
}

/// System on the disk of a VM that was created with this image.
async fn import(lab: &Lab, client: &Client, vmid: u32, name: &str) -> Option<System> {
    let vm = Vm::new(&"pve".parse().unwrap(), VmId::new(vmid).unwrap());
    let source = format!("local:import/{name}").parse().unwrap();
    let lvm = "local-lvm".parse().unwrap();
    let options = VmOptions::new()
        .drive(&"scsi0".parse().unwrap(), &Drive::import(&lvm, &source))
        .drive(&"ide2".parse().unwrap(), &Drive::cloudinit(&lvm))
        .set("ipconfig0", "ip=10.0.0.30/24,gw=10.0.0.1")
        .set("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0");
    client.run(&qemu::create(&vm, None, &options), TIMEOUT).await.unwrap();
    client.run(&qemu::start(&vm), TIMEOUT).await.unwrap();
    let drive = std::fs::read_dir(lab.state.folder.join("blobs")).unwrap();
    let mut drives = drive.filter_map(|entry| cidata_files(&entry.unwrap().path()));
    let drive = drives.next().unwrap();
    let names: Vec<&str> = drive.keys().map(String::as_str).collect();
    assert_eq!(names, ["meta-data", "network-config", "user-data", "vendor-data"]);
    assert!(String::from_utf8_lossy(&drive["network-config"]).contains("10.0.0.30"));
    let pve_state = lab.site.pve_state();
    let volume =
        pve_state.storages["local-lvm"].volume("pve", &format!("vm-{vmid}-disk-0")).unwrap();
    System::read(&lab.site.blobs.path(volume.blob.as_ref().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_of_a_vm_contains_the_ordered_image() {
    let state = tempfile::tempdir().unwrap();
    let schematic = Schematic::default().with_extensions(["siderolabs/qemu-guest-agent"]);
    let lab = lab(state.path(), &schematic);
    let client = client(&lab);
    let id = schematic.id();
    let url = |file| format!("https://factory.talos.dev/image/{id}/v1.13.6/{file}");
    for (number, file) in ["nocloud-amd64.qcow2", "nocloud-amd64.raw"].into_iter().enumerate() {
        download(&client, url(file), file).await;
        let vmid = 300 + u32::try_from(number).unwrap();
        let Some(System::Talos(talos)) = import(&lab, &client, vmid, file).await else {
            panic!("no Talos in {file}");
        };
        assert_eq!((talos.version.as_str(), talos.schematic_id.as_str()), ("v1.13.6", id.as_str()));
        assert_eq!((talos.platform, talos.medium), (Platform::Nocloud, Medium::Disk));
        assert_eq!(talos.schematic, schematic);
    }
    let path = "releases/24.04/release/ubuntu-24.04-server-cloudimg-amd64.img";
    download(&client, format!("https://cloud-images.ubuntu.com/{path}"), "noble.qcow2").await;
    let system = import(&lab, &client, 310, "noble.qcow2").await;
    assert!(matches!(system, Some(System::Ubuntu(ubuntu)) if ubuntu.codename == "noble"));
    lab.stop().await.unwrap();
}
