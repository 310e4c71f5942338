//! Properties of all configs and patches.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::validate::{Mode, validate};
use talmox_talos_config::{Config, Release};

const CONFIG: &str = "\
version: v1alpha1
machine:
    type: controlplane
    token: aaaaaa.bbbbbbbbbbbbbbbb
    certSANs:
        - 10.5.0.2
    network:
        interfaces:
            - interface: eth0
              vlans:
                - routes: []
                  vlanId: 100
        nameservers:
            - 1.1.1.1
    install:
        disk: /dev/sda
        wipe: false
    files:
        - content: a
          permissions: 0o644
          path: /var/a
          op: create
    sysctls:
        a: \"off\"
cluster:
    controlPlane:
        endpoint: https://10.5.0.2:6443
    network:
        dnsDomain: cluster.local
        podSubnets:
            - 10.244.0.0/16
        serviceSubnets: []
    apiServer:
        admissionControl:
            - name: PodSecurity
              configuration:
                defaults:
                    enforce: baseline
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth1
addresses:
    - address: 10.0.0.5/24
---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning:
    diskSelector:
        match: disk.size > 10u * GB
    minSize: 10GB
---
apiVersion: v1alpha1
kind: HostnameConfig
auto: stable
";

/// Keys of several documents, and one unknown key.
const KEYS: &[&str] = &[
    "machine",
    "cluster",
    "network",
    "interfaces",
    "interface",
    "vlans",
    "vlanId",
    "addresses",
    "address",
    "routes",
    "install",
    "files",
    "permissions",
    "sysctls",
    "type",
    "ca",
    "crt",
    "key",
    "controlPlane",
    "endpoint",
    "podSubnets",
    "apiServer",
    "admissionControl",
    "name",
    "configuration",
    "apiVersion",
    "kind",
    "auto",
    "provisioning",
    "diskSelector",
    "match",
    "maxSize",
    "$patch",
    "nonsense",
];

const SCALARS: &[&str] = &[
    "delete",
    "v1alpha1",
    "HostnameConfig",
    "LinkConfig",
    "UserVolumeConfig",
    "eth0",
    "eth1",
    "data",
    "off",
    "true",
    "0644",
    "1_000",
    "2020-01-01",
    "10.0.0.1/24",
    "https://a:6443/b",
    "\"\"",
    "null",
    "100",
    "'x: y'",
    "Zm9v",
    "50%",
    "[]",
    "{}",
    "*a",
    "&a b",
];

/// Random YAML in flow style, with any nesting.
fn yaml() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(SCALARS).prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 5, |inner| {
        let entry = (prop::sample::select(KEYS), inner.clone())
            .prop_map(|(key, value)| format!("{key}: {value}"));
        prop_oneof![
            3 => prop::collection::vec(entry, 0..5)
                .prop_map(|entries| format!("{{{}}}", entries.join(", "))),
            1 => prop::collection::vec(inner, 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
        ]
    })
}

fn documents() -> impl Strategy<Value = String> {
    prop::collection::vec(yaml(), 1..3).prop_map(|documents| documents.join("\n---\n"))
}

fn releases() -> impl Strategy<Value = Release> {
    prop::sample::select(vec![Release::V1_12, Release::V1_13])
}

fn patched(config: &str, patches: &[&str], release: Release) -> Option<String> {
    let patches: Result<Vec<_>, _> =
        patches.iter().map(|text| Patch::parse(text, release)).collect();
    patch::apply(config, &patches.ok()?, release).ok()
}

proptest! {
    #[test]
    fn patching_never_panics(patch in documents(), release in releases()) {
        if let Some(output) = patched(CONFIG, &[&patch], release) {
            // A deletion that finds nothing to delete leaves an empty document, which is not a valid config.
            if !output.contains("---\n{}\n") {
                prop_assert!(Config::parse(&output, release).is_ok(), "{output}");
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[ -~\n\t]{0,120}") {
        let release = Release::default();
        let _parsed = patched(CONFIG, &[&text], release);
        let _verdict = validate(&text, Mode::Metal, release);
    }

    #[test]
    fn written_configs_parse_to_the_same(text in documents(), release in releases()) {
        if let Ok(config) = Config::parse(&text, release) {
            let written = config.encode();
            let again = Config::parse(&written, release).map(|config| config.encode());
            prop_assert_eq!(again.as_ref(), Ok(&written));
        }
    }

    #[test]
    fn validation_is_deterministic(text in documents(), release in releases()) {
        let first = validate(&text, Mode::Cloud, release);
        prop_assert_eq!(first, validate(&text, Mode::Cloud, release));
    }
}

#[test]
fn an_empty_patch_changes_nothing() {
    for release in [Release::V1_12, Release::V1_13] {
        let canonical = Config::parse(CONFIG, release).unwrap().encode();
        assert_eq!(canonical, CONFIG);
        let nothing: [&[&str]; 4] = [
            &[],
            &["machine: {}"],
            &["cluster: {network: {}}\nmachine:\n"],
            &["apiVersion: v1alpha1\nkind: HostnameConfig\n"],
        ];
        for patches in nothing {
            let output = patched(CONFIG, patches, release);
            assert_eq!(output.as_deref(), Some(CONFIG), "{patches:?}");
        }
    }
}

#[test]
fn scalars_keep_their_meaning() {
    let patch = "machine:\n  sysctls: {b: off, c: 0644, d: 1_000, e: 2020-01-01, f: 1.50}\n";
    let output = patched(CONFIG, &[patch], Release::default()).unwrap();
    for line in [
        "a: \"off\"",
        "b: \"off\"",
        "c: \"0644\"",
        "d: \"1_000\"",
        "e: \"2020-01-01\"",
        "f: \"1.50\"",
    ] {
        assert!(output.contains(&format!("        {line}\n")), "{output}");
    }
    assert!(output.contains("permissions: 0o644\n"));
}

#[test]
fn json_patches_of_several_documents_are_rejected() {
    let patch = r#"[{"op": "add", "path": "/machine/certSANs/-", "value": "x"}]"#;
    let release = Release::default();
    let patch = Patch::parse(patch, release).unwrap();
    assert!(patch.is_json());
    let rejected = patch::apply(CONFIG, std::slice::from_ref(&patch), release).unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "JSON6902 patches are not supported for multi-document machine configuration"
    );
    let (single, _) = CONFIG.split_once("---\n").unwrap();
    let output = patch::apply(single, &[patch], release).unwrap();
    assert!(output.contains("        - 10.5.0.2\n        - x\n"));
}

/// Runs the corpus of `fuzz/fuzz_targets/patch.rs` without a fuzzer.
#[test]
fn the_fuzz_corpus_never_panics() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/patch");
    let mut patched = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        let Some((split, bytes)) = data.split_first() else { continue };
        let (config, change) = bytes.split_at(bytes.len() * usize::from(*split) / 255);
        let texts = (str::from_utf8(config), str::from_utf8(change));
        let (Ok(config), Ok(change)) = texts else { continue };
        for release in [Release::V1_12, Release::V1_13] {
            let Ok(change) = Patch::parse(change, release) else { continue };
            for patches in [vec![change.clone()], vec![change.clone(), change.clone()]] {
                patched += usize::from(patch::apply(config, &patches, release).is_ok());
            }
        }
    }
    assert!(patched > 16, "only {patched} patches can be applied");
}
