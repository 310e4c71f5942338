//! Tests of parameter error texts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{Method, Raw, find, verify};
use crate::ApiError;
use crate::Release::{self, V8, V9};

const CREATE: (Method, &str) = (Method::Post, "/nodes/pve1/qemu");
const CHANGE: (Method, &str) = (Method::Put, "/nodes/pve1/qemu/100/config");
const DOWNLOAD: (Method, &str) = (Method::Post, "/nodes/pve1/storage/local/download-url");
const MAP: (Method, &str) = (Method::Post, "/cluster/mapping/pci");

const UNDEFINED: &str =
    "property is not defined in schema and the schema does not allow additional properties";

fn verify_errors(release: Release, (method, path): (Method, &str), parameters: &Value) -> Value {
    let (endpoint, in_path) = find(release, method, path).unwrap();
    let mut raw: BTreeMap<String, Raw> =
        in_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
    for (name, value) in parameters.as_object().unwrap() {
        raw.insert(name.clone(), value.clone().into());
    }
    match verify(endpoint, &raw) {
        Ok(_) => json!({}),
        Err(ApiError { status, message, errors }) => {
            assert_eq!((status, message.as_str()), (400, "Parameter verification failed."));
            json!(errors)
        }
    }
}

#[track_caller]
fn rejected(call: (Method, &str), parameters: &Value, errors: &Value) {
    for release in [V8, V9] {
        assert_eq!(verify_errors(release, call, parameters), *errors, "{release}");
    }
}

#[track_caller]
fn accepted(call: (Method, &str), parameters: &Value) {
    rejected(call, parameters, &json!({}));
}

#[test]
fn type_limit_and_enumeration_errors() {
    let wrong = json!({
        "vmid": "1e3", "cores": 0, "cpulimit": 129, "onboot": "yes", "bios": "uefi",
        "startdate": "tomorrow", "name": "w_1", "tags": "a;-b", "nope": 1,
        "description": "x".repeat(8193),
    });
    rejected(
        CREATE,
        &wrong,
        &json!({
            "vmid": "type check ('integer') failed - got '1e3'",
            "cores": "value must have a minimum value of 1",
            "cpulimit": "value must have a maximum value of 128",
            "onboot": "type check ('boolean') failed - got 'yes'",
            "bios": "value 'uefi' does not have a value in the enumeration 'seabios, ovmf'",
            "startdate": "value does not match the regex pattern",
            "name": "invalid format - value does not look like a valid DNS name\n",
            "tags": "invalid format - invalid characters in tag\n",
            "nope": UNDEFINED,
            "description": "value may only be 8192 characters long",
        }),
    );
    rejected(CREATE, &json!({}), &json!({"vmid": "property is missing and it is not optional"}));
    rejected(
        (Method::Post, "/access/users"),
        &json!({"userid": "a@pve", "password": "short"}),
        &json!({"password": "value must be at least 8 characters long"}),
    );
}

#[test]
fn format_is_checked_before_limits() {
    let vmid = "invalid format - value does not look like a valid VM ID\n";
    rejected(CREATE, &json!({"vmid": 0}), &json!({"vmid": vmid}));
    rejected(CREATE, &json!({"vmid": "0100"}), &json!({"vmid": vmid}));
}

#[test]
fn errors_in_keys_of_property_strings() {
    let model = "value 'virtio2' does not have a value in the enumeration 'e1000, e1000-82540em, \
        e1000-82544gc, e1000-82545em, e1000e, i82551, i82557b, i82559er, ne2k_isa, ne2k_pci, pcnet, \
        rtl8139, virtio, vmxnet3'";
    let cases = [
        ("net0", "virtio2,bridge=vmbr0", format!("net0.model: {model}\n")),
        (
            "net0",
            "virtio=01:00:5e:00:00:01,bridge=vmbr0",
            "net0.macaddr: invalid format - value does not look like a valid unicast MAC address\n\n"
                .to_owned(),
        ),
        ("scsi0", "", "scsi0.file: property is missing and it is not optional\n".to_owned()),
        ("scsi0", "local-lvm:1,bogus=1", format!("scsi0.bogus: {UNDEFINED}\n")),
        ("memory", "8", "memory.current: value must have a minimum value of 16\n".to_owned()),
        ("agent", "2", "agent.enabled: type check ('boolean') failed - got '2'\n".to_owned()),
        (
            "numa0",
            "memory=x,policy=y",
            "numa0.cpus: property is missing and it is not optional\n\
             numa0.memory: type check ('number') failed - got 'x'\n\
             numa0.policy: value 'y' does not have a value in the enumeration \
             'preferred, bind, interleave'\n"
                .to_owned(),
        ),
    ];
    for (name, value, keys) in cases {
        let text = format!("invalid format - format error\n{keys}");
        rejected(CHANGE, &json!({name: value}), &json!({name: text}));
    }
}

