//! Edge cases of YAML and JSON in which Talos's libraries differ from the standards.

use talmox_talos_config::patch::{self, Patch};
use talmox_talos_config::validate::{Mode, Stage, validate};
use talmox_talos_config::{Config, Release};

const RELEASES: [Release; 2] = [Release::V1_12, Release::V1_13];

/// Encoded form of a text. It must be the same in both releases.
fn encoded(text: &str) -> Option<String> {
    let [old, new] = RELEASES.map(|release| Config::parse(text, release).ok());
    let [old, new] = [old, new].map(|config| config.map(|config| config.encode()));
    assert_eq!(old, new, "{text}");
    new
}

/// End of the section `machine` in the output.
fn machine(keys: &str) -> Option<String> {
    let written = encoded(&format!("machine: {keys}\n"))?;
    let (_, machine) = written.split_once("certSANs: []\n").expect("always written");
    Some(machine.strip_suffix("cluster: null\n").expect("always written").to_owned())
}

fn sysctl(value: &str) -> Option<String> {
    let written = machine(&format!("{{sysctls: {{a: {value}}}}}"))?;
    Some(written.strip_prefix("    sysctls:\n        a: ").expect("one key").trim_end().to_owned())
}

fn generic(value: &str) -> Option<String> {
    let written = machine(&format!("{{baseRuntimeSpecOverrides: {{a: {value}}}}}"))?;
    let value = written.strip_prefix("    baseRuntimeSpecOverrides:\n        a: ");
    Some(value.expect("one scalar").trim_end().to_owned())
}

fn patched(config: &str, change: &str) -> Option<String> {
    let [old, new] = RELEASES.map(|release| {
        let patches = [Patch::parse(change, release).ok()?];
        patch::apply(config, &patches, release).ok()
    });
    assert_eq!(old, new, "{change}");
    new
}

#[test]
fn tags_are_applied_before_types() {
    for (value, text, any) in [
        ("!!int '12'", Some("\"12\""), Some("12")),
        ("!!float '1.5'", Some("\"1.5\""), Some("1.5")),
        ("!!str 12", Some("\"12\""), Some("\"12\"")),
        ("!!str ~", Some("\"~\""), Some("\"~\"")),
        ("!!bool 'true'", Some("\"true\""), Some("true")),
        ("!!null ''", Some("\"\""), Some("null")),
        ("!!timestamp '2020-01-01'", Some("\"2020-01-01\""), Some("2020-01-01T00:00:00Z")),
        ("!!binary aGk=", Some("hi"), Some("hi")),
        ("!!binary /w==", Some("!!binary /w=="), Some("!!binary /w==")),
        ("!other 5", Some("\"5\""), Some("\"5\"")),
        ("! 5", Some("\"5\""), Some("5")),
        ("!!int x", None, None),
        ("!!int 1.0", None, None),
        ("!!bool yes", None, None),
        ("!!null x", None, None),
        ("!!binary x!", None, None),
    ] {
        assert_eq!(sysctl(value).as_deref(), text, "{value}");
        assert_eq!(generic(value).as_deref(), any, "{value}");
    }
    assert_eq!(machine("{network: {interfaces: [{mtu: !!str 5}]}}"), None);
    assert_eq!(machine("{registries: {config: {x: {tls: {ca: !!binary aGk=}}}}}"), None);
}

#[test]
fn merge_keys_work_where_no_key_is_unknown() {
    let shared = "{sysctls: &a {x: y}, sysfs: {<<: *a, z: w}}";
    let written = "    sysctls:\n        x: \"y\"\n    sysfs:\n        x: \"y\"\n        z: w\n";
    assert_eq!(machine(shared).as_deref(), Some(written));
    let generic = machine("{baseRuntimeSpecOverrides: {<<: [{b: 1}, {b: 2, c: 3}]}}");
    let written = "    baseRuntimeSpecOverrides:\n        b: 1\n        c: 3\n";
    assert_eq!(generic.as_deref(), Some(written));
    for rejected in [
        "{network: {interfaces: [&a {interface: eth0}, {<<: *a, mtu: 9000}]}}",
        "{<<: {type: worker}}",
        "{sysctls: {<<: {x: y}}}",
        "{sysctls: {<<: [{x: y}]}}",
        "{sysctls: {<<: x}}",
        "{sysctls: &a {x: y}, sysfs: {<<: *a, <<: *a}}",
    ] {
        assert_eq!(machine(rejected), None, "{rejected}");
    }
}

