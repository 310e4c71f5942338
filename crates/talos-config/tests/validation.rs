//! Validation, one rule at a time.

use talmox_talos_config::patch::{Patch, apply_to};
use talmox_talos_config::validate::{Mode, Stage, validate, validate_strictly};
use talmox_talos_config::{Config, Release};

const WORKER: &str = "\
version: v1alpha1
machine:
    type: worker
    token: a
    ca: {crt: YQ==, key: ''}
    certSANs: []
cluster:
    controlPlane: {endpoint: 'https://10.5.0.2:6443'}
";

fn error(text: &str, mode: Mode, release: Release) -> Option<String> {
    let verdict = validate(text, mode, release);
    assert_eq!(verdict.stage, Stage::Validate, "{verdict:?}");
    verdict.error
}

/// The worker config with an additional key in `machine`.
fn with_machine(keys: &str) -> String {
    WORKER.replace("    token: a\n", &format!("    token: a\n    {keys}\n"))
}

fn document(kind: &str, keys: &str) -> Option<String> {
    let text = format!("apiVersion: v1alpha1\nkind: {kind}\n{keys}\n");
    error(&text, Mode::Cloud, Release::default())
}

#[test]
fn a_worker_needs_an_install_disk_on_metal_only() {
    assert_eq!(error(WORKER, Mode::Cloud, Release::default()), None);
    assert_eq!(
        error(WORKER, Mode::Metal, Release::default()).as_deref(),
        Some(
            "1 error occurred:\n\t* v1alpha1.Config: 1 error occurred:\n\t* install instructions \
             are required in \"metal\" mode\n\n\n\n"
        )
    );
    let with_disk = with_machine("install: {disk: /dev/sda}");
    assert_eq!(error(&with_disk, Mode::Metal, Release::default()), None);
}

