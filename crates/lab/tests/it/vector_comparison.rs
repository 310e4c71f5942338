//! Tests of the comparison in `tests/pve_vectors`.

use serde_json::json;

use crate::wildcard::{difference, text_matches};

#[test]
fn placeholders_match_their_kind() {
    let upid = "UPID:pve1:<PID>:<PSTART>:<TIME>:qmcreate:101:ops@pve!ci:";
    assert!(text_matches(upid, "UPID:pve1:000003E9:00018704:6914F0A1:qmcreate:101:ops@pve!ci:"));
    assert!(!text_matches(upid, "UPID:pve2:000003E9:00018704:6914F0A1:qmcreate:101:ops@pve!ci:"));
    assert!(text_matches("virtio=<MAC>,bridge=vmbr0", "virtio=BC:24:11:AA:00:64,bridge=vmbr0"));
    assert!(!text_matches("virtio=<MAC>,bridge=vmbr0", "virtio=bc:24:11:aa:00:64,bridge=vmbr0"));
    assert!(text_matches("bad. at <LOCATION>", "bad. at /usr/share/x.pm line 3."));
    assert!(!text_matches("bad. at <LOCATION>", "bad."));
    assert!(text_matches("ctime=<TIME>", "ctime=1700000000"));
    assert!(text_matches("a <b> c", "a <b> c"));
}

#[test]
fn differences_have_a_path() {
    let same = difference(
        &json!({"digest": "<DIGEST>", "snaptime": "<TIME>", "n": [{"key": "a"}, {"key": "b"}]}),
        &json!({"n": [{"key": "b"}, {"key": "a"}], "snaptime": 17, "digest": "0".repeat(40)}),
    );
    assert_eq!(same, None);
    let typed = difference(&json!({"cores": 4}), &json!({"cores": "4"}));
    assert_eq!(typed.as_deref(), Some(".cores: expected 4, found \"4\""));
    let more = difference(&json!({}), &json!({"lock": "create"}));
    assert_eq!(more.as_deref(), Some(".lock: expected nothing, found \"create\""));
    let fewer = difference(&json!([{"key": "a"}]), &json!([]));
    assert_eq!(fewer.as_deref(), Some(": expected [a], found []"));
}
