//! Terminal prompts for a line that the user can edit, and for secrets that are not echoed.

use std::io::{self, BufRead as _, Read as _, Write as _};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use talmox_talos_config::secret::SecretText;

use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::escape;
use crate::line_editor::{LineEditor, LineEnd};
use crate::printer::Printer;

/// Width of a terminal that does not report its size.
const USUAL_COLUMNS: usize = 80;
/// Minimum number of columns for the answer beside the question. With fewer columns, the answer is entered on the next
/// line.
const ROOM: usize = 16;

/// Whether typed characters are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    Shown,
    Hidden,
}

/// Prompts for a line that the user can edit. Stdin must be a terminal.
pub(crate) fn line(question: &str, printer: &Printer) -> Result<String, CommandError> {
    if environment::variable("TERM").is_none_or(|kind| kind == "dumb") {
        return plain_line(question, printer);
    }
    edited(question, Echo::Shown, printer)
}

/// Prompts for a secret without echo. Stdin must be a terminal.
pub(crate) fn secret(question: &str, printer: &Printer) -> Result<SecretText, CommandError> {
    edited(question, Echo::Hidden, printer).map(SecretText::new)
}

/// Reads a line in the line mode of the terminal. Used for terminals that cannot move the cursor.
fn plain_line(question: &str, printer: &Printer) -> Result<String, CommandError> {
    printer.say_raw(question);
    io::stderr().flush().map_err(unreadable)?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line).map_err(unreadable)? == 0 {
        return Err(no_answer());
    }
    Ok(line)
}

fn edited(question: &str, echo: Echo, printer: &Printer) -> Result<String, CommandError> {
    let columns = printer.terminal().map_or(USUAL_COLUMNS, |size| size.columns);
    let question = escape::plain(question);
    let width = question.chars().count();
    // The line is drawn again after every key, so it must fit into one row.
    let (prompt, room) = if width + ROOM <= columns {
        (&*question, columns - width)
    } else {
        printer.say(question.trim_end());
        ("> ", columns.saturating_sub(2))
    };
    let raw = RawInput::start().map_err(unreadable)?;
    let mut line = LineEditor::default();
    draw(prompt, &line, room, echo, printer);
    let end = loop {
        let mut byte = [0];
        if io::stdin().lock().read(&mut byte).map_err(unreadable)? == 0 {
            break LineEnd::EndOfInput;
        }
        if let Some(end) = line.take(byte[0]) {
            break end;
        }
        draw(prompt, &line, room, echo, printer);
    };
    drop(raw);
    printer.say("");
    match end {
        LineEnd::Entered => Ok(line.text()),
        LineEnd::Interrupted => {
            Err(CommandError::failed(CommandCode::Interrupted, "interrupted: nothing was written"))
        }
        LineEnd::EndOfInput => Err(no_answer()),
    }
}

/// Draws the prompt and the line, and places the cursor.
fn draw(prompt: &str, line: &LineEditor, room: usize, echo: Echo, printer: &Printer) {
    if echo == Echo::Hidden {
        return printer.draw(&format!("\r\x1b[K{prompt}"));
    }
    let (shown, column) = line.window(room);
    let behind = shown.chars().count() - column;
    let back = if behind == 0 { String::new() } else { format!("\x1b[{behind}D") };
    printer.draw(&format!("\r\x1b[K{prompt}{}{back}", escape::plain(&shown)));
}

/// Raw mode of the terminal: every key is delivered at once and not echoed. The earlier mode is restored on drop.
struct RawInput {
    before: Termios,
}

impl RawInput {
    fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        // Ctrl-C is read as a key, because a signal would end the process and leave the terminal without echo.
        raw.local_modes -=
            LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Flushing would discard characters that the user already typed.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawInput {
    fn drop(&mut self) {
        // An error is ignored, because the terminal may be closed.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).ok();
    }
}

fn unreadable(error: io::Error) -> CommandError {
    CommandError::failed(CommandCode::InputNeeded, "cannot read the answer").because(error)
}

fn no_answer() -> CommandError {
    CommandError::failed(CommandCode::InputNeeded, "no answer; nothing was written")
}
