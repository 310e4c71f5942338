//! Merging and deleting with patches, one rule at a time.

use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::{Config, Release};

fn try_patch(config: &str, changes: &[&str], release: Release) -> Result<String, String> {
    let patches: Vec<Patch> = changes
        .iter()
        .map(|text| Patch::parse(text, release))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    patch::apply(config, &patches, release).map_err(|error| error.to_string())
}

/// Applies a patch that must be valid, and returns the resulting config.
fn patched(config: &str, change: &str) -> String {
    try_patch(config, &[change], Release::default()).expect("patched")
}

fn rejection(config: &str, change: &str) -> String {
    try_patch(config, &[change], Release::default()).expect_err("a rejection")
}

fn canonical(config: &str) -> String {
    Config::parse(config, Release::default()).expect("a config").encode()
}

fn check(config: &str, change: &str, expected: &str) {
    assert_eq!(patched(config, change), canonical(expected), "{change}");
}

#[test]
fn empty_values_do_not_override_but_pointers_do() {
    check(
        "machine: {install: {disk: /dev/sda, wipe: true}}",
        "machine: {install: {disk: '', wipe: false}}",
        "machine: {install: {disk: /dev/sda, wipe: false}}",
    );
    check(
        "machine: {install: {disk: /dev/sda, wipe: true}}",
        "machine: {install: {disk: ~, wipe: ~}}",
        "machine: {install: {disk: /dev/sda, wipe: true}}",
    );
}

#[test]
fn lists_append_unless_they_are_replaced() {
    check(
        "machine: {certSANs: [a]}\ncluster: {network: {podSubnets: [10.0.0.0/8]}}",
        "machine: {certSANs: [a, b]}\ncluster: {network: {podSubnets: [10.1.0.0/16]}}",
        "machine: {certSANs: [a, a, b]}\ncluster: {network: {podSubnets: [10.1.0.0/16]}}",
    );
}

#[test]
fn interfaces_are_merged_by_name_or_selector() {
    check(
        "machine: {network: {interfaces: [{interface: eth0, mtu: 1500, addresses: [1.1.1.1/8]}]}}",
        "machine: {network: {interfaces: [{interface: eth0, mtu: 9000, addresses: [2.2.2.2/8]}]}}",
        "machine: {network: {interfaces: [{interface: eth0, mtu: 9000, \
         addresses: [1.1.1.1/8, 2.2.2.2/8]}]}}",
    );
    let by_mac = "machine: {network: {interfaces: [{deviceSelector: {hardwareAddr: 'aa:*'}";
    check(
        &format!("{by_mac}, dhcp: true}}]}}}}"),
        &format!("{by_mac}, dhcp: false}}]}}}}"),
        &format!("{by_mac}, dhcp: false}}]}}}}"),
    );
    let physical = "machine: {network: {interfaces: [{deviceSelector: {physical: true}}]}}";
    check(
        physical,
        physical,
        "machine: {network: {interfaces: [{deviceSelector: {physical: true}}, \
         {deviceSelector: {physical: true}}]}}",
    );
}

#[test]
fn a_certificate_is_replaced_with_its_key() {
    check(
        "machine: {ca: {crt: YQ==, key: Yg==}}",
        "machine: {ca: {crt: Yw==}}",
        "machine: {ca: {crt: Yw==, key: ''}}",
    );
}

#[test]
fn endpoints_merge_part_by_part() {
    check(
        "cluster: {controlPlane: {endpoint: 'https://a:6443/path'}}",
        "cluster: {controlPlane: {endpoint: 'https://b:443'}}",
        "cluster: {controlPlane: {endpoint: 'https://b:443/path'}}",
    );
}

#[test]
fn sizes_and_selectors_are_always_replaced() {
    check(
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nprovisioning: {diskSelector: \
         {match: system_disk}, minSize: 1GB, maxSize: 2GB}",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nfilesystem: {type: ext4}",
        "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: a\nprovisioning: {maxSize: 2GB}\n\
         filesystem: {type: ext4}",
    );
}

#[test]
fn generic_values_merge_by_type() {
    let config = |inner: &str| {
        format!(
            "cluster: {{apiServer: {{admissionControl: [{{name: A, configuration: {inner}}}]}}}}"
        )
    };
    check(
        &config("{a: {b: 1, l: [1]}, s: x}"),
        &config("{a: {c: 2, l: [2]}, s: ''}"),
        &config("{a: {b: 1, c: 2, l: [1, 2]}, s: x}"),
    );
    let reason = rejection(&config("{a: 1}"), &config("{a: x}"));
    assert!(reason.contains("merge type mismatch left int right string"), "{reason}");
}

