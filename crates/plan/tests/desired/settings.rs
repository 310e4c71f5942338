//! Effect of single settings on a config.

use talmox_plan::desired::{DeriveError, Phase};

use crate::support::{Parts, inventory, render};

fn one(version: &str, cluster: &str, node: &str) -> (Parts, String, Vec<String>) {
    let text = format!(
        "talos_version: {version}\nnetwork: {{subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1], search: [lan]}}\n\
         proxmox: {{endpoint: https://pve:8006, token: {{env: T}}, node: pve}}\n{cluster}\n\
         controlplane:\n  - {{name: cp-1, ip: 10.0.0.11, {node}}}\n"
    );
    let rendered = render(&inventory(&text), Phase::Final).unwrap();
    let node = &rendered[0].1;
    (Parts::of(node), node.config.expose().to_owned(), node.warnings.clone())
}

#[test]
fn each_version_gets_its_form_of_the_config() {
    for (version, installer, has_document) in [
        ("v1.8.2", "installer/", false),
        ("v1.9.5", "installer/", false),
        ("v1.10.1", "nocloud-installer/", false),
        ("v1.11.2", "nocloud-installer/", false),
        ("v1.12.4", "nocloud-installer/", true),
        ("v1.13.9", "nocloud-installer/", true),
        ("v1.14.0", "nocloud-installer/", true),
    ] {
        let (parts, _, warnings) = one(version, "", "disks: [{size: 20G, volume: data}]");
        let image = parts.text("machine/install/image").unwrap();
        assert!(image.contains(&format!("factory.talos.dev/{installer}")), "{version}: {image}");
        assert!(image.ends_with(&format!(":{version}")), "{image}");
        assert_eq!(parts.text("machine/network/hostname").is_none(), has_document, "{version}");
        assert_eq!(parts.kinds().contains(&"HostnameConfig".to_owned()), has_document, "{version}");
        assert_eq!(parts.text("cluster/allowSchedulingOnControlPlanes").as_deref(), Some("true"));
        let volumes = parts.kinds().contains(&"UserVolumeConfig data".to_owned());
        assert_eq!(volumes, !matches!(version, "v1.8.2" | "v1.9.5"), "{version}");
        assert_eq!(
            parts.each("machine/disks", "device"),
            if volumes {
                vec![]
            } else {
                vec!["/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1"]
            }
        );
        let left_out =
            "`network.search` is left out: Talos v1.8 has no search domains in its config";
        let expected = if version == "v1.8.2" { vec![left_out] } else { vec![] };
        assert_eq!(warnings, expected, "{version}");
    }
}

#[test]
fn disks_are_selected_by_stable_links() {
    for (bus, prefix) in [
        ("scsi", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi"),
        ("virtio", "virtio-drive-virtio"),
        ("sata", "ata-QEMU_HARDDISK_drive-sata"),
    ] {
        let link = |index: u8| format!("/dev/disk/by-id/{prefix}{index}");
        for version in ["v1.8.2", "v1.9.5", "v1.10.1", "v1.12.4", "v1.13.9", "v1.14.0"] {
            let disks =
                "disks: [{size: 20G, volume: alpha}, {size: 9G}, {size: 20G, volume: beta}]";
            let (parts, config, _) = one(version, "", &format!("disk_bus: {bus}, {disks}"));
            assert_eq!(parts.text("machine/install/disk"), Some(link(0)), "{version}");
            if parts.kinds().contains(&"UserVolumeConfig alpha".to_owned()) {
                for index in [1, 3] {
                    let desired = format!("\"{}\" in disk.symlinks", link(index));
                    assert!(config.contains(&desired), "{version}: {desired}\n{config}");
                }
                assert!(!config.contains("dev_path"), "{version}");
            } else {
                assert_eq!(parts.each("machine/disks", "device"), [link(1), link(3)], "{version}");
            }
            let letters = ["/dev/sd", "/dev/vd"];
            assert!(!letters.iter().any(|start| config.contains(start)), "{version}: {config}");
        }
    }
}

#[test]
fn an_install_disk_of_a_patch_is_kept() {
    let patch = "patches: {all: [{machine: {install: {disk: /dev/sdq}}}]}";
    let (parts, _, _) = one("v1.13.9", patch, "");
    assert_eq!(parts.text("machine/install/disk").as_deref(), Some("/dev/sdq"));
}

#[test]
fn documents_replace_interfaces_on_request() {
    let text = "\
talos_version: v1.12.4
network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1], search: [lan], vip: 10.0.0.20, form: documents, time_servers: [ntp.lan]}
proxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}
controlplane:
  - {name: cp-1, ip: 10.0.0.11, vlans: [{id: 20, ip: 10.20.0.11/24}], nics: [{bridge: vmbr1, dhcp: true}]}
