//! Tests that the resources of nodes have the ids, fields and owners of real nodes.
//!
//! Some values were observed on real nodes: the numbers of definitions and routes, the form of route ids, and the three
//! endpoints. Others are the length of the kubelet's spec, `$(POD_IP)`, and the listen addresses of etcd. All remaining values
//! come from the source code of Talos.

use talmox_talos_api::Client;
use talmox_talos_api::client::{Resource, ResourceKind};
use talmox_talos_api::proto::cosi::resource::GetRequest;
use talmox_talos_api::proto::cosi::resource::state_client::StateClient;

use super::test_bed::{TestBed, until};

fn kind(name: &str) -> ResourceKind<'_> {
    let namespace = match name.split_once('.').unwrap().1 {
        "cri.talos.dev" => "cri",
        "etcd.talos.dev" => "etcd",
        "files.talos.dev" => "files",
        "kubernetes.talos.dev" | "k8s.talos.dev" => "k8s",
        "meta.cosi.dev" => "meta",
        "net.talos.dev" => "network",
        "secrets.talos.dev" => "secrets",
        _ => "runtime",
    };
    ResourceKind::new(namespace, name)
}

async fn list(client: &Client, kind: ResourceKind<'_>) -> Vec<Resource> {
    client.list(kind).await.unwrap()
}

async fn ids(client: &Client, name: &str) -> Vec<String> {
    list(client, kind(name)).await.into_iter().map(|one| one.id).collect()
}

/// Spec of a resource type that has exactly one resource, as YAML.
async fn only(client: &Client, kind: ResourceKind<'_>) -> String {
    let all = list(client, kind).await;
    assert_eq!(all.len(), 1, "{}: {all:?}", kind.name);
    all[0].yaml().expose().to_owned()
}

fn control_plane(name: &str) -> ResourceKind<'_> {
    ResourceKind::new("controlplane", name)
}

#[test]
fn maintenance_mode_has_the_resource_definitions_of_its_release() {
    for (version, count) in [("v1.12.0", 160), ("v1.13.6", 167)] {
        let bed = TestBed::new(version);
        bed.start(11);
        bed.lab.wait(async {
            let client = bed.maintenance(11);
            let found = until("maintenance mode", || async {
                client.list(kind("ResourceDefinitions.meta.cosi.dev")).await.ok()
            })
            .await;
            assert_eq!(found.len(), count, "{version}");
            // For a type without resources, the answer is an empty list.
            assert!(ids(&client, "KubeletLifecycles.kubernetes.talos.dev").await.is_empty());
            // Anonymous callers cannot read sensitive resources.
            assert!(client.list(kind("CertSANs.secrets.talos.dev")).await.is_err());
            let version_of = only(&client, kind("Versions.runtime.talos.dev")).await;
            let expected = match version {
                "v1.12.0" => "version: v1.12.0\n",
                _ => "name: Talos\nversion: v1.13.6\n",
            };
            assert_eq!(version_of, expected);
            // The platforms that talmox uses have no provider id.
            let platform = only(&client, kind("PlatformMetadatas.talos.dev")).await;
            assert!(platform.starts_with("platform: nocloud\nhostname: "), "{platform}");
            assert!(!platform.contains("providerId"), "{platform}");
        });
        bed.lab.stop();
    }
}

