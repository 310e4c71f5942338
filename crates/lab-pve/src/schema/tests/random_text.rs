//! Property tests of formats, parameters and paths with random texts.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::sample::select;

use super::super::format::Format;
use super::super::{Method, Raw, find, formats, verify};
use crate::Release;

/// Valid and invalid fragments, from which property strings are generated.
const PIECES: [&str; 34] = [
    "",
    "0",
    "1",
    "on",
    "no",
    "x",
    "local:8",
    "local-lvm:vm-100-disk-0",
    "none",
    "vmbr0",
    "virtio",
    "BC:24:11:00:00:01",
    "10G",
    "1024M",
    "dhcp",
    "10.0.0.1/24",
    "10.0.0.1",
    "host",
    "q35",
    "2048",
    "4094",
    "mapping",
    "0-3;5",
    "scsi0;net0",
    "YQ==",
    "socket",
    "a b",
    "ä",
    "\n",
    "=",
    "/dev/urandom",
    "secure",
    "pve1",
    "keep-all",
];

/// All property string formats of both releases.
static FORMATS: LazyLock<Vec<Arc<Format>>> = LazyLock::new(|| {
    let releases = [Release::V8, Release::V9].into_iter();
    releases.flat_map(|release| formats::all(release).into_values()).collect()
});

fn releases() -> impl Strategy<Value = Release> {
    select(vec![Release::V8, Release::V9])
}

/// Strategy that generates a format and a text that resembles a property string of this format.
fn formats_and_texts() -> impl Strategy<Value = (Arc<Format>, String)> {
    select(FORMATS.clone()).prop_flat_map(|format| {
        let mut keys: Vec<&str> = format.schema.plain.keys().copied().collect();
        keys.extend(format.aliases.iter().map(|alias| alias.name));
        keys.push("bogus");
        let key = select(keys);
        let value = select(PIECES.to_vec());
        let part = prop_oneof![
            4 => (key, value.clone()).prop_map(|(key, value)| format!("{key}={value}")),
            1 => value.prop_map(str::to_owned),
        ];
        let text = prop::collection::vec(part, 0..5).prop_map(|parts| parts.join(","));
        (Just(format), text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_property_strings_parse_to_the_same_fields((format, text) in formats_and_texts()) {
        let Ok(fields) = format.parse(&text) else { return Ok(()) };
        let written = format.print(&fields);
        let again = format.parse(&written);
        prop_assert!(again.is_ok(), "{text:?} was written as {written:?}: {again:?}");
        prop_assert_eq!(format.print(&again.unwrap()), written);
    }

    #[test]
    fn arbitrary_property_strings_do_not_panic(text in "\\PC*|[a-z0-9=,;:\\n\\x00 -]*") {
        for format in FORMATS.iter() {
            drop(format.parse(&text).map(|fields| format.print(&fields)));
        }
    }

    #[test]
    fn arbitrary_parameters_do_not_panic(
        names in prop::collection::vec(select(vec![
            "net0", "scsi1", "cpu", "startup", "tags", "affinity", "hotplug", "sshkeys", "boot", "vmid",
            "cores", "bootdisk", "nameserver", "delete", "ipconfig0", "99999999999999999999", "net\u{fc}",
        ]), 0..6),
        text in any::<String>(),
        release in releases(),
    ) {
        let (endpoint, _) = find(release, Method::Put, "/nodes/a/qemu/100/config").unwrap();
        let raw: BTreeMap<String, Raw> =
            names.into_iter().map(|name| (name.to_owned(), Raw::Text(text.clone()))).collect();
        drop(verify(endpoint, &raw));
    }

    #[test]
    fn arbitrary_paths_do_not_panic(path in "(/|[a-z{}]{1,5}|nodes/a/|storage/|content/|\\PC)*", release in releases()) {
        drop(find(release, Method::Get, &path));
    }
}