";
    let rendered = render(&inventory(text), Phase::Final).unwrap();
    let parts = Parts::of(&rendered[0].1);
    assert!(parts.node("machine/network/interfaces").is_none());
    assert!(parts.node("machine/time").is_none());
    let mut kinds = parts.kinds();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "DHCPv4Config eth1",
            "HostnameConfig",
            "Layer2VIPConfig 10.0.0.20",
            "LinkConfig eth0",
            "LinkConfig eth1",
            "ResolverConfig",
            "TimeSyncConfig",
            "VLANConfig eth0.20",
        ]
    );
}

#[test]
fn a_vip_left_to_kube_vip_is_not_in_the_config() {
    let vip = "endpoint: https://10.0.0.20:6443";
    let (_, config, _) = one("v1.12.4", vip, "");
    assert!(!config.contains("vip:"));
    let text = "network: {subnet: 10.0.0.0/16, gateway: 10.0.0.1, vip: 10.0.0.20, vip_by: kube-vip}\n\
        talos_version: v1.12.4\nproxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}\n\
        controlplane: [{name: a, ip: 10.0.0.11}]\n";
    let rendered = render(&inventory(text), Phase::Final).unwrap();
    assert!(!rendered[0].1.config.expose().contains("vip:"));
    assert_eq!(
        Parts::of(&rendered[0].1).text("cluster/controlPlane/endpoint").as_deref(),
        Some("https://10.0.0.20:6443")
    );
}

#[test]
fn short_options_add_all_their_settings() {
    let (parts, config, _) =
        one("v1.11.2", "", "longhorn: true, nvidia: production, kernel_modules: [nbd, zfs]");
    assert_eq!(
        parts.each("machine/kernel/modules", "name"),
        [
            "nbd",
            "iscsi_tcp",
            "iscsi_generic",
            "configfs",
            "nvidia",
            "nvidia_uvm",
            "nvidia_drm",
            "nvidia_modeset",
            "zfs"
        ]
    );
    assert!(config.contains("net.core.bpf_jit_harden: \"1\""), "{config}");
    assert_eq!(parts.each("machine/kubelet/extraMounts", "destination"), ["/var/lib/longhorn"]);
    let (parts, config, _) =
        one("v1.13.9", "", "longhorn: true, nvidia: lts, disks: [{size: 50G, volume: longhorn}]");
    assert!(!config.contains("bpf_jit_harden"));
    assert!(parts.node("machine/kubelet/extraMounts").is_none());
}

#[test]
fn kubernetes_settings_are_in_the_config() {
    let settings = "labels: {zone: a, 'n': 1}, annotations: {x: y}, taints: ['gpu=true:NoSchedule', 'a:NoExecute'], \
        kubelet: {extra_args: {rotate-server-certificates: true}, extra_mounts: [{destination: /var/x}]}, \
        sysctls: {vm.nr_hugepages: 1024}, install_disk: /dev/nvme0n1";
    let (parts, config, _) = one("v1.12.4", "", settings);
    assert_eq!(parts.text("machine/nodeLabels/zone").as_deref(), Some("a"));
    assert_eq!(parts.text("machine/nodeLabels/n").as_deref(), Some("1"));
    assert_eq!(parts.text("machine/nodeTaints/gpu").as_deref(), Some("true:NoSchedule"));
    assert_eq!(parts.text("machine/nodeTaints/a").as_deref(), Some("NoExecute"));
    assert_eq!(parts.text("machine/install/disk").as_deref(), Some("/dev/nvme0n1"));
    assert!(config.contains("rotate-server-certificates: \"true\""), "{config}");
    assert!(config.contains("vm.nr_hugepages: \"1024\""), "{config}");
}