#[test]
fn configs_that_do_not_decode_are_not_validated() {
    for (text, reason) in [
        ("[]", "expected a YAML document at line 1"),
        ("", "config not found"),
        ("machine: {nope: 1}", "unknown keys found during decoding:\nmachine:\n    nope: 1\n"),
        ("machine: {type: a, type: b}", "mapping key \"type\" already defined at line 1"),
        ("machine: {ca: {crt: '!'}}", "illegal base64 data"),
        ("kind: LinkConfig\nname: a", "missing apiVersion"),
        ("name: a", "missing kind"),
        ("apiVersion: v1\nkind: LinkConfig", "\"LinkConfig\" \"v1\": not registered"),
        ("machine:\n\ttype: worker\n", "yaml"),
        (
            "machine: {}\n---\nmachine: {}\n",
            "duplicate document /v1alpha1/ is not allowed (line 3)",
        ),
    ] {
        let verdict = validate(text, Mode::Cloud, Release::default());
        assert_eq!(verdict.stage, Stage::Decode, "{text}");
        let error = verdict.error.unwrap_or_default();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn kinds_and_keys_depend_on_the_release() {
    let vrf = "apiVersion: v1alpha1\nkind: VRFConfig\nname: a\ntable: '5'\n";
    assert_eq!(validate(vrf, Mode::Cloud, Release::V1_12).stage, Stage::Decode);
    assert_eq!(error(vrf, Mode::Cloud, Release::V1_13), None);
    let off = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\n";
    assert!(error(off, Mode::Cloud, Release::V1_12).is_some());
    assert_eq!(error(off, Mode::Cloud, Release::V1_13), None);
}

#[test]
fn workers_must_not_have_control_plane_settings() {
    for keys in [
        "network: {interfaces: [{interface: eth0, vip: {ip: 10.0.0.1}}]}",
        "features: {kubernetesTalosAPIAccess: {enabled: true}}",
        "nodeLabels: {'bad label!': x}",
        "nodeTaints: {a: 'b:Nope'}",
        "nodeAnnotations: {talos.dev/owned-labels: x}",
        "kubelet: {nodeIP: {validSubnets: [nope]}}",
        "kubelet: {extraConfig: {port: 1}}",
        "network: {interfaces: [{interface: eth0, routes: [{network: x}]}]}",
        "network: {interfaces: [{interface: eth0, bond: {mode: 802.3ad, updelay: 5}}]}",
        "network: {kubespan: {enabled: true}}",
        "logging: {destinations: [{endpoint: 'http://a', format: json_lines}]}",
        "baseRuntimeSpecOverrides: {process: 1}",
        "registries: {mirrors: {a: ~}}",
    ] {
        let text = with_machine(keys);
        assert!(error(&text, Mode::Cloud, Release::default()).is_some(), "{keys}");
    }
}

#[test]
fn documents_are_validated_by_kind() {
    for (kind, keys) in [
        ("LinkConfig", "up: true"),
        ("LinkConfig", "name: a\naddresses: [{address: 0.0.0.0/0}]"),
        ("BondConfig", "name: a\nlinks: [b]"),
        ("VLANConfig", "name: a\nparent: b\nvlanID: 4095"),
        ("Layer2VIPConfig", "name: a\nlink: eth0"),
        ("StaticHostConfig", "name: 10.0.0.1"),
        ("NetworkRuleConfig", "name: a\nportSelector: {ports: [1-5, 4], protocol: tcp}"),
        ("UserVolumeConfig", "name: a\nprovisioning: {diskSelector: {match: 'disk.size > 1'}}"),
        ("VolumeConfig", "name: OTHER"),
        ("VolumeConfig", "name: STATE\nencryption: {provider: luks2}"),
        ("ExtensionServiceConfig", "name: a"),
        ("KmsgLogConfig", "name: a\nurl: http://a"),
        ("SideroLinkConfig", "apiUrl: https://a/b"),
        ("WatchdogTimerConfig", "device: /dev/w\ntimeout: 5s"),
        ("RegistryTLSConfig", "name: a\nca: no certificate"),
        ("RoutingRuleConfig", "name: '0'\ntable: '5'"),
        ("EnvironmentConfig", "variables: {1a: b}"),
        ("TimeSyncConfig", "ntp: {}\nptp: {}"),
        ("WireguardConfig", "name: a\nprivateKey: x"),
    ] {
        assert!(document(kind, keys).is_some(), "{kind}: {keys}");
    }
    for (kind, keys) in [
        ("LinkConfig", "name: a\naddresses: [{address: 10.0.0.1/24}]"),
        ("LinkAliasConfig", "name: net%d\nselector: {match: 'link.driver == \"x\"'}"),
        ("UserVolumeConfig", "name: a\nvolumeType: directory"),
        ("RegistryMirrorConfig", "name: a\nendpoints: [{url: https://b}]"),
    ] {
        assert_eq!(document(kind, keys), None, "{kind}: {keys}");
    }
}

#[test]
fn old_and_new_forms_are_mutually_exclusive() {
    let host = "---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n";
    let old = with_machine("network: {hostname: b}");
    let both = error(&format!("{old}{host}"), Mode::Cloud, Release::default());
    assert!(both.is_some_and(|error| error.contains("static hostname is already set")));
    assert_eq!(error(&format!("{WORKER}{host}"), Mode::Cloud, Release::default()), None);
}

#[test]
fn strict_validation_turns_warnings_into_errors() {
    let text = WORKER.replace("type: worker", "type: join");
    let verdict = validate(&text, Mode::Cloud, Release::default());
    assert!(verdict.is_valid());
    assert_eq!(verdict.warnings, ["use \"worker\" instead of \"join\" for machine type"]);
    let config = Config::parse(&text, Release::default()).unwrap();
    let verdict = validate_strictly(&config, Mode::Cloud);
    assert!(verdict.warnings.is_empty());
    assert!(verdict.error.is_some_and(|error| error.contains("warning: use")));
}

#[test]
fn documents_known_by_name_only_keep_all_their_keys() {
    let before = "\
apiVersion: v1alpha1
kind: KernelModuleConfig
name: nvme
parameters:
    - a=1
mode: 0o644
---
apiVersion: v1alpha1
kind: SysctlConfig
sysctls:
    vm.swappiness: \"1\"
";
    let config = Config::parse(before, Release::V1_14).unwrap();
    assert_eq!(config.encode(), before);
    assert!(Config::parse(before, Release::V1_13).is_err());
    let change = "\
apiVersion: v1alpha1
kind: KernelModuleConfig
name: nvme
parameters: [b=2]
mode:
    $patch: delete
---
apiVersion: v1alpha1
kind: SysctlConfig
sysctls: {kernel.pid_max: \"9\"}
";
    let patch = Patch::parse(change, Release::V1_14).unwrap();
    let patched = apply_to(&config, &[patch]).unwrap().encode();
    let after = "\
apiVersion: v1alpha1
kind: KernelModuleConfig
name: nvme
parameters:
    - a=1
    - b=2
---
apiVersion: v1alpha1
kind: SysctlConfig
sysctls:
    kernel.pid_max: \"9\"
    vm.swappiness: \"1\"
";
    assert_eq!(patched, after);
    let twice = format!("{before}---\n{before}");
    assert!(Config::parse(&twice, Release::V1_14).is_err());
}

#[test]
fn keys_of_1_14_are_validated() {
    for (kind, keys, wanted) in [
        ("VolumeConfig", "name: ETCD", None),
        (
            "VolumeConfig",
            "name: ETCD\nmount: {disableAccessTime: true}",
            Some(
                "mount config for the \"ETCD\" volume is only supported when it is provisioned onto a dedicated \
                 partition",
            ),
        ),
        (
            "VolumeConfig",
            "name: STATE\nmount: {secure: false}",
            Some("mount config is not allowed for the \"STATE\" volume"),
        ),
        (
            "VolumeConfig",
            "name: EPHEMERAL\nscrub: {interval: 5s}",
            Some("scrub interval: minimum value is 10s"),
        ),
        (
            "VolumeConfig",
            "name: EPHEMERAL\ntrim: {interval: -1s}",
            Some("trim interval cannot be negative"),
        ),
        (
            "VolumeConfig",
            "name: OTHER",
            Some(
                "only [\"STATE\" \"EPHEMERAL\" \"IMAGECACHE\" \"ETCD\" \"CRI\" \"KUBELET\" \"LOG\"] volumes are \
                 supported",
            ),
        ),
        (
            "UserVolumeConfig",
            "name: a\nprovisioning: {diskSelector: {match: 'true'}, minSize: 1GiB}\nfilesystem: {type: btrfs, xfs: {}}",
            Some("xfs options are only available for xfs filesystem"),
        ),
        (
            "TimeSyncConfig",
            "ntp: {servers: [10.0.0.1], useNTS: true}",
            Some("NTS requires hostnames, not IP addresses: \"10.0.0.1\""),
        ),
        (
            "ResolverConfig",
            "nameservers: [{address: 9.9.9.9, protocol: dot}]",
            Some("tlsServerName must be set when protocol is DoT: entry 0"),
        ),
        (
            "ResolverConfig",
            "nameservers: [{address: 9.9.9.9, tlsServerName: a}]",
            Some("tlsServerName must be empty when protocol is Do53: entry 0"),
        ),
        (
            "ResolverConfig",
            "hostDNS: {resolveMemberNames: true}",
            Some("hostDNS.resolveMemberNames cannot be enabled when hostDNS.enabled is false"),
        ),
    ] {
        let text = format!("apiVersion: v1alpha1\nkind: {kind}\n{keys}\n");
        let found = error(&text, Mode::Cloud, Release::V1_14);
        match wanted {
            None => assert_eq!(found, None, "{text}"),
            Some(wanted) => assert!(
                found.as_deref().is_some_and(|found| found.contains(wanted)),
                "{text}{found:?}"
            ),
        }
    }
    let btrfs =
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nfilesystem: {type: btrfs}\n";
    assert_eq!(validate(btrfs, Mode::Cloud, Release::V1_13).stage, Stage::Decode);
    let both = with_machine("features: {hostDNS: {enabled: true}}")
        + "---\napiVersion: v1alpha1\nkind: ResolverConfig\nhostDNS: {enabled: true}\n";
    let verdict = validate(&both, Mode::Cloud, Release::V1_14).error.unwrap_or_default();
    let conflict = ".machine.features.hostDNS is already set in v1alpha1 config";
    assert!(verdict.contains(conflict), "{verdict}");
}
