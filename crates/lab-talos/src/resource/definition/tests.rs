use super::super::Spec;
use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn spec_of(release: &str, name: &str) -> Value {
    let version = version(release);
    let mut all = of(&version);
    let found = all.find(|known| known.name == name).unwrap();
    assert!(all.all(|other| other.name != name), "{name} is defined twice in {release}");
    match found.to_item().spec {
        Spec::Value(spec) => spec,
        Spec::Text(_) => panic!("a value"),
    }
}

fn aliases_of(name: &str) -> Vec<String> {
    let spec = spec_of("v1.12.0", name);
    let all = spec["allAliases"].as_array().unwrap();
    all.iter().map(|alias| alias.as_str().unwrap().to_owned()).collect()
}

/// Real nodes have 160 definitions on 1.12.0 and 167 on 1.13.6. The other numbers were counted in the source code of the
/// releases.
#[test]
fn releases_have_the_expected_number_of_definitions() {
    for (release, count) in [
        ("v1.8.4", 135),
        ("v1.9.6", 139),
        ("v1.10.9", 150),
        ("v1.11.6", 157),
        ("v1.12.0", 160),
        ("v1.13.6", 167),
        ("v1.14.0-rc.1", 196),
    ] {
        let mut names: Vec<&str> = of(&version(release)).map(|known| known.name).collect();
        assert_eq!(names.len(), count, "{release}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{release}: a name is defined twice");
    }
    assert_eq!(DEFINITIONS.len(), TABLE.lines().count(), "a line of the table is malformed");
}

/// Without a definition, a source has no effect. A typo in its name would make all nodes report no resources of the type.
#[test]
fn every_source_has_a_definition() {
    for source in ALL_SOURCES.iter().copied().flatten() {
        let is_defined = DEFINITIONS.iter().any(|known| known.name == source.name);
        assert!(is_defined, "{}", source.name);
    }
}

#[test]
fn namespaces_of_all_definitions_exist() {
    for release in ["v1.8.4", "v1.12.0", "v1.13.6", "v1.14.0-rc.1"] {
        let known: Vec<&str> = namespaces(&version(release)).collect();
        for definition in of(&version(release)) {
            assert!(known.contains(&definition.namespace), "{}", definition.name);
        }
    }
}

#[test]
fn types_are_found_by_their_aliases() {
    assert_eq!(
        aliases_of("MachineStatuses.runtime.talos.dev"),
        [
            "machinestatuses",
            "machinestatuses.runtime",
            "machinestatuses.runtime.talos",
            "machinestatus",
            "ms"
        ]
    );
    assert!(aliases_of("NodeAddresses.net.talos.dev").contains(&"nodeaddress".to_owned()));
    assert!(aliases_of("Identities.cluster.talos.dev").contains(&"identity".to_owned()));
    assert!(aliases_of("NodeIPs.kubernetes.talos.dev").contains(&"nips".to_owned()));
    let modules = aliases_of("LoadedKernelModules.runtime.talos.dev");
    for alias in ["module", "modules", "lkm", "lkms", "loadedkernelmodule"] {
        assert!(modules.contains(&alias.to_owned()), "{alias}");
    }
    assert!(aliases_of("Members.cluster.talos.dev").contains(&"member".to_owned()));
    // Since 1.10, two types have this name. The older type has only its own alias.
    assert_eq!(aliases_of("MountStatuses.runtime.talos.dev"), ["mounts"]);
    assert!(aliases_of("MountStatuses.block.talos.dev").contains(&"mountstatus".to_owned()));
}

#[test]
fn definitions_change_with_releases() {
    let endpoints = "Endpoints.kubernetes.talos.dev";
    let titles = |release| {
        let columns = spec_of(release, endpoints)["printColumns"].clone();
        let columns = columns.as_array().unwrap().iter();
        columns.map(|column| column["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles("v1.12.0"), ["Addresses"]);
    assert_eq!(titles("v1.13.6"), ["Addresses", "Hosts"]);
    for (name, in_12, in_13) in [
        ("MachineConfigs.config.talos.dev", true, true),
        ("KubeletSpecs.kubernetes.talos.dev", false, true),
        ("APIServerConfigs.kubernetes.talos.dev", false, true),
        ("AuthorizationConfigs.kubernetes.talos.dev", false, true),
        ("AuditPolicyConfigs.kubernetes.talos.dev", true, true),
        ("Members.cluster.talos.dev", false, false),
    ] {
        for (release, expected) in [("v1.12.0", in_12), ("v1.13.6", in_13)] {
            let is_sensitive = spec_of(release, name)["sensitivity"] == "sensitive";
            assert_eq!(is_sensitive, expected, "{name} in {release}");
        }
    }
}