#[test]
fn the_network_resources_match_a_real_node() {
    let bed = TestBed::new("v1.12.0");
    bed.start(11);
    let patch = "machine:\n  network:\n    nameservers: [10.0.0.53]\n    searchDomains: [home.example]\n  time:\n    servers: [ntp.home.example]\n";
    bed.lab.wait(async {
        let client = bed.configure_with(11, &bed.patched(11, true, patch)).await;
        // Observed on a real node: the number of twelve routes, and the id of the default route. The other ids are derived from
        // the source code.
        assert_eq!(
            ids(&client, "RouteStatuses.net.talos.dev").await,
            [
                "eth0/inet6//fe80::/64/256",
                "inet4//10.0.0.0/24/0",
                "inet4/10.0.0.1//1024",
                "local/eth0/inet6//fe80::be24:11ff:fe00:b/128/0",
                "local/eth0/inet6//ff00::/8/256",
                "local/inet4//10.0.0.11/32/0",
                "local/inet4//10.0.0.255/32/0",
                "local/inet4//127.0.0.0/8/0",
                "local/inet4//127.0.0.1/32/0",
                "local/inet4//127.255.255.255/32/0",
                "local/inet4//169.254.116.108/32/0",
                "local/lo/inet6//::1/128/0",
            ]
        );
        let routes = list(&client, kind("RouteStatuses.net.talos.dev")).await;
        let default = routes.iter().find(|one| one.id == "inet4/10.0.0.1//1024").unwrap();
        assert_eq!(
            default.yaml().expose(),
            "family: inet4\ndst: \"\"\nsrc: \"\"\ngateway: 10.0.0.1\noutLinkIndex: 8\n\
             outLinkName: eth0\ntable: main\npriority: 1024\nscope: global\ntype: unicast\n\
             flags: \"\"\nprotocol: static\n"
        );
        assert_eq!(
            ids(&client, "AddressStatuses.net.talos.dev").await,
            [
                "eth0/10.0.0.11/24",
                "eth0/fe80::be24:11ff:fe00:b/64",
                "lo/127.0.0.1/8",
                "lo/169.254.116.108/32",
                "lo/::1/128",
            ]
        );
        let address = client.get(ResourceKind::ADDRESS_STATUS, "eth0/10.0.0.11/24").await;
        assert_eq!(
            address.unwrap().unwrap().yaml().expose(),
            "address: 10.0.0.11/24\nlinkIndex: 8\nlinkName: eth0\nfamily: inet4\nscope: global\n\
             flags: permanent\npriority: 0\n"
        );
        assert_eq!(
            ids(&client, "NodeAddresses.net.talos.dev").await,
            [
                "accumulative",
                "accumulative-no-k8s",
                "accumulative-only-k8s",
                "current",
                "current-no-k8s",
                "current-only-k8s",
                "default",
                "routed",
                "routed-no-k8s",
                "routed-only-k8s",
            ]
        );
        let link = client.get(ResourceKind::LINK_STATUS, "eth0").await.unwrap().unwrap();
        assert!(
            link.yaml().expose().contains("altNames:\n    - ens18\n    - enp6s18\n"),
            "{link:?}"
        );
        let resolvers = only(&client, kind("ResolverStatuses.net.talos.dev")).await;
        let expected = "dnsServers:\n    - 10.0.0.53\nsearchDomains:\n    - home.example\n";
        assert_eq!(resolvers, expected);
        let time = only(&client, kind("TimeServerStatuses.net.talos.dev")).await;
        assert_eq!(time, "timeServers:\n    - ntp.home.example\n");
        let files = list(&client, kind("EtcFileSpecs.files.talos.dev")).await;
        let file = |path: &str| files.iter().find(|one| one.id == path).unwrap().text("contents");
        assert_eq!(file("resolv.conf").unwrap(), "nameserver 127.0.0.53\n\nsearch home.example\n");
        assert_eq!(
            file("hosts").unwrap(),
            "127.0.0.1 localhost\n10.0.0.11 node-11\n::1       localhost ip6-localhost \
             ip6-loopback\nff02::1   ip6-allnodes\nff02::2   ip6-allrouters\n"
        );
    });
    bed.lab.stop();
}

