use serde_json::json;

use super::reply::data;
use crate::Release;
use crate::call::{Call, Outcome};

/// Commit id of the package sources. `/version` returns the first digits of this id.
fn repository(release: Release) -> &'static str {
    match release {
        Release::V8 => "2a8fee0c5cfde7bb",
        Release::V9 => "71482d1833ded40f",
    }
}

pub(super) fn package(release: Release) -> String {
    format!("pve-manager/{}/{}", release.version(), repository(release))
}

/// Answers `GET /nodes/{node}/version`.
pub(super) fn of_node(call: &Call) -> Outcome {
    let release = call.release;
    data(json!({
        "version": release.version(),
        "release": release.release(),
        "repoid": repository(release),
    }))
}

/// Answers `GET /version`: the version of the hosts and the `console` option of the datacenter.
pub(super) fn of_cluster(call: &Call) -> Outcome {
    let release = call.release;
    let mut version = json!({
        "version": release.version(),
        "release": release.release(),
        "repoid": repository(release),
    });
    if let Some(console) = call.pve_state().datacenter.get("console") {
        version["console"] = json!(console);
    }
    data(version)
}
