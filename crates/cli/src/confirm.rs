//! Confirmation questions on the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::escape;
use crate::interrupt;

/// Interval at which a pending question checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Asks a question and returns an error unless the answer is yes.
pub(crate) fn require_yes(question: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} [y/N] "), "pass --yes to skip the question")?;
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::failed(CommandCode::Declined, "nothing was changed"))
}

/// Asks a question and returns whether the answer is yes.
pub(crate) fn is_yes(question: &str) -> Result<bool, CommandError> {
    let answer = answer(&format!("{question} [y/N] "), "run the command on a terminal")?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Asks a question and returns the answer without blanks at its ends. Empty at the end of the input.
pub(crate) fn ask(question: &str) -> Result<String, CommandError> {
    answer(&format!("{question} "), "run the command on a terminal")
}

/// Whether the user can answer a question: stdin is a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks a question and returns an error unless the answer is `word`.
pub(crate) fn require_word(question: &str, word: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} "), "pass --yes to skip the question")?;
    if answer == word {
        return Ok(());
    }
    Err(CommandError::failed(
        CommandCode::Declined,
        format!("nothing was changed: the answer was not `{word}`"),
    ))
}

/// Asks for the name of a node whose disks will be deleted. Returns an error unless the answer is that name. `--yes` does
/// not skip this question.
pub(crate) fn require_node_name(question: &str, name: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} "), "pass --allow-removal to skip the question")?;
    if answer == name {
        return Ok(());
    }
    Err(CommandError::failed(
        CommandCode::Declined,
        format!("nothing was changed: the answer was not `{name}`"),
    ))
}

fn answer(question: &str, hint: &str) -> Result<String, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(CommandError::usage_as(
            CommandCode::InputNeeded,
            "nothing was changed: there is no terminal to ask on",
        )
        .hint(hint));
    }
    let mut stderr = io::stderr().lock();
    // If stderr is closed, the question is not shown, but the answer is still read from the terminal.
    let question = escape::plain(question);
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).ok();
    let line = line().map_err(|error| {
        CommandError::failed(CommandCode::InputNeeded, "cannot read the answer").because(error)
    })?;
    match line {
        Some(line) => Ok(line.trim().to_owned()),
        None => Err(interrupt::stopped()),
    }
}

/// Reads a line from the terminal. `None` after an interrupt. A thread reads the line, because a blocking read cannot be
/// cancelled.
fn line() -> io::Result<Option<String>> {
    let (answer, answers) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).map(|_| line);
        // The receiver is dropped after an interrupt.
        answer.send(read).ok();
    });
    loop {
        match answers.recv_timeout(POLL_INTERVAL) {
            Ok(read) => return read.map(Some),
            Err(RecvTimeoutError::Timeout) if !interrupt::is_requested() => {}
            Err(_) => return Ok(None),
        }
    }
}
