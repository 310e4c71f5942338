use super::*;
use Method::{Get, Put};

const NET: &str = "virtio=BC:24:11:10:00:01,bridge=vmbr0";
const DRIVE: &str = "local-lvm:vm-100-cloudinit,media=cdrom";

fn options() -> Vec<(&'static str, &'static str)> {
    vec![
        ("name", "talos-cp-01"),
        ("net0", NET),
        ("ide2", DRIVE),
        ("ipconfig0", "ip=10.0.0.11/16,gw=10.0.0.1"),
        ("nameserver", "1.1.1.1 8.8.8.8"),
    ]
}

async fn dump(bench: &QemuTestBench, part: &str) -> String {
    let text = bench.call(Get, "/100/cloudinit/dump", &[("type", part)]).await.unwrap();
    text.as_str().unwrap().to_owned()
}

/// Content of the cloud-init drive of VM 100.
fn drive(bench: &QemuTestBench) -> Vec<u8> {
    let pve_state = bench.site.pve_state();
    let id = VolumeId::parse("local-lvm:vm-100-cloudinit").unwrap();
    let volume = storage::find(&pve_state, "pve1", &id).unwrap().unwrap();
    std::fs::read(bench.site.blobs.path(volume.blob.as_ref().unwrap())).unwrap()
}

fn holds(image: &[u8], text: &str) -> bool {
    image.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn drive_contains_the_configured_options() {
    let bench = QemuTestBench::new();
    bench.vm(100, &options());
    assert_eq!(
        dump(&bench, "user").await,
        "#cloud-config\nhostname: talos-cp-01\nmanage_etc_hosts: true\nfqdn: talos-cp-01\n\
         chpasswd:\n  expire: False\nusers:\n  - default\npackage_upgrade: true\n"
    );
    let network = dump(&bench, "network").await;
    assert_eq!(
        network,
        "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: \
         'bc:24:11:10:00:01'\n      subnets:\n      - type: static\n        address: \
         '10.0.0.11'\n        netmask: '255.255.0.0'\n        gateway: '10.0.0.1'\n    - type: \
         nameserver\n      address:\n      - '1.1.1.1'\n      - '8.8.8.8'\n      search:\n      \
         - 'lan'\n"
    );
    let meta = dump(&bench, "meta").await;
    assert_eq!(meta.len(), "instance-id: \n".len() + 40);

    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    let image = drive(&bench);
    assert_eq!(&image[0x8000..0x8006], b"\x01CD001");
    assert_eq!(&image[0x8028..0x802e], b"cidata");
    assert!(holds(&image, &network) && holds(&image, &meta));
    assert_eq!(bench.log("qmstart")[0], "generating cloud-init ISO");
}

#[tokio::test]
async fn user_data_contains_user_password_and_ssh_keys() {
    let bench = QemuTestBench::new();
    bench.vm(
        100,
        &[
            ("name", "a.example"),
            ("ciuser", "root"),
            ("cipassword", "$5$hash"),
            ("sshkeys", "ssh-ed25519%20AAAA%20me%0A%0Assh-rsa%20BBBB"),
            ("ciupgrade", "0"),
        ],
    );
    assert_eq!(
        dump(&bench, "user").await,
        "#cloud-config\nhostname: a\nmanage_etc_hosts: true\nfqdn: a.example\nuser: root\n\
         disable_root: False\npassword: $5$hash\nssh_authorized_keys:\n  - ssh-ed25519 AAAA me\n  \
         - ssh-rsa BBBB\nchpasswd:\n  expire: False\n"
    );
}

#[tokio::test]
async fn network_config_supports_static_dhcp_and_ipv6() {
    let bench = QemuTestBench::new();
    let two = "virtio=BC:24:11:10:00:02,bridge=vmbr0";
    let three = "virtio=BC:24:11:10:00:03,bridge=vmbr0";
    bench.vm(
        100,
        &[
            ("net0", NET),
            ("ipconfig0", "ip=dhcp,ip6=auto"),
            ("net1", two),
            ("ipconfig1", "ip6=fd00::2/64,gw6=fd00::1"),
            ("net2", three),
            ("ipconfig2", "ip=dhcp,gw=10.0.0.1"),
            ("net3", "virtio=BC:24:11:10:00:04,bridge=vmbr0"),
        ],
    );
    let text = dump(&bench, "network").await;
    assert!(text.contains(
        "'bc:24:11:10:00:01'\n      subnets:\n      - type: dhcp4\n      - type: ipv6_slaac\n"
    ));
    assert!(
        text.contains(
            "- type: static6\n        address: 'fd00::2/64'\n        gateway: 'fd00::1'\n"
        )
    );
    // A gateway without a static address is dropped. A network card without `ipconfig` is omitted.
    assert!(text.contains("'bc:24:11:10:00:03'\n      subnets:\n    - type: nameserver\n"));
    assert!(!text.contains("00:04"));
}

#[tokio::test]
async fn changed_options_are_pending_until_drive_is_regenerated() {
    let bench = QemuTestBench::new();
    bench.vm(100, &options());
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    {
        let mut pve_state = bench.site.pve_state();
        let config = &mut pve_state.vms.get_mut(&100).unwrap().config;
        config.insert("ipconfig0".into(), "ip=10.0.0.12/16".into());
        config.insert("ciuser".into(), "me".into());
        config.remove("nameserver");
    }
    assert_eq!(
        bench.call(Get, "/100/cloudinit", &[]).await.unwrap(),
        json!([
            { "key": "ciuser", "pending": "me" },
            { "key": "ipconfig0", "value": "ip=10.0.0.11/16,gw=10.0.0.1", "pending": "ip=10.0.0.12/16" },
            { "key": "nameserver", "delete": 1 },
        ])
    );
    assert_eq!(bench.call(Put, "/100/cloudinit", &[]).await, Ok(Json::Null));
    assert_eq!(
        bench.call(Get, "/100/cloudinit", &[]).await.unwrap(),
        json!([
            { "key": "ciuser", "value": "me" },
            { "key": "ipconfig0", "value": "ip=10.0.0.12/16" },
        ])
    );
    assert!(holds(&drive(&bench), "10.0.0.12"));
}

#[tokio::test]
async fn cicustom_snippets_replace_generated_files() {
    let bench = QemuTestBench::new();
    bench.vm(100, &options());
    let custom = ("cicustom".to_owned(), "user=local:snippets/mine.yaml".to_owned());
    bench.site.pve_state().vms.get_mut(&100).unwrap().config.extend([custom]);
    assert_eq!(
        bench.task("/100/status/start", &[]).await,
        "can't open '/var/lib/vz/snippets/mine.yaml' - No such file or directory"
    );
    let mut snippet = fixture::volume("snippet", 5);
    snippet.blob = Some(bench.site.blobs.write(b"#mine").unwrap());
    let id = VolumeId::parse("local:snippets/mine.yaml").unwrap();
    storage::put(&mut bench.site.pve_state(), "pve1", &id, snippet).unwrap();
    assert_eq!(bench.task("/100/status/start", &[]).await, "OK");
    assert!(holds(&drive(&bench), "#mine"));
}
