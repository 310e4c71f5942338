//! Where output goes: results to stdout, so that they can be piped; the rest to stderr.
//!
//! Everything that is printed passes through here, and through `visible.rs`: what came from outside cannot control the terminal.
//! Two kinds of results are written byte for byte where stdout is not a terminal: files (configs, kubeconfigs), which another program
//! reads, and logs of nodes, which `grep` searches and a file keeps as they are.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::args::{Color, Format};
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::{CommandError, ErrorCode};
use crate::visible::{self, Escapes, Pieces};

#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) format: Format,
    pub(crate) color: bool,
    /// Whether only errors are shown, beside results.
    pub(crate) is_quiet: bool,
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
        Self { format, color, is_quiet: false }
    }

    /// The same without progress, notes and warnings.
    pub(crate) fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
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
        write_result(self.shown_result(text).as_bytes()).map(|_| ())
    }

    fn shown_result<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let escapes = match self.format {
            Format::Text => Escapes::Text,
            Format::Json => Escapes::Json,
        };
        visible::shown(text, escapes)
    }

    /// A result that is a file for another program: exact, unless a person looks at it.
    pub(crate) fn file(&self, text: &str) -> Result<(), CommandError> {
        if io::stdout().is_terminal() {
            return write_result(visible::shown(text, Escapes::Text).as_bytes()).map(|_| ());
        }
        write_result(text.as_bytes()).map(|_| ())
    }

    /// A log that comes piece by piece.
    pub(crate) fn log(&self) -> LogPrinter {
        LogPrinter { pieces: io::stdout().is_terminal().then(Pieces::default) }
    }

    /// Notes, line by line.
    pub(crate) fn say(&self, text: &str) {
        if !self.is_quiet {
            self.say_always(text);
        }
    }

    /// A line that is needed in any case: without it a question or an error cannot be understood.
    pub(crate) fn say_always(&self, text: &str) {
        self.say_raw(&format!("{text}\n"));
    }

    /// The same without the end of the line: plans and findings.
    pub(crate) fn say_raw(&self, text: &str) {
        write_to_stderr(&visible::shown(text, Escapes::Text));
    }

    /// A view that moves the cursor. Its texts from outside must be [`visible::plain`].
    pub(crate) fn draw(&self, text: &str) {
        write_to_stderr(&visible::drawn(text));
    }

    /// For people on stderr; for programs also on stdout, where they look for the result.
    pub(crate) fn error(&self, error: &CommandError) {
        self.complain(error.code, &error.chain());
        if let Some(hint) = &error.hint {
            self.say_always(&format!("\n{} {hint}", self.paint("hint:", "1;36")));
        }
        self.error_as_json(error);
    }

    /// An error that is not the end.
    pub(crate) fn complain(&self, code: impl Into<ErrorCode>, message: &str) {
        let head = format!("error[{}]:", code.into().as_str());
        self.say_always(&format!("{} {message}", self.paint(&head, "1;31")));
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
            [("+ ", "32"), ("~ ", "33"), ("- ", "31"), ("error[", "1;31"), ("warning[", "1;33")];
        let line = |line: &str| match colors.iter().find(|(head, _)| line.starts_with(head)) {
            // Of a finding, severity and code are coloured: `error[vm-foreign]:`.
            Some((head, sgr)) if head.len() > 2 => {
                let end = line.find("]:").map_or(head.len(), |end| end + 2);
                format!("{}{}\n", visible::styled(&line[..end], sgr), &line[end..])
            }
            Some((_, sgr)) => format!("{}\n", visible::styled(line, sgr)),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }

    pub(crate) fn paint(&self, text: &str, sgr: &str) -> String {
        if self.color { visible::styled(text, sgr) } else { text.to_owned() }
    }
}

/// Prints a log: as it is, or on a terminal with everything visible.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    pieces: Option<Pieces>,
}

impl LogPrinter {
    /// Prints a piece. Says whether anybody still reads it.
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

/// Writes to stdout. Says whether anybody still reads it.
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

    /// What is left of an output besides plain text and the program's own colours.
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
        fn no_printing_path_passes_control_characters_on(text in "(?s).{0,48}") {
            for printer in printers() {
                let painted = format!("{} {text}", printer.paint(&text, "1;31"));
                let plan = printer.plan(&format!("+ vm {text}\nerror[vm-foreign]: {text}\n{text}"), printer.color);
                let error = CommandError::failed(CommandCode::OutputFailed, text.clone()).hint(text.clone());
                let json = format!("{}\n", error.to_json());
                for printed in [&text, &painted, &plan, &error.chain(), &json] {
                    let shown = visible::shown(printed, Escapes::Text);
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
    fn errors_for_programs_have_no_colours() {
        let [printer, ..] = printers();
        let error = CommandError::failed(
            CommandCode::OutputFailed,
            format!("{} no", printer.paint("hint:", "1;36")),
        );
        assert_eq!(error.to_json()["error"]["message"], "hint: no");
    }
}