#[test]
fn errors_of_whole_property_strings() {
    let cases = [
        ("boot", "order=", "missing key in comma-separated list property"),
        ("net0", "virtio,e1000", "duplicate key in comma-separated list property: model"),
        ("net0", "virtio,tag=1,tag=2", "duplicate key in comma-separated list property: tag"),
        ("net0", "model=e1000,virtio=02:00:00:00:00:01", "key alias 'model' is already defined"),
        ("ipconfig0", "dhcp", "value without key, but schema does not define a default key"),
        ("cpu", "custom-foo", "Custom cputype 'foo' not found"),
        ("cpu", "hsot", "Built-in cputype 'hsot' is not defined (missing 'custom-' prefix?)"),
        ("cpu", "flags=+aes", "CPU is missing cputype"),
        (
            "cpu",
            "host,reported-model=kvm64",
            "Property 'reported-model' not allowed in VM-specific CPU config.",
        ),
    ];
    for (name, value, text) in cases {
        let text = format!("invalid format - {text}\n");
        rejected(CHANGE, &json!({name: value}), &json!({name: text}));
    }
    let storage = (Method::Put, "/storage/local");
    rejected(
        storage,
        &json!({"prune-backups": "keep-all=1,keep-last=3"}),
        &json!({"prune-backups":
            "invalid format - keep-all cannot be set together with other options.\n"}),
    );
    accepted(storage, &json!({"prune-backups": "keep-all=1,keep-last=0"}));
}

#[test]
fn missing_required_parameters_are_reported() {
    let gateway = json!({"ipconfig0": "gw=10.0.0.1"});
    let before = "invalid format - format error\n";
    assert_eq!(
        verify_errors(V9, CHANGE, &gateway),
        json!({"ipconfig0": format!("{before}ipconfig0.ip: missing property required by 'ipconfig0.gw'\n")})
    );
    assert_eq!(
        verify_errors(V8, CHANGE, &gateway),
        json!({"ipconfig0":
            format!("{before}ipconfig0.ip: missing property - 'ipconfig0.gw' requires this property\n")})
    );
    // Two errors of the same parameter are joined with the two characters `\n`.
    let restore = json!({"vmid": 100, "force": 1, "unique": 1});
    assert_eq!(
        verify_errors(V9, CREATE, &restore),
        json!({"archive": "missing property required by 'force'\\nmissing property required by 'unique'"})
    );
    let url =
        json!({"url": "https://a/b.iso", "content": "iso", "filename": "b.iso", "checksum": "0"});
    assert_eq!(
        verify_errors(V8, DOWNLOAD, &url),
        json!({"checksum-algorithm": "missing property - 'checksum' requires this property"})
    );
}

#[test]
fn error_texts_differ_between_releases() {
    let storage = json!({"vmid": 100, "storage": "x"});
    assert_eq!(
        verify_errors(V8, CREATE, &storage),
        json!({"storage": "invalid format - storage ID 'x' contains illegal characters\n"})
    );
    assert_eq!(
        verify_errors(V9, CREATE, &storage),
        json!({"storage": "invalid format - storage ID 'x' cannot be shorter than 2 characters\n"})
    );
    let aliases = json!({"scsi0": "file=local-lvm:1,volume=local-lvm:2"});
    assert_eq!(verify_errors(V8, CHANGE, &aliases), json!({}));
    assert_eq!(
        verify_errors(V9, CHANGE, &aliases),
        json!({"scsi0": "invalid format - key 'file' is already defined (via alias)\n"})
    );
    let agent = json!({"agent": "on"});
    assert_eq!(
        verify_errors(V8, CHANGE, &agent),
        json!({"agent":
            "invalid format - format error\nagent.enabled: type check ('boolean') failed - got 'on'\n"})
    );
    assert_eq!(verify_errors(V9, CHANGE, &agent), json!({}));
    assert_eq!(
        verify_errors(V8, CREATE, &json!({"vmid": 100, "ha-managed": 1})),
        json!({"ha-managed": UNDEFINED})
    );
    assert_eq!(
        verify_errors(
            V9,
            (Method::Post, "/access/roles"),
            &json!({"roleid": "a", "privs": "VM.Audit VM.Monitor"})
        ),
        json!({"privs": "invalid format - invalid privilege 'VM.Monitor'\n"})
    );
}

