//! Trace lines on stderr. While the live view is active, the lines are held back, and the live view prints them above its
//! block.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::escape;
use crate::printer::Printer;

/// Maximum number of lines that are held between two drawings. Further lines are only counted.
const MOST: usize = 2000;

pub(super) struct Lines {
    printer: Printer,
    held: Mutex<Option<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    lines: Vec<String>,
    left_out: usize,
}

impl Held {
    fn take(&mut self) -> Vec<String> {
        let Self { mut lines, left_out } = std::mem::take(self);
        if left_out > 0 {
            lines.push(format!("{left_out} more lines are not shown"));
        }
        lines
    }
}

impl Lines {
    pub(super) fn new(printer: Printer) -> Self {
        Self { printer, held: Mutex::new(None) }
    }

    /// Prints or holds a line. The line may contain text from other systems.
    pub(super) fn say(&self, line: &str) {
        let line = escape::plain(line).replace(['\n', '\t'], " ");
        let line = self.printer.paint(&line, "2");
        // The mutex is locked during the write, so that no live view starts in the meantime.
        match &mut *self.lock() {
            Some(held) if held.lines.len() < MOST => held.lines.push(line),
            Some(held) => held.left_out += 1,
            None => self.printer.say(&line),
        }
    }

    pub(super) fn hold(&'static self) -> HeldLines {
        *self.lock() = Some(Held::default());
        HeldLines(self)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that holds trace lines back until it is dropped.
pub(crate) struct HeldLines(&'static Lines);

impl HeldLines {
    /// Takes the lines that were held since the last call. Control characters in the lines are escaped.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.lock().as_mut().map(Held::take).unwrap_or_default()
    }
}

impl Drop for HeldLines {
    fn drop(&mut self) {
        let mut held = self.0.lock();
        for line in held.take().map(|mut held| held.take()).unwrap_or_default() {
            self.0.printer.say(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Color, Format};

    #[test]
    fn lines_are_held_for_the_view_and_escaped() {
        let lines = Lines::new(Printer::new(Format::Text, Color::Never));
        let lines: &'static Lines = Box::leak(Box::new(lines));
        let held = lines.hold();
        assert_eq!(held.take(), Vec::<String>::new());
        lines.say("a\u{1b}[2J\nb");
        lines.say("c");
        assert_eq!(held.take(), ["a\\u{1b}[2J b", "c"]);
        for _ in 0..MOST + 3 {
            lines.say("x");
        }
        let taken = held.take();
        assert_eq!(taken.len(), MOST + 1);
        assert_eq!(taken[MOST], "3 more lines are not shown");
        drop(held);
        assert!(lines.lock().is_none());
    }
}
