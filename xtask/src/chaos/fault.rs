//! Random faults of a lab, which are active until the lab is restarted.

use talmox_clock::Chance;

use super::inventory::{HOSTS, pick};

/// Random content of a file for `lab serve --faults`.
pub(super) fn draw(chance: &mut Chance) -> String {
    let rules: String =
        (0..chance.below(4)).map(|_| format!("  - {{{}}}\n", rule(chance))).collect();
    if rules.is_empty() { "faults: []\n".to_owned() } else { format!("faults:\n{rules}") }
}

fn rule(chance: &mut Chance) -> String {
    let nth = 1 + chance.below(30);
    let times = 1 + chance.below(6);
    let host = pick(chance, &HOSTS);
    let broken =
        pick(chance, &["refuse: {status: 500, message: got timeout}", "cut: before", "hang: true"]);
    let lost = pick(chance, &["cut: after", "timeout: true"]);
    match chance.below(12) {
        // These faults make VMs unreadable.
        0 => format!(
            "method: GET, path: \"/nodes/*/qemu/*/pending\", nth: {nth}, times: {times}, {broken}"
        ),
        1 => format!(
            "method: GET, path: \"/nodes/*/qemu/*/config\", nth: {nth}, times: {times}, {broken}"
        ),
        2 => format!("method: GET, host: {host}, nth: {nth}, times: always, {broken}"),
        // These faults switch hosts off, for a while or until the lab is restarted.
        3 => format!(
            "path: \"^/cluster/\", nth: {}, down: {{host: {host}, for: 300s}}",
            1 + chance.below(4)
        ),
        4 => format!("path: \"^/cluster/\", nth: {}, down: {host}", 1 + chance.below(4)),
        // With these faults, the answer of a call is lost after the call took effect.
        5 => format!("method: POST, path: \"/nodes/*/qemu\", nth: {}, {lost}", 1 + chance.below(5)),
        6 => format!("method: POST, nth: {nth}, times: {times}, {lost}"),
        7 => format!("method: PUT, nth: {}, {lost}", 1 + chance.below(8)),
        8 => format!(
            "task: \"*\", nth: {}, fail: {{percent: 60, message: no space left on device}}",
            1 + chance.below(15)
        ),
        9 => format!(
            "talos: Bootstrap, {}",
            pick(chance, &["cut: after", "cut: before", "hang: true"])
        ),
        10 => format!(
            "talos: \"*\", nth: {nth}, times: {times}, refuse: {{code: Unavailable, message: busy}}"
        ),
        _ => format!("talos: ApplyConfiguration, nth: {}, cut: after", 1 + chance.below(4)),
    }
}
