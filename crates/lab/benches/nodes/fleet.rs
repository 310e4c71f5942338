//! VMs in the simulated Proxmox, which are created through its API.

use talmox_clock::Clock;
use talmox_lab::Ready;
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::api::storage::{self, Content, Download};
use talmox_pve::client::{self, Client, Credentials, Endpoint, Limits, Timeouts, Trust};
use talmox_pve::config::VmOptions;
use talmox_pve::id::VmId;
use talmox_pve::property::Drive;
use talmox_talos_config::schematic::Schematic;
use tokio::task::JoinSet;

use crate::cluster::VERSION;
use crate::phase::TIMEOUT;

#[derive(Clone)]
pub(crate) struct Fleet(Client);

impl Fleet {
    pub(crate) fn new(ready: &Ready) -> Self {
        let pve = &ready.pve;
        let (host, port) = pve.url.trim_start_matches("https://").rsplit_once(':').unwrap();
        let reach = Some(talmox_talos_api::Address::new(host, port.parse().unwrap()));
        let token = format!("{}={}", pve.token_id, pve.token_secret);
        let settings = client::Settings {
            endpoints: vec![Endpoint { reach, ..Endpoint::new("localhost", 8006) }],
            trust: Trust::Authorities(std::fs::read(&pve.ca).unwrap()),
            credentials: Credentials::Token(token.parse().unwrap()),
            // All VMs start at the same time. The lab itself limits the concurrent operations on a storage.
            limits: Limits { requests: 16, per_host: usize::from(u8::MAX), ..Limits::default() },
            timeouts: Timeouts::default(),
            clock: Clock::real(),
            seed: 0,
        };
        Self(Client::new(settings).unwrap())
    }

    /// Creates VMs, without starting them.
    pub(crate) async fn make(&self, numbers: &[u8]) {
        let schematic = Schematic::default().id();
        let image = Download {
            url: format!(
                "https://factory.talos.dev/image/{schematic}/{VERSION}/nocloud-amd64.qcow2"
            ),
            content: Content::Import,
            name: "talos.qcow2".parse().unwrap(),
            checksum: None,
            compression: None,
            verify_certificates: true,
        };
        let local = "local".parse().unwrap();
        let request = storage::download(&"pve".parse().unwrap(), &local, &image);
        self.0.run(&request, TIMEOUT).await.unwrap();
        let mut making = JoinSet::new();
        for &number in numbers {
            let client = self.0.clone();
            making.spawn(async move {
                let request = qemu::create(&vm(number), None, &options(number));
                client.run(&request, TIMEOUT).await.unwrap();
                let slot = "scsi0".parse().unwrap();
                let request = qemu::resize(&vm(number), &slot, 20, None);
                client.run(&request, TIMEOUT).await.unwrap();
            });
        }
        making.join_all().await;
    }

    pub(crate) async fn start(&self, number: u8) {
        self.0.run(&qemu::start(&vm(number)), TIMEOUT).await.unwrap();
    }
}

fn vm(number: u8) -> Vm {
    Vm::new(&"pve".parse().unwrap(), VmId::new(1000 + u32::from(number)).unwrap())
}

fn options(number: u8) -> VmOptions {
    let lvm = "local-lvm".parse().unwrap();
    let image = "local:import/talos.qcow2".parse().unwrap();
    VmOptions::new()
        .set("name", format!("node-{number}"))
        .set("memory", "4096")
        .set("cores", "2")
        .set("scsihw", "virtio-scsi-pci")
        .drive(&"scsi0".parse().unwrap(), &Drive::import(&lvm, &image))
        .drive(&"ide2".parse().unwrap(), &Drive::cloudinit(&lvm))
        .set("ipconfig0", format!("ip=10.0.0.{number}/24,gw=10.0.0.254"))
        .set("net0", format!("virtio=BC:24:11:00:00:{number:02X},bridge=vmbr0"))
        .set("boot", "order=scsi0")
}
