//! Properties of all property strings.

use proptest::prelude::*;
use talmox_pve_types::config::{VmConfig, VmOptions, drift};
use talmox_pve_types::id::MacAddress;
use talmox_pve_types::property::{
    Agent, BootOrder, Drive, HostPci, IpConfig, Ipv4Config, Ipv6Config, Net, PciSource, Properties,
    Smbios, Tags, parse_size,
};

const KEYS: &[&str] = &[
    "scsi0",
    "ide2",
    "efidisk0",
    "tpmstate0",
    "net0",
    "hostpci0",
    "ipconfig0",
    "smbios1",
    "boot",
    "agent",
    "tags",
    "machine",
    "cpu",
    "vga",
    "rng0",
    "memory",
    "hotplug",
    "nameserver",
    "searchdomain",
    "description",
    "cores",
    "onboot",
    "tablet",
    "bios",
    "startup",
    "name",
    "cipassword",
];

/// Fragments of property strings, in any order.
fn text() -> impl Strategy<Value = String> {
    let bit = prop::sample::select(vec![
        "local-lvm:40",
        "local-lvm:cloudinit",
        "local:300/vm-300-cloudinit.qcow2",
        "import-from=local:import/x.raw",
        "file=local-lvm:vm-300-disk-0",
        "none",
        "media=cdrom",
        "size=40G",
        "ssd=on",
        "discard=on",
        "iothread=0",
        "virtio=BC:24:11:00:00:01",
        "model=virtio",
        "macaddr=bc:24:11:00:00:01",
        "bridge=vmbr0",
        "tag=40",
        "firewall=1",
        "mapping=gpu",
        "host=0000:28:00.0",
        "pcie=1",
        "rombar=0",
        "ip=10.0.0.11/16",
        "gw=10.0.0.1",
        "ip6=auto",
        "uuid=0A1B",
        "serial=eA==",
        "base64=1",
        "order=scsi0;ide2",
        "legacy=cdn",
        "enabled=1",
        "1",
        "0",
        "q35",
        "",
        "=",
        "ä",
        " ",
    ]);
    let bits = prop::collection::vec(bit, 0..6).prop_map(|bits| bits.join(","));
    prop_oneof![bits, ".{0,30}"]
}

fn options() -> impl Strategy<Value = Properties> {
    let pair = prop::sample::select(vec!["queues=4", "rate=1.5", "mdev=nvidia-1", "aio=native"]);
    prop::collection::vec(pair, 0..3).prop_map(|pairs| Properties::parse(&pairs.join(","), None))
}

fn drives() -> impl Strategy<Value = Drive> {
    let storage = "[a-z][a-z0-9-]{0,8}[a-z0-9]";
    let source = (storage, "[a-z]{1,8}(/vm-[0-9]{3}-disk-[0-9])?", 0..2000_u32, 0..5_u8);
    (source, options()).prop_map(|((storage, name, gib, kind), options)| {
        let volume = format!("{storage}:x-{name}").parse().unwrap();
        let storage = storage.parse().unwrap();
        let drive = match kind {
            0 => Drive::new(&storage, gib),
            1 => Drive::import(&storage, &volume),
            2 => Drive::cloudinit(&storage),
            3 => Drive::cdrom(&volume),
            _ => Drive::volume(&volume).with("size", format!("{gib}G")),
        };
        options.iter().fold(drive, |drive, (key, value)| drive.with(key, value))
    })
}

fn nets() -> impl Strategy<Value = Net> {
    let model = prop::sample::select(vec!["virtio", "e1000", "vmxnet3"]);
    let mac = prop::option::of(any::<[u8; 6]>());
    let bridge = prop::option::of("[a-z][a-z0-9]{1,6}");
    let numbers = (prop::option::of(1..4095_u16), prop::option::of(1..9000_u16));
    (model, mac, bridge, numbers, any::<bool>(), options()).prop_map(
        |(model, mac, bridge, (vlan, mtu), firewall, other)| Net {
            model: model.to_owned(),
            mac: mac.map(|mut bytes| {
                bytes[0] &= 0xfe;
                MacAddress::new(bytes).unwrap()
            }),
            bridge: bridge.map(|bridge| bridge.parse().unwrap()),
            vlan,
            firewall,
            mtu,
            other,
        },
    )
}

