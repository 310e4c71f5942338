//! The configs that the example inventories give.

use talmox_plan::desired::Phase;
use talmox_talos_config::leaf::leaves;
use talmox_talos_config::{Config, Release};

use crate::support::{Parts, bundle, example, render};

#[test]
fn shown_values_of_examples_contain_no_secret() {
    let bundle = bundle().to_yaml();
    let values = bundle.expose().lines().filter_map(|line| line.split_once(": "));
    let mut secrets: Vec<&str> = values.map(|(_, value)| value.trim_matches(['\'', '"'])).collect();
    assert!(secrets.len() > 10, "{}", secrets.len());
    secrets.push("secret-of-a-test");
    for name in ["em-dev", "home", "talos-cluster", "ubuntu-cluster", "vm-module"] {
        for (node, rendered) in render(&example(name), Phase::Final).unwrap() {
            if rendered.image.is_none() {
                continue;
            }
            let config = Config::parse(rendered.config.expose(), Release::default()).unwrap();
            let all = leaves(&config);
            assert!(all.iter().any(|leaf| leaf.text.contains(secrets[0])), "{name} {node}");
            for leaf in &all {
                let shown = leaf.shown().unwrap_or_default();
                let seen = secrets.iter().find(|secret| shown.contains(**secret));
                assert_eq!(seen, None, "{name} {node} {}", leaf.path);
            }
            let is_shown = |path: &str| {
                let mut found = all.iter().filter(|leaf| leaf.path == path);
                found.all(|leaf| leaf.shown().is_some())
            };
            assert!(is_shown("machine.type") && is_shown("cluster.controlPlane.endpoint"));
        }
    }
}

#[test]
fn the_two_images_of_talos_cluster_have_their_known_ids() {
    let rendered = render(&example("talos-cluster"), Phase::Final).unwrap();
    let base = "88d1f7a5c4f1d3aba7df787c448c1d3d008ed29cfb34af53fa0df4336a56040b";
    let gpu = "901b9afcf2f7eda57991690fc5ca00414740cc4ee4ad516109bcc58beff1b829";
    for (name, node) in &rendered {
        let image = node.image.as_ref().unwrap();
        let id = if name == "k8s-worker4" { gpu } else { base };
        assert_eq!(image.id, id, "{name}");
        assert_eq!(
            Parts::of(node).text("machine/install/image").unwrap(),
            format!("factory.talos.dev/nocloud-installer/{id}:v1.12.4")
        );
    }
}

#[test]
fn talos_cluster_has_its_patches_and_its_vip() {
    let rendered = render(&example("talos-cluster"), Phase::Final).unwrap();
    assert_eq!(rendered.len(), 7);
    for (name, node) in &rendered {
        let parts = Parts::of(node);
        let is_controlplane = name.contains("controller");
        assert_eq!(parts.text("cluster/network/cni/name").as_deref(), Some("none"), "{name}");
        assert_eq!(parts.text("cluster/proxy/disabled").as_deref(), Some("true"), "{name}");
        assert_eq!(
            parts.text("cluster/controlPlane/endpoint").as_deref(),
            Some("https://192.168.1.210:6443")
        );
        let interfaces = parts.node("machine/network/interfaces").unwrap().as_seq().unwrap();
        assert_eq!(interfaces.items.len(), 1, "one entry for the one card");
        let vip = interfaces.items[0].as_map().unwrap().get("vip");
        assert_eq!(vip.is_some(), is_controlplane, "{name}");
        let label = "node.longhorn.io/create-default-disk: config";
        assert_eq!(node.config.expose().contains(label), !is_controlplane, "{name}");
        let modules = parts.each("machine/kernel/modules", "name");
        let expected: &[&str] = match name.as_str() {
            "k8s-worker4" => &[
                "nbd",
                "iscsi_tcp",
                "iscsi_generic",
                "configfs",
                "nvidia",
                "nvidia_uvm",
                "nvidia_drm",
                "nvidia_modeset",
            ],
            _ if is_controlplane => &[],
            _ => &["nbd", "iscsi_tcp", "iscsi_generic", "configfs"],
        };
        assert_eq!(modules, expected, "{name}");
        assert_eq!(parts.kinds(), ["HostnameConfig"], "{name}");
        let hostname = format!("kind: HostnameConfig\nauto: \"off\"\nhostname: {name}\n");
        assert!(node.config.expose().contains(&hostname), "{}", node.config.expose());
        assert_eq!(node.warnings, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn home_has_static_addresses_and_headscale() {
    let rendered = render(&example("home"), Phase::Final).unwrap();
    let (name, node) = &rendered[0];
    let parts = Parts::of(node);
    assert_eq!(parts.text("machine/network/hostname").as_ref(), Some(name));
    let interface = &parts.node("machine/network/interfaces").unwrap().as_seq().unwrap().items[0];
    let interface = talmox_yaml::emit(interface, 2);
    let mac = node.identity.macs[0].to_string().to_lowercase();
    assert_eq!(
        interface,
        format!(
            "deviceSelector:\n  hardwareAddr: {mac}\naddresses:\n  - 10.0.0.11/16\nroutes:\n  \
             - network: 0.0.0.0/0\n    gateway: 10.0.0.1\ndhcp: false\nvip:\n  ip: 10.0.0.20\n"
        )
    );
    assert_eq!(parts.kinds(), ["ExtensionServiceConfig tailscale"]);
    let text = node.config.expose();
    assert!(text.contains("TS_AUTHKEY=secret-of-a-test"));
    assert!(text.contains("TS_EXTRA_ARGS=--login-server=https://headscale.example:8080"));
}

#[test]
fn home_renders_in_two_phases() {
    let inventory = example("home");
    for (name, node) in &render(&inventory, Phase::Dhcp).unwrap() {
        let parts = Parts::of(node);
        assert_eq!(
            parts.text("cluster/controlPlane/endpoint").as_deref(),
            Some("https://10.0.0.11:6443"),
            "{name}"
        );
        assert_eq!(parts.each("machine/network/interfaces", "dhcp"), ["true"]);
        assert!(!node.config.expose().contains("addresses:"), "{name}");
        assert!(!node.config.expose().contains("vip:"), "{name}");
    }
    for (_, node) in &render(&inventory, Phase::Static).unwrap() {
        assert_eq!(Parts::of(node).each("machine/network/interfaces", "dhcp"), ["false"]);
    }
}

#[test]
fn every_example_renders_the_same_bytes_twice() {
    for name in ["talos-cluster", "em-dev", "ubuntu-cluster", "vm-module", "home"] {
        let inventory = example(name);
        let texts = || -> Vec<String> {
            let rendered = render(&inventory, Phase::Final).unwrap();
            rendered.iter().map(|(_, node)| node.config.expose().to_owned()).collect()
        };
        assert_eq!(texts(), texts(), "{name}");
    }
}

#[test]
fn ubuntu_nodes_get_a_cloud_config() {
    let rendered = render(&example("ubuntu-cluster"), Phase::Final).unwrap();
    let (name, node) = &rendered[0];
    let text = node.config.expose();
    assert!(
        text.starts_with(&format!("#cloud-config\nhostname: {name}\nusers:\n  - name: ops\n")),
        "{text}"
    );
    assert!(text.contains("permissions: \"0644\"\n"), "{text}");
    assert!(node.image.is_none());
}
