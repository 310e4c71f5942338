//! Output of the program. Results are written to stdout, all other text to stderr.
//!
//! All output passes through this module and `escape.rs`, so that text from other systems cannot control the terminal. If
//! stdout is not a terminal, two kinds of results are written byte for byte. These are files such as configs, which other
//! programs read, and logs of nodes, which are piped into `grep` or stored in a file.

use std::fmt::Debug;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

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
    streams: Arc<dyn Streams>,
}

/// Stdout and stderr behind a trait, so that tests can record the output.
trait Streams: Debug + Send + Sync {
    fn write_stdout(&self, bytes: &[u8]) -> io::Result<()>;
    fn write_stderr(&self, bytes: &[u8]) -> io::Result<()>;
    fn is_stdout_terminal(&self) -> bool;
}

/// The streams of this process.
#[derive(Debug)]
struct ProcessStreams;

impl Streams for ProcessStreams {
    fn write_stdout(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush())
    }

    fn write_stderr(&self, bytes: &[u8]) -> io::Result<()> {
        io::stderr().lock().write_all(bytes)
    }

    fn is_stdout_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }
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
        Self { format, color, is_quiet: false, streams: Arc::new(ProcessStreams) }
    }

    /// Sets whether progress, notes and warnings are suppressed.
    pub(crate) fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
    }

    pub(crate) fn without_color(self) -> Self {
        Self { color: false, ..self }
    }

    /// Size of the terminal on stderr. `None` if stderr is not a terminal, if the terminal cannot move the cursor, or if
    /// the terminal is too small for the live view.
    pub(crate) fn size(&self) -> Option<Size> {
        self.terminal().filter(|size| size.columns >= 40 && size.rows >= 8)
    }

    /// Size of the terminal on stderr, even if the terminal is too small for the live view.
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
        self.color && self.streams.is_stdout_terminal()
    }

    /// Maximum width of a result in columns. `None` if stdout is a file or a pipe.
    pub(crate) fn result_columns(&self) -> Option<usize> {
        if !self.streams.is_stdout_terminal() {
            return None;
        }
        terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| columns.0.into())
    }

    /// Prints a result. A closed pipe (`| head`) is not an error.
    pub(crate) fn result(&self, text: &str) -> Result<(), CommandError> {
        let escapes = match self.format {
            Format::Text => EscapeSyntax::Text,
            Format::Json => EscapeSyntax::Json,
        };
        self.write_result(escape::shown(text, escapes).as_bytes()).map(|_| ())
    }

    /// Prints a file for another program. If stdout is not a terminal, the file is written byte for byte.
    pub(crate) fn file(&self, text: &str) -> Result<(), CommandError> {
        if self.streams.is_stdout_terminal() {
            let shown = escape::shown(text, EscapeSyntax::Text);
            return self.write_result(shown.as_bytes()).map(|_| ());
        }
        self.write_result(text.as_bytes()).map(|_| ())
    }

    /// Printer for a log that arrives in pieces.
    pub(crate) fn log(&self) -> LogPrinter {
        let pieces = self.streams.is_stdout_terminal().then(Pieces::default);
        LogPrinter { pieces, printer: self.clone() }
    }

    /// Prints notes to stderr, unless `--quiet` is set.
    pub(crate) fn say(&self, text: &str) {
        if !self.is_quiet {
            self.say_always(text);
        }
    }

    /// Prints a line to stderr, even with `--quiet`. Questions and errors need this.
    pub(crate) fn say_always(&self, text: &str) {
        self.say_raw(&format!("{text}\n"));
    }

    /// Prints text to stderr without adding a line end, even with `--quiet`. Used for plans and findings.
    pub(crate) fn say_raw(&self, text: &str) {
        self.write_to_stderr(&escape::shown(text, EscapeSyntax::Text));
    }

    /// Draws a view that moves the cursor. Text from other systems in the view must have passed [`escape::plain`].
    pub(crate) fn draw(&self, text: &str) {
        self.write_to_stderr(&escape::drawn(text));
    }

    /// Prints an error to stderr. With `--format json`, also prints the error to stdout.
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
            // A write error is ignored, because stdout may be closed.
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
            // In the line of a finding, the severity and the code get a colour, as in `error[vm-foreign]:`.
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

    /// Writes to stdout. Returns false if stdout is closed.
    fn write_result(&self, bytes: &[u8]) -> Result<bool, CommandError> {
        match self.streams.write_stdout(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                Err(CommandError::failed(CommandCode::OutputFailed, "cannot write the result")
                    .because(error))
            }
        }
    }

    fn write_to_stderr(&self, text: &str) {
        self.streams.write_stderr(text.as_bytes()).ok();
    }
}

/// Printer for a log. On a terminal, control characters are escaped; otherwise the log is written byte for byte.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    pieces: Option<Pieces>,
    printer: Printer,
}

impl LogPrinter {
    /// Prints a piece of the log. Returns false if stdout is closed.
    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Result<bool, CommandError> {
        match &mut self.pieces {
            Some(pieces) => self.printer.write_result(pieces.take(bytes).as_bytes()),
            None => self.printer.write_result(bytes),
        }
    }