#[test]
fn registries_have_the_form_of_the_version() {
    let registries = "registries: {mirrors: {ghcr.io: {endpoints: ['https://m.lan'], skip_fallback: true}}, \
        auth: {m.lan: {username: u, password: {env: P}}}}";
    let (parts, config, _) = one("v1.11.2", "", registries);
    assert_eq!(
        parts.text("machine/registries/config/m.lan/auth/password").as_deref(),
        Some("secret-of-a-test")
    );
    assert!(config.contains("skipFallback: true"));
    let (parts, _, _) = one("v1.12.4", "", registries);
    assert!(parts.node("machine/registries").is_none());
    let kinds = parts.kinds();
    assert!(kinds.contains(&"RegistryMirrorConfig ghcr.io".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"RegistryAuthConfig m.lan".to_owned()), "{kinds:?}");
}

#[test]
fn scalars_of_patches_keep_their_meaning() {
    let patches = "patches: {all: [{machine: {files: [{path: /var/x, permissions: 0o644, op: create, content: 'off'}], env: {A: off, B: 1_000, C: 2020-01-01}}}]}";
    let (_, config, _) = one("v1.11.2", patches, "");
    for line in ["permissions: 0o644", "A: \"off\"", "B: \"1_000\"", "C: \"2020-01-01\""] {
        assert!(config.contains(line), "{line}: {config}");
    }
}