#[test]
fn unusual_keys_are_skipped_or_rejected() {
    assert_eq!(machine("{sysctls: {~: x}}").as_deref(), Some(""));
    for rejected in ["{sysctls: {~: [x]}}", "{sysctls: {~: {x: y}}}", "{sysctls: {[x]: y}}"] {
        assert_eq!(machine(rejected), None, "{rejected}");
    }
    assert_eq!(generic("{[x]: y}"), None);
    // Talos does not check for unknown keys in aliases.
    let aliased = machine("{install: &a {wipe: true}, kubelet: *a}");
    assert_eq!(aliased.as_deref(), Some("    kubelet: {}\n    install:\n        wipe: true\n"));
    assert_eq!(machine("{install: {wipe: true}, kubelet: {wipe: true}}"), None);
}

#[test]
fn only_yaml_1_1_may_be_declared() {
    assert!(encoded("%YAML 1.1\n---\nmachine: {}\n").is_some());
    assert!(encoded("%YAML 1.2\n---\nmachine: {}\n").is_none());
}

#[test]
fn blocks_that_begin_with_a_line_break_differ_by_release() {
    let text = "machine: {sysctls: {a: \"\\n b\"}}\n";
    let [old, new] = RELEASES.map(|release| Config::parse(text, release).unwrap().encode());
    assert!(old.contains("a: |4-\n\n             b\n"), "{old}");
    assert!(new.contains("a: |-\n\n             b\n"), "{new}");
}

#[test]
fn configs_become_json_by_the_rules_of_yaml_1_1() {
    let any = |value: &str| {
        let config = format!("machine: {{baseRuntimeSpecOverrides: {{a: {value}}}}}\n");
        let patched =
            patched(&config, "[{\"op\": \"add\", \"path\": \"/persist\", \"value\": true}]")?;
        let (_, value) = patched.split_once("        a: ").expect("the key stays");
        value.lines().next().map(str::to_owned)
    };
    for (value, json) in [
        ("1e6", "1000000"),
        ("-0", "0"),
        ("1.50", "1.5"),
        ("1e21", "1e+21"),
        ("off", "false"),
        ("'off'", "\"off\""),
        ("2020-01-01", "\"2020-01-01\""),
    ] {
        assert_eq!(any(value).as_deref().map(str::trim_end), Some(json), "{value}");
    }
    let keys = patched("machine: {sysctls: {n: a, 010: b}}\n", "[]");
    assert!(keys.is_some_and(|text| text.contains("\"8\": b\n        \"false\": a\n")));
    assert_eq!(any(".nan"), None);
    assert_eq!(any("{~: 1}"), None);
}

#[test]
fn json_patches_treat_null_as_missing_in_json_only() {
    let config = "machine: {type: worker, install: {disk: ~}}\n";
    for path in ["/machine/nothing", "/machine/install/disk"] {
        let json = format!("[{{\"op\": \"test\", \"path\": \"{path}\", \"value\": null}}]");
        assert!(patched(config, &json).is_some(), "{json}");
        let yaml = format!("- {{op: test, path: {path}, value: null}}");
        assert!(patched(config, &yaml).is_none(), "{yaml}");
    }
    let twice = "- {op: add, path: /machine/token, value: a, value: b}";
    assert!(patched(config, twice).is_none());
}

#[test]
fn runtime_specs_must_be_json() {
    let verdict = |overrides: &str| {
        let config = format!(
            "version: v1alpha1\nmachine: {{type: worker, token: a, ca: {{crt: YQ==}}, \
             baseRuntimeSpecOverrides: {overrides}}}\n\
             cluster: {{controlPlane: {{endpoint: 'https://10.5.0.2:6443'}}}}\n"
        );
        let verdict = validate(&config, Mode::Cloud, Release::default());
        assert_eq!(verdict.stage, Stage::Validate, "{verdict:?}");
        verdict.error.is_none()
    };
    for good in ["{process: {oomScoreAdj: -5}}", "{process: {oomScoreAdj: 1e6}}", "{x: 2020-01-01}"]
    {
        assert!(verdict(good), "{good}");
    }
    for bad in ["{x: .inf}", "{x: [.nan]}", "{x: {1: y}}", "{process: {user: {uid: -1}}}"] {
        assert!(!verdict(bad), "{bad}");
    }
}