    pub(crate) fn end(self) -> Result<(), CommandError> {
        let rest = self.pieces.map(Pieces::end).unwrap_or_default();
        self.printer.write_result(rest.as_bytes()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    /// Whether a text contains control characters other than the colours of talmox.
    fn hidden(text: &str) -> bool {
        let colors = ["0", "1", "2", "31", "32", "33", "1;31", "1;33", "1;36"];
        let text = colors
            .iter()
            .fold(text.to_owned(), |text, sgr| text.replace(&format!("\x1b[{sgr}m"), ""));
        text.replace("\r\n", "\n").chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    }

    /// Streams that record the output.
    #[derive(Debug, Default)]
    struct Recorded {
        stdout: Mutex<Vec<u8>>,
        stderr: Mutex<Vec<u8>>,
        is_terminal: bool,
    }

    impl Recorded {
        /// Output to stdout and stderr since the last call.
        fn take(&self) -> (String, String) {
            let text = |bytes: &Mutex<Vec<u8>>| {
                let bytes = std::mem::take(&mut *bytes.lock().unwrap());
                String::from_utf8(bytes).unwrap()
            };
            (text(&self.stdout), text(&self.stderr))
        }
    }

    impl Streams for Recorded {
        fn write_stdout(&self, bytes: &[u8]) -> io::Result<()> {
            self.stdout.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        }

        fn write_stderr(&self, bytes: &[u8]) -> io::Result<()> {
            self.stderr.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        }

        fn is_stdout_terminal(&self) -> bool {
            self.is_terminal
        }
    }

    /// Printers of all kinds, with or without a terminal.
    fn printers(is_terminal: bool) -> Vec<(Printer, Arc<Recorded>)> {
        let kinds = [(Format::Text, true), (Format::Text, false), (Format::Json, true)];
        let printer = |(format, color)| {
            let recorded = Arc::new(Recorded { is_terminal, ..Recorded::default() });
            let streams: Arc<dyn Streams> = Arc::<Recorded>::clone(&recorded);
            (Printer { format, color, is_quiet: false, streams }, recorded)
        };
        kinds.into_iter().map(printer).collect()
    }

    proptest! {
        #[test]
        fn no_output_function_prints_control_characters(text in "(?s).{0,48}") {
            for (printer, recorded) in printers(true) {
                let painted = format!("{} {text}", printer.paint(&text, "1;31"));
                let plan = printer.plan(&format!("+ vm {text}\nerror[vm-foreign]: {text}\n{text}"), printer.color);
                for printed in [&text, &painted, &plan] {
                    printer.say(printed);
                    printer.say_always(printed);
                    printer.say_raw(printed);
                    printer.warn(printed);
                    printer.say_error(CommandCode::OutputFailed, printed);
                    printer.result(printed).unwrap();
                    printer.file(printed).unwrap();
                    let mut log = printer.log();
                    log.piece(printed.as_bytes()).unwrap();
                    log.end().unwrap();
                }
                let error = CommandError::failed(CommandCode::OutputFailed, text.clone());
                printer.error(&error.because(io::Error::other(text.clone())).hint(text.clone()));
                let (stdout, stderr) = recorded.take();
                prop_assert!(!stdout.is_empty() && !stderr.is_empty());
                prop_assert!(!hidden(&stdout), "{stdout:?}");
                prop_assert!(!hidden(&stderr), "{stderr:?}");
                // Only `draw` may move the cursor. Its text was escaped before.
                printer.draw(&format!("\r\x1b[K{}", escape::plain(&text)));
                let (_, drawn) = recorded.take();
                let drawn = drawn.strip_prefix("\r\x1b[K").map(str::to_owned);
                prop_assert!(drawn.as_ref().is_some_and(|drawn| !hidden(drawn)), "{drawn:?}");
            }
        }

        #[test]
        fn json_results_have_no_colours_and_piped_files_are_exact(text in "(?s).{0,48}") {
            for (printer, recorded) in printers(false) {
                printer.result(&printer.paint(&text, "1;31")).unwrap();
                let (result, _) = recorded.take();
                let has_colors = printer.color && printer.format == Format::Text;
                prop_assert!(has_colors || !result.contains('\x1b'), "{result:?}");
                printer.file(&text).unwrap();
                let mut log = printer.log();
                log.piece(text.as_bytes()).unwrap();
                log.end().unwrap();
                let (exact, _) = recorded.take();
                prop_assert_eq!(exact, format!("{text}{text}"));
            }
        }
    }

    #[test]
    fn a_quiet_printer_shows_errors_only() {
        for (printer, recorded) in printers(false) {
            let printer = printer.quiet(true);
            printer.say("note");
            printer.warn("warning");
            assert_eq!(recorded.take(), (String::new(), String::new()));
            printer.say_always("needed");
            assert_eq!(recorded.take().1, "needed\n");
        }
    }

    #[test]
    fn json_errors_have_no_colours() {
        let (printer, _) = printers(false).remove(0);
        let error = CommandError::failed(
            CommandCode::OutputFailed,
            format!("{} no", printer.paint("hint:", "1;36")),
        );
        assert_eq!(error.to_json()["error"]["message"], "hint: no");
    }
}