fn devices() -> impl Strategy<Value = HostPci> {
    let source = prop_oneof![
        "[a-z][a-z0-9]{1,6}".prop_map(|id| PciSource::Mapping(id.parse().unwrap())),
        "0000:[0-9a-f]{2}:00\\.[0-7]".prop_map(PciSource::Host),
    ];
    (source, any::<[bool; 3]>(), options()).prop_map(|(source, flags, other)| {
        let [pcie, rombar, x_vga] = flags;
        HostPci { source, pcie, rombar, x_vga, other }
    })
}

fn addresses() -> impl Strategy<Value = IpConfig> {
    let v4 = (any::<[u8; 4]>(), 0..=32_u8, any::<Option<[u8; 4]>>(), any::<bool>());
    let v4 = v4.prop_map(|(address, prefix, gateway, is_dhcp)| {
        let (address, gateway) = (address.into(), gateway.map(Into::into));
        if is_dhcp { Ipv4Config::Dhcp } else { Ipv4Config::Static { address, prefix, gateway } }
    });
    let v6 = (any::<u128>(), 0..=128_u8, any::<Option<u128>>(), 0..3_u8);
    let v6 = v6.prop_map(|(address, prefix, gateway, kind)| match kind {
        0 => Ipv6Config::Dhcp,
        1 => Ipv6Config::Auto,
        _ => {
            let (address, gateway) = (address.into(), gateway.map(Into::into));
            Ipv6Config::Static { address, prefix, gateway }
        }
    });
    (prop::option::of(v4), prop::option::of(v6)).prop_map(|(v4, v6)| IpConfig { v4, v6 })
}

proptest! {
    #[test]
    fn property_strings_round_trip(
        drive in drives(),
        net in nets(),
        device in devices(),
        address in addresses(),
        serial in ".{0,20}",
        tags in prop::collection::vec("[a-z0-9_][a-z0-9_.-]{0,6}", 0..4),
    ) {
        prop_assert_eq!(&Drive::parse(&drive.to_string()), &drive);
        prop_assert_eq!(&Net::parse(&net.to_string()), &net);
        prop_assert_eq!(&HostPci::parse(&device.to_string()), &device);
        prop_assert_eq!(&IpConfig::parse(&address.to_string()), &address);
        let smbios = Smbios::with_uuid("0a1b").with("serial", &serial);
        prop_assert_eq!(Smbios::parse(&smbios.to_string()), smbios);
        let tags = Tags::of(tags);
        prop_assert_eq!(Tags::parse(&tags.to_string()), tags);
    }

    #[test]
    fn property_string_parsing_never_panics(text in text()) {
        let _read = (Drive::parse(&text), Net::parse(&text), HostPci::parse(&text), IpConfig::parse(&text));
        let _read = (Smbios::parse(&text), BootOrder::parse(&text), Agent::parse(&text), parse_size(&text));
    }

    #[test]
    fn a_config_has_no_drift_from_itself(key in prop::sample::select(KEYS), text in text()) {
        let desired = VmOptions::new().set(key, &text);
        let found = VmConfig::new([(key.to_owned(), text)]);
        prop_assert_eq!(drift(&desired, &found), []);
    }

    #[test]
    fn relevant_differences_are_drift(one in nets(), two in nets()) {
        let drifted = drift(
            &VmOptions::new().net(0, &one),
            &VmConfig::new([("net0".to_owned(), two.to_string())]),
        );
        let is_same = one == Net { mac: if one.mac.is_none() { None } else { two.mac }, ..two };
        prop_assert_eq!(drifted.is_empty(), is_same);
    }
}
