//! Events for programs: one JSON line each.

use talmox_engine::event::Stamped;

use crate::printer::Printer;

pub(super) fn show(event: &Stamped, printer: &Printer) {
    if let Ok(line) = serde_json::to_string(event) {
        // A reader that has seen enough is no error.
        printer.result(&format!("{line}\n")).ok();
    }
}
