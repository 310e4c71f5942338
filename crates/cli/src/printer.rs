//! Output of the program: results to stdout, everything else to stderr.
//!
//! All output passes through here and through `escape.rs`, so that text from other systems cannot control the terminal.
//! Two kinds of results are written byte for byte if stdout is not a terminal: files (configs, kubeconfigs), which other programs read,
//! and logs of nodes, which are piped into `grep` or stored in a file.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::args::{Color, Format};
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::{CommandError, ErrorCode};
use crate::escape::{self, EscapeSyntax, Pieces};

#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) format: Format,
    pub(crate) color: bool,
    /// Whether only results and errors are shown (`--quiet`).
    pub(crate) is_quiet: bool,
}

/// Columns and rows of a terminal.
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
        Self { format, color, is_quiet: false }
    }

    /// Sets whether progress, notes and warnings are suppressed.
    pub(crate) fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
    }

    /// Size of the terminal on stderr. `None` if stderr is not a terminal, if the terminal cannot move the cursor, or if it is too
    /// small for the live view.
    pub(crate) fn size(&self) -> Option<Size> {
        self.terminal().filter(|size| size.columns >= 40 && size.rows >= 8)
    }

    /// Size of the terminal on stderr, however small it is.
    pub(crate) fn terminal(&self) -> Option<Size> {
        if !io::stderr().is_terminal()
            || environment::variable("TERM").is_none_or(|kind| kind == "dumb")
        {
            return None;
        }
        let (columns, rows) = terminal_size::terminal_size_of(io::stderr())?;
        Some(Size { columns: columns.0.into(), rows: rows.0.into() })
    }

    /// Whether results are printed with colours.
    pub(crate) fn colors_results(&self) -> bool {
        self.color && io::stdout().is_terminal()
    }

    /// Maximum width of a result in columns; `None` if stdout is a file or a pipe.
    pub(crate) fn result_columns(&self) -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| columns.0.into())
    }

    /// Prints a result. A closed pipe (`| head`) is not an error.
    pub(crate) fn result(&self, text: &str) -> Result<(), CommandError> {
        write_result(self.shown_result(text).as_bytes()).map(|_| ())
    }

    fn shown_result<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let escapes = match self.format {
            Format::Text => EscapeSyntax::Text,
            Format::Json => EscapeSyntax::Json,
        };
        escape::shown(text, escapes)
    }

    /// Prints a file for another program: byte for byte, unless stdout is a terminal.
    pub(crate) fn file(&self, text: &str) -> Result<(), CommandError> {
        if io::stdout().is_terminal() {
            return write_result(escape::shown(text, EscapeSyntax::Text).as_bytes()).map(|_| ());
        }
        write_result(text.as_bytes()).map(|_| ())
    }

    /// Printer for a log that arrives in pieces.
    pub(crate) fn log(&self) -> LogPrinter {
        LogPrinter { pieces: io::stdout().is_terminal().then(Pieces::default) }
    }

    /// Prints notes to stderr, unless `--quiet` is set.
    pub(crate) fn say(&self, text: &str) {
        if !self.is_quiet {
            self.say_always(text);
        }
    }

    /// Prints a line to stderr even with `--quiet`, because a question or an error needs it.
    pub(crate) fn say_always(&self, text: &str) {
        self.say_raw(&format!("{text}\n"));
    }

    /// Prints text to stderr without a line end, even with `--quiet`: plans and findings.
    pub(crate) fn say_raw(&self, text: &str) {
        write_to_stderr(&escape::shown(text, EscapeSyntax::Text));
    }

    /// Draws a view that moves the cursor. Its text from other systems must have passed [`escape::plain`].
    pub(crate) fn draw(&self, text: &str) {
        write_to_stderr(&escape::drawn(text));
    }

    /// Prints an error to stderr; with `--format json` also to stdout.
    pub(crate) fn error(&self, error: &CommandError) {
        self.say_error(error.code, &error.chain());
        if let Some(hint) = &error.hint {
            self.say_always(&format!("\n{} {hint}", self.paint("hint:", "1;36")));
        }
        self.error_as_json(error);
    }

    /// Prints an error after which the command continues.
    pub(crate) fn say_error(&self, code: impl Into<ErrorCode>, message: &str) {
        let head = format!("error[{}]:", code.into().as_str());
        self.say_always(&format!("{} {message}", self.paint(&head, "1;31")));
    }

    pub(crate) fn error_as_json(&self, error: &CommandError) {
        if self.format == Format::Json {
            // Stdout may be closed.
            self.result(&format!("{}\n", error.to_json())).ok();
        }
    }

    pub(crate) fn warn(&self, message: &str) {
        self.say(&format!("{} {message}", self.paint("warning:", "1;33")));
    }

    /// Adds colours to the text of a plan.
    pub(crate) fn plan(&self, text: &str, color: bool) -> String {
        if !color {
            return text.to_owned();
        }
        let colors =
            [("+ ", "32"), ("~ ", "33"), ("- ", "31"), ("error[", "1;31"), ("warning[", "1;33")];
        let line = |line: &str| match colors.iter().find(|(head, _)| line.starts_with(head)) {
            // Of a finding, severity and code are coloured: `error[vm-foreign]:`.
            Some((head, sgr)) if head.len() > 2 => {
                let end = line.find("]:").map_or(head.len(), |end| end + 2);
                format!("{}{}\n", escape::styled(&line[..end], sgr), &line[end..])
            }
            Some((_, sgr)) => format!("{}\n", escape::styled(line, sgr)),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }

    pub(crate) fn paint(&self, text: &str, sgr: &str) -> String {
        if self.color { escape::styled(text, sgr) } else { text.to_owned() }
    }
}

