//! Values of a config that may be shown, and values that are hidden.

use talmox_talos_config::leaf::{Leaf, is_secret_name, leaves};
use talmox_talos_config::{Config, Release};

const CONFIG: &str = "\
version: v1alpha1
machine:
  type: controlplane
  token: hidden-1
  ca: {crt: aGlkZGVu, key: aGlkZGVu}
  env: {HTTP_PROXY: hidden-2}
  kubelet:
    nodeIP: {validSubnets: [10.0.0.0/8]}
    extraArgs: {node-labels: seen-1, bootstrap-token: hidden-3, foo-pass: hidden-32, DB_PASS2: hidden-33, tls-passthrough: seen-5}
    extraConfig: {maxPods: 200, staticPodURLHeader: {X-A: [hidden-4]}, tlsPrivateKeyFile: hidden-5}
    extraMounts:
      - {destination: /a, type: cifs, source: //a/b, options: [rw, 'user=a,password=hidden-6']}
  network:
    interfaces:
      - interface: wg0
        wireguard:
          privateKey: hidden-7
          peers: [{publicKey: seen-2, endpoint: 10.0.0.1:51820}]
  install:
    disk: /dev/sda
    image: factory.talos.dev/installer:v1@sha256:abc
    extraKernelArgs: [console=ttyS0, a.token=hidden-8, talos.environment=A=hidden-9]
  files: [{content: hidden-10, permissions: 0o600, path: /var/a, op: create}]
  registries:
    mirrors: {docker.io: {endpoints: ['https://hidden-11@a.example', 'https://keys.example']}}
    config: {keys.example: {auth: {username: hidden-12, password: hidden-13}, tls: {insecureSkipVerify: true}}}
  systemDiskEncryption:
    state: {provider: luks2, keys: [{slot: 0, static: {passphrase: hidden-14}}, {slot: 1, kms: {endpoint: 'https://kms.example'}}]}
  sysctls: {vm.swappiness: '10', net.ipv4.tcp_fastopen_key: hidden-15}
  features: {apidCheckExtKeyUsage: true}
  nodeLabels: {environment: seen-7, example.com/keyboard: seen-8, api-token: hidden-35, db.password: hidden-36}
  nodeAnnotations: {example.com/apikey: hidden-37}
  pods: [{spec: {containers: [{name: hidden-16}]}}]
  logging: {destinations: [{endpoint: 'tcp://a.example:1?t=hidden-17', format: json_lines}]}
cluster:
  id: hidden-18
  secret: hidden-19
  controlPlane: {endpoint: 'https://10.0.0.2:6443'}
  network:
    cni: {name: flannel, flannel: {extraArgs: [--iface=eth1, --etcd-password, hidden-20, --db-pass, hidden-34, '--bypass=seen-6']}}
    dnsDomain: cluster.local
    podSubnets: [10.244.0.0/16]
    serviceSubnets: [10.96.0.0/12]
  secretboxEncryptionSecret: hidden-21
  serviceAccount: {key: aGlkZGVu}
  apiServer:
    extraArgs: {oidc-issuer-url: 'https://a.example', anonymous-auth: 'false', authorization-mode: Node, oidc-client-secret: hidden-22}
    env: {A: hidden-23}
  discovery: {enabled: false}
  extraManifestHeaders: {X-A: hidden-24}
  inlineManifests: [{name: seen-3, contents: hidden-25}]
---
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: tailscale
configFiles: [{content: hidden-26, mountPath: /etc/a}]
environment: [A=hidden-27]
---
apiVersion: v1alpha1
kind: SideroLinkConfig
apiUrl: grpc://a.example?jointoken=hidden-28
---
apiVersion: v1alpha1
kind: KubeNodeConfig
unknown: hidden-29
---
apiVersion: v1alpha1
kind: WireguardConfig
name: wg1
privateKey: hidden-30
peers: [{publicKey: seen-4, presharedKey: hidden-31}]
";

#[test]
fn secrets_are_hidden_and_other_values_are_shown() {
    let config = Config::parse(CONFIG, Release::V1_14).unwrap();
    let all = leaves(&config);
    let shown: Vec<String> =
        all.iter().filter_map(|leaf| Some(format!("{} {}", leaf.path, leaf.shown()?))).collect();
    let text = shown.join("\n");
    assert!(!text.contains("hidden") && !text.contains("aGlkZGVu"), "{text}");
    for number in 1..=37 {
        let is_there = |leaf: &Leaf<'_>| leaf.text.contains(&format!("hidden-{number}"));
        assert!(all.iter().any(is_there), "hidden-{number}");
    }
    for line in [
        "machine.type controlplane",
        "machine.kubelet.nodeIP.validSubnets[0] 10.0.0.0/8",
        "machine.kubelet.extraArgs.node-labels seen-1",
        "machine.kubelet.extraArgs.tls-passthrough seen-5",
        "machine.kubelet.extraConfig.maxPods 200",
        "machine.kubelet.extraMounts[0].options[0] rw",
        "machine.network.interfaces[0].wireguard.peers[0].publicKey seen-2",
        "machine.install.image factory.talos.dev/installer:v1@sha256:abc",
        "machine.install.extraKernelArgs[0] console=ttyS0",
        "machine.files[0].path /var/a",
        "machine.registries.mirrors.docker.io.endpoints[1] https://keys.example",
        "machine.registries.config.keys.example.tls.insecureSkipVerify true",
        "machine.systemDiskEncryption.state.keys[1].kms.endpoint https://kms.example",
        "machine.sysctls.vm.swappiness 10",
        "machine.features.apidCheckExtKeyUsage true",
        "machine.nodeLabels.environment seen-7",
        "machine.nodeLabels.example.com/keyboard seen-8",
        "cluster.controlPlane.endpoint https://10.0.0.2:6443",
        "cluster.network.cni.flannel.extraArgs[0] --iface=eth1",
        "cluster.network.cni.flannel.extraArgs[5] --bypass=seen-6",
        "cluster.apiServer.extraArgs.oidc-issuer-url https://a.example",
        "cluster.apiServer.extraArgs.anonymous-auth false",
        "cluster.apiServer.extraArgs.authorization-mode Node",
        "cluster.discovery.enabled false",
        "cluster.inlineManifests[0].name seen-3",
        "ExtensionServiceConfig/tailscale.configFiles[0].mountPath /etc/a",
        "WireguardConfig/wg1.peers[0].publicKey seen-4",
    ] {
        assert!(shown.iter().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn names_of_secrets_are_recognized_by_their_words() {
    for name in [
        "pass",
        "foo-pass",
        "dbPass",
        "DB_PASS",
        "rootpass",
        "PASS1",
        "smtp.pass",
        "passFile",
        "passcode",
        "apiKey",
        "--env",
        "spec.env[0].value",
        "envFrom",
        "httpHeaders",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "bypass",
        "tlsBypass",
        "bypass-proxy",
        "passthrough",
        "pass-through",
        "sslPassThrough",
        "compass",
        "passive",
        "passes",
        "envoy",
        "data-dir",
        "metadata.generation",
        "spec.replicas",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}