#[test]
fn an_invalid_config_is_an_error_that_names_its_patch() {
    let render_with = |patches: &str| {
        let text = format!(
            "talos_version: v1.12.4\nnetwork: {{subnet: 10.0.0.0/16, gateway: 10.0.0.1}}\n\
             proxmox: {{endpoint: https://pve:8006, token: {{env: T}}, node: pve}}\n\
             patches: {{all: [{patches}]}}\ncontrolplane: [{{name: a, ip: 10.0.0.11}}]\n"
        );
        let inventory = inventory(&text);
        let places: Vec<_> = {
            let cluster = &inventory.clusters[0];
            cluster.patches(&cluster.nodes[0]).map(|patch| patch.span).collect()
        };
        (render(&inventory, Phase::Final).unwrap_err(), places)
    };
    assert_eq!(render_with("{machine: {typo: 1}}").0.to_string(), "apply a patch");
    let hostname = "{machine: {network: {hostname: other}}}";
    let sysctl = "{machine: {sysctls: {a: b}}}";
    let (error, places) = render_with(&format!("{sysctl}, {hostname}, {sysctl}"));
    assert!(error.to_string().starts_with("Talos rejects"), "{error}");
    let DeriveError::Invalid(problems) = &error else { panic!("{error:?}") };
    assert!(!problems.is_empty());
    assert!(problems.iter().all(|problem| problem.patch == Some(places[1])), "{problems:?}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

#[test]
fn the_boot_way_meta_puts_the_address_into_the_image() {
    let text = "talos_version: v1.12.4\nboot: meta\nnetwork: {subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [1.1.1.1]}\n\
        proxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}\n\
        controlplane: [{name: a, ip: 10.0.0.11}]\nworkers: [{name: b, ip: 10.0.0.12}]\n";
    let rendered = render(&inventory(text), Phase::Final).unwrap();
    let image = rendered[0].1.image.as_ref().unwrap();
    assert_ne!(image.id, rendered[1].1.image.as_ref().unwrap().id, "one image for each node");
    assert!(image.installer.contains("/metal-installer/"), "{}", image.installer);
    let schematic = image.schematic.as_ref().unwrap().to_yaml();
    assert!(schematic.contains("net.ifnames=0"), "{schematic}");
    assert!(schematic.contains("10.0.0.11/16"), "{schematic}");
}

#[test]
fn identities_are_stable_and_differ() {
    let text = "talos_version: v1.12.4\nnetwork: {subnet: 10.0.0.0/16, gateway: 10.0.0.1}\n\
        proxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}\n\
        controlplane: [{name: a, ip: 10.0.0.11, nics: [{bridge: vmbr1}, {bridge: vmbr2, mac: '02:00:00:00:00:01'}]}]\nworkers: [{name: b, ip: 10.0.0.12}]\n";
    let rendered = render(&inventory(text), Phase::Final).unwrap();
    let (a, b) = (&rendered[0].1.identity, &rendered[1].1.identity);
    assert_ne!(a.uuid, b.uuid);
    assert_eq!(a.macs.len(), 3);
    assert_eq!(a.macs[2].to_string(), "02:00:00:00:00:01");
    assert!(a.macs.iter().all(|mac| mac.bytes()[0] == 2 && !b.macs.contains(mac)));
    assert_eq!(render(&inventory(text), Phase::Final).unwrap()[0].1.identity, *a);
}

#[test]
fn the_vip_is_in_the_certificates_unless_it_is_the_endpoint() {
    let sans = |vip: &str| {
        let text = format!(
            "talos_version: v1.12.4\nendpoint: https://10.9.0.21:6443\n\
             network: {{subnet: 10.9.0.0/24, gateway: 10.9.0.1, vip: {vip}}}\n\
             proxmox: {{endpoint: https://pve:8006, token: {{env: T}}, node: pve}}\n\
             controlplane: [{{name: a, ip: 10.9.0.11}}]\n"
        );
        let rendered = render(&inventory(&text), Phase::Final).unwrap();
        talmox_yaml::emit(Parts::of(&rendered[0].1).node("machine/certSANs").unwrap(), 2)
    };
    assert_eq!(sans("10.9.0.2"), "- 10.9.0.2\n");
    assert_eq!(sans("10.9.0.21"), "[]\n");
}

#[test]
fn networks_follow_the_family_of_the_endpoint() {
    let text = "talos_version: v1.12.4\nnetwork: {subnet: 'fd00:1::/64', gateway: 'fd00:1::1'}\n\
        proxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}\n\
        controlplane: [{name: a, ip: 'fd00:1::11'}]\n";
    let rendered = render(&inventory(text), Phase::Final).unwrap();
    let parts = Parts::of(&rendered[0].1);
    for path in ["cluster/network/podSubnets", "cluster/network/serviceSubnets"] {
        let subnets = talmox_yaml::emit(parts.node(path).unwrap(), 2);
        assert!(subnets.contains("::"), "{subnets}");
    }
}

#[test]
fn a_node_with_a_lease_is_contacted_at_its_address() {
    let text = "talos_version: v1.12.4\nboot: dhcp\n\
        proxmox: {endpoint: https://pve:8006, token: {env: T}, node: pve}\n\
        controlplane: [{name: a, dhcp: 10.5.0.9}]\nworkers: [{name: b, dhcp: 10.5.0.10, ip: 10.6.0.2/24}]\n";
    for phase in [Phase::Final, Phase::Dhcp, Phase::Static] {
        let rendered = render(&inventory(text), phase).unwrap();
        let parts = Parts::of(&rendered[0].1);
        assert_eq!(
            parts.text("cluster/controlPlane/endpoint").as_deref(),
            Some("https://10.5.0.9:6443")
        );
        assert_eq!(parts.each("machine/network/interfaces", "dhcp"), ["true"]);
    }
}

#[test]
fn a_built_in_pod_network_replaces_flannel_and_kube_proxy() {
    let of = |cluster: &str| {
        let (parts, ..) = one("v1.11.2", cluster, "");
        (parts.text("cluster/network/cni/name"), parts.text("cluster/proxy/disabled"))
    };
    let (cni, proxy) = of("");
    assert_ne!(cni.as_deref(), Some("none"));
    assert_ne!(proxy.as_deref(), Some("true"));
    let (cni, proxy) = of("addons: [{name: net, builtin: cilium}]");
    assert_eq!((cni.as_deref(), proxy.as_deref()), (Some("none"), Some("true")));
}
