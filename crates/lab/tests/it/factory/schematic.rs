use serde_json::{Value as Json, json};
use talmox_lab::Settings;

use super::{AGENT, AGENT_YAML, EMPTY, get, post, status_and_text};
use crate::support::{TestLab, settings};

#[test]
fn the_schematic_id_does_not_depend_on_formatting() {
    let lab = TestLab::new();
    assert_eq!(
        status_and_text(&get(&lab, &format!("/schematics/{AGENT}"))),
        (404, "schematic not found".into())
    );
    let as_json = json!({ "customization": { "systemExtensions": {
        "officialExtensions": ["siderolabs/qemu-guest-agent"] } } });
    for body in [AGENT_YAML, &as_json.to_string()] {
        let answer = post(&lab, body);
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("Content-Type"), Some("application/json"));
        assert_eq!(answer.json(), json!({ "id": AGENT, "schematic": AGENT_YAML }));
    }
    let kept = get(&lab, &format!("/schematics/{AGENT}"));
    assert_eq!((kept.status, kept.text()), (200, AGENT_YAML.to_owned()));
    assert_eq!(kept.header("Content-Type"), Some("application/yaml"));
    assert_eq!(post(&lab, "{}").json()["id"], EMPTY);
    lab.stop();
}

#[test]
fn invalid_schematics_are_rejected() {
    let lab = TestLab::new();
    for body in
        ["", "customisation: {}", "customization: {extensions: []}", "- a", "owner: me", "{"]
    {
        let answer = post(&lab, body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert_eq!(answer.header("Content-Type"), Some("text/plain; charset=utf-8"));
    }
    assert_eq!(get(&lab, "/schematics").status, 405);
    assert_eq!(get(&lab, "/nonsense").status, 404);
    lab.stop();
}

#[test]
fn factory_lists_match_the_version() {
    let lab = TestLab::new();
    let versions = get(&lab, "/versions").json();
    let versions = versions.as_array().unwrap();
    assert_eq!(versions.first().unwrap(), "v1.8.0");
    assert_eq!(versions.last().unwrap(), "v1.14.0-rc.1");
    assert_eq!(get(&lab, "/versions?broken=true").json(), json!([]));
    for version in ["v1.13.6", "1.13.6"] {
        let list = get(&lab, &format!("/version/{version}/extensions/official")).json();
        let list = list.as_array().unwrap();
        let agent = list.iter().find(|it| it["name"] == "siderolabs/qemu-guest-agent").unwrap();
        assert_eq!(agent["ref"], "ghcr.io/siderolabs/qemu-guest-agent:11.0.2");
        assert!(agent["digest"].as_str().unwrap().starts_with("sha256:"));
        assert!(agent["author"].is_string() && agent["description"].is_string());
    }
    let overlays = get(&lab, "/version/v1.12.0/overlays/official").json();
    let is_pi = |overlay: &Json| overlay["name"] == "rpi_generic";
    let pi = overlays.as_array().unwrap().iter().find(|overlay| is_pi(overlay)).unwrap();
    assert_eq!(pi["image"], "siderolabs/sbc-raspberrypi");
    assert_eq!(
        status_and_text(&get(&lab, "/version/v1.99.0/extensions/official")),
        (404, "version 1.99.0 is not available".into())
    );
    assert_eq!(
        status_and_text(&get(&lab, "/version/latest/extensions/official")),
        (500, "internal server error".into())
    );
    lab.stop();
}

#[test]
fn schematics_are_saved_with_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let kept = || Settings { state: Some(folder.path().into()), ..settings() };
    let first = TestLab::start(kept());
    assert_eq!(post(&first, AGENT_YAML).status, 201);
    first.kill();
    let second = TestLab::start(kept());
    assert_eq!(get(&second, &format!("/schematics/{AGENT}")).text(), AGENT_YAML);
    second.stop();
}

#[test]
fn the_lab_reports_the_address_of_the_factory() {
    let factory_names = vec!["factory.home.example".to_owned()];
    let lab = TestLab::start(Settings { factory_names, ..settings() });
    let ready = serde_json::to_value(lab.lab().ready()).unwrap();
    let address = ready["factory"]["url"].as_str().unwrap().strip_prefix("https://").unwrap();
    for host in ["factory.talos.dev", "cloud-images.ubuntu.com", "factory.home.example"] {
        assert_eq!(ready["reach"][format!("{host}:443")], address, "{host}");
    }
    let answer = super::send(&lab, "factory.home.example", "GET /versions", "").unwrap();
    assert_eq!(answer.status, 200);
    lab.stop();
}
