//! Random faults for `cargo xtask walk`. They are drawn once, for all changes of the walk.

use talmox_clock::Chance;

use crate::chaos::pick;

/// Estimated number of calls for one change. The faults are spread over the estimated calls of all changes.
const CALLS: u64 = 60;

/// Random content of a file for `lab serve --faults`. A retry of the run succeeds despite any of these faults.
pub(super) fn draw(edits: u64, chance: &mut Chance) -> String {
    let rules: String =
        (0..=edits / 2).map(|_| format!("  - {{{}}}\n", rule(edits, chance))).collect();
    format!("faults:\n{rules}")
}

fn rule(edits: u64, chance: &mut Chance) -> String {
    let nth = 1 + chance.below(1 + edits * CALLS);
    let few = 1 + chance.below(1 + edits * 4);
    let times = 1 + chance.below(3);
    let lost = pick(chance, &["cut: after", "timeout: true"]);
    let broken = pick(chance, &["refuse: {status: 500, message: got timeout}", "cut: before"]);
    match chance.below(8) {
        0 => format!(
            "method: GET, path: \"/nodes/*/qemu/*/config\", nth: {nth}, times: {times}, {broken}"
        ),
        1 => format!("method: POST, path: \"/nodes/*/qemu/*/status/*\", nth: {few}, {lost}"),
        2 => format!("method: PUT, path: \"/nodes/*/qemu/*/config\", nth: {few}, {lost}"),
        3 => format!(
            "task: \"*\", nth: {few}, fail: {{percent: 60, message: no space left on device}}"
        ),
        4 => format!("talos: ApplyConfiguration, nth: {few}, cut: after"),
        5 => format!("method: POST, path: \"/nodes/*/qemu\", nth: {few}, {lost}"),
        6 => format!("method: PUT, path: \"/nodes/*/qemu/*/resize\", nth: {few}, {lost}"),
        _ => format!(
            "talos: \"*\", nth: {nth}, times: {times}, refuse: {{code: Unavailable, message: busy}}"
        ),
    }
}