#[test]
fn arguments_are_lists_since_1_13() {
    let config = "machine: {kubelet: {extraArgs: {a: x, b: y}}}";
    check(
        config,
        "machine: {kubelet: {extraArgs: {a: [off, '1'], b: ''}}}",
        "machine: {kubelet: {extraArgs: {a: [off, '1'], b: ~}}}",
    );
    let list = "machine: {kubelet: {extraArgs: {a: [p, q]}}}";
    assert!(try_patch(config, &[list], Release::V1_12).is_err());
}

#[test]
fn deletions_remove_keys_items_and_documents() {
    check(
        "machine: {sysctls: {a: '1', b: '2'}, certSANs: [x]}",
        "machine: {sysctls: {a: {$patch: delete}}, certSANs: {$patch: delete}}",
        "machine: {sysctls: {b: '2'}}",
    );
    check(
        "machine: {network: {interfaces: [{interface: eth0}, {interface: eth1}]}}",
        "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: eth2}]}}",
        "machine: {network: {interfaces: [{interface: eth1}, {interface: eth2}]}}",
    );
    let host = "apiVersion: v1alpha1\nkind: HostnameConfig\n";
    check(
        &format!("machine: {{type: worker}}\n---\n{host}auto: stable"),
        &format!("{host}$patch: delete"),
        "machine: {type: worker}",
    );
}

#[test]
fn deletions_without_a_target_are_rejected() {
    let reason =
        rejection("machine: {sysctls: {a: '1'}}", "machine: {sysctls: {b: {$patch: delete}}}");
    assert_eq!(
        reason,
        "patch delete: path 'machine.sysctls.b' in document '/v1alpha1': failed to delete path \
         'machine.sysctls.b': lookup failed"
    );
    // Deleting a document that does not exist adds an empty document, as in Talos.
    let output = patched(
        "machine: {type: worker}",
        "apiVersion: v1alpha1\nkind: HostnameConfig\n$patch: delete",
    );
    assert!(output.ends_with("---\n{}\n"), "{output}");
    for wrong in [
        "$patch: delete",
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n$patch: delete",
        "machine: {network: {interfaces: [{interface: eth0, dhcp: {$patch: delete}}]}}",
        "kind: HostnameConfig\nauto: {$patch: delete}",
    ] {
        let reason = try_patch("machine: {type: worker}", &[wrong], Release::default());
        assert!(reason.is_err(), "{wrong}");
    }
}

#[test]
fn documents_are_matched_by_kind_and_name() {
    let link = |name: &str, rest: &str| {
        format!("apiVersion: v1alpha1\nkind: LinkConfig\nname: {name}\n{rest}\n")
    };
    let output = patched(
        &link("eth0", "mtu: 1500"),
        &format!("{}---\n{}", link("eth1", "up: true"), link("eth0", "mtu: 9000")),
    );
    let expected = format!("{}---\n{}", link("eth0", "mtu: 9000"), link("eth1", "up: true"));
    assert_eq!(output, expected);
    let twice = format!("{}---\n{}", link("eth0", "up: true"), link("eth0", "up: true"));
    assert!(rejection(&link("eth0", ""), &twice).contains("duplicate document"));
    let bond = link("eth0", "").replace("LinkConfig", "BondConfig");
    assert!(rejection(&link("eth0", ""), &bond).contains("conflicting documents"));
}

#[test]
fn json_patches_add_replace_and_remove() {
    let change = "- {op: add, path: /machine/certSANs/-, value: b}\n\
                  - {op: replace, path: /machine/token, value: t}\n\
                  - {op: remove, path: /machine/sysctls/a~1b}\n";
    check(
        "machine: {certSANs: [a], sysctls: {a/b: '1', c: '2'}}",
        change,
        "machine: {certSANs: [a, b], token: t, sysctls: {c: '2'}}",
    );
    let reason = rejection("machine: {type: worker}", "[{op: remove, path: /cluster/x}]");
    assert!(reason.contains("missing"), "{reason}");
}

#[test]
fn invalid_patches_are_rejected() {
    for wrong in ["{}", "version: v1alpha1", "machine: {nope: 1}", "just text", "[1, 2]", "a: ["] {
        let outcome = try_patch("machine: {type: worker}", &[wrong], Release::default());
        assert!(outcome.is_err(), "{wrong}");
    }
}
