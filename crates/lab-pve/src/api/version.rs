use serde_json::json;

use super::reply::data;
use crate::Release;
use crate::call::{Call, Outcome};

/// The sources that the packages are built from; `/version` shows its first digits.
fn repository(release: Release) -> &'static str {
    match release {
        Release::V8 => "2a8fee0c5cfde7bb",
        Release::V9 => "71482d1833ded40f",
    }
}

pub(super) fn package(release: Release) -> String {
    format!("pve-manager/{}/{}", release.version(), repository(release))
}

/// `GET /nodes/{node}/version`.
pub(super) fn of_node(call: &Call) -> Outcome {
    let release = call.release;
    data(json!({
        "version": release.version(),
        "release": release.release(),
        "repoid": repository(release),
    }))
}

/// `GET /version`: as the hosts tell it, and which console the datacenter prefers.
pub(super) fn of_cluster(call: &Call) -> Outcome {
    let release = call.release;
    let mut version = json!({
        "version": release.version(),
        "release": release.release(),
        "repoid": repository(release),
    });
    if let Some(console) = call.world().datacenter.get("console") {
        version["console"] = json!(console);
    }
    data(version)
}
