//! Questions to a person.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::interrupt;
use crate::visible;

/// Between two looks whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Goes on only if somebody says yes.
pub(crate) fn yes(question: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} [y/N] "), "add --yes to go on without being asked")?;
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::failed(CommandCode::Declined, "nothing was changed"))
}

/// Whether the user answers yes.
pub(crate) fn agrees(question: &str) -> Result<bool, CommandError> {
    let answer = answer(&format!("{question} [y/N] "), "run it on a terminal")?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Goes on only if somebody writes this word.
pub(crate) fn word(question: &str, word: &str) -> Result<(), CommandError> {
    let answer = answer(&format!("{question} "), "add --yes to go on without being asked")?;
    if answer == word {
        return Ok(());
    }
    Err(CommandError::failed(
        CommandCode::Declined,
        format!("nothing was changed: the answer was not `{word}`"),
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
    // A question that cannot be shown is answered by nobody.
    let question = visible::plain(question);
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).ok();
    let line = line().map_err(|error| {
        CommandError::failed(CommandCode::InputNeeded, "cannot read the answer").because(error)
    })?;
    match line {
        Some(line) => Ok(line.trim().to_owned()),
        None => Err(interrupt::stopped()),
    }
}

/// A line from the terminal; nothing if somebody wants to stop. Reading cannot be broken off, so it is left to a thread.
fn line() -> io::Result<Option<String>> {
    let (answer, answers) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).map(|_| line);
        // Nobody may be there any more.
        answer.send(read).ok();
    });
    loop {
        match answers.recv_timeout(LOOK) {
            Ok(read) => return read.map(Some),
            Err(RecvTimeoutError::Timeout) if !interrupt::is_wanted() => {}
            Err(_) => return Ok(None),
        }
    }
}
