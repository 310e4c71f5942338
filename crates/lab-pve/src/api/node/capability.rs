//! `/nodes/{node}/capabilities/qemu`: CPU models and machine types of the installed QEMU.

use serde_json::{Value as Json, json};

use crate::Release;
use crate::api::index as names;
use crate::api::reply::data;
use crate::call::{Call, Outcome};
use crate::schema::cpu_models;

pub(super) fn index(call: &Call) -> Outcome {
    match call.release {
        Release::V8 => names::of("name", &["cpu", "machines"]),
        Release::V9 => names::of("name", &["cpu", "cpu-flags", "machines", "migration"]),
    }
}

pub(super) fn cpu(call: &Call) -> Outcome {
    let wants_arm = call.params.text("arch") == Some("aarch64");
    let models = cpu_models(call.release).into_iter();
    let models =
        models.filter(|model| model.vendor == "default" || (model.vendor == "ARM") == wants_arm);
    let shown =
        models.map(|model| json!({ "custom": 0, "name": model.name, "vendor": model.vendor }));
    data(shown.collect::<Vec<Json>>())
}

/// Answers `GET …/capabilities/qemu/machines`: machine types, newest version first. The newest version equals the version of
/// the installed QEMU.
pub(super) fn machines(call: &Call) -> Outcome {
    const VERSIONS: [(u32, u32); 17] = [
        (10, 1),
        (10, 0),
        (9, 2),
        (9, 1),
        (9, 0),
        (8, 2),
        (8, 1),
        (8, 0),
        (7, 2),
        (7, 1),
        (7, 0),
        (6, 2),
        (6, 1),
        (6, 0),
        (5, 2),
        (5, 1),
        (5, 0),
    ];
    let mut installed = call.release.qemu().split('.').map(|part| part.parse().unwrap_or_default());
    let newest = (installed.next().unwrap_or_default(), installed.next().unwrap_or_default());
    let mut shown: Vec<Json> = vec![];
    for (major, minor) in VERSIONS.into_iter().filter(|version| *version <= newest) {
        for (kind, prefix) in [("q35", "pc-q35"), ("i440fx", "pc-i440fx")] {
            let version = format!("{major}.{minor}");
            shown.push(
                json!({ "id": format!("{prefix}-{version}"), "type": kind, "version": version }),
            );
        }
    }
    data(shown)
}