#[test]
fn storage_map_errors_have_three_newlines() {
    let migrate = (Method::Post, "/nodes/pve1/qemu/100/migrate");
    rejected(
        migrate,
        &json!({"target": "pve2", "targetstorage": "local:ta nk,lo$"}),
        &json!({"targetstorage": "invalid format - entry 'lo$' contains invalid ID - \
            storage ID 'lo$' contains illegal characters\n\n\n"}),
    );
    accepted(migrate, &json!({"target": "pve2", "targetstorage": "1"}));
}

#[test]
fn json_types_are_checked() {
    accepted(CHANGE, &json!({"onboot": true, "cores": 4, "cpulimit": 1.5, "tags": ["a", "b"]}));
    accepted(CHANGE, &json!({"cores": 4.0, "name": null}));
    rejected(
        CHANGE,
        &json!({"name": ["a"], "cores": true, "memory": {}, "onboot": ["1"], "sockets": 1.5}),
        &json!({
            "name": "type check ('string') failed - got ARRAY",
            "cores": "type check ('integer') failed - got JSON::PP::Boolean",
            "memory": "type check ('string') failed - got HASH",
            "onboot": "type check ('boolean') failed - got ARRAY",
            "sockets": "type check ('integer') failed - got '1.5'",
        }),
    );
    rejected(
        CREATE,
        &json!({"vmid": null}),
        &json!({"vmid": "property is missing and it is not optional"}),
    );
}

#[test]
fn array_items_are_checked_individually() {
    let good = "node=pve1,path=0000:01:00.0,id=10de:2204";
    accepted(MAP, &json!({"id": "gpu", "map": good}));
    accepted(
        MAP,
        &json!({"id": "gpu", "map": [good, "node=pve2,path=0000:02:00,id=10de:2204,iommugroup=1"]}),
    );
    rejected(
        MAP,
        &json!({"id": "gpu", "map": [good, "node=pve2,id=x,path=0000:01:00.0"]}),
        &json!({"map[1]": "invalid format - format error\nmap[1].id: value does not match the regex pattern\n"}),
    );
    rejected(MAP, &json!({"id": "gpu", "map": {}}), &json!({"map": "type check ('array') failed"}));
    rejected(MAP, &json!({"id": "gpu", "map": ""}), &json!({"map": "type check ('array') failed"}));
}

#[test]
fn numbered_options_have_a_maximum_index() {
    let ends = [
        ("scsi", 31, "local:1"),
        ("virtio", 16, "local:1"),
        ("sata", 6, "local:1"),
        ("ide", 4, "local:1"),
        ("unused", 256, "local:1"),
        ("net", 32, "virtio"),
        ("hostpci", 16, "mapping=gpu"),
        ("usb", 14, "spice"),
        ("serial", 4, "socket"),
        ("parallel", 3, "/dev/parport0"),
        ("numa", 8, "cpus=0"),
        ("ipconfig", 32, "ip=dhcp"),
        ("virtiofs", 10, "share"),
    ];
    for (name, count, value) in ends {
        accepted(CHANGE, &json!({format!("{name}{}", count - 1): value}));
        let beyond = format!("{name}{count}");
        rejected(CHANGE, &json!({&beyond: value}), &json!({beyond: UNDEFINED}));
    }
    rejected(CHANGE, &json!({"scsi00": "local:1"}), &json!({"scsi00": UNDEFINED}));
}

#[test]
fn verified_values_are_converted() {
    let (endpoint, _) = find(V9, Method::Put, "/nodes/pve1/qemu/100/config").unwrap();
    let raw = [
        ("node", Raw::from("pve1")),
        ("vmid", "100".into()),
        ("cores", Raw::Number(4.into())),
        ("balloon", "+0512".into()),
        ("onboot", Raw::Flag(true)),
        ("acpi", "0".into()),
        ("delete", Raw::List(vec!["net1".into(), "tags".into()])),
        ("name", Raw::Null),
    ];
    let raw = raw.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let parameters = verify(endpoint, &raw).unwrap();
    assert_eq!(parameters.number("cores"), Some(4));
    assert_eq!(parameters.number("balloon"), Some(512));
    assert_eq!(parameters.text("balloon"), Some("+0512"));
    assert_eq!(parameters.flag("onboot"), Some(true));
    assert_eq!(parameters.flag("acpi"), Some(false));
    assert_eq!(parameters.flag("kvm"), None);
    assert_eq!(parameters.list("delete"), ["net1", "tags"]);
    assert!(!parameters.has("name"), "null counts as absent");
    assert_eq!(parameters.text("node"), Some("pve1"));
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["acpi", "balloon", "cores", "delete", "node", "onboot", "vmid"]);
}
