//! Comparison of stored options with sent options, for the vectors at `TALMOX_PVE_VECTORS`. An option that was just set
//! must not count as drift, in any notation.

use std::fs;
use std::io::Write as _;

use serde_json::Value;
use talmox_pve_types::config::{VmConfig, VmOptions, drift};
use talmox_pve_types::property::Drive;

const VARIABLE: &str = "TALMOX_PVE_VECTORS";

/// Parameters of the API call that are not options of the VM. `cdrom` is in the list because Proxmox stores it as
/// `ide2`.
const CONTROL: &[&str] = &[
    "vmid",
    "pool",
    "start",
    "delete",
    "revert",
    "digest",
    "force",
    "background_delay",
    "import-working-storage",
    "cdrom",
    "skiplock",
];

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Options that a step of the vector sets.
fn desired(step: &Value) -> VmOptions {
    let params = step["params"].as_object().unwrap();
    let options = params.iter().filter(|(key, _)| !CONTROL.contains(&key.as_str()));
    options.fold(VmOptions::new(), |options, (key, value)| match key.parse() {
        Ok(slot) => options.drive(&slot, &without_size(Drive::parse(&text(value)))),
        Err(_) => options.set(key, text(value)),
    })
}

/// Removes the size of an existing volume, because Proxmox reads the real size and ignores the given size.
fn without_size(mut drive: Drive) -> Drive {
    if drive.volume_id().is_some() {
        let _size = drive.options.remove("size");
    }
    drive
}

/// Config after a step of the vector; `None` if the step failed.
fn found(expect: &Value) -> Option<VmConfig> {
    let exit = expect["task"]["exitstatus"].as_str().unwrap_or("OK");
    let went_well = expect["status"] == 200 && (exit == "OK" || exit.starts_with("WARNINGS"));
    let after = expect["config_after"].as_object().filter(|_| went_well)?;
    let config = after.values().next()?["config"].as_object()?;
    Some(VmConfig::new(config.iter().map(|(key, value)| (key.clone(), text(value)))))
}

fn sets_options(step: &Value) -> bool {
    let path = step["path"].as_str().unwrap();
    let is_config = path.ends_with("/config") && !path.contains("/snapshot/");
    match step["method"].as_str().unwrap() {
        "POST" => path.ends_with("/qemu") || is_config,
        "PUT" => is_config,
        _ => false,
    }
}

#[test]
fn options_that_were_just_set_have_not_drifted() {
    let Some(folder) = std::env::var_os(VARIABLE) else {
        // The text is written directly to stderr, because the test harness captures the output of passing tests.
        let skipped =
            format!("SKIPPED: {VARIABLE} is not set, nothing was compared with Proxmox\n");
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI sets {VARIABLE}");
        return;
    };
    let mut compared = 0;
    let mut drifted = vec![];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let json: Value = match fs::read(entry.path()).map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(json)) => json,
            _ => continue,
        };
        for vector in json.as_array().into_iter().flatten() {
            for expected in ["expect", "expect_8.4"] {
                let expects = vector[expected].as_array().into_iter().flatten();
                for (step, expect) in vector["steps"].as_array().unwrap().iter().zip(expects) {
                    let Some(found) = found(expect).filter(|_| sets_options(step)) else {
                        continue;
                    };
                    compared += 1;
                    for drift in drift(&desired(step), &found) {
                        drifted.push(format!("{}: {drift:?}", text(&vector["id"])));
                    }
                }
            }
        }
    }
    assert!(compared > 100, "only {compared} configs were compared");
    assert!(drifted.is_empty(), "of {compared}:\n{}", drifted.join("\n"));
}
