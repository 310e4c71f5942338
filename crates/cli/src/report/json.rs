//! JSON view of a run: one line for each event.

use talmox_engine::event::Stamped;

use crate::printer::Printer;

pub(super) fn show(event: &Stamped, printer: &Printer) {
    if let Ok(line) = serde_json::to_string(event) {
        // A closed pipe is not an error.
        printer.result(&format!("{line}\n")).ok();
    }
}
