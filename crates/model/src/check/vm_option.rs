//! Checks of VM options: the boot order and the notes.

use std::collections::HashMap;

use crate::cluster::Node;
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::source::Span;

/// Maximum length of the notes in bytes. Proxmox accepts 8192 bytes, and the marker needs some of them.
const LONGEST_NOTES: usize = 6000;

/// Start of the marker line by which talmox recognises its VMs.
const MARKER: &str = "talmox/";

pub(super) fn check(node: &Node, out: &mut Findings) {
    boot_order(node, out);
    notes(node, out);
}

/// Reports devices that the VM does not have, devices that are listed twice, and a list without the system disk.
fn boot_order(node: &Node, out: &mut Findings) {
    let hardware = &node.settings().hardware;
    if hardware.boot_order.is_empty() {
        return;
    }
    let bus = hardware.disk_bus.required().as_str();
    let disks = (0..=hardware.disks.iter().len()).map(|index| format!("{bus}{index}"));
    let cards = (0..=hardware.nics.iter().len()).map(|index| format!("net{index}"));
    let device = node.has_gpu().then(|| "hostpci0".to_owned());
    let known: Vec<String> = disks.chain(cards).chain(device).collect();
    let mut listed: HashMap<&str, Span> = HashMap::new();
    for device in hardware.boot_order.iter() {
        let name = device.value.as_str();
        if !known.iter().any(|known| known == name) {
            let message = format!("the VM has no device {name}");
            let hint = format!("its devices are {}", known.join(", "));
            out.push(Diagnostic::error(Code::BadValue, message).at(device.span).hint(hint));
        }
        if let Some(first) = listed.insert(name, device.span) {
            out.push(
                Diagnostic::error(Code::Duplicate, format!("{name} is in the boot order twice"))
                    .at(device.span)
                    .related(first, "first given here")
                    .hint("keep one of the two"),
            );
        }
    }
    let system = &known[0];
    if !listed.contains_key(system.as_str()) {
        let message = format!("the boot order does not contain the system disk {system}");
        out.push(
            Diagnostic::warning(Code::Questionable, message).at(hardware.boot_order.span).hint(
                format!("add `{system}`: without it the VM does not boot the installed system"),
            ),
        );
    }
}

/// Reports notes that Proxmox would reject, and notes with a line that looks like a marker: a VM with two markers is not
/// recognised.
fn notes(node: &Node, out: &mut Findings) {
    let Some(notes) = node.settings().hardware.notes.spanned() else { return };
    if notes.value.len() > LONGEST_NOTES {
        let message = format!("the notes have {} bytes, too many for Proxmox", notes.value.len());
        let hint = format!("use at most {LONGEST_NOTES} bytes");
        out.push(Diagnostic::error(Code::BadValue, message).at(notes.span).hint(hint));
    }
    if notes.value.lines().any(|line| line.trim_start().starts_with(MARKER)) {
        let message = format!("a line of the notes starts with `{MARKER}`");
        let hint = "change the line: talmox recognises its VMs by a line that starts so";
        out.push(Diagnostic::error(Code::BadValue, message).at(notes.span).hint(hint));
    }
}
