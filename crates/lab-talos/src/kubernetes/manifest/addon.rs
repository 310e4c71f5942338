//! Manifests of Flannel, kube-proxy and CoreDNS, which Talos installs.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::rbac::bind;
use crate::config::Facts;
use crate::version::Version;

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACE: &str = "kube-system";

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
    })
}

fn subject(account: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE})
}

fn role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    })
}

/// DaemonSet whose pods use the host network.
fn daemon_set(name: &str, account: &str, labels: &Value, container: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": account,
                    "tolerations": [
                        {"effect": "NoSchedule", "operator": "Exists"},
                        {"effect": "NoExecute", "operator": "Exists"},
                    ],
                },
            },
        },
    })
}

pub(crate) fn flannel_image(version: &Version) -> String {
    let tag = match version.minor {
        ..=8 => "v0.25.7",
        9 => "v0.26.1",
        10 => "v0.26.7",
        11 => "v0.27.2",
        12 => "v0.27.4",
        _ => "v0.28.0",
    };
    format!("ghcr.io/siderolabs/flannel:{tag}")
}

pub(super) fn flannel(facts: &Facts, version: &Version) -> Vec<Value> {
    let network = facts.pod_subnets.first().map_or("10.244.0.0/16", String::as_str);
    let port = 4789;
    let net = json!({"Network": network, "Backend": {"Type": "vxlan", "Port": port}});
    let cni = json!({
        "name": "cbr0",
        "cniVersion": "1.0.0",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    let container = json!({
        "name": "kube-flannel",
        "image": flannel_image(version),
        "command": ["/opt/bin/flanneld"],
        "args": ["--ip-masq", "--kube-subnet-mgr"],
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
    });
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]);
    vec![
        role("flannel", &rules),
        bind("flannel", "flannel", &subject("flannel")),
        account("flannel"),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "kube-flannel-cfg",
                "namespace": NAMESPACE,
                "labels": {"tier": "node", "k8s-app": "flannel"},
            },
            "data": {"cni-conf.json": cni.to_string(), "net-conf.json": net.to_string()},
        }),
        daemon_set(
            "kube-flannel",
            "flannel",
            &json!({"tier": "node", "k8s-app": "flannel"}),
            &container,
        ),
    ]
}

pub(crate) fn proxy_args(facts: &Facts) -> Vec<String> {
    let pods = facts.pod_subnets.join(",");
    vec![
        format!("--cluster-cidr={pods}"),
        "--conntrack-max-per-core=0".to_owned(),
        "--hostname-override=$(NODE_NAME)".to_owned(),
        "--kubeconfig=/etc/kubernetes/kubeconfig".to_owned(),
        "--proxy-mode=nftables".to_owned(),
    ]
}

pub(super) fn kube_proxy(facts: &Facts) -> Vec<Value> {
    let command = [vec!["/usr/local/bin/kube-proxy".to_owned()], proxy_args(facts)].concat();
    let container = json!({
        "name": "kube-proxy",
        "image": facts.proxy_image,
        "command": command,
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    });
    vec![
        account("kube-proxy"),
        bind("kube-proxy", "system:node-proxier", &subject("kube-proxy")),
        daemon_set(
            "kube-proxy",
            "kube-proxy",
            &json!({"tier": "node", "k8s-app": "kube-proxy"}),
            &container,
        ),
    ]
}

/// Tenth address of the first service subnet. The kubelets use it as the address of the DNS service.
fn dns_address(facts: &Facts) -> Option<String> {
    let (network, _) = facts.service_subnets.first()?.split_once('/')?;
    let tenth = u32::from(network.parse::<Ipv4Addr>().ok()?).checked_add(10)?;
    Some(Ipv4Addr::from(tenth).to_string())
}

pub(crate) fn core_dns_image(version: &Version) -> String {
    let tag = match version.minor {
        ..=8 => "v1.11.3",
        9 | 10 => "v1.12.1",
        11 => "v1.12.3",
        12 => "v1.13.1",
        _ => "v1.14.1",
    };
    format!("registry.k8s.io/coredns/coredns:{tag}")
}

pub(super) fn core_dns(facts: &Facts, version: &Version) -> Vec<Value> {
    let domain = &facts.dns_domain;
    let corefile = format!(
        ".:53 {{\n    errors\n    health {{\n        lameduck 5s\n    }}\n    ready\n    kubernetes {domain} in-addr.arpa ip6.arpa\n    forward . /etc/resolv.conf\n    cache 30\n    loop\n    reload\n}}\n"
    );
    let labels = json!({"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"});
    let rules = json!([
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]);
    let container = json!({
        "name": "coredns",
        "image": core_dns_image(version),
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "protocol": "UDP", "containerPort": 53},
            {"name": "dns-tcp", "protocol": "TCP", "containerPort": 53},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "70Mi"}, "limits": {"memory": "170Mi"}},
    });
    vec![
        account("coredns"),
        role("system:coredns", &rules),
        bind("system:coredns", "system:coredns", &subject("coredns")),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns", "namespace": NAMESPACE},
            "data": {"Corefile": corefile},
        }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "coredns", "namespace": NAMESPACE, "labels": labels},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"k8s-app": "kube-dns"}},
                "template": {
                    "metadata": {"labels": {"k8s-app": "kube-dns"}},
                    "spec": {
                        "containers": [container],
                        "serviceAccountName": "coredns",
                        "priorityClassName": "system-cluster-critical",
                        "tolerations": [
                            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
                            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists", "effect": "NoSchedule"},
                        ],
                    },
                },
            },
        }),
    ]
}

pub(super) fn core_dns_service(facts: &Facts) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kube-dns",
            "namespace": NAMESPACE,
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
        },
        "spec": {
            "selector": {"k8s-app": "kube-dns"},
            "clusterIP": dns_address(facts),
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
            ],
        },
    })
}