/// Prints a log: byte for byte, or on a terminal with control characters escaped.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    pieces: Option<Pieces>,
}

impl LogPrinter {
    /// Prints a piece. Returns false if stdout was closed.
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Result<bool, CommandError> {
        match &mut self.pieces {
            Some(pieces) => write_result(pieces.take(bytes).as_bytes()),
            None => write_result(bytes),
        }
    }

    pub(crate) fn end(self) -> Result<(), CommandError> {
        let rest = self.pieces.map(Pieces::end).unwrap_or_default();
        write_result(rest.as_bytes()).map(|_| ())
    }
}

/// Writes to stdout. Returns false if it was closed.
fn write_result(bytes: &[u8]) -> Result<bool, CommandError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(CommandError::failed(CommandCode::OutputFailed, "cannot write the result")
                .because(error))
        }
    }
}

fn write_to_stderr(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether an output contains control characters other than the colours of talmox.
    fn hidden(text: &str) -> bool {
        let colors = ["0", "1", "2", "31", "32", "33", "1;31", "1;33", "1;36"];
        let text = colors
            .iter()
            .fold(text.to_owned(), |text, sgr| text.replace(&format!("\x1b[{sgr}m"), ""));
        text.replace("\r\n", "\n").chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    }

    fn printers() -> [Printer; 3] {
        [(Format::Text, true), (Format::Text, false), (Format::Json, true)]
            .map(|(format, color)| Printer { format, color, is_quiet: false })
    }

    proptest! {
        #[test]
        fn no_output_function_prints_control_characters(text in "(?s).{0,48}") {
            for printer in printers() {
                let painted = format!("{} {text}", printer.paint(&text, "1;31"));
                let plan = printer.plan(&format!("+ vm {text}\nerror[vm-foreign]: {text}\n{text}"), printer.color);
                let error = CommandError::failed(CommandCode::OutputFailed, text.clone()).hint(text.clone());
                let json = format!("{}\n", error.to_json());
                for printed in [&text, &painted, &plan, &error.chain(), &json] {
                    let shown = escape::shown(printed, EscapeSyntax::Text);
                    prop_assert!(!hidden(&shown), "{shown:?}");
                    let result = printer.shown_result(printed);
                    prop_assert!(!hidden(&result), "{result:?}");
                    let has_colors = printer.color && printer.format == Format::Text;
                    prop_assert!(has_colors || !result.contains('\x1b'), "{result:?}");
                }
            }
        }
    }

    #[test]
    fn json_errors_have_no_colours() {
        let [printer, ..] = printers();
        let error = CommandError::failed(
            CommandCode::OutputFailed,
            format!("{} no", printer.paint("hint:", "1;36")),
        );
        assert_eq!(error.to_json()["error"]["message"], "hint: no");
    }
}