#[test]
fn control_plane_resources_match_a_real_node() {
    let bed = TestBed::new("v1.12.0");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        let endpoints = until("an API server", || async {
            let all = list(&client, control_plane("Endpoints.kubernetes.talos.dev")).await;
            all.iter().any(|one| one.id == "kube-apiserver").then_some(all)
        })
        .await;
        let endpoints: Vec<_> =
            endpoints.iter().map(|one| (one.id.as_str(), one.yaml().expose())).collect();
        let expected = "addresses:\n    - 10.0.0.11\n";
        assert_eq!(
            endpoints,
            ["controlplane", "discovery", "kube-apiserver"].map(|id| (id, expected))
        );

        // Observed on a real node: 86 lines of `talosctl get -o yaml`. This test assumes that 11 of these lines are metadata,
        // and that the real node had no taint. The taint has 3 lines here.
        let kubelet = only(&client, kind("KubeletSpecs.kubernetes.talos.dev")).await;
        assert_eq!(kubelet.lines().count(), 86 - 11 + 3, "{kubelet}");
        assert!(kubelet.starts_with(
            "image: ghcr.io/siderolabs/kubelet:v1.34.1\nargs:\n    \
             - --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig\n    \
             - --cert-dir=/var/lib/kubelet/pki\n    - --config=/etc/kubernetes/kubelet.yaml\n    \
             - --hostname-override=node-11\n    \
             - --kubeconfig=/etc/kubernetes/kubeconfig-kubelet\n    - --node-ip=10.0.0.11\n\
             expectedNodename: node-11\nconfig:\n    address: 0.0.0.0\n"
        ));
        let api_server = control_plane("APIServerConfigs.kubernetes.talos.dev");
        let api_server = only(&client, api_server).await;
        assert!(api_server.contains("\nadvertisedAddress: $(POD_IP)\n"), "{api_server}");
        assert!(api_server.contains("\ncontrolPlaneEndpoint: https://10.0.0.11:6443\n"));
        let manifests = list(&client, control_plane("Manifests.kubernetes.talos.dev")).await;
        assert_eq!(
            manifests.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
            [
                "00-kubelet-bootstrapping-token",
                "01-csr-approver-role-binding",
                "01-csr-node-bootstrap",
                "01-csr-renewal-role-binding",
                "05-flannel",
                "10-kube-proxy",
                "11-core-dns",
                "11-core-dns-svc",
                "11-kube-config-in-cluster",
                "11-talos-node-rbac-template",
            ]
        );
        let etcd = only(&client, kind("EtcdSpecs.etcd.talos.dev")).await;
        assert!(
            etcd.starts_with(
                "name: node-11\nadvertisedAddresses:\n    - 10.0.0.11\nlistenPeerAddresses:\n    \
                 - 0.0.0.0\nlistenClientAddresses:\n    - 0.0.0.0\nimage: registry.k8s.io/etcd:v3.6."
            ) && etcd.ends_with("\nextraArgs: {}\n"),
            "{etcd}"
        );
        let prism = only(&client, kind("KubePrismStatuses.kubernetes.talos.dev")).await;
        assert_eq!(prism, "host: 127.0.0.1:7445\nhealthy: true\n");
        let prism = only(&client, kind("KubePrismConfigs.kubernetes.talos.dev")).await;
        assert!(prism.starts_with("host: 127.0.0.1\nport: 7445\nendpoints:\n"), "{prism}");
        let cache = only(&client, kind("ImageCacheConfigs.cri.talos.dev")).await;
        assert_eq!(cache, "status: disabled\ncopyStatus: skipped\nroots: []\n");
        let authorization = control_plane("AuthorizationConfigs.kubernetes.talos.dev");
        assert!(only(&client, authorization).await.ends_with(
            "config:\n    - type: Node\n      name: node\n      webhook: {}\n    - type: RBAC\n      \
             name: rbac\n      webhook: {}\n"
        ));
        for name in ["AdmissionControlConfigs", "AuditPolicyConfigs", "ConfigStatuses"] {
            only(&client, control_plane(&format!("{name}.kubernetes.talos.dev"))).await;
        }
        for name in ["KubeletConfigs", "KubeletLifecycles", "StaticPodServerStatuses"] {
            only(&client, kind(&format!("{name}.kubernetes.talos.dev"))).await;
        }
        only(&client, kind("EtcdConfigs.etcd.talos.dev")).await;
        assert_eq!(
            ids(&client, "NodeLabelSpecs.k8s.talos.dev").await,
            [
                "node-role.kubernetes.io/control-plane",
                "node.kubernetes.io/exclude-from-external-load-balancers",
            ]
        );
        assert_eq!(ids(&client, "CertSANs.secrets.talos.dev").await, ["api", "k8s", "maintenance"]);
        assert_eq!(ids(&client, "MountStatuses.block.talos.dev").await, ["EPHEMERAL", "STATE"]);
    });
    bed.lab.stop();
}

