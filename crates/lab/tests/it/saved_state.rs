//! Tests of permanent and temporary labs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use talmox_lab::{Lab, Settings};

use crate::support::{TestLab, scenario, settings};

fn kept(folder: &Path) -> Settings {
    Settings { state: Some(folder.to_owned()), ..settings() }
}

#[test]
fn a_lab_resumes_from_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "nodes: [{name: atlas}]\nvms: [{vmid: 101, node: atlas, status: running, config: {name: web, cores: 2}}]";
    let first = TestLab::start(Settings { state: Some(folder.path().into()), ..scenario(yaml) });
    let before = first.pve.clone();
    let change = first.request("PUT", "/nodes/atlas/qemu/101/config", "", "description=kept");
    assert_eq!(change.status, 200, "{}", change.text());
    first.stop();

    let second = TestLab::start(kept(folder.path()));
    assert_eq!(second.pve.node, "atlas");
    assert_eq!(second.pve.fingerprint, before.fingerprint);
    assert_eq!(second.pve.token_secret, before.token_secret);
    assert_eq!(second.pve.password, before.password);
    let config = second.get("/nodes/atlas/qemu/101/config").json();
    assert_eq!(config["data"]["description"], "kept");
    second.stop();
}

#[test]
fn lab_time_resumes_from_the_saved_time() {
    let folder = tempfile::tempdir().unwrap();
    let time = |lab: &TestLab| lab.lab().clock().unix();
    // The first lab is so fast that hours of lab time take less than a second. The later labs run at the speed of real time.
    let slow = || Settings { speed: 1.0, ..kept(folder.path()) };
    let first = TestLab::start(Settings { speed: 10_000.0, ..kept(folder.path()) });
    let ready = first.lab().ready();
    let reached = time(&first) + 2 * 3600;
    while time(&first) < reached {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // A client that starts later computes the current lab time from the values that the lab returned at its start.
    let (before, joined, after) = (time(&first), ready.clock().unix(), time(&first));
    assert!((before - 60..=after + 60).contains(&joined), "{before} {joined} {after}");
    first.stop();

    let second = TestLab::start(slow());
    assert!(time(&second) >= reached, "{} was before {reached}", time(&second));
    let reported = second.get("/nodes/pve/time").json()["data"]["time"].as_u64().unwrap();
    assert!(reported >= reached, "{reported} was before {reached}");
    // The uptime shows that the host has just booted.
    let status = second.get("/nodes/pve/status").json();
    let uptime = status["data"]["uptime"].as_u64().unwrap();
    assert!(uptime < 3600, "{uptime}");
    second.kill();

    // Lab time that passed without changes is saved as well.
    let third = TestLab::start(slow());
    assert!(time(&third) >= reached);
    third.stop();
    std::fs::write(folder.path().join("time.json"), "soon").unwrap();
    let error = Lab::start(kept(folder.path())).unwrap_err();
    assert!(error.to_string().contains("time.json"), "{error}");
}

#[test]
fn a_killed_lab_can_be_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "vms: [{vmid: 101, node: pve, config: {name: web}}]";
    let first = TestLab::start(Settings { state: Some(folder.path().into()), ..scenario(yaml) });
    let change = first.request("PUT", "/nodes/pve/qemu/101/config", "", "description=kept");
    assert_eq!(change.status, 200, "{}", change.text());
    let path = folder.path().join("world.json");
    let is_saved = || std::fs::read_to_string(&path).unwrap().contains("kept");
    for _ in 0..200 {
        if is_saved() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert!(is_saved(), "it is saved within seconds");
    first.kill();

    let second = TestLab::start(kept(folder.path()));
    let config = second.get("/nodes/pve/qemu/101/config").json();
    assert_eq!(config["data"]["description"], "kept");
}

#[test]
fn state_is_private_and_locked() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("new/state");
    let lab = TestLab::start(kept(&inner));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    assert_eq!(mode(&inner.join("blobs")), 0o700);
    for file in ["world.json", "keys.json", "ca.pem"] {
        assert_eq!(mode(&inner.join(file)), 0o600, "{file}");
    }
    let error = Lab::start(kept(&inner)).unwrap_err();
    assert!(error.to_string().contains("another lab uses"), "{error}");
    lab.stop();
}

#[test]
fn a_new_address_is_added_to_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = |lab: &TestLab| std::fs::read(&lab.pve.ca).unwrap();
    let first = TestLab::start(kept(folder.path()));
    let (fingerprint, known) = (first.pve.fingerprint.clone(), authority(&first));
    first.stop();

    let elsewhere = || Settings { listen: "127.0.0.7:0".parse().unwrap(), ..kept(folder.path()) };
    let second = TestLab::start(elsewhere());
    assert_ne!(second.pve.fingerprint, fingerprint);
    assert_eq!(authority(&second), known, "clients still trust the authority");
    assert!(second.pve.url.contains("127.0.0.7"), "{}", second.pve.url);
    assert_eq!(second.get("/version").status, 200);
    let fingerprint = second.pve.fingerprint.clone();
    second.stop();

    for settings in [elsewhere(), kept(folder.path())] {
        let again = TestLab::start(settings);
        assert_eq!(again.pve.fingerprint, fingerprint, "both addresses are named by now");
        again.stop();
    }
}

#[test]
fn unreadable_state_is_reported_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.json");
    for text in ["{", r#"{"format":99,"runs":0,"world":{}}"#] {
        std::fs::write(&path, text).unwrap();
        let error = Lab::start(kept(folder.path())).unwrap_err();
        assert!(error.to_string().contains("world.json"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_temporary_lab_leaves_no_files() {
    let lab = TestLab::new();
    let folder = lab.pve.ca.parent().unwrap().to_owned();
    assert!(folder.exists());
    lab.stop();
    assert!(!folder.exists());
}
