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

    /// Whether results may have colours.
    pub(crate) fn colors_results(&self) -> bool {
        self.color && io::stdout().is_terminal()
    }

    /// How many columns a result may have; nothing if it goes into a file or a pipe.
    pub(crate) fn result_columns(&self) -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| columns.0.into())
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

    /// For people on stderr; for programs also on stdout, where they look for the result.
    pub(crate) fn error(&self, error: &CommandError) {
        self.complain(&error.chain());
        if let Some(hint) = &error.hint {
            self.say(&format!("\n{} {hint}", self.paint("hint:", "1;36")));
        }
        self.error_as_json(error);
    }

    /// An error that is not the end.
    pub(crate) fn complain(&self, message: &str) {
        self.say(&format!("{} {message}", self.paint("error:", "1;31")));
    }

    pub(crate) fn error_as_json(&self, error: &CommandError) {
        if self.format == Format::Json {
            // Whoever closed stdout does not read it.
            self.result(&format!("{}\n", error.to_json())).ok();
        }
    }

    pub(crate) fn warn(&self, message: &str) {
        self.say(&format!("{} {message}", self.paint("warning:", "1;33")));
    }

    /// The text of a plan, with what comes, changes and goes in colours.
    pub(crate) fn plan(&self, text: &str, color: bool) -> String {
        if !color {
            return text.to_owned();
        }
        let colors =
            [("+ ", "32"), ("~ ", "33"), ("- ", "31"), ("error:", "1;31"), ("warning:", "1;33")];
        let line = |line: &str| match colors.iter().find(|(head, _)| line.starts_with(head)) {
            Some((head, sgr)) if head.len() > 2 => {
                format!("\x1b[{sgr}m{head}\x1b[0m{}\n", &line[head.len()..])
            }
            Some((_, sgr)) => format!("\x1b[{sgr}m{line}\x1b[0m\n"),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }

    pub(crate) fn paint(&self, text: &str, sgr: &str) -> String {
        if self.color { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