/// The client of talmox does not read owner, annotations and binary spec, so this test reads them directly.
#[test]
fn resource_metadata_names_the_controllers_of_talos() {
    let bed = TestBed::new("v1.12.0");
    bed.start(11);
    bed.lab.wait(async {
        bed.configure(11, true).await;
        let connection = bed.raw(11).await;
        let mut state = StateClient::with_origin(connection, "https://node".parse().unwrap());
        let get = |namespace: &str, name: &str, id: &str| GetRequest {
            namespace: namespace.to_owned(),
            r#type: format!("{name}.talos.dev"),
            id: id.to_owned(),
            options: None,
        };
        for (namespace, name, id, owner) in [
            ("k8s", "KubeletSpecs.kubernetes", "kubelet", "k8s.KubeletSpecController"),
            ("k8s", "Nodenames.kubernetes", "nodename", "k8s.NodenameController"),
            (
                "controlplane",
                "APIServerConfigs.kubernetes",
                "kube-apiserver",
                "k8s.ControlPlaneAPIServerController",
            ),
            (
                "controlplane",
                "Endpoints.kubernetes",
                "controlplane",
                "k8s.StaticEndpointController",
            ),
            ("controlplane", "Endpoints.kubernetes", "discovery", "cluster.EndpointController"),
            (
                "network",
                "AddressSpecs.net",
                "lo/127.0.0.1/8",
                "AddressMergeControllers.net.talos.dev",
            ),
            ("secrets", "CertSANs.secrets", "k8s", "secrets.KubernetesCertSANsController"),
            ("config", "MachineConfigs.config", "v1alpha1", ""),
        ] {
            let answer = state.get(get(namespace, name, id)).await.unwrap().into_inner();
            assert_eq!(answer.resource.unwrap().metadata.unwrap().owner, owner, "{name} {id}");
        }
        let answer = state.get(get("config", "MachineConfigs.config", "v1alpha1")).await.unwrap();
        let resource = answer.into_inner().resource.unwrap();
        let annotations = resource.metadata.unwrap().annotations;
        assert_eq!(annotations.get("talos.dev/yaml-spec").map(String::as_str), Some("1"));
        // The first field of the message is the config. It consists of key, length and text.
        let spec = resource.spec.unwrap().proto_spec;
        assert_eq!(spec[0], 0x0a);
        assert!(spec.ends_with(bed.config(11, true).expose().as_bytes()));
    });
    bed.lab.stop();
}

/// Before 1.12, the YAML of the resource is the config itself. Since 1.12, it is a string that contains the config.
#[test]
fn machine_configs_are_strings_since_1_12() {
    for (version, is_string) in [("v1.11.6", false), ("v1.12.0", true)] {
        let bed = TestBed::new(version);
        bed.start(11);
        bed.lab.wait(async {
            let client = bed.configure(11, true).await;
            let found =
                client.get(ResourceKind::MACHINE_CONFIG, "v1alpha1").await.unwrap().unwrap();
            let applied = bed.config(11, true);
            assert_eq!(found.yaml() != &applied, is_string, "{version}");
            assert_eq!(found.yaml().expose().starts_with("|\n    version: v1alpha1\n"), is_string);
            assert_eq!(found.config_text(), applied, "{version}");
        });
        bed.lab.stop();
    }
}
