//! Where output goes: results to stdout, so that they can be piped; the rest to stderr.

use std::io::{self, IsTerminal, Write};

use crate::args::{Color, Format};
use crate::environment;
use crate::error::CommandError;

#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) format: Format,
    pub(crate) color: bool,
}

/// The columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Printer {
    pub(crate) fn new(format: Format, color: Color) -> Self {
        let no_color = environment::raw("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stderr().is_terminal() && !no_color,
        };
        Self { format, color }
    }

    /// How large the terminal is that everything but results goes to; nothing if it is none, one
    /// that only prints, or too small for anything but plain lines.
    pub(crate) fn size(&self) -> Option<Size> {
        self.terminal().filter(|size| size.columns >= 40 && size.rows >= 8)
    }

    /// The same, however small it is.
    pub(crate) fn terminal(&self) -> Option<Size> {
        if !io::stderr().is_terminal()
            || environment::variable("TERM").is_none_or(|kind| kind == "dumb")
        {
            return None;
        }
        let (columns, rows) = terminal_size::terminal_size_of(io::stderr())?;
        Some(Size { columns: columns.0.into(), rows: rows.0.into() })
    }

    /// A result. A reader that has seen enough (`| head`) is no error.
    pub(crate) fn result(&self, text: &str) -> Result<(), CommandError> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CommandError::failed("cannot write the result").because(error))
            }
            _ => Ok(()),
        }
    }

    /// A piece of a result that goes on. Says whether anybody still reads it.
    pub(crate) fn piece(&self, bytes: &[u8]) -> Result<bool, CommandError> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(CommandError::failed("cannot write the result").because(error)),
        }
    }

    /// Everything else, line by line.
    pub(crate) fn say(&self, text: &str) {
        self.say_raw(&format!("{text}\n"));
    }

    pub(crate) fn say_raw(&self, text: &str) {
        io::stderr().lock().write_all(text.as_bytes()).ok();
    }

    pub(crate) fn error(&self, message: &str, hint: Option<&str>) {
        self.say(&format!("{} {message}", self.paint("error:", "1;31")));
        if let Some(hint) = hint {
            self.say(&format!("\n{} {hint}", self.paint("hint:", "1;36")));
        }
    }

    pub(crate) fn warn(&self, message: &str) {
        self.say(&format!("{} {message}", self.paint("warning:", "1;33")));
    }

    pub(crate) fn paint(&self, text: &str, sgr: &str) -> String {
        if self.color { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
